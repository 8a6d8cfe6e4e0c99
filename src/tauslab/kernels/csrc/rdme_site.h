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
    constexpr int BITS = 8 * (int)sizeof(Particle), PER_WORD = 32 / BITS, LOG = BITS == 8 ? 3 : 4;
    u32 last = site.word[0];
    int before = 0;
    UNROLL for (int w = 1; w < SITE_WORDS; ++w) {
        before = site.word[w] ? w * PER_WORD : before;
        last = site.word[w] ? site.word[w] : last;
    }
    return before + ((31 + BITS - leading_zeros(last)) >> LOG);
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

// As they are kept.
struct alignas(2 * sizeof(SlotBits)) SlotMoves {
    SlotBits minus, plus;
};

// Takes the particles of `leaving` out; the others close ranks.
DEVICE void take_out(Site &site, u32 leaving) {
    constexpr int BITS = 8 * (int)sizeof(Particle);
    NO_UNROLL while (leaving) {
        const int slot = 31 - leading_zeros(leaving);
        leaving ^= 1u << slot;
        UNROLL for (int w = 0; w < SITE_WORDS; ++w) {
            const int before = slot * BITS - w * 32;
            const u32 kept = low_bits(before > 0 ? before : 0);
            const u32 next = w + 1 < SITE_WORDS ? site.word[w + 1] : 0;
            const u32 moved = site.word[w] >> BITS | next << (32 - BITS);
            site.word[w] = (site.word[w] & kept) | (moved & ~kept);
        }
    }
}

// Appends the particles of `from` whose bits are set. `n` counts also those beyond the last slot,
// which go to `spill(particle, number)`, the first such particle of the pass being number 0.
template <class Spill>
DEVICE void append(Slot *to, int &n, const Slot *from, u32 coming, const Spill &spill) {
    NO_UNROLL for (; coming; coming &= coming - 1, ++n) {
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
    NO_UNROLL while (slots[s] != particle) ++s;
    NO_UNROLL for (; s + 1 < n; ++s) slots[s] = slots[s + 1];
    slots[--n] = 0;
}
