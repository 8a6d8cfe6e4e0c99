// A section of a sparse lattice: SECTION_PLANES planes of a column of tiles, done by one block. With two planes:
//
//     plane      who hops there           who finishes the step there
//     z0 + 2     warp 3 of the block      the section above
//     z0 + 1     warp 2                   warp 2
//     z0         warp 1                   warp 1
//     z0 - 1     warp 0                   the section below
//
// A warp takes a plane of the section, or one beside it, through the hops along x and y. What then is in the
// tile stays in the block's memory, where the warps of the planes above and below find it. Hops in the planes
// beside the section are those that other blocks do, with the same draws; what finds no slot there is theirs.
// A tile that holds more than its warp has memory for goes to memory of the block in the device's.
#pragma once

#include "lattice/column.h"
#include "lattice/sparse/hops.h"

constexpr int SECTION_TILES = SECTION_PLANES + 2;

// The device's memory for tiles whose warps have too little: of each warp of each block.
struct SectionRoom {
    Site *sites;
    SlotMoves *z_moves;
};

DEVICE SectionRoom room_of_tile(SectionRoom of_block, int i) {
    return {of_block.sites + i * TILE_SITES, of_block.z_moves + i * TILE_SITES};
}

// Rows of types towards both sides, as sides_of() of lattice/plane.h. Site `c` of an axis of `n`, whose lower face is
// `face`.
DEVICE Sides sides_between(int type, int minus, int plus, int c, int n, int face) {
    const bool periodic = face_kind(face) == PERIODIC;
    return {c > 0 || periodic ? hop_row(type, minus) : face_row(face, type),
            c + 1 < n || periodic ? hop_row(type, plus) : face_row(face + 1, type)};
}

// Where the words of a row of a tile with its rim are; -1: there is none.
struct WordPlaces {
    i32 left, own, right;
};

// Memory of a warp. Behind the hops along y, sites.before and x_moves have what the sites of `after_y` hold, and
// who hops along z there.
struct SectionWork : SparseWork {
    SparseTile tile;                            // of lane 0
    u8 types[N_TYPES > 1 ? RIM_Y * RIM_X : 1];  // of sites of the tile with its rim
    WordPlaces words[RIM_Y];
    int left_bit, right_bit;  // of the sites beside the tile in their words
    u16 moved_row[TILE_Y], minus_row[TILE_Y], plus_row[TILE_Y];  // as SparseRows
    u16 held_row[TILE_Y];   // sites of the tile that hold particles before the step
    u16 stale_row[TILE_Y];  // the same in the memory that the step is written to
    u32 some_wait;          // whether particles wait in the tile
    u32 has_room;           // whether the sites are here, and not in SectionRoom

    // Of a site of the tile with its rim.
    DEVICE_MEMBER int type(int r, int c) const { return N_TYPES > 1 ? types[r * RIM_X + c] : 0; }
};

DEVICE SparseTile tile_of_work(const SectionWork &work, int lane) {
    SparseTile tile = work.tile;
    tile.lane = lane;
    return tile;
}

// A spill that is noted, for the end of the step in the tile.
struct NotedSpill {
    SpillHere spill;
    SectionWork &work;

    DEVICE_MEMBER void operator()(u32 particle, u32 number) const {
        if (spill.keep) work.some_wait = 1;
        spill(particle, number);
    }
};

// As InLattice, in the block's memory. Types that lie outside of a tile with its rim are not asked for: no hop to there
// is of account here.
struct InSection {
    SectionRoom room_of_warp;
    int number;   // of the tile in the section
    i32 waiting;  // head of the tile's list before the step
    bool own;     // a plane of the section, not one beside it
    bool last;    // the plane above it
    bool has_room;

    DEVICE_MEMBER Sides along_x(const Lattice &, const SparseTile &tile, int r, int c, i64, int x,
                                const SectionWork &work) const {
        const int type = work.type(r, c);
        return sides_between(type, work.type(r, c - (c > 0)), work.type(r, c + (c < RIM_X - 1)), x,
                             tile.t.nx, 4);
    }

    DEVICE_MEMBER Sides along_y(const Lattice &, const SparseTile &tile, int r, int c, i64, int y,
                                const SectionWork &work) const {
        const int type = work.type(r, c);
        return sides_between(type, work.type(r - (r > 0), c), work.type(r + (r < RIM_Y - 1), c), y,
                             tile.t.ny, 2);
    }

    DEVICE_MEMBER Sides along_z(const Lattice &l, const SparseTile &tile, int r, int c, i64,
                                const SectionWork &work) const {
        const SectionWork *const works = &work - number;
        const i64 z = l.first_plane + tile.t.plane;
        const int below = number > 0 ? number - 1 : 0, above = last ? number : number + 1;
        return sides_between(work.type(r, c), works[below].type(r, c), works[above].type(r, c),
                             (int)z, (int)l.nz, 0);
    }

