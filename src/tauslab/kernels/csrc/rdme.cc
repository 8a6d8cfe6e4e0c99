// A step of a lattice of particles: hops along x, y and z, at most one reaction of each site in a
// pass, then particles that waited for room.
//
// Multiparticle diffusion, Hallock & Peterson 2013, Algorithm 1. docs/rdme.md tells what is done
// otherwise: keys of draws, thresholds, the list of those that wait.
#include "rdme_column.h"

// Hops along x and y in planes begin .. end - 1. `opens` is 1 in the first launch of a step.
BLOCK_KERNEL(TILE_THREADS, TILE_BLOCKS, rdme_xy, LATTICE_ARGUMENTS, i64 begin, i64 end, i64 opens) {
    SHARED PlaneWork shared;
    LATTICE_IN_BLOCK(l);
    const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
    if (opens && BLOCK_ID == 0 && THREAD_ID == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
    const i64 tiles = tiles_of_plane(l);
    for (i64 t = begin * tiles + BLOCK_ID; t < end * tiles; t += BLOCKS)
        hop_in_plane(l, s, t, shared);
}

// The rest of the step in planes begin .. end - 1, whose neighbours' hops along x and y are done;
// a block does `segment` planes.
BLOCK_KERNEL(TILE_THREADS, COLUMN_BLOCKS, rdme_z, LATTICE_ARGUMENTS, i64 begin, i64 end,
             i64 segment) {
    SHARED ColumnWork shared;
    LATTICE_IN_BLOCK(l);
    const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
    const i64 tiles = tiles_of_plane(l), pieces = (end - begin + segment - 1) / segment;
    for (i64 b = BLOCK_ID; b < tiles * pieces; b += BLOCKS) {
        const i64 first = begin + b / tiles * segment;
        const i64 last = first + segment < end ? first + segment : end;
        hop_along_z_and_react(l, s, b % tiles, first, last, shared);
    }
}

// `steps` whole steps of a lattice that lies on one device, without a launch for each. All blocks
// run at the same time.
BLOCK_KERNEL(TILE_THREADS, COLUMN_BLOCKS, rdme_steps, LATTICE_ARGUMENTS, i64 steps, i64 segment) {
    SHARED union {
        PlaneWork plane;
        ColumnWork column;
    } shared;
    LATTICE_IN_BLOCK(l);
    const i64 tiles = tiles_of_plane(l), pieces = (l.planes + segment - 1) / segment;
    for (i64 i = 0; i < steps; ++i, ++l.step) {
        const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
        if (BLOCK_ID == 0 && THREAD_ID == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
        for (i64 t = BLOCK_ID; t < l.planes * tiles; t += BLOCKS)
            hop_in_plane(l, s, t, shared.plane);
        grid_barrier(l.work + BARRIER_CELL, BLOCKS);
        for (i64 b = BLOCK_ID; b < tiles * pieces; b += BLOCKS) {
            const i64 first = b / tiles * segment;
            const i64 last = first + segment < l.planes ? first + segment : l.planes;
            hop_along_z_and_react(l, s, b % tiles, first, last, shared.column);
        }
        grid_barrier(l.work + BARRIER_CELL, BLOCKS);
    }
}
