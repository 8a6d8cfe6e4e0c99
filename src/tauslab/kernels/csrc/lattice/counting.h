// Counts the particles of a lattice: by site type and species, those that wait included.
#pragma once

#include "lattice/site/site.h"
#include "lattice/site/work.h"

// A histogram of so many bins is kept in the block's memory.
constexpr int MOST_BINS = 2048;

// Sizes of a model: constants in a kernel that has the model's header.
struct CountSizes {
    int types, species, reactions;

    DEVICE_MEMBER constexpr int bins() const { return types * species; }
    DEVICE_MEMBER constexpr bool in_block() const { return bins() <= MOST_BINS; }
};

// The slab's own sites, and what waits.
struct LatticeCountArguments {
    const Site *sites;
    const u8 *types;  // of these sites; null where there is one
    i64 n_sites;
    const u64 *fired;
    const Waiting *waiting;  // [2, capacity]
    const u64 *work;
    i64 capacity;
    i64 list;        // of `waiting`: that which the next step reads
    i64 first_site;  // number of the first of `sites` in the whole lattice
    u64 *counts;     // see below
};

// Adds a site's particles to the block's `bins`, or to `counts`.
DEVICE void count_site(const CountSizes &sizes, const Site &content, int row, u32 *bins,
                       u64 *counts) {
    UNROLL for (int s = 0; s < SLOTS; ++s) {
        const int particle = (int)particle_of(content.word, s / GROUP, s % GROUP);
        if (!particle) break;
        if (sizes.in_block())
            add_in_block(bins + row + particle - 1, 1);
        else
            atomic_add(counts + row + particle - 1, 1);
    }
}

DEVICE void clear_bins(const CountSizes &sizes, u32 *bins) {
    for (int i = THREAD_ID; sizes.in_block() && i < sizes.bins(); i += BLOCK_THREADS) bins[i] = 0;
}

// When all sites of the block are counted and it has met: adds to `counts` [type, species] what is in
// `bins` and what waits, `held` particles. Behind it come the numbers of reactions, of particles that found no room so
// far, of those that wait, and of passes that were truncated so far.
DEVICE void count_rest(const CountSizes &sizes, const LatticeCountArguments &a, const u32 *bins,
                       i64 block, i64 blocks, u64 held) {
    const int end = sizes.bins();
    u64 *const counts = a.counts, *const behind = counts + end + sizes.reactions;
    for (int i = THREAD_ID; sizes.in_block() && i < end; i += BLOCK_THREADS)
        if (bins[i]) atomic_add(counts + i, bins[i]);
    const i64 n_waiting = held < (u64)a.capacity ? (i64)held : a.capacity;
    u64 own = 0;  // others wait in planes that are kept beside the slab
    for (i64 i = block * BLOCK_THREADS + THREAD_ID; i < n_waiting; i += blocks * BLOCK_THREADS) {
        const Waiting &entry = a.waiting[a.list * a.capacity + i];
        const u64 site = entry.site - (u64)a.first_site;
        if (site >= (u64)a.n_sites) continue;
        const int type = sizes.types == 1 ? 0 : a.types[site];
        atomic_add(counts + type * sizes.species + (int)entry.particle - 1, 1);
        ++own;
    }
    if (own) atomic_add(behind + 1, own);
    if (block != 0) return;
    for (int r = THREAD_ID; r < sizes.reactions; r += BLOCK_THREADS) counts[end + r] = a.fired[r];
    if (THREAD_ID == 0) {
        behind[0] = a.work[SPILLS];
        behind[2] = a.work[TRUNCATED];
    }
}

// Counts a lattice. `bins` is memory of the block.
DEVICE void count_lattice(const CountSizes &sizes, const LatticeCountArguments &a, u32 *bins,
                          i64 block, i64 blocks) {
    clear_bins(sizes, bins);
    BARRIER();
    for (i64 i = block * BLOCK_THREADS + THREAD_ID; i < a.n_sites; i += blocks * BLOCK_THREADS) {
        const Site content = a.sites[i];
        const int type = sizes.types == 1 || is_empty(content) ? 0 : a.types[i];
        count_site(sizes, content, type * sizes.species, bins, a.counts);
    }
    BARRIER();
    count_rest(sizes, a, bins, block, blocks, a.work[WAITING_0 + a.list]);
}
