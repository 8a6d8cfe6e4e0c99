// A site in the registers of a lane: what stays in it, and what leaves it along an axis.
//
// Slots are packed: a 32-bit word has four slots of a byte (up to 255 species) or two of 16 bits.
//
//     word[0]   bit 31 [slot 3 | slot 2 | slot 1 | slot 0] bit 0      0 is an empty slot,
//     word[1]          [slot 7 | slot 6 | slot 5 | slot 4]            filled slots come first
//
// An example with four slots A B C D, of which B leaves to the minus side and D to the plus side:
//
//     word          [ D  C  B  A ]
//     minus         [ .  .  .  B ]   SELECT_BYTES moves the chosen bytes to the front;
//     plus          [ .  .  .  D ]   the selectors of each choice come from a table
//     stayed        [ .  .  C  A ]
//
// A warp moves sites of up to PAIR_SLOTS particles (two words) in this way, if at most a word's
// particles hop to either side. There is no loop. A table gives the selectors, a shift puts one word
// behind another, and the highest set bit of a word tells where its particles end.
#pragma once

#include "lattice/plane.h"

#if defined(LANES_SIDE_BY_SIDE) && (SITES_IN_REGISTERS || defined(IN_LINES))
#define WARP_TILES 1

constexpr int WARP_LANES = 32;  // lanes of a warp; a warp tile has as many sites along x
constexpr int PAIR_GROUPS = PAIR_SLOTS / GROUP;
constexpr u32 MANY = ~0u;  // instead of a word of particles: they do not fit, read the site

// The given slots of a site's first two words, packed into one word; MANY if they do not fit.
DEVICE u32 packed_word(const Site &site, u32 slots, const u32 *packing) {
    const Packed found = packed(site, slots, packing);
    return found.bits > 32 ? MANY : (u32)found.particles;
}

// How many bits the particles of a word take. There are no gaps between them.
DEVICE u32 used_bits(u32 particles) {
    return (u32)(highest_bit(particles) + SLOT_BITS) & ~(SLOT_BITS - 1u);
}

DEVICE Moves unpacked(u32 moves) {
    return {moves & 0xffff, moves >> 16};
}

// The selectors for a word of four slots. Flags are minus one or zero, so the dot product counts them
// backwards. Most lanes read the entry of a word that nothing leaves; lanes that read other entries
// wait for each other.
DEVICE SlotSelectors selectors_of(const Lattice &l, GroupHops hops) {
    constexpr u32 SIZES = 0x80402010;  // of an entry times 1, 2, 4, 8
    const i32 at = dot_bytes(hops.stays, SIZES) + 16 * dot_bytes(hops.upward & ~hops.stays, SIZES);
    return *(const SlotSelectors *)((const u8 *)(l.block->selectors + SELECTORS - 1) + at);
}

// A site of up to PAIR_SLOTS particles, split along an axis: what leaves to either side, without gaps,
// and what stays. `minus` and `plus` are MANY if the site or what leaves it needs more words.
struct SplitSite {
    u32 minus, plus;
    u64 stayed;
    u32 bits;   // how many bits `stayed` takes
    u32 moves;  // as in SlotSelectors::moves
};

DEVICE SplitSite split_word(u32 word, const SlotSelectors &hops) {
    const u32 stayed = SELECT_BYTES(word, 0, hops.stayed);
    return {SELECT_BYTES(word, 0, hops.minus), SELECT_BYTES(word, 0, hops.plus), stayed,
            used_bits(stayed), hops.moves};
}

// Adds the second word. If it is not empty, all slots of the first word are filled.
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

// Joins what stayed and what came from both sides; returns how many bits it takes.
DEVICE u32 join_slots(u64 stayed, u32 bits, u32 from_below, u32 from_above, u64 &to) {
    const u32 two = bits + used_bits(from_below);
    to = stayed | shift_left(from_below, bits) | shift_left(from_above, two);
    return two + used_bits(from_above);
}

// Whether `join_slots` gave the whole site: all three parts were known, and two words are enough.
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

// Decides which particles of a site's first two words hop, and splits the site. `first` has the random
// bits of group 0, `second` draws those of group 1. `more` tells whether any site of the warp has
// particles in its second word.
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