    DEVICE_MEMBER u32 held_in(const Lattice &, const u16 *held, const SparseTile &tile, int r,
                              const SectionWork &work) const {
        const WordPlaces &at = work.words[r];
        const u32 left = at.left < 0 ? 0 : held[at.left], own = at.own < 0 ? 0 : held[at.own],
                  right = at.right < 0 ? 0 : held[at.right];
        return (left >> work.left_bit & 1) | own << 1 |
               (right >> work.right_bit & 1) << (tile.width + 1);
    }

    DEVICE_MEMBER void begin(const Lattice &, const SparseTile &tile, int, int,
                             SectionWork &work) const {
        if (tile.lane == 0 && waiting >= 0) work.some_wait = 1;
    }

    DEVICE_MEMBER void begin_to_put(const SparseTile &tile, int first, int end, int n,
                                    SectionWork &work) {
        has_room = first == tile.first && end == tile.end && n <= ROOM;
        if (tile.lane == 0) work.has_room = has_room;
    }

    DEVICE_MEMBER Site &room(const SparseTile &tile, int j, SectionWork &work) const {
        return work.sites.before[has_room ? j : tile.lane];
    }

    DEVICE_MEMBER void put(const Lattice &, int r, int c, i64, const Site &to) const {
        if (!has_room) room_of_warp.sites[r * TILE_X + c] = to;
    }

    DEVICE_MEMBER void put_moves(const Lattice &, int j, int r, int c, i64, SlotMoves moves,
                                 SectionWork &work) const {
        *(has_room ? work.x_moves + j : room_of_warp.z_moves + r * TILE_X + c) = moves;
    }

    DEVICE_MEMBER void put_row(const SparseTile &, int r, u16 moved, u16 minus, u16 plus,
                               SectionWork &work) const {
        work.moved_row[r] = moved, work.minus_row[r] = minus, work.plus_row[r] = plus;
    }

    DEVICE_MEMBER NotedSpill spill(const Lattice &l, const SparseTile &tile, u64 site, u32 pass,
                                   bool mine, SectionWork &work) const {
        return {{l, tile.t.tile, site, pass, mine && own}, work};
    }
};

struct Section {
    int first;   // plane
    int planes;  // fewer than SECTION_PLANES at the end of the lattice
    int tile_of_plane;
};

DEVICE i64 sections_of(const Lattice &l) {
    return (i64)((u32)(l.planes + SECTION_PLANES - 1) / SECTION_PLANES) * tiles_of_plane(l);
}

DEVICE Section section_of(const Lattice &l, int number) {
    const int per_plane = tiles_of_plane(l), layer = (int)((u32)number / (u32)per_plane);
    const int first = layer * SECTION_PLANES, left = (int)l.planes - first;
    return {first, left < SECTION_PLANES ? left : SECTION_PLANES, number - layer * per_plane};
}

// The plane of tile `i` of the section, counted from the plane below it; -1: there is none.
DEVICE i64 plane_of_section(const Lattice &l, const Section &section, int i) {
    if (i > section.planes + 1) return -1;
    return i == 0                    ? plane_below(l, section.first)
           : i == section.planes + 1 ? plane_above(l, section.first + i - 2)
                                     : section.first + i - 1;
}

// Its plane is -1 if there is none.
DEVICE SparseTile tile_of_section(const Lattice &l, const Section &section, int i, int lane) {
    const i64 plane = plane_of_section(l, section, i);
    SparseTile tile = sparse_piece(
        l, (plane < 0 ? 0 : plane) * tiles_of_plane(l) + section.tile_of_plane, 1, lane);
    if (plane < 0) tile.t.plane = -1;
    return tile;
}

// Begins to do a tile of a section: where the words of its rows are, its own in both memories, and its types.
DEVICE void begin_tile(const Lattice &l, const u16 *held, const u16 *next, const SparseTile &tile,
                       SectionWork &work) {
    int y, x;
    if (tile.lane == 0) work.tile = tile;
    if (tile.t.plane < 0) return;
    if (tile.lane == 0) {
        work.left_bit = tile.coordinates(1, 0, y, x) ? x % TILE_X : 0;
        work.right_bit = tile.coordinates(1, tile.width + 1, y, x) ? x % TILE_X : 0;
    }
    NO_UNROLL for (int r = tile.lane; r < RIM_Y; r += TILE_LANES) {
        const int columns[3] = {0, 1, tile.width + 1};
        i32 places[3];
        UNROLL for (int i = 0; i < 3; ++i)
            places[i] = tile.coordinates(r, columns[i], y, x)
                            ? (i32)word_at(l, tile.t.plane, y, x)
                            : -1;
        work.words[r] = {places[0], places[1], places[2]};
    }
    NO_UNROLL for (int r = tile.lane; r < tile.end; r += TILE_LANES) {
        work.held_row[r] = held[tile.t.tile * TILE_Y + r];
        work.stale_row[r] = next[tile.t.tile * TILE_Y + r];
    }
    NO_UNROLL for (int i = tile.lane; N_TYPES > 1 && i < RIM_Y * RIM_X; i += TILE_LANES) {
        const bool there = i % RIM_X <= tile.width + 1 && i / RIM_X <= tile.end + 1 &&
                           tile.coordinates(i / RIM_X, i % RIM_X, y, x);
        work.types[i] = there ? (u8)type_at(l, tile.t.first_index + y * tile.t.nx + x) : 0;
    }
}

