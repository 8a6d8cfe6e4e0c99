// Whole steps of a lattice on one device, by a cooperative grid: all blocks run at the same time, and meet at
// two barriers in each step.
//
// A list names the tiles that hold particles and the tiles around them. Blocks divide the list, so an empty
// region costs nothing. First come the hops along x and y and the decisions about z. Then come the hops along z
// and the rest of the step, in which no thread waits for another.
#pragma once

#include "lattice/column.h"

constexpr int LISTED_FOR = 64;  // steps for which a list is used
constexpr int LOOKED_AT =
    14;                     // tiles whose neighbours a block looks at at once: 9 threads for each
constexpr int AROUND = 27;  // tiles, with the one in the middle

// Flags of a tile. SURROUNDED: the tiles around it are listed too.
enum TileFlag : i32 { UNLISTED = 0, LISTED = 1, SURROUNDED = 3 };

// The tiles that may change within the next steps; tiles that hold particles come first. A tile that is not
// listed is empty, and the tiles around it are empty too, or no particle can hop into it. The list grows
// when particles come into an empty tile.
struct TileList {
    u64 *count;
    i32 *tiles;
    i32 *flags;         // of all tiles
    u32 *edges;         // of all tiles: stamps, as of tiles, of their sites along y-, y+, x- and x+
    i64 block, blocks;  // which one goes through it, of how many
    u32 arrivals;       // of blocks at barriers
};

// Memory of a block.
struct CooperativeWork {
    union {
        PlaneWork plane;
        Site gathered[3][TILE_THREADS];  // of each thread: below and above its site, and there
    };
    // Tiles of the list that the block looks at, and those that were reached in the look of this
    // number.
    i32 tile[LOOKED_AT];
    u32 reached[LOOKED_AT];
};

// Tile `i` of those around one; -1 where there is none.
DEVICE i64 tile_around(const Lattice &l, i64 tile, int i) {
    const int per_plane = tiles_of_plane(l), along_x = tiles_along_x(l);
    const int plane = (int)((u32)tile / (u32)per_plane), own = (int)tile - plane * per_plane;
    const int row = (int)((u32)own / (u32)along_x);
    int y = row + i / 3 % 3 - 1, x = own - row * along_x + i % 3 - 1;
    const i64 at = i < 9 ? plane_below(l, plane) : i >= 18 ? plane_above(l, plane) : plane;
    if (at < 0 || !brought_inside(y, tiles_along_y(l), face_kind(2) == PERIODIC) ||
        !brought_inside(x, along_x, face_kind(4) == PERIODIC))
        return -1;
    return at * per_plane + y * along_x + x;
}

// Between two steps: whether the next one finds particles in the tile, or what they left behind.
DEVICE bool is_busy(const Lattice &l, i64 tile) {
    return l.state_stamps[tile] == (u32)(l.step + 1) || l.moved_stamps[tile] == (u32)l.step ||
           (l.always && l.always[tile] & 3) || *tile_head(l, l.step & 1, tile) >= 0;
}

// Whether no particle can hop into the tile.
DEVICE bool is_closed(const Lattice &l, i64 tile) {
    return l.always && l.always[tile] & 4;
}

DEVICE void put_on_list(const TileList &list, i64 tile) {
    list.tiles[atomic_add(list.count, 1)] = (i32)tile;
}

// Waits for the other blocks that go through the list.
DEVICE void meet(const Lattice &l, TileList &list) {
    if (list.blocks == 1) {
        BARRIER();
    } else {
        grid_barrier(l.work + BARRIER_CELL, list.blocks, list.arrivals);
    }
}

