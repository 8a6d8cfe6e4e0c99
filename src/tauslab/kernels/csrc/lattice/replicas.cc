// Many lattices of one model: each is done by a block of its own, so that no block waits for another.
#include "lattice/cooperative_steps.h"
#include "lattice/counting_model.h"

// The buffers of a lattice follow those of the one before.
struct ReplicaArguments {
    LatticeArguments lattice;  // of the first, but for `step` and `replica`
    const i64 *places;         // [replica, 2]: its number, and the steps that it had made
    SlotMoves *z_moves;        // see Lattice
    i32 *listed;               // [6, plane, tile]
    i64 replicas;
    i64 done, steps;  // made since then, and to be made now
    i64 own_rates;    // whether each has `chances` and `bounds` of its own
    u64 *counts;      // [replica, as rdme_count says], of 0; may be null
    i64 columns;      // of a row of `counts`
};

DEVICE_SHARED Lattice replica_of(const Lattice &l, const ReplicaArguments &a, i64 number) {
    const i64 sites = l.planes * l.ny * l.nx, tiles = l.planes * tiles_of_plane(l);
    Lattice own = l;
    own.state += number * sites, own.moved += number * sites;
    own.state_stamps += number * tiles, own.moved_stamps += number * tiles;
    own.fired += number * (N_REACTIONS > 0 ? N_REACTIONS : 1);
    own.waiting += number * 2 * l.capacity;
    own.heads += number * 2 * tiles;
    own.work += number * WORK_WORDS;
    own.z_moves = a.z_moves + number * sites;
    own.replica = a.places[2 * number], own.step = (u64)(a.places[2 * number + 1] + a.done);
    if (a.own_rates) {
        own.chances = a.lattice.chances + number * CHANCE_ENTRIES;
        own.bounds = a.lattice.bounds + number * BOUND_ENTRIES;
    }
    return own;
}

BLOCK_KERNEL(TILE_THREADS, TOGETHER_BLOCKS, rdme_replicas, const ReplicaArguments a) {
    SHARED CooperativeWork shared;
    LATTICE_IN_BLOCK(l, a.lattice);
    REACTIONS_IN_BLOCK(l);
    BARRIER();
    const i64 tiles = l.planes * tiles_of_plane(l);
    for (i64 number = BLOCK_ID; number < a.replicas; number += BLOCKS) {
        Lattice own = replica_of(l, a, number);
        if (THREAD_ID == 0) own.work[LISTED_0] = own.work[LISTED_1] = 0;
        whole_steps(own, a.listed + number * 6 * tiles, a.steps, 0, 1, shared);
        BARRIER();
    }
}

BLOCK_KERNEL(TILE_THREADS, 1, rdme_count_replicas, const ReplicaArguments a) {
    SHARED u32 bins[BLOCK_BINS];
    const i64 sites = a.lattice.planes * a.lattice.ny * a.lattice.nx;
    for (i64 number = BLOCK_ID; number < a.replicas; number += BLOCKS) {
        const LatticeCountArguments own = {
            a.lattice.state + number * sites,
            a.lattice.types,
            sites,
            a.lattice.fired + number * (N_REACTIONS > 0 ? N_REACTIONS : 1),
            a.lattice.waiting + number * 2 * a.lattice.capacity,
            a.lattice.work + number * WORK_WORDS,
            a.lattice.capacity,
            (a.places[2 * number + 1] + a.done) & 1,
            0,
            a.counts + number * a.columns};
        count_lattice(SIZES, own, bins, 0, 1);
        BARRIER();
    }
}
