// Which particles of a site hop along an axis, and which come in through a face.
//
// A particle hops to one side with probability T / 2^64: to the minus side if 64 random bits u are
// below T, to the plus side if ~u is. 16 bits decide unless they equal those of a threshold; then
// 48 more are drawn.
#pragma once

#include "rdme_spill.h"

constexpr int WALL = N_TYPES * N_TYPES * ROW;  // a row of zeros

// Rows of the thresholds towards both sides.
struct Sides {
    int minus, plus;
};

DEVICE int hop_row(int from, int to) {
    return (from * N_TYPES + to) * ROW;
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

// One slot, with all 64 bits.
DEVICE void decide_exactly(const Lattice &l, const LatticeStream &s, u64 site, int axis, int slot,
                           u64 high, int below, int above, Moves &moves) {
    const u64 u =
        high << 48 | more_bits(s.keys.k0[0], s.keys.k1[0], s.c2, s.c3, site, (u32)slot, (u32)axis);
    const u32 bit = 1u << slot;
    moves.minus = (moves.minus & ~bit) | (u < l.hop[below] ? bit : 0);
    moves.plus = (moves.plus & ~bit) | (~u < l.hop[above] ? bit : 0);
}

DEVICE_SHARED void decide_group(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                                const u32 *words, int g, u64 bits, Sides sides, Moves &moves) {
    // Differences whose signs tell who hops; the least, if 0, that 16 bits do not.
    u32 minus = 0, plus = 0, least = ~0u;
    UNROLL for (int i = GROUP - 1; i >= 0; --i) {
        const int particle = (int)particle_of(words, g, i);
        const u32 high = (u32)(bits >> 16 * i) & 0xffffu;
        const u32 below = high - l.hop_high[sides.minus + particle];
        const u32 above = 0xffffu - high - l.hop_high[sides.plus + particle];
        minus = minus << 1 | below >> 31;
        plus = plus << 1 | above >> 31;
        least = below < least ? below : least;
        least = above < least ? above : least;
    }
    moves.minus |= minus << (g * GROUP);
    moves.plus |= plus << (g * GROUP);
    if (LIKELY(least)) return;
    NO_UNROLL for (int i = 0; i < GROUP; ++i) {
        const int particle = (int)particle_of(words, g, i);
        const int below = sides.minus + particle, above = sides.plus + particle;
        const u64 high = bits >> 16 * i & 0xffffu;
        if (high == l.hop_high[below] || (high ^ 0xffffu) == l.hop_high[above])
            decide_exactly(l, s, site, axis, g * GROUP + i, high, below, above, moves);
    }
}

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

// Appends what comes in through a face that is held at a concentration.
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
