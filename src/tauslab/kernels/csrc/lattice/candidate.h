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
    const u32 *limits;              // [N_SPECIES + 1, 2]: see list_particle
    u64 seed, step, call, replica;  // of the draws; `replica` is the first lattice's
    Candidate *candidates;          // [room], in any order
    u64 *count;                     // of all, also of those that `room` has no place for
    u64 room;
};

constexpr u64 TAKEN = 3;  // stream, as those of lattice/place.cc

// Lists a particle in a slot of a numbered site of a lattice, which is number `at` of the launch. `limits` has for its
// species m, how many are to be listed, and n, how many there are likely to be: the m / n with the smallest keys are,
// or all if n <= m.
DEVICE void list_particle(const Listing &l, u64 replica, u64 site, u64 at, u32 particle, u32 slot) {
    const u32 most = l.limits[2 * particle], there = l.limits[2 * particle + 1];
    if (!most) return;
    const u64 key = philox_wide(site, (u64)slot | l.call << 8, l.step, replica, l.seed, TAKEN).x0;
    if (MULHI64(key, there) >= most) return;
    const u64 place = atomic_add(l.count, 1);
    if (place < l.room) l.candidates[place] = {key, at, particle, slot};
}
