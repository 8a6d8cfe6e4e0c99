// A site: up to SLOTS particles, compacted to the front, and the operations on them.
//
// A particle is its species + 1; 0 is an empty slot. Sites are moved as words and read by slots.
#pragma once

#include "model.h"
#include "device/prelude.h"

constexpr int SITE_WORDS = SLOTS * (int)sizeof(Particle) / 4;
constexpr int SITE_ALIGNMENT = SITE_WORDS < 4 ? 8 : 16;
constexpr int GROUP = 4;  // slots whose hops share a draw
constexpr int GROUPS = SLOTS / GROUP;
constexpr int SLOT_BITS = 8 * (int)sizeof(Particle);
constexpr int PER_WORD = 32 / SLOT_BITS;
constexpr int PAIR_SLOTS =
    2 * PER_WORD;  // of the first two words, which hold most sites' particles
constexpr int FOUR_SLOTS = 4 * PER_WORD;  // of the first four, where a site has so many
constexpr int PACKINGS = 1 << PER_WORD;

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
    constexpr int LOG = SLOT_BITS == 8 ? 3 : 4;
    u32 last = site.word[0];
    int before = 0;
    UNROLL for (int w = 1; w < SITE_WORDS; ++w) {
        before = site.word[w] ? w * PER_WORD : before;
        last = site.word[w] ? site.word[w] : last;
    }
    return before + ((31 + SLOT_BITS - leading_zeros(last)) >> LOG);
}

// Particle `s` of group `g`: of the one or two words that a group takes.
DEVICE u32 particle_of(const u32 *words, int g, int s) {
    constexpr u32 MASK = (Particle)~0u;
    const u32 *group = words + g * (int)sizeof(Particle);
    const u32 word = sizeof(Particle) == 1 || s < PER_WORD ? group[0] : group[sizeof(Particle) - 1];
    return word >> (s % PER_WORD * SLOT_BITS) & MASK;
}

// Which slots leave for the site below and above along an axis, a bit each.
struct Moves {
    u32 minus, plus;
};

// The same as it is stored.
struct alignas(2 * sizeof(SlotBits)) SlotMoves {
    SlotBits minus, plus;
};

// How the slots of a word split along an axis: selectors, as in `packing` below, of the slots that leave to
// either side and of those that stay. Empty slots stay, as zeros behind the others. `left` is by how many bits
// less the filled slots take that stay, a number below 0 or 0.
struct alignas(16) SlotSelectors {
    u32 minus, plus, stayed;
    i32 left;
};

// A GPU selects bytes with one instruction, so slots of a site's first two words are moved together.
// `packing` has an entry for every set of a word's slots:
//
//     bit 31            16 15            0
//         | bits they take |  selector   |     SELECT_BYTES(word, 0, entry) brings them to the front
//
// A selector has a nibble for each byte of the result: 0 to 3 take a byte of the word, 4 takes a zero byte.
// For slots 1 and 3 of four it is 0x4431. A block keeps the table in shared memory.
#ifdef SELECT_BYTES

DEVICE u32 packing_of(u32 set) {
    u32 selector = 0x4444, nibble = 0;
    for (int b = 0; b < 4; ++b) {
        if (!(set >> (b / (int)sizeof(Particle)) & 1)) continue;
        selector ^= (4u ^ (u32)b) << nibble;
        nibble += 4;
    }
    return selector | nibble << 17;
}

DEVICE SlotSelectors selectors_of(u32 minus, u32 plus, const u32 *packing) {
    constexpr u32 ALL = PACKINGS - 1;
    const u32 below = packing[minus & ALL], above = packing[plus & ALL];
    return {below, above, packing[~(minus | plus) & ALL], -(i32)((below + above) >> 16)};
}

// Particles of up to two words, and how many bits they take.
struct Packed {
    u64 particles;
    u32 bits;
};

// The given slots of two words of a site, the first ones by default, without gaps.
DEVICE Packed packed(const Site &from, u32 slots, const u32 *packing, int word = 0) {
    const u32 low = packing[slots % PACKINGS], high = packing[slots / PACKINGS];
    const u64 after = SELECT_BYTES(from.word[word + 1], 0, high);
    return {SELECT_BYTES(from.word[word], 0, low) | after << (low >> 16), (low + high) >> 16};
}

// Whether slots lie in the first two words.
DEVICE bool in_pair(u32 slots) {
    return slots < 1u << PAIR_SLOTS;
}

// Whether a site has no particles beyond its first two words. The third word would tell. But the register of
// a word that is being loaded must be read, or its next use waits for the load.
DEVICE bool is_pair(const Site &site) {
    return SITE_WORDS == 2 || (site.word[2 % SITE_WORDS] | site.word[3 % SITE_WORDS]) == 0;
}

