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
// A warp moves sites of two words, or of four where they are fuller, in this way, if at most a word's
// particles hop to either side. There is no loop. A table gives the selectors, a shift puts one word
// behind another, and the highest set bit of a word tells where its particles end. Where registers do not hold
// the answer, the bits that it takes are TOO_MANY or more, and the site is put together again from memory.
#pragma once

#include "lattice/plane.h"

#if defined(LANES_SIDE_BY_SIDE) && WORDS_IN_REGISTERS
#define WARP_TILES 1

constexpr int WARP_LANES = 32;             // lanes of a warp; a warp tile has as many sites along x
constexpr int WORDS = WORDS_IN_REGISTERS;  // of a site: two, or four
constexpr u32 MOST_BITS = 32 * WORDS;      // that its particles may take
constexpr bool WORD_IS_GROUP = PER_WORD == GROUP;  // else two words are

// How many bits the particles of a word take. There are no gaps between them.
DEVICE u32 used_bits(u32 particles) {
    return (u32)(highest_bit_masked<-SLOT_BITS>(particles) + SLOT_BITS);
}

// The selectors for a word of four slots. Of a slot that leaves to the minus side a byte is 1, to the plus side
// -2, else 0. Most lanes read the entry of a word that nothing leaves; lanes that read other entries wait for
// each other.
DEVICE SlotSelectors selectors_of(const Lattice &l, GroupHops hops) {
    constexpr u32 PLACES = 0x40100401;  // 1, 4, 16, 64
    constexpr i32 NONE_LEAVES = 2 + 8 + 32 + 128;
    const i32 at = dot_bytes(~hops.stays & (hops.upward ^ 0x01010101), PLACES);
    const u8 *none = (const u8 *)(l.block->selectors + (SELECTORS > 1 ? NONE_LEAVES : 0));
    return *(const SlotSelectors *)(none + at * (i32)sizeof(SlotSelectors));
}

// Particles of a site, without gaps.
struct Slots {
    u64 part[WORDS / 2];

    // Puts particles of a word behind those that take `bits`; none if these are all that have room.
    DEVICE_MEMBER void put(u32 particles, u32 bits) {
        part[0] |= shift_left(particles, bits);
        if (WORDS == 4)
            part[WORDS / 2 - 1] |=
                shift_left(particles, bits - 64) | shift_right(particles, 64 - bits);
    }

    DEVICE_MEMBER u32 word(int w) const { return (u32)(part[w / 2] >> w % 2 * 32); }
};

// A site split along an axis: what leaves to either side, without gaps, and what stays; and how many bits each
// takes, TOO_MANY more if the site or what leaves it needs more words.
struct SplitSite {
    u32 minus, plus;
    Slots stayed;
    u32 minus_bits, plus_bits, bits;
};

constexpr u32 TOO_MANY = 1 << 16;

// Adds another word. If it is not empty, all slots of those before are filled.
DEVICE void add_word(u32 word, const SlotSelectors &selectors, u32 stayed_bits, SplitSite &split) {
    split.minus |= (u32)shift_left(SELECT_BYTES(word, 0, selectors.minus), split.minus_bits);
    split.plus |= (u32)shift_left(SELECT_BYTES(word, 0, selectors.plus), split.plus_bits);
    split.stayed.put(SELECT_BYTES(word, 0, selectors.stayed), stayed_bits);
    split.minus_bits += selectors.minus >> 16;
    split.plus_bits += selectors.plus >> 16;
    split.bits += (u32)selectors.left;
}

// The bits that the particles of a site take: `of_first`, those of its first word, if there are no others.
DEVICE u32 used_bits_of(const u32 *words, u32 of_first) {
    u32 used = of_first;
    UNROLL for (int w = 1; w < WORDS; ++w)
        if (words[w]) used = 32 * (u32)w + used_bits(words[w]);
    return used;
}

DEVICE bool any_in_warp(bool condition) {
    return LANES_ANY(WARP_LANES, condition);
}

// Decides which particles of a site hop, and splits it. `used` are the bits that they take; with COUNTS those that
// the particles of the first word take. `first` has the random bits of group 0, `further` draws those of others.
// `more` tells whether any site of the warp has particles in its second word; `larger` whether this one has some
// beyond WORDS.
template <bool COUNTS, class Further>
DEVICE SplitSite decide_and_split(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                                  const u32 *words, u32 used, u64 first, bool more, bool larger,
                                  Further &further, Sides sides) {
    const GroupHops hops = hops_of(l, s, site, axis, words, 0, first, sides);
    Moves moves = WORD_IS_GROUP ? Moves{0, 0} : moves_of(hops);
    const SlotSelectors low = WORD_IS_GROUP
                                  ? selectors_of(l, hops)
                                  : selectors_of(moves.minus, moves.plus, l.packing);
    SplitSite split = {SELECT_BYTES(words[0], 0, low.minus),
                       SELECT_BYTES(words[0], 0, low.plus),
                       {{SELECT_BYTES(words[0], 0, low.stayed)}},
                       low.minus >> 16,
                       low.plus >> 16,
                       used + (u32)low.left};
    if (!more) return split;
    u32 stayed_bits = low.stayed >> 16;
    if (COUNTS) split.bits = used_bits_of(words, used) + (u32)low.left;
    UNROLL for (int w = 1; w < WORDS; ++w) {
        if (w > 1 && !any_in_warp(words[w] != 0)) break;
        constexpr int EACH = WORD_IS_GROUP ? 1 : 2;  // words of a group
        SlotSelectors high;
        if (WORD_IS_GROUP || w % EACH == 0) {
            const int group = w / EACH;
            const GroupHops next = hops_of(l, s, site, axis, words, group,
                                           further.bits(s, site, axis, group), sides);
            if (WORD_IS_GROUP)
                high = selectors_of(l, next);
            else
                moves = moves_of(next);
        }
        if (!WORD_IS_GROUP)
            high = selectors_of(moves.minus >> w % EACH * PER_WORD,
                                moves.plus >> w % EACH * PER_WORD, l.packing);
        add_word(words[w], high, stayed_bits, split);
        stayed_bits += high.stayed >> 16;
    }
    if (larger || split.minus_bits > 32 || split.plus_bits > 32) {
        split.minus_bits += TOO_MANY;
        split.plus_bits += TOO_MANY;
        split.bits += TOO_MANY;
    }
    return split;
}

// Joins what stayed and what came from both sides. Each takes so many bits.
DEVICE Slots join_slots(const Slots &stayed, u32 bits, u32 from_below, u32 below_bits,
                        u32 from_above) {
    Slots all = stayed;
    all.put(from_below, bits);
    all.put(from_above, bits + below_bits);
    return all;
}

// Leaves other words than WORDS as they are.
DEVICE void put_slots(Site &site, const Slots &slots) {
    UNROLL for (int w = 0; w < WORDS; ++w) site.word[w] = slots.word(w);
}

DEVICE void make_site(Site &site, const Slots &slots) {
    make_empty(site);
    put_slots(site, slots);
}

DEVICE Slots slots_in(const Site &site) {
    Slots slots;
    UNROLL for (int i = 0; i < WORDS / 2; ++i)
        slots.part[i] = site.word[2 * i] | (u64)site.word[2 * i + 1] << 32;
    return slots;
}

// Whether a site has particles beyond WORDS.
DEVICE bool is_larger(const Site &site) {
    return WORDS < 4 && !is_pair(site);
}

#endif
