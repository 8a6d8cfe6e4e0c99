// A site in a lane's registers: what stays in it and what leaves it along an axis, a word to a side.
//
// Sites of up to PAIR_SLOTS particles, of which no more than a word's hop to a side, are moved in
// registers. Nothing is looped over: a table tells how the four slots of a word part, shifts put
// words behind each other, and the highest bit of a word tells where its particles end.
#pragma once

#include "lattice/plane.h"

#if defined(LANES_SIDE_BY_SIDE) && STRIPS
#define WARP_TILES 1

constexpr int WARP_LANES = 32;  // lanes of a warp, and sites of a tile along x
constexpr int PAIR_GROUPS = PAIR_SLOTS / GROUP;
constexpr u32 MANY = ~0u;  // in place of a word of particles: see the site itself

// The given slots of a site's first two words, where they fit into one.
DEVICE u32 packed_word(const Site &site, u32 slots, const u32 *packing) {
    const Packed found = packed(site, slots, packing);
    return found.bits > 32 ? MANY : (u32)found.particles;
}

// Bits that the particles of a word take; there are no gaps.
DEVICE u32 used_bits(u32 particles) {
    return (u32)(highest_bit(particles) + SLOT_BITS) & ~(SLOT_BITS - 1u);
}

DEVICE Moves unpacked(u32 moves) {
    return {moves & 0xffff, moves >> 16};
}

// How a word of four slots parts. Flags are minus one or zero, and so are counted backwards. Most
// lanes look up the same entry, that of nobody who leaves: lanes that want others wait for each
// other.
DEVICE SlotSelectors selectors_of(const Lattice &l, GroupHops hops) {
    constexpr u32 SIZES = 0x80402010;  // of an entry times 1, 2, 4, 8
    const i32 at = dot_bytes(hops.stays, SIZES) + 16 * dot_bytes(hops.upward & ~hops.stays, SIZES);
    return *(const SlotSelectors *)((const u8 *)(l.block->selectors + SELECTORS - 1) + at);
}

// What leaves a site of up to PAIR_SLOTS particles, each side without gaps, and what stays. MANY
// leave to either side where words are too few for the site or for what leaves it.
struct SplitSite {
    u32 minus, plus;
    u64 stayed;
    u32 bits;   // that `stayed` takes
    u32 moves;  // as in SlotSelectors
};

DEVICE SplitSite split_word(u32 word, const SlotSelectors &hops) {
    const u32 stayed = SELECT_BYTES(word, 0, hops.stayed);
    return {SELECT_BYTES(word, 0, hops.minus), SELECT_BYTES(word, 0, hops.plus), stayed,
            used_bits(stayed), hops.moves};
}

// Adds the second word, in front of which all slots are filled if it is not empty.
DEVICE void split_second_word(const Site &site, const SlotSelectors &first,
                              const SlotSelectors &second, SplitSite &p) {
    const u32 minus = first.minus >> 16, plus = first.plus >> 16, stayed = first.stayed >> 16;
    p.minus |= (u32)shift_left(SELECT_BYTES(site.word[1], 0, second.minus), minus);
    p.plus |= (u32)shift_left(SELECT_BYTES(site.word[1], 0, second.plus), plus);
    const u32 last = SELECT_BYTES(site.word[1], 0, second.stayed);
    p.stayed |= shift_left(last, stayed);
    p.bits = last ? stayed + used_bits(last) : p.bits;
    p.moves |= second.moves << PER_WORD;
    if (minus + (second.minus >> 16) > 32 || plus + (second.plus >> 16) > 32 || !is_pair(site))
        p.minus = p.plus = MANY;
}

// Puts together what stayed and what came; the bits of all.
DEVICE u32 join_slots(u64 stayed, u32 bits, u32 from_below, u32 from_above, u64 &to) {
    const u32 two = bits + used_bits(from_below);
    to = stayed | shift_left(from_below, bits) | shift_left(from_above, two);
    return two + used_bits(from_above);
}

// Whether this is right: not so if more is to be known of any site, or a pair is too small.
DEVICE bool is_complete(u32 bits, u32 own, u32 from_below, u32 from_above) {
    return bits <= 64 && own != MANY && from_below != MANY && from_above != MANY;
}

DEVICE void make_pair(Site &site, u64 particles) {
    make_empty(site);
    site.word[0] = (u32)particles;
    site.word[1] = (u32)(particles >> 32);
}

DEVICE bool any_in_warp(bool condition) {
    return LANES_BALLOT(WARP_LANES, condition) != 0;
}

// Who hops of a site's first two words. `first` are the bits of group 0, `second` has those of 1.
// `more`: whether any site of the warp has particles in the second word.
template <class Second>
DEVICE SplitSite decide_and_split(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                                  const Site &content, u64 first, bool more, Second &second,
                                  Sides sides) {
    const GroupHops hops = hops_of(l, s, site, axis, content.word, 0, first, sides);
    if (PAIR_GROUPS == 1) {
        const Moves moves = moves_of(hops);
        const SlotSelectors low = selectors_of(moves.minus, moves.plus, l.packing);
        SplitSite split_site = split_word(content.word[0], low);
        if (more)
            split_second_word(
                content, low,
                selectors_of(moves.minus >> PER_WORD, moves.plus >> PER_WORD, l.packing),
                split_site);
        return split_site;
    }
    const SlotSelectors low = selectors_of(l, hops);
    SplitSite split_site = split_word(content.word[0], low);
    if (more)
        split_second_word(content, low,
                          selectors_of(l, hops_of(l, s, site, axis, content.word, 1,
                                                  second.bits(s, site, axis), sides)),
                          split_site);
    return split_site;
}

#endif
