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
    const u32 *limits;  // [N_SPECIES + 1, 3]: see list_particle; how many of the species are wanted
    u64 seed, step, call, replica;  // of the draws; `replica` is the first lattice's
    Candidate *candidates;          // [room], in any order
    u64 *count;                     // of all, also of those that `room` has no place for
    u64 room;
    Candidate
        *chosen;  // the wanted ones with the smallest keys, in any order; see choose_candidate
    u64 *chosen_count;  // [2]: of these, and of all that were listed
};

constexpr u64 MOST_RANKED = 1 << 14;  // candidates that a kernel compares with each other

constexpr u64 TAKEN = 3;  // stream, as those of lattice/place.cc

// Lists a particle in a slot of a numbered site of a lattice, which is number `at` of the launch. `limits` has for its
// species m, how many are to be listed, and n, how many there are likely to be: the m / n with the smallest keys are,
// or all if n <= m.
DEVICE void list_particle(const Listing &l, u64 replica, u64 site, u64 at, u32 particle, u32 slot) {
    const u32 most = l.limits[3 * particle], there = l.limits[3 * particle + 1];
    if (!most) return;
    const u64 key = philox_wide(site, (u64)slot | l.call << 8, l.step, replica, l.seed, TAKEN).x0;
    if (MULHI64(key, there) >= most) return;
    const u64 place = atomic_add(l.count, 1);
    if (place < l.room) l.candidates[place] = {key, at, particle, slot};
}

// Copies candidate number i to the chosen ones, if fewer of its species than are wanted have smaller keys.
DEVICE void choose_candidate(const Listing &l, u64 i) {
    const u64 n = l.count[0];
    if (i == 0) l.chosen_count[1] = n;
    if (i >= n || n > l.room || n > MOST_RANKED) return;
    const Candidate own = l.candidates[i];
    u32 before = 0;
    for (u64 k = 0; k < n; ++k) {
        const Candidate &other = l.candidates[k];
        if (other.particle != own.particle) continue;
        before += other.key < own.key || (other.key == own.key && other.site < own.site);
    }
    if (before < l.limits[3 * own.particle + 2]) l.chosen[atomic_add(l.chosen_count, 1)] = own;
}