// Hops along x and y in tile `i` of a section.
DEVICE_SHARED void hop_in_section(const Lattice &l, const LatticeStream &s, const u16 *held,
                                  const Section &section, int i, int lane, SectionRoom room,
                                  SectionWork &work) {
    const SparseTile tile = tile_of_work(work, lane);
    if (tile.t.plane < 0) {
        NO_UNROLL for (int r = lane; r < TILE_Y; r += TILE_LANES)
            work.moved_row[r] = work.minus_row[r] = work.plus_row[r] = 0;
        return;
    }
    const bool own = i > 0 && i <= section.planes;
    i32 waiting = -1;
    if (own && lane == 0) {
        waiting = *(volatile i32 *)tile_head(l, l.step & 1, tile.t.tile);
        work.some_wait = 0;
        *tile_head(l, (l.step + 1) & 1, tile.t.tile) = -1;
    }
    hop_in_piece(l, s, held, tile,
                 InSection{room, i, waiting, own, i == section.planes + 1, true}, work);
}

// What a site of a tile holds after the hops along x and y.
DEVICE Incoming after_hops(const SectionWork &work, SectionRoom room, bool held, int r, int c) {
    if (!held) return {&work.none, {0, 0}};
    if (!work.has_room) return {room.sites + r * TILE_X + c, room.z_moves[r * TILE_X + c]};
    const int at = work.after_y.place(r + 1, c + 1);
    return {work.sites.before + at, work.x_moves[at]};
}

// Sites that are looked at, as find_reached() of lattice/sparse/steps.cc says.
DEVICE void find_reached_in_section(const Lattice &l, const SparseTile &tile, const SectionWork &below,
                                    const SectionWork &above, SectionWork &work) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int r = tile.lane; r < tile.end; r += TILE_LANES) {
        const u32 reached = work.some_wait
                                ? low_bits(tile.width)
                                : work.moved_row[r] | below.plus_row[r] | above.minus_row[r];
        work.held.row[r] = reached;
        work.after_x.row[r] = 0;
        const i64 first = t.first_index + (t.y0 + r) * t.nx + t.x0;
        NO_UNROLL for (u32 left = work.stale_row[r] & ~reached; left; left &= left - 1)
            make_empty(l.state[first + lowest_bit(left)]);
        work.stale_row[r] = work.held_row[r];
    }
}

// The rest of the step at a site; returns whether it holds particles then.
DEVICE bool finish_site_of_section(const Lattice &l, const LatticeStream &s, const SparseTile &tile,
                                   const SectionWork *works, SectionRoom room, int i, int r, int c,
                                   Site &content) {
    const PlaneTile &t = tile.t;
    const SectionWork &work = works[i], &under = works[i - 1], &over = works[i + 1];
    const int in_plane = (t.y0 + r) * t.nx + t.x0 + c;
    const int type = work.type(r + 1, c + 1);
    const Incoming own = after_hops(work, room, work.moved_row[r] >> c & 1, r, c),
                   below = after_hops(under, room_of_tile(room, -1), under.plus_row[r] >> c & 1, r, c),
                   above = after_hops(over, room_of_tile(room, 1), over.minus_row[r] >> c & 1, r, c);
    return finish_gathered(l, s, t, in_plane, type, work.some_wait, *own.site, own.moves, *below.site,
                           below.moves.plus, *above.site, above.moves.minus, content);
}

// The rest of the step in tile `i` of a section, when all warps of the block have hopped.
DEVICE_SHARED void finish_in_section(const Lattice &l, const LatticeStream &s, u16 *next,
                                     int i, int lane, SectionRoom room, SectionWork *works) {
    SectionWork &work = works[i];
    const SparseTile tile = tile_of_work(work, lane);
    find_reached_in_section(l, tile, works[i - 1], works[i + 1], work);
    TILE_BARRIER();
    const int n = list_sites(work.held, 0, tile.end, TILE_SITES, work.list, lane);
    TILE_BARRIER();
    NO_UNROLL for (int j = lane; j < n; j += TILE_LANES) {
        const int r = work.list[j] >> 5, c = work.list[j] & 31;
        if (finish_site_of_section(l, s, tile, works, room, i, r, c, work.sites.after_x[lane]))
            or_in_block(work.after_x.row + r, 1u << c);
    }
    TILE_BARRIER();
    NO_UNROLL for (int r = lane; r < tile.end; r += TILE_LANES)
        next[tile.t.tile * TILE_Y + r] = work.held_row[r] = (u16)work.after_x.row[r];
}
