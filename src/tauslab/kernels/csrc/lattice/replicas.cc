// Whole steps of several lattices in one launch: replicas, which differ in their particles and draws
// alone.
//
// A small lattice does not fill a GPU: its blocks wait for the slowest twice in a step. Here each
// lattice has some of the blocks, and only these wait for each other.
//
//     block          0   1   2 | 3   4   5 | ...       blocks_each = 3
//     lattice            0     |     1     | ...       memory of a kind lies side by side
//
// On a CPU, where a block is a thread, each lattice has one.
#include "lattice/cooperative_steps.h"

// What replicas do not have side by side.
struct ReplicaRow {
    Waiting *waiting;
    i64 capacity;
    i64 replica;
};

struct PutArguments {
    Waiting *waiting;
    i64 capacity;
    i64 replica;
    ReplicaRow *rows;
    i64 at;
};

// Writes the row of a lattice, for later launches.
BLOCK_KERNEL(TILE_THREADS, 1, replicas_put, const PutArguments a) {
    if (BLOCK_ID == 0 && THREAD_ID == 0) a.rows[a.at] = {a.waiting, a.capacity, a.replica};
}

struct ReplicaStepsArguments {
    LatticeArguments lattice;  // of the first lattice
    const ReplicaRow *rows;    // [lattice]
    SlotMoves *z_moves;        // of the first, as the next
    i32 *listed;
    u64 *cells;  // [lattice, CELLS_EACH]: zeros
    i64 lattices;
    i64 blocks_each;
    i64 steps;
};

constexpr int CELLS_EACH = 16;  // a cache line, which no two lattices share

// The arguments of lattice `at` of those that lie side by side.
DEVICE LatticeArguments arguments_of(const ReplicaStepsArguments &a, i64 at) {
    LatticeArguments l = a.lattice;
    const i64 sites = l.planes * l.ny * l.nx;
    const i64 tiles = l.planes * ((l.ny + TILE_Y - 1) / TILE_Y) * ((l.nx + TILE_X - 1) / TILE_X);
    const ReplicaRow row = a.rows[at];
    l.state += at * sites;
    l.moved += at * sites;
    l.state_stamps += at * tiles;
    l.moved_stamps += at * tiles;
    l.fired += at * (N_REACTIONS ? N_REACTIONS : 1);
    l.heads += at * 2 * tiles;
    l.work += at * WORK_WORDS;
    l.waiting = row.waiting;
    l.capacity = row.capacity;
    l.replica = row.replica;
    return l;
}

BLOCK_KERNEL(TILE_THREADS, TOGETHER_BLOCKS, replicas_steps, const ReplicaStepsArguments a) {
    SHARED CooperativeWork shared;
    for (i64 b = BLOCK_ID; b < a.lattices * a.blocks_each; b += BLOCKS) {
        const i64 at = b / a.blocks_each;
        LATTICE_IN_BLOCK(l, arguments_of(a, at));
        REACTIONS_IN_BLOCK(l);
        const i64 sites = l.planes * l.ny * l.nx, tiles = l.planes * tiles_of_plane(l);
        l.z_moves = a.z_moves + at * sites;
        whole_steps(l, {a.listed + at * 6 * tiles, a.cells + at * CELLS_EACH}, a.steps,
                    b - at * a.blocks_each, a.blocks_each, shared);
    }
}