// The filled slots of such a site.
DEVICE u32 slots_of_pair(const Site &site) {
    constexpr int LOG = SLOT_BITS == 8 ? 3 : 4;
    const u32 last = site.word[1] ? site.word[1] : site.word[0];
    const int n = (31 + SLOT_BITS - leading_zeros(last)) >> LOG;
    return low_bits(site.word[1] ? n + PER_WORD : n);
}

// Behind what takes `bits`; nothing can be put behind 64.
DEVICE u64 put_behind(u32 bits, const Packed &more) {
    return more.particles << (bits & 63);
}

// Whether slots lie in the first four words of a site that has so many.
DEVICE bool in_four(u32 slots) {
    return SITE_WORDS >= 4 && (FOUR_SLOTS >= 32 || slots >> (FOUR_SLOTS & 31) == 0);
}

// Particles of up to four words.
struct FourWords {
    u64 low, high;
    u32 bits;

    DEVICE_MEMBER void put(const Packed &more) {
        const u32 shift = bits & 63;
        const u64 first = more.particles << shift;
        if (bits < 64) {
            low |= first;
            high |= shift ? more.particles >> (64 - shift) : 0;
        } else {
            high |= first;
        }
        bits += more.bits;
    }

    // The given slots, if all fit.
    DEVICE_MEMBER void put(const Site &from, u32 slots, const u32 *packing) {
        constexpr int SECOND = SITE_WORDS >= 4 ? 2 : 0;
        put(packed(from, slots & ((1u << PAIR_SLOTS) - 1), packing));
        put(packed(from, slots >> PAIR_SLOTS, packing, SECOND));
    }

    DEVICE_MEMBER int store(Site &to) const {
        to.word[0] = (u32)low;
        to.word[1] = (u32)(low >> 32);
        to.word[2 % SITE_WORDS] = (u32)high;
        to.word[3 % SITE_WORDS] = (u32)(high >> 32);
        return (int)bits / SLOT_BITS;
    }
};

DEVICE u64 two_words(const Site &site, int word) {
    return site.word[word % SITE_WORDS] | (u64)site.word[(word + 1) % SITE_WORDS] << 32;
}

#endif

// Removes the particles of `leaving`, and moves the others to the front; returns how many stay.
DEVICE int take_out(Site &site, u32 leaving, const u32 *packing) {
    const int n = particles_in(site);
#ifdef SELECT_BYTES
    if (LIKELY(n <= PAIR_SLOTS)) {
        const Packed staying = packed(site, low_bits(n) & ~leaving, packing);
        site.word[0] = (u32)staying.particles;
        site.word[1] = (u32)(staying.particles >> 32);
        return (int)staying.bits / SLOT_BITS;
    }
    if (SITE_WORDS >= 4 && n <= FOUR_SLOTS) {
        FourWords staying = {0, 0, 0};
        staying.put(site, low_bits(n) & ~leaving, packing);
        return staying.store(site);
    }
#else
    static_cast<void>(packing);
#endif
    const int after = n - popc(leaving);
    NO_UNROLL while (leaving) {
        const int slot = 31 - leading_zeros(leaving);
        leaving ^= 1u << slot;
        UNROLL for (int w = 0; w < SITE_WORDS; ++w) {
            const int before = slot * SLOT_BITS - w * 32;
            const u32 kept = low_bits(before > 0 ? before : 0);
            const u32 next = w + 1 < SITE_WORDS ? site.word[w + 1] : 0;
            const u32 moved = site.word[w] >> SLOT_BITS | next << (32 - SLOT_BITS);
            site.word[w] = (site.word[w] & kept) | (moved & ~kept);
        }
    }
    return after;
}

// Appends the particles of `from` whose bits are set. `n` counts also those beyond the last slot,
// which go to `spill(particle, number)`, the first such particle of the pass being number 0.
template <class Spill>
DEVICE void append(Site &to, int &n, const Site &from, u32 coming, const u32 *packing,
                   const Spill &spill) {
#ifdef SELECT_BYTES
    if (LIKELY(n + popc(coming) <= PAIR_SLOTS && in_pair(coming))) {
        const Packed more = packed(from, coming, packing);
        const u64 moved = put_behind((u32)(n * SLOT_BITS), more);
        to.word[0] |= (u32)moved;
        to.word[1] |= (u32)(moved >> 32);
        n += (int)more.bits / SLOT_BITS;
        return;
    }
    if (in_four(coming) && n + popc(coming) <= FOUR_SLOTS) {
        FourWords all = {two_words(to, 0), two_words(to, 2), (u32)(n * SLOT_BITS)};
        all.put(from, coming, packing);
        n = all.store(to);
        return;
    }
#else
    static_cast<void>(packing);
#endif
    Slot *slots = slots_of(to);
    const Slot *coming_from = slots_of(from);
    NO_UNROLL for (; coming; coming &= coming - 1, ++n) {
        const Particle particle = coming_from[lowest_bit(coming)];
        if (n < SLOTS)
            slots[n] = particle;
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
