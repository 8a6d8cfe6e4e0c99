// A site: up to SLOTS particles, compacted to the front, and the operations on them.
//
// A particle is its species + 1; 0 is an empty slot. Sites are moved as words and read by slots.
#pragma once

#include "model.h"
#include "prelude.h"

constexpr int SITE_WORDS = SLOTS * (int)sizeof(Particle) / 4;
constexpr int SITE_ALIGNMENT = SITE_WORDS < 4 ? 8 : 16;
constexpr int GROUP = 4;  // slots whose hops share a draw
constexpr int GROUPS = SLOTS / GROUP;

typedef Particle MAY_ALIAS Slot;

struct alignas(SITE_ALIGNMENT) Site {
    u32 word[SITE_WORDS];
};

DEVICE Slot *slots_of(Site &site) {
    return (Slot *)site.word;
}

DEVICE const Slot *slots_of(const Site &site) {
    return (const Slot *)site.word;
}

DEVICE bool is_empty(const Site &site) {
    return (Particle)site.word[0] == 0;
}

DEVICE void make_empty(Site &site) {
    UNROLL for (int w = 0; w < SITE_WORDS; ++w) site.word[w] = 0;
}

DEVICE int particles_in(const Site &site) {
    constexpr int BITS = 8 * (int)sizeof(Particle), LOG = BITS == 8 ? 3 : 4;
    int n = 0;
    UNROLL for (int w = 0; w < SITE_WORDS; ++w)
        n += (31 + BITS - leading_zeros(site.word[w])) >> LOG;
    return n;
}

// Particle `s` of group `g`. For s known at compile time: a shift of a word.
DEVICE u32 particle_of(const u32 *words, int g, int s) {
    constexpr u32 MASK = (Particle)~0u;
    constexpr int PER_WORD = 4 / (int)sizeof(Particle);
    const u32 word = words[g * (int)sizeof(Particle) + s / PER_WORD];
    return word >> (s % PER_WORD * 8 * (int)sizeof(Particle)) & MASK;
}

// Which slots leave for the site below and above along an axis, a bit each.
struct Moves {
    u32 minus, plus;
};

// Takes the particles of `leaving` out of a site that holds `n`; returns how many stay.
DEVICE int remove_slots(Slot *slots, int n, u32 leaving) {
    if (!leaving) return n;
    int kept = lowest_bit(leaving);
    for (int s = kept + 1; s < n; ++s)
        if (!(leaving >> s & 1u)) slots[kept++] = slots[s];
    for (int s = kept; s < n; ++s) slots[s] = 0;
    return kept;
}

// Appends the particles of `from` whose bits are set. `n` counts also those beyond the last slot,
// which go to `spill(particle, number)`, the first such particle of the pass being number 0.
template <class Spill>
DEVICE void append(Slot *to, int &n, const Slot *from, u32 coming, const Spill &spill) {
    for (; coming; coming &= coming - 1, ++n) {
        const Particle particle = from[lowest_bit(coming)];
        if (n < SLOTS)
            to[n] = particle;
        else
            spill(particle, (u32)(n - SLOTS));
    }
}

// Removes the first particle of a kind; there is one.
DEVICE void remove_first(Slot *slots, int &n, u32 particle) {
    int s = 0;
    while (slots[s] != particle) ++s;
    for (; s + 1 < n; ++s) slots[s] = slots[s + 1];
    slots[--n] = 0;
}
