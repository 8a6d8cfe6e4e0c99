// Which particles of a site hop along an axis, and which come in through a face.
//
// A particle hops to one side with probability T / 2^64: to the minus side if 64 random bits u are
// below T, to the plus side if ~u is. No T reaches 2^63, so that the first bit tells to which side
// it may hop. 16 bits decide unless they equal those of the threshold; then 48 more are drawn.
#pragma once

#include "lattice/site/waiting.h"

constexpr int WALL = N_TYPES * N_TYPES;  // a row of zeros

// Rows of the thresholds towards both sides, ROW numbers each.
struct Sides {
    int minus, plus;
};

DEVICE int hop_row(int from, int to) {
    return from * N_TYPES + to;
}

// The row through a face; for periodic ones the caller knows the site behind.
DEVICE int face_row(int face, int type) {
    const bool open = face_kind(face) == ABSORBING || face_kind(face) == HELD;
    return open ? hop_row(type, ghost_type(face)) : WALL;
}

// 64 bits, 16 for each slot of a group.
DEVICE u64 hop_bits(const LatticeStream &s, u64 site, int group, int axis) {
    const Philox4 x = lattice_draw(s, site, axis == 2 ? PURPOSE_Z : PURPOSE_XY, (u32)group, 0);
    return axis == 1 ? joined(x.x2, x.x3) : joined(x.x0, x.x1);
}

// The 48 bits that follow those of a group. Asked for once in 32,768 decisions.
DEVICE_SHARED u64 more_bits(u32 k0, u32 k1, u32 c2, u32 c3, u64 site, u32 slot, u32 axis) {
    const u32 c1 = lattice_c1((u32)(site >> 32), PURPOSE_HOP_REST, slot, axis);
    const Philox4 x = philox4x32_10((u32)site, c1, c2, c3, k0, k1);
    return joined(x.x0, x.x1) >> 16;
}

// Whether a particle hops to the side that the first of its bits tells.
DEVICE bool hops_by_all_bits(const Lattice &l, const LatticeStream &s, u64 site, int axis, int slot,
                             u32 first, u32 particle, Sides sides) {
    const u64 rest = more_bits(s.keys.k0[0], s.keys.k1[0], s.c2, s.c3, site, (u32)slot, (u32)axis);
    const u64 u = (u64)first << 48 | rest;
    return u >> 63 ? ~u < l.hop[sides.plus * ROW + (int)particle]
                   : u < l.hop[sides.minus * ROW + (int)particle];
}

#ifdef SELECT_BYTES

// SIMD within a register: a 32-bit word has two 16-bit lanes, one for each of two slots.
//
//     bit 31            16 15             0
//         |   slot i + 1   |    slot i    |     random bits, thresholds or differences, 16 bits each
//     FIRST_BITS    0x8000       0x8000         the highest bit of each lane
constexpr u32 FIRST_BITS = 0x80008000;
// A selector for SELECT_BYTES. A nibble with its bit 3 set copies the sign of a byte into all its eight bits.
// The nibbles 9, b, d, f name the upper bytes of the four lanes of two words, so each slot gets a byte:
//
//     result     [ 0xff or 0 | 0xff or 0 | 0xff or 0 | 0xff or 0 ]
//     sign of       slot 3      slot 2      slot 1      slot 0
constexpr u32 SIGNS = 0xfdb9;
constexpr u32 SIGNS_OF_16 = 0xbb99;  // the same of one word, each for both bytes of its lane

// The hops of the four slots of a group, a byte of ones or zeros for each: whether its particle stays, and
// whether its random bits point upward.
struct GroupHops {
    u32 stays, upward;
};

// The upper 16 bits of the thresholds of a group: `low` of slots 0 and 1, `high` of slots 2 and 3.
struct GroupLevels {
    u32 low, high;
};

DEVICE GroupLevels levels_of(const Lattice &l, const u32 *words, int g, int row) {
    if (FEW_KINDS) {
        // A particle is below 8, so it is a nibble that selects one of eight bytes. The multiplication
        // brings the nibbles of slots 1, 0, 3, 2 together.
        const u32 kinds = SELECT_BYTES(words[g] * 0x1001u, 0, 0x4431);
        const Levels of = l.block->levels[row];
        const u32 lower = SELECT_BYTES(of.low[0], of.low[1], kinds);
        const u32 upper = SELECT_BYTES(of.high[0], of.high[1], kinds);
        return {SELECT_BYTES(lower, upper, 0x4051), SELECT_BYTES(lower, upper, 0x6273)};
    }
    const u16 *levels = l.hop_high + row * ROW;
    return {levels[particle_of(words, g, 0)] | (u32)levels[particle_of(words, g, 1)] << 16,
            levels[particle_of(words, g, 2)] | (u32)levels[particle_of(words, g, 3)] << 16};
}

// By how much random bits exceed the thresholds, plus 0x8000, in each lane. The first random bit chooses the
// side: bits that point upward are inverted. The subtraction never borrows from the next lane, because
// the highest bit of each lane is set before. The highest bit of a lane is 0 if its particle hops.
DEVICE u32 excess(u32 bits, u32 upward, u32 minus, u32 plus) {
    return ((bits ^ upward) | FIRST_BITS) - (minus ^ ((minus ^ plus) & upward));
}