// Fills an empty list. Busy tiles come first, so that each block gets its share.
DEVICE_SHARED void make_list(const Lattice &l, TileList &list) {
    const i64 tiles = l.planes * tiles_of_plane(l), threads = list.blocks * BLOCK_THREADS;
    const i64 first = list.block * BLOCK_THREADS + THREAD_ID;
    for (i64 tile = first; tile < tiles; tile += threads) {
        const bool busy = is_busy(l, tile);
        list.flags[tile] = busy ? SURROUNDED : UNLISTED;
        *tile_head(l, (l.step + 1) & 1, tile) = -1;
        if (busy) put_on_list(list, tile);
    }
    meet(l, list);
    for (i64 tile = first; tile < tiles; tile += threads) {
        bool near = false;
    UNROLL for (int i = 0; i < AROUND; ++i) {
            const i64 other = tile_around(l, tile, i);
            const i32 flag = list.flags[other >= 0 ? other : tile];
            near = near || (flag == SURROUNDED && other >= 0);
        }
        if (!near || list.flags[tile] != UNLISTED || is_closed(l, tile)) continue;
        list.flags[tile] = LISTED;
        put_on_list(list, tile);
    }
    meet(l, list);
}

// Lists what is around a tile that particles have come into, for the next step.
DEVICE_SHARED void list_around(const Lattice &l, const TileList &list, i64 tile) {
    NO_UNROLL for (int i = 0; i < AROUND; ++i) {
        const i64 other = tile_around(l, tile, i);
        if (other >= 0 && *(volatile i32 *)(list.flags + other) == UNLISTED &&
            !is_closed(l, other) && atomic_compare_exchange(list.flags + other, UNLISTED, LISTED) == UNLISTED)
            put_on_list(list, other);
    }
    *(volatile i32 *)(list.flags + tile) = SURROUNDED;
}

// How far a block has gone through the list.
struct Progress {
    i64 listed;  // length of the list at the start of the step
    i64 known;   // as far as CooperativeWork has its tiles
    u32 looks;
    bool edges;  // whether they were stamped in the step before
};

// Whether particles of the tile, number `side` of the nine of a plane around another, may hop there
// along x and y.
DEVICE bool reaches(const Lattice &l, const TileList &list, i64 tile, int side, bool edges) {
    const u32 now = (u32)(l.step + 1), *edge = list.edges + 4 * tile;
    const int y = side / 3, x = side % 3;
    const u32 along_y = edge[y == 0], along_x = edge[2 + (x == 0)];
    return l.state_stamps[tile] == now &&
           (!edges || ((y == 1 || along_y == now) && (x == 1 || along_x == now)));
}

// Tiles `first`, one in every `blocks`, of the list: which are reached by hops along x and y.
DEVICE_SHARED void look_at_tiles(const Lattice &l, const TileList &list, i64 first, i64 known,
                                 const Progress &progress, CooperativeWork &work) {
    for (int i = THREAD_ID; i < LOOKED_AT; i += BLOCK_THREADS) {
        const i64 place = first + i * list.blocks;
        if (place >= known && place < progress.listed) work.tile[i] = list.tiles[place];
    }
    if (THREAD_ID == 0) work.plane.n_fuller[0] = work.plane.n_fuller[1] = 0;
    if (known < progress.listed) {
        BARRIER();
    }
    for (int i = THREAD_ID; i < LOOKED_AT * 9; i += BLOCK_THREADS) {
        if (first + i / 9 * list.blocks >= progress.listed) break;
        const i64 tile = work.tile[i / 9], other = tile_around(l, tile, 9 + i % 9);
        if (other == tile) *tile_head(l, (l.step + 1) & 1, tile) = -1;
        if ((other >= 0 && reaches(l, list, other, i % 9, progress.edges)) ||
            (l.always && l.always[tile] & 1))
            work.reached[i / 9] = progress.looks;
    }
    BARRIER();
}

