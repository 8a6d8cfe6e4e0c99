// Steps of several lattices in one launch: replicas, which differ in their particles and draws alone.
//
// A small lattice does not fill a GPU: most of a step is waiting for launches, or for the slowest block.
// Here each lattice gets some blocks of the same launch. They do for it what the blocks of `rdme_xy` and
// `rdme_z` in lattice/rdme.cc do, so it has the same bits.
#include "lattice/tile_work.h"

// Where the arguments of a replica are kept.
struct PutArguments {
    LatticeArguments lattice;
    LatticeArguments *lattices;
    i64 at;
};

// Keeps the arguments of a replica on the device, for the launches of all.
BLOCK_KERNEL(TILE_THREADS, 1, replicas_put, const PutArguments a) {
    if (BLOCK_ID == 0 && THREAD_ID == 0) a.lattices[a.at] = a.lattice;
}

struct ReplicaArguments {
    const LatticeArguments *lattices;  // [replica]
    const u64 *before;                 // steps before that of this launch, which may be replayed
    u64 step;                          // after these
    i64 replicas;
    i64 blocks_each;  // blocks of a replica
    i64 segment;      // planes that a block does at a time, along z
};

// The arguments of a replica, at the present step.
DEVICE LatticeArguments arguments_of(const ReplicaArguments &a, i64 replica) {
    LatticeArguments given = a.lattices[replica];
    given.step = a.step + *a.before;
    return given;
}

// Hops along x and y.
BLOCK_KERNEL(TILE_THREADS, TILE_BLOCKS, replicas_xy, const ReplicaArguments a) {
    SHARED TileWork shared;
    for (i64 b = BLOCK_ID; b < a.replicas * a.blocks_each; b += BLOCKS) {
        const i64 replica = b / a.blocks_each, block = b - replica * a.blocks_each;
        LATTICE_IN_BLOCK(l, arguments_of(a, replica));
        BARRIER();
        const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
        if (block == 0 && THREAD_ID == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
        const i64 tiles = l.planes * tiles_of_plane(l);
        for (i64 t = block * TILES_EACH + warp_of_block(); t < tiles;
             t += a.blocks_each * TILES_EACH)
            hop_in_tile(l, s, t, shared);
        BARRIER();
    }
}

// The rest of the step.
BLOCK_KERNEL(TILE_THREADS, COLUMN_BLOCKS, replicas_z, const ReplicaArguments a) {
    SHARED RowWork shared;
    for (i64 b = BLOCK_ID; b < a.replicas * a.blocks_each; b += BLOCKS) {
        const i64 replica = b / a.blocks_each, block = b - replica * a.blocks_each;
        LATTICE_IN_BLOCK(l, arguments_of(a, replica));
        BARRIER();
        const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
        const i64 tiles = tiles_of_plane(l), pieces = (l.planes + a.segment - 1) / a.segment;
        for (i64 i = block * ROWS_EACH + warp_of_block(); i < tiles * ROWS * pieces;
             i += a.blocks_each * ROWS_EACH) {
            const i64 column = i / ROWS, piece = column / tiles, first = piece * a.segment;
            const i64 last = first + a.segment < l.planes ? first + a.segment : l.planes;
            march_along_z(l, s, column % tiles, (int)(i % ROWS), first, last, shared);
        }
        BARRIER();
    }
}

struct ReplicaAdvanceArguments {
    u64 *before;
    u64 steps;
};

// Adds to the steps from which recorded launches go on.
BLOCK_KERNEL(TILE_THREADS, 1, replicas_advance, const ReplicaAdvanceArguments a) {
    if (BLOCK_ID == 0 && THREAD_ID == 0) *a.before += a.steps;
}
