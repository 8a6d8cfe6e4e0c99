// A step of a lattice of particles: hops along x, y and z, at most one reaction of each site in a
// pass, then particles that waited for room.
//
//     Hallock & Peterson 2013, Algorithm 1     here
//     lattice, slots of a site                 Lattice::state, Site
//     diffusion operator along x, y, z         `rdme_xy`, then `rdme_z`
//     reaction operator                        `react`, once in each pass
//     overflow list                            Waiting, `add_waiting`
//     random number of a site                  `lattice_draw`, addressed by site, step and purpose
//
// docs/rdme.md says what differs from the paper: addresses of draws, thresholds, the list of waiting
// particles.
#include "lattice/warp_column.h"
#include "lattice/cooperative_steps.h"

// Tiles that a block hops in side by side: one for each warp, or one.
#if WARP_TILES
constexpr int WARPS = TILE_THREADS / WARP_LANES;
constexpr int TILES_EACH = WARPS, ROWS_EACH = WARPS, ROWS = TILE_Y;
struct TileWork {
    WarpTileWork of_warp[WARPS];
};
struct RowWork {
    Site kept[TILE_THREADS];
};
DEVICE int warp_of_block() {
    return THREAD_ID / WARP_LANES;
}
DEVICE void hop_in_tile(const Lattice &l, const LatticeStream &s, i64 number, TileWork &work) {
    hop_in_warp_tile(l, s, number, work.of_warp[warp_of_block()]);
}
DEVICE void march_along_z(const Lattice &l, const LatticeStream &s, i64 tile, int row, i64 begin,
                          i64 end, RowWork &work) {
    for (; begin < end; begin += MOST_MARCHED)
        march_in_lanes(l, s, tile, row, begin,
                       begin + MOST_MARCHED < end ? begin + MOST_MARCHED : end,
                       work.kept + warp_of_block() * WARP_LANES);
}
#else
constexpr int TILES_EACH = 1, ROWS_EACH = 1, ROWS = 1;
typedef PlaneWork TileWork;
typedef ColumnWork RowWork;
DEVICE int warp_of_block() {
    return 0;
}
DEVICE void hop_in_tile(const Lattice &l, const LatticeStream &s, i64 number, TileWork &work) {
    hop_in_plane(l, s, number, work);
}
DEVICE void march_along_z(const Lattice &l, const LatticeStream &s, i64 tile, int, i64 begin,
                          i64 end, RowWork &work) {
    hop_along_z_and_react(l, s, tile, begin, end, work);
}
#endif

// Hops along x and y in planes begin .. end - 1 but hole_begin .. hole_end - 1. `opens` is 1 in one
// launch of a step, the first of the slab's own planes.
BLOCK_KERNEL(TILE_THREADS, TILE_BLOCKS, rdme_xy, LATTICE_ARGUMENTS, i64 begin, i64 end,
             i64 hole_begin, i64 hole_end, i64 opens) {
    SHARED TileWork shared;
    LATTICE_IN_BLOCK(l);
    BARRIER();
    const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
    if (opens && BLOCK_ID == 0 && THREAD_ID == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
    const i64 tiles = tiles_of_plane(l);
    const i64 left_out = (hole_end - hole_begin) * tiles;
    for (i64 t = begin * tiles + BLOCK_ID * TILES_EACH + warp_of_block();
         t < end * tiles - left_out; t += BLOCKS * TILES_EACH)
        hop_in_tile(l, s, t < hole_begin * tiles ? t : t + left_out, shared);
}

// The rest of the step in planes begin .. end - 1 but hole_begin .. hole_end - 1, when the hops
// along x and y are done there and in the planes beside them; a block does `segment` planes.
BLOCK_KERNEL(TILE_THREADS, COLUMN_BLOCKS, rdme_z, LATTICE_ARGUMENTS, i64 begin, i64 end,
             i64 hole_begin, i64 hole_end, i64 segment) {
    SHARED RowWork shared;
    LATTICE_IN_BLOCK(l);
    BARRIER();
    const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
    const i64 tiles = tiles_of_plane(l), below = (hole_begin - begin + segment - 1) / segment;
    const i64 pieces = below + (end - hole_end + segment - 1) / segment;
    for (i64 i = BLOCK_ID * ROWS_EACH + warp_of_block(); i < tiles * ROWS * pieces;
         i += BLOCKS * ROWS_EACH) {
        const i64 b = i / ROWS, piece = b / tiles;
        const i64 first =
            piece < below ? begin + piece * segment : hole_end + (piece - below) * segment;
        const i64 most = piece < below ? hole_begin : end;
        const i64 last = first + segment < most ? first + segment : most;
        march_along_z(l, s, b % tiles, (int)(i % ROWS), first, last, shared);
    }
}

#if MANY_STEPS
// `steps` whole steps of a lattice that lies on one device, without a launch for each. All blocks
// run at the same time. `listed` has room for six numbers of each tile.
BLOCK_KERNEL(TILE_THREADS, TOGETHER_BLOCKS, rdme_steps, LATTICE_ARGUMENTS, SlotMoves *z_moves,
             i32 *listed, i64 steps) {
    SHARED CooperativeWork shared;
    LATTICE_IN_BLOCK(l);
    REACTIONS_IN_BLOCK(l);
    l.z_moves = z_moves;
    const i64 tiles = l.planes * tiles_of_plane(l);
    TileList list = {l.work + LISTED_0, listed + 4 * tiles, listed + 5 * tiles,
                     (u32 *)listed,     BLOCK_ID,           BLOCKS};
    Progress progress = {0, 0, 0, false};
    for (int i = THREAD_ID; i < LOOKED_AT; i += BLOCK_THREADS) shared.reached[i] = 0;
    BARRIER();
    for (i64 i = 0; i < steps; ++i, ++l.step) {
        const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
        const bool first = BLOCK_ID == 0 && THREAD_ID == 0;
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
        grid_barrier(l.work + BARRIER_CELL, BLOCKS);
        finish_listed_tiles(l, s, list, progress, shared);
        grid_barrier(l.work + BARRIER_CELL, BLOCKS);
        progress.edges = true;
    }
}
#endif