// Hops along x and y in the tiles of the list, and decides who hops along z.
DEVICE_SHARED void hop_in_listed_planes(const Lattice &l, const LatticeStream &s,
                                        const TileList &list, Progress &progress,
                                        CooperativeWork &work) {
    const i64 round = list.blocks * LOOKED_AT;
    for (i64 first = list.block; first < progress.listed; first += round) {
        ++progress.looks;
        look_at_tiles(l, list, first, first == list.block ? progress.known : 0, progress, work);
        for (int i = 0; i < LOOKED_AT && first + i * list.blocks < progress.listed; ++i) {
            const PlaneTile t = plane_tile(l, work.tile[i]);
            if (work.reached[i] == progress.looks)
                hop_through_tile<true>(l, s, t, work.plane);
            else if (l.moved_stamps[t.tile] == (u32)l.step)
                empty_tile(l, t, l.moved);
        }
        if (progress.listed > round) {
            BARRIER();
        }
    }
    progress.known = progress.listed > round ? 0 : progress.listed;
}

// A plane that a tile is built from: where it begins, and whether the tile there holds particles
// that hopped along x and y.
struct Layer {
    i64 first_index;
    bool filled;
};

DEVICE Layer layer_of(const Lattice &l, i64 plane, i64 tile_in_plane) {
    if (plane < 0) return {0, false};
    const i64 tile = plane * tiles_of_plane(l) + tile_in_plane;
    return {plane * l.ny * l.nx, l.moved_stamps[tile] == (u32)(l.step + 1)};
}

// Values that are loaded before it is known whether they are needed.
DEVICE void take_site(const Lattice &l, const Layer &layer, int in_plane, Site &to) {
    const Site content = l.moved[layer.first_index + in_plane];
    if (layer.filled)
        to = content;
    else
        make_empty(to);
}

DEVICE SlotMoves moves_along_z(const Lattice &l, const Layer &layer, int in_plane) {
    const SlotMoves moves = l.z_moves[layer.first_index + in_plane], none = {0, 0};
    return layer.filled ? moves : none;
}

// One site after its hops along x and y; returns whether it holds particles then.
DEVICE bool finish_in_place(const Lattice &l, const LatticeStream &s, const PlaneTile &t,
                            const Layer (&layers)[3], bool some_wait, int in_plane,
                            CooperativeWork &work) {
    const u64 site = t.first_site + (u64)in_plane;
    const i64 index = t.first_index + in_plane;
    const int type = N_REACTIONS > 0 ? type_at(l, index) : 0;
    u64 bits = 0;
    if (DRAW_AHEAD) {
        const Philox4 drawn = lattice_draw(s, site, PURPOSE_Z, 0, 0);
        bits = joined(drawn.x2, drawn.x3);
    }
    Site own, &below = work.gathered[0][THREAD_ID], &above = work.gathered[1][THREAD_ID],
              &content = work.gathered[2][THREAD_ID];
    take_site(l, layers[0], in_plane, own);
    take_site(l, layers[1], in_plane, below);
    take_site(l, layers[2], in_plane, above);
    const SlotMoves moves = moves_along_z(l, layers[0], in_plane);
    const u32 from_below = moves_along_z(l, layers[1], in_plane).plus,
              from_above = moves_along_z(l, layers[2], in_plane).minus;
    const SpillHere spill = {l, t.tile, site, SPILL_Z, true};
    const int n = gather(l, s, own, (u32)(moves.minus | moves.plus), below, from_below, above,
                         from_above, site, index, (int)(l.first_plane + t.plane), (int)l.nz, 0,
                         spill, content);
    finish_site_of_type(l, s, spill, l.state_stamps + t.tile, index, type, some_wait, DRAW_AHEAD,
                        bits, n, content);
    return !is_empty(content);
}

// For a site that holds particles.
DEVICE void stamp_edges(const Lattice &l, const TileList &list, const PlaneTile &t, int y, int x) {
    u32 *const edge = list.edges + 4 * t.tile;
    const u32 stamp = (u32)(l.step + 2);
    if (y == t.y0) edge[0] = stamp;
    if (y == t.y0 + TILE_Y - 1 || y == t.ny - 1) edge[1] = stamp;
    if (x == t.x0) edge[2] = stamp;
    if (x == t.x0 + TILE_X - 1 || x == t.nx - 1) edge[3] = stamp;
}

