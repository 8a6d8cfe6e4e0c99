// A site of up to eight particles in the registers of a lane: what stays in it, and what leaves it along an axis.
//
// Particles are packed without gaps, the first in the lowest bits, as in lattice/registers.h. Those of a byte take
// two words of 32 bits, those of 16 bits four.
//
//     Held     up to eight particles: a site, or what stays in it
//     Part     up to four: what hops to one side; MANY_PART where there are more, or where the site has more than eight
#pragma once

#include "lattice/registers.h"

constexpr bool OF_BYTES = sizeof(Particle) == 1;
constexpr int HELD_SLOTS = 2 * GROUP;
constexpr int HELD_WORDS = HELD_SLOTS / PER_WORD;
constexpr u32 PART_BITS = GROUP * SLOT_BITS;

template <bool SMALL>
struct PartType {
    typedef u32 type;
};
template <>
struct PartType<false> {
    typedef u64 type;
};
typedef PartType<OF_BYTES>::type Part;
constexpr Part MANY_PART = ~(Part)0;

struct Held {
    u64 low, high;  // `high` of particles of 16 bits only
};

DEVICE u32 used_bits(u64 particles) {
    const u32 high = (u32)(particles >> 32);
    return high ? 32 + used_bits(high) : used_bits((u32)particles);
}

DEVICE Held held_of(const Site &site) {
    return {two_words(site, 0), OF_BYTES ? 0 : two_words(site, 2)};
}

DEVICE void make_site(Site &site, const Held &held) {
    make_empty(site);
    site.word[0] = (u32)held.low;
    site.word[1] = (u32)(held.low >> 32);
    if (OF_BYTES) return;
    site.word[2 % SITE_WORDS] = (u32)held.high;
    site.word[3 % SITE_WORDS] = (u32)(held.high >> 32);
}

// Whether the site has more than eight particles. All its words are read, see is_pair() of lattice/site/site.h.
DEVICE bool has_more(const Site &site) {
    u32 more = 0;
    UNROLL for (int w = HELD_WORDS; w < SITE_WORDS; ++w) more |= site.word[w];
    return more != 0;
}

// Whether it has more than four.
DEVICE bool has_second_group(const Held &held) {
    return OF_BYTES ? held.low >> 32 != 0 : held.high != 0;
}

// Puts particles behind those that take `bits`.
DEVICE void put_behind(Held &held, u32 bits, Part more) {
    held.low |= shift_left(more, bits);
    if (OF_BYTES) return;
    held.high |= bits < 64 ? (u64)more >> 1 >> (63 - bits) : shift_left(more, bits - 64);
}

// The given ones of a site's first eight slots; MANY_PART if there are more than four.
DEVICE Part packed_part(const Site &site, u32 slots, const u32 *packing) {
    if (OF_BYTES) {
        const Packed found = packed(site, slots, packing);
        return found.bits > PART_BITS ? MANY_PART : (Part)found.particles;
    }
    const Packed first = packed(site, slots & 15, packing, 0);
    const Packed second = packed(site, slots >> GROUP, packing, 2 % SITE_WORDS);
    const u64 all = first.particles | shift_left(second.particles, first.bits);
    return first.bits + second.bits > PART_BITS ? MANY_PART : (Part)all;
}

// A site split along an axis. `moves` says which slots leave, to the minus side from bit 0, to the plus side from
// bit 16.
struct Split {
    Part minus, plus;
    Held stayed;
    u32 bits;  // that `stayed` takes
    u32 moves;
};

DEVICE Moves unpacked(u32 moves) {
    return {moves & 0xffff, moves >> 16};
}

// The particles of one group of slots, split; `bits` are those of each.
struct GroupSplit {
    Part minus, plus, stayed;
    u32 minus_bits, plus_bits, moves;
};

template <int G>
DEVICE GroupSplit split_group(const Lattice &l, const Site &site, GroupHops hops) {
    const Moves moves = moves_of(hops);
    if (OF_BYTES) {
        const SlotSelectors of = selectors_of(l, hops);
        const u32 word = site.word[G % SITE_WORDS];
        return {SELECT_BYTES(word, 0, of.minus), SELECT_BYTES(word, 0, of.plus),
                SELECT_BYTES(word, 0, of.stayed), of.minus >> 16, of.plus >> 16,
                moves.minus | moves.plus << 16};
    }
    constexpr int WORD = 2 * G % SITE_WORDS;
    const Packed minus = packed(site, moves.minus, l.packing, WORD);
    const Packed plus = packed(site, moves.plus, l.packing, WORD);
    const Packed stayed = packed(site, ~(moves.minus | moves.plus) & 15, l.packing, WORD);
    return {(Part)minus.particles, (Part)plus.particles, (Part)stayed.particles,
            minus.bits, plus.bits, moves.minus | moves.plus << 16};
}

// Decides which of a site's first eight particles hop. `first` are the random bits of group 0; `second` draws those of
// group 1, which are needed where `more`, the same for all lanes, says that a lane has more than four particles.
template <class Second>
DEVICE Split split_site(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                        const Site &content, u64 first, bool more, Second &second, Sides sides) {
    const GroupSplit low =
        split_group<0>(l, content, hops_of(l, s, site, axis, content.word, 0, first, sides));
    Split split = {low.minus, low.plus, {low.stayed, 0}, used_bits(low.stayed), low.moves};
    if (more) {
        const GroupSplit high = split_group<1>(
            l, content,
            hops_of(l, s, site, axis, content.word, 1, second.bits(s, site, axis), sides));
        split.minus |= (Part)shift_left(high.minus, low.minus_bits);
        split.plus |= (Part)shift_left(high.plus, low.plus_bits);
        put_behind(split.stayed, split.bits, high.stayed);
        const u32 last = used_bits(high.stayed);
        split.bits += last;
        split.moves |= high.moves << GROUP;
        if (low.minus_bits + high.minus_bits > PART_BITS ||
            low.plus_bits + high.plus_bits > PART_BITS)
            split.minus = split.plus = MANY_PART;
    }
    return split;
}

// Joins what stayed and what came from both sides; returns how many bits it takes.
DEVICE u32 join(const Split &own, Part from_below, Part from_above, Held &to) {
    const u32 two = own.bits + used_bits(from_below);
    to = own.stayed;
    put_behind(to, own.bits, from_below);
    put_behind(to, two, from_above);
    return two + used_bits(from_above);
}

// Whether `join` gave the whole site: all three were known, and there are at most eight particles.
DEVICE bool is_whole(u32 bits, Part own, Part from_below, Part from_above) {
    return bits <= 2 * PART_BITS && own != MANY_PART && from_below != MANY_PART &&
           from_above != MANY_PART;
}