DEVICE_SHARED GroupHops hops_of(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                                const u32 *words, int g, u64 bits, Sides sides) {
    const u32 first = (u32)bits, last = (u32)(bits >> 32);
    const GroupLevels minus = levels_of(l, words, g, sides.minus);
    const bool same = N_TYPES == 1 && face_kind(4 - 2 * axis) == PERIODIC;
    const GroupLevels plus = same ? minus : levels_of(l, words, g, sides.plus);
    const u32 upward = SELECT_BYTES(first, last, SIGNS);
    const u32 low = excess(first, SELECT_BYTES(first, 0, SIGNS_OF_16), minus.low, plus.low);
    const u32 high = excess(last, SELECT_BYTES(last, 0, SIGNS_OF_16), minus.high, plus.high);
    GroupHops hops = {SELECT_BYTES(low, high, SIGNS), upward};
    // A lane is 0x8000 where random bits equal the threshold. `has_least_of_16` may be wrong the other way.
    if (LIKELY(!has_least_of_16(low, high))) return hops;
    NO_UNROLL for (int i = 0; i < GROUP; ++i) {
        if (((i < 2 ? low : high) >> i % 2 * 16 & 0xffff) != 0x8000) continue;
        if (hops_by_all_bits(l, s, site, axis, g * GROUP + i, (u32)(bits >> 16 * i) & 0xffff,
                             particle_of(words, g, i), sides))
            hops.stays &= ~(0xffu << 8 * i);
    }
    return hops;
}

// Makes a bit of each byte: 1 for ones, 0 for zeros. The bytes are -1 or 0, so the dot product is negative.
DEVICE u32 set_of(u32 bytes) {
    return (u32)-dot_bytes(bytes, 0x08040201);
}

DEVICE Moves moves_of(GroupHops hops) {
    return {set_of(~hops.stays & ~hops.upward), set_of(~hops.stays & hops.upward)};
}

DEVICE void decide_group(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                         const u32 *words, int g, u64 bits, Sides sides, Moves &moves) {
    const Moves more = moves_of(hops_of(l, s, site, axis, words, g, bits, sides));
    moves.minus |= more.minus << (g * GROUP);
    moves.plus |= more.plus << (g * GROUP);
}

#else

DEVICE_SHARED void decide_group(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                                const u32 *words, int g, u64 bits, Sides sides, Moves &moves) {
    const u16 *minus_levels = l.hop_high + sides.minus * ROW;
    const u16 *plus_levels = l.hop_high + sides.plus * ROW;
    // The signs of the differences tell who hops. If the least one is 0, 16 bits do not decide.
    u32 minus = 0, plus = 0, least = ~0u;
    UNROLL for (int i = GROUP - 1; i >= 0; --i) {
        const u32 particle = particle_of(words, g, i);
        const u32 high = (u32)(bits >> 16 * i) & 0xffffu;
        const u32 below = high - minus_levels[particle];
        const u32 above = 0xffffu - high - plus_levels[particle];
        minus = minus << 1 | below >> 31;
        plus = plus << 1 | above >> 31;
        least = below < least ? below : least;
        least = above < least ? above : least;
    }
    moves.minus |= minus << (g * GROUP);
    moves.plus |= plus << (g * GROUP);
    if (LIKELY(least)) return;
    NO_UNROLL for (int i = 0; i < GROUP; ++i) {
        const u32 particle = particle_of(words, g, i), high = (u32)(bits >> 16 * i) & 0xffffu;
        if (high != minus_levels[particle] && (high ^ 0xffffu) != plus_levels[particle]) continue;
        if (hops_by_all_bits(l, s, site, axis, g * GROUP + i, high, particle, sides))
            (high >> 15 ? moves.plus : moves.minus) |= 1u << (g * GROUP + i);
    }
}

#endif

// The slots of group 0, with its bits.
DEVICE Moves decide_first(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                          const Site &content, u64 bits, Sides sides) {
    Moves moves = {0, 0};
    if (!is_empty(content))
        decide_group(l, s, site, axis, content.word, 0, bits, sides, moves);
    return moves;
}

DEVICE bool has_more_groups(const Site &content) {
    return GROUPS > 1 && particle_of(content.word, 1 % GROUPS, 0);
}

// The slots of the other groups.
DEVICE void decide_more(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                        const Site &content, Sides sides, Moves &moves) {
    NO_UNROLL for (int g = 1; g < GROUPS && particle_of(content.word, g, 0); ++g)
        decide_group(l, s, site, axis, content.word, g, hop_bits(s, site, g, axis), sides, moves);
}

// All slots of a site; `first` are the bits of group 0.
DEVICE Moves decide(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                    const Site &content, u64 first, Sides sides) {
    Moves moves = decide_first(l, s, site, axis, content, first, sides);
    decide_more(l, s, site, axis, content, sides, moves);
    return moves;
}

// Number of particles of `species` that hop into a site from a ghost site: Poisson, by inversion.
DEVICE int ghost_draw(const Lattice &l, const LatticeStream &s, u64 site, int face, int species,
                      i32 row) {
    const u32 code = (u32)species * 6 + (u32)face;
    const Philox4 x = lattice_draw(s, site, PURPOSE_GHOSTS, code & 0x3f, code >> 6);
    const u64 u = joined(x.x0, x.x1);
    int n = 0;
    while (u >= l.ghosts[row + n] && l.ghosts[row + n] != ~0ull) ++n;
    return n;
}

// Appends the particles that enter through a face with a fixed concentration.
template <class Spill>
DEVICE_SHARED void append_ghosts(const Lattice &l, const LatticeStream &s, u64 site, int face, int type,
                          Slot *slots, int &n, const Spill &spill) {
    for (int species = 0; species < N_SPECIES; ++species) {
        const i32 row = l.ghost_rows[(face * N_TYPES + type) * N_SPECIES + species];
        const int coming = row < 0 ? 0 : ghost_draw(l, s, site, face, species, row);
        for (int i = 0; i < coming; ++i, ++n)
            if (n < SLOTS)
                slots[n] = (Particle)(species + 1);
            else
                spill((u32)species + 1, (u32)(n - SLOTS));
    }
}