// The rest of the step in a tile. `threads` threads do it; this one is number `thread`.
DEVICE_SHARED void finish_tile(const Lattice &l, const LatticeStream &s, const TileList &list,
                               i64 tile, int thread, int threads, CooperativeWork &work) {
    const PlaneTile t = plane_tile(l, tile);
    const i64 in_plane_tile = tile - t.plane * tiles_of_plane(l);
    const Layer layers[3] = {layer_of(l, t.plane, in_plane_tile),
                             layer_of(l, plane_below(l, t.plane), in_plane_tile),
                             layer_of(l, plane_above(l, t.plane), in_plane_tile)};
    const i32 head = *(volatile i32 *)tile_head(l, l.step & 1, tile);
    const bool reached = layers[0].filled || layers[1].filled || layers[2].filled || head >= 0 ||
                         (l.always && l.always[tile] & 2);
    if (!reached && l.state_stamps[tile] != (u32)(l.step + 1)) return;
    const bool surrounded = list.flags[tile] == SURROUNDED;
    for (int i = thread; i < TILE_SITES; i += threads) {
        const int y = t.y0 + i / TILE_X, x = t.x0 + i % TILE_X, in_plane = y * t.nx + x;
        if (y >= t.ny || x >= t.nx) continue;
        if (!reached)
            make_empty(l.state[t.first_index + in_plane]);
        else if (finish_in_place(l, s, t, layers, head >= 0, in_plane, work)) {
            stamp_edges(l, list, t, y, x);
            if (!surrounded) list_around(l, list, tile);
        }
    }
}

DEVICE void finish_listed_tiles(const Lattice &l, const LatticeStream &s, const TileList &list,
                                const Progress &progress, CooperativeWork &work) {
    const int threads = BLOCK_THREADS < TILE_SITES ? BLOCK_THREADS : TILE_SITES;
    const int tiles = BLOCK_THREADS / threads, part = THREAD_ID / threads;
    if (part >= tiles) return;
    for (i64 i = part, place = list.block + i * list.blocks; place < progress.listed;
         i += tiles, place += tiles * list.blocks)
        finish_tile(l, s, list, progress.known ? work.tile[i] : list.tiles[place],
                    THREAD_ID % threads, threads, work);
}

// So many steps of a lattice; `blocks` blocks do them, of which this one is number `block`. `listed` is room for
// 6 numbers for each tile.
DEVICE_SHARED void whole_steps(Lattice &l, i32 *listed, i64 steps, i64 block, i64 blocks,
                               CooperativeWork &shared) {
    const i64 tiles = l.planes * tiles_of_plane(l);
    TileList list = {l.work + LISTED_0, listed + 4 * tiles, listed + 5 * tiles,
                     (u32 *)listed,     block,              blocks,              0};
    Progress progress = {0, 0, 0, false};
    for (int i = THREAD_ID; i < LOOKED_AT; i += BLOCK_THREADS) shared.reached[i] = 0;
    BARRIER();
    for (i64 i = 0; i < steps; ++i, ++l.step) {
        const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
        const bool first = block == 0 && THREAD_ID == 0;
        // After the first step anew if all tiles were taken for filled, as they are at first.
        if (i % LISTED_FOR == 0 || (i == 1 && 2 * progress.listed > tiles)) {
            u64 *const other = list.count;
            list.count = other == l.work + LISTED_0 ? l.work + LISTED_1 : l.work + LISTED_0;
            make_list(l, list);
            if (first) *other = 0;
            progress.known = 0;
        }
        progress.listed = (i64) * (volatile u64 *)list.count;
        if (first) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
        hop_in_listed_planes(l, s, list, progress, shared);
        meet(l, list);
        finish_listed_tiles(l, s, list, progress, shared);
        meet(l, list);
        progress.edges = true;
    }
}
