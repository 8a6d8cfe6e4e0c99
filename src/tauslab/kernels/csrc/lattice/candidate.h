// Particles that may be taken out of a lattice between two steps. Those with the smallest keys are, which are uniform.
#pragma once

#include "random/philox_wide.h"

struct Candidate {
    u64 key;
    u64 site;      // among those of the launch, or the slab
    u32 particle;  // its species + 1
    u32 slot;
};

struct Listing {
    const u32 *limits;              // [N_SPECIES + 1, 3]: see list_particle
    u64 seed, step, call, replica;  // of the draws; `replica` is the first lattice's
    Candidate *candidates;          // [lists, room], in any order
    u64 *count;                     // [lists]: of all, also of those that `room` has no place for
    u64 room;
};

constexpr u64 TAKEN = 3;  // stream, as those of lattice/place.cc

// Lists a particle in a slot of a numbered site of a lattice, which is number `at` of the launch. `limits` has for its
// species m, how many are to be listed, n, how many there are likely to be, and the number of their list: the m / n with
// the smallest keys are listed, or all if n <= m.
DEVICE void list_particle(const Listing &l, u64 replica, u64 site, u64 at, u32 particle, u32 slot) {
    const u32 *const limits = l.limits + 3 * particle;
    const u32 most = limits[0], there = limits[1], list = limits[2];
    if (!most) return;
    const u64 key = philox_wide(site, (u64)slot | l.call << 8, l.step, replica, l.seed, TAKEN).x0;
    if (MULHI64(key, there) >= most) return;
    const u64 place = atomic_add(l.count + list, 1);
    if (place < l.room) l.candidates[list * l.room + place] = {key, at, particle, slot};
}

// Which candidates are taken out, of lists that have one species each.
struct Taking {
    Listing from;
    const u32
        *numbers;  // [lists, 3]: so many, or all; how many candidates a list needs for that; 0
    i64 lists;
    u64 *state;   // by TakingWord, zeros at first
    u32 *chosen;  // [lists * room]: memory for places in the lists
};

// REFUSED: a list has too few candidates, or no room for them, and nothing is taken out. CHOSEN: how many are.
enum TakingWord { REFUSED = 0, CHOSEN = 1, BLOCKS_DONE = 2 };

constexpr int TAKERS = 256;  // threads of a block that takes them out

// Whether all lists have what is needed. All threads of a block ask, and all blocks.
DEVICE bool lists_serve(const Taking &t, i64 block) {
    bool fails = false;
    for (i64 list = THREAD_ID; list < t.lists; list += BLOCK_THREADS) {
        const u64 found = t.from.count[list];
        fails = fails || found > t.from.room || found < t.numbers[3 * list + 1];
    }
    fails = any_in_block(fails);
    if (fails && THREAD_ID == 0 && block == 0) t.state[REFUSED] = 1;
    return !fails;
}

// Whether the block is the last one to ask, which sees what the others have done.
DEVICE bool is_last_block(const Taking &t, i64 blocks) {
    threadfence();
    BARRIER();
    const bool last =
        any_in_block(THREAD_ID == 0 && atomic_add(t.state + BLOCKS_DONE, 1) == (u64)blocks - 1);
    threadfence();
    return last;
}

// Whether a place in the lists has a candidate with one of the smallest keys.
DEVICE bool is_chosen(const Taking &t, i64 place) {
    const i64 list = place / (i64)t.from.room, found = (i64)t.from.count[list];
    const Candidate *const all = t.from.candidates + list * (i64)t.from.room;
    const i64 at = place - list * (i64)t.from.room;
    if (at >= found) return false;
    const u64 key = all[at].key, site = all[at].site;
    u32 before = 0;
    for (i64 i = 0; i < found; ++i)
        before += all[i].key < key || (all[i].key == key && all[i].site < site);
    return before < t.numbers[3 * list];
}
