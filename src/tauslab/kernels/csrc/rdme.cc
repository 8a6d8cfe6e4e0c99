// A step of a lattice of particles: hops along x, y and z, at most one reaction of each site in a
// pass, then particles that waited for room.
//
// Multiparticle diffusion, Hallock & Peterson 2013, Algorithm 1. docs/rdme.md tells what is done
// otherwise: keys of draws, thresholds, the list of those that wait.
#include "rdme_climb.h"

// Tiles that a block hops in side by side: one for each warp, or one.
#if STRIPS_OF_LANES
constexpr int WARPS = TILE_THREADS / STRIP;
constexpr int TILES_EACH = WARPS, ROWS_EACH = WARPS, ROWS = TILE_Y;
struct TileWork {
    StripWork of_warp[WARPS];
};
struct RowWork {
    Site kept[TILE_THREADS];
};
DEVICE int part_of_block() {
    return THREAD_ID / STRIP;
}
DEVICE void hop_in_tile(const Lattice &l, const LatticeStream &s, i64 number, TileWork &work) {
    hop_in_strip(l, s, number, work.of_warp[part_of_block()]);
}
DEVICE void climb(const Lattice &l, const LatticeStream &s, i64 tile, int row, i64 begin, i64 end,
                  RowWork &work) {
    for (; begin < end; begin += MOST_CLIMBED)
        climb_in_lanes(l, s, tile, row, begin,
                       begin + MOST_CLIMBED < end ? begin + MOST_CLIMBED : end,
                       work.kept + part_of_block() * STRIP);
}
#else
constexpr int TILES_EACH = 1, ROWS_EACH = 1, ROWS = 1;
typedef PlaneWork TileWork;
typedef ColumnWork RowWork;
DEVICE int part_of_block() {
    return 0;
}
DEVICE void hop_in_tile(const Lattice &l, const LatticeStream &s, i64 number, TileWork &work) {
    hop_in_plane(l, s, number, work);
}
DEVICE void climb(const Lattice &l, const LatticeStream &s, i64 tile, int, i64 begin, i64 end,
                  RowWork &work) {
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
    for (i64 t = begin * tiles + BLOCK_ID * TILES_EACH + part_of_block();
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
    for (i64 i = BLOCK_ID * ROWS_EACH + part_of_block(); i < tiles * ROWS * pieces;
         i += BLOCKS * ROWS_EACH) {
        const i64 b = i / ROWS, piece = b / tiles;
        const i64 first =
            piece < below ? begin + piece * segment : hole_end + (piece - below) * segment;
        const i64 most = piece < below ? hole_begin : end;
        const i64 last = first + segment < most ? first + segment : most;
        climb(l, s, b % tiles, (int)(i % ROWS), first, last, shared);
    }
}

// `steps` whole steps of a lattice that lies on one device, without a launch for each. All blocks
// run at the same time.
BLOCK_KERNEL(TILE_THREADS, COLUMN_BLOCKS, rdme_steps, LATTICE_ARGUMENTS, i64 steps, i64 segment) {
    SHARED union {
        TileWork tile;
        RowWork column;
    } shared;
    LATTICE_IN_BLOCK(l);
    BARRIER();
    const i64 tiles = tiles_of_plane(l), pieces = (l.planes + segment - 1) / segment;
    for (i64 i = 0; i < steps; ++i, ++l.step) {
        const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
        if (BLOCK_ID == 0 && THREAD_ID == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
        for (i64 t = BLOCK_ID * TILES_EACH + part_of_block(); t < l.planes * tiles;
             t += BLOCKS * TILES_EACH)
            hop_in_tile(l, s, t, shared.tile);
        grid_barrier(l.work + BARRIER_CELL, BLOCKS);
        for (i64 j = BLOCK_ID * ROWS_EACH + part_of_block(); j < tiles * ROWS * pieces;
             j += BLOCKS * ROWS_EACH) {
            const i64 b = j / ROWS, first = b / tiles * segment;
            const i64 last = first + segment < l.planes ? first + segment : l.planes;
            climb(l, s, b % tiles, (int)(j % ROWS), first, last, shared.column);
        }
        grid_barrier(l.work + BARRIER_CELL, BLOCKS);
    }
}
