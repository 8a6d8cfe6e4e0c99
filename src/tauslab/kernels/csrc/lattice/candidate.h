// Particles that may be taken out of a lattice between two steps. Those with the smallest keys are.
#pragma once

#include "random/philox_wide.h"

struct Candidate {
    u64 key;
    u64 site;      // among those of the launch
    u32 particle;  // its species + 1
    u32 slot;
};

constexpr u64 TAKEN = 3;  // stream, as those of lattice/place.cc

// Of a particle in a slot of a numbered site of a lattice.
template <class Arguments>
DEVICE u64 key_of(const Arguments &a, u64 replica, u64 site, u32 slot) {
    return philox_wide(site, (u64)slot | a.call << 8, a.step, replica, a.seed, TAKEN).x0;
}
