// Which particles hop along an axis: the k-th particles of all sites are decided about at once.
//
// A particle hops to one side with probability T / 2^64. The first of 64 random bits chooses the side; the others are
// compared with the 63 lower bits of T, the highest first, until all sites are decided: 7 bits, then 4 more at a time.
// No T reaches 2^63.
#pragma once

#include "lattice/planes/planes.h"

constexpr int BLOCKS_OF_HOP = 16;

// Sites of a word from which a particle hops with each class of a species' probabilities.
template <int CLASSES>
struct Doors {
    Bits minus[CLASSES > 0 ? CLASSES : 1], plus[CLASSES > 0 ? CLASSES : 1];
};

DEVICE const u32 *doors_of(const Lattice &l, const WordGroup &g, int axis, int side, int number) {
    return l.doors + ((2 * axis + side) * HOP_CLASSES + number) * l.stride + g.first;
}

template <int CLASSES>
DEVICE void load_doors(const Lattice &l, const WordGroup &g, int axis, int species,
                       Doors<CLASSES> &doors) {
    UNROLL for (int k = 0; k < CLASSES; ++k) {
        if (k >= classes_of(species)) {
            doors.minus[k] = doors.plus[k] = Bits{};
            continue;
        }
        if (!MASKED) {
            doors.minus[k] = doors.plus[k] = on_words(~0u);
            continue;
        }
        doors.minus[k] = load_words(doors_of(l, g, axis, MINUS, first_class(species) + k));
        doors.plus[k] = load_words(doors_of(l, g, axis, PLUS, first_class(species) + k));
    }
}

// Masks of a pass come near while it begins.
DEVICE void fetch_masks(const Lattice &l, const WordGroup &g, bool reacts, int departs, const Desk &desk) {
    UNROLL for (int t = 0; reacts && N_TYPES > 1 && t < N_TYPES; ++t) PREFETCH(l.type_sites + t * l.stride + g.first);
    for (int axis = departs; MASKED && axis >= 0 && axis <= (departs > 0 ? departs : (int)l.axes_together); ++axis)
        each_species(desk, [&](int species) {
            for (int k = 0; k < 2 * classes_of(species); ++k)
                PREFETCH(doors_of(l, g, axis, k % 2, first_class(species) + k / 2));
        });
}

// Compares random words, but for the first SKIPPED, with bits of the thresholds: takes sites that are decided out of
// `open`, and puts those whose particle hops into `hop`.
template <int SKIPPED, int COUNT, int CLASSES>
DEVICE void compare(const u32 *thresholds, const Bits (&words)[COUNT], const Bits (&of_class)[CLASSES], Bits &open,
                    Bits &hop) {
    Bits below = {}, upto = on_words(~0u);
    UNROLL for (int first = COUNT - 4; first >= 0; first -= 4) {
        IntQuad bits[CLASSES];
        UNROLL for (int k = 0; k < CLASSES; ++k) bits[k] = load_quad((const i32 *)thresholds + 64 * k + first);
        UNROLL for (int i = 3; i >= 0; --i) {
            if (first + i < SKIPPED) continue;
            Bits threshold = {};
            UNROLL for (int k = 0; k < CLASSES; ++k) {
                const i32 bit = i == 3 ? bits[k].d : i == 2 ? bits[k].c : i == 1 ? bits[k].b : bits[k].a;
                threshold |= CLASSES > 1 ? of_class[k] & on_words((u32)bit) : on_words((u32)bit);
            }
            below = majority(~words[first + i], threshold, below);
            upto = majority(~words[first + i], threshold, upto);
        }
    }
    hop |= open & below;
    open &= upto & ~below;
}

// Decides about particle `level` of each site that has it: those that hop to either side. `draws` is what round 0 makes of
// the address of level 0.
template <int BLOCKS_AT_ONCE, int CLASSES>
DEVICE void decide_level(const u32 *thresholds, const StepDraws &s, const WordSeries &series, u32 draws, int level,
                         Bits there, const Doors<CLASSES> &doors, Bits &minus, Bits &plus) {
    const u32 of_level = draws ^ hop_address(0, 0, level, 0) ^ hop_address(0, 0, 0, 0);
    Bits words[4 * BLOCKS_AT_ONCE];
    UNROLL for (int block = 0; block < BLOCKS_AT_ONCE; ++block) {
        const Draw drawn = draw_of_words(s, series, round_1(s, of_level ^ (u32)block));
        UNROLL for (int i = 0; i < 4; ++i) words[4 * block + i] = drawn.x[i];
    }
    const Bits side = words[0];
    Bits of_class[CLASSES > 0 ? CLASSES : 1], doored = {}, hop = {};
    UNROLL for (int k = 0; k < CLASSES; ++k) {
        of_class[k] = MASKED ? either(side, doors.minus[k], doors.plus[k]) : on_words(~0u);
        doored |= of_class[k];
    }
    Bits open = there & doored;
    compare<1>(thresholds, words, of_class, open, hop);
    NO_UNROLL for (int block = BLOCKS_AT_ONCE; block < BLOCKS_OF_HOP && any_site(open); ++block) {
        const Draw drawn = draw_of_words(s, series, round_1(s, of_level ^ (u32)block));
        compare<0>(thresholds + 4 * block, drawn.x, of_class, open, hop);
    }
    minus = hop & side;
    plus = hop & ~side;
}

// Decides which particles of the lowest levels would hop if they were there, along all axes of a pass.
DEVICE void decide_ahead(const Lattice &l, const StepDraws &s, const WordSeries &series, const WordGroup &g, int departs,
                         Desk &desk) {
    if constexpr (AHEAD > 0) {
        const int species = desk.species;
        if (classes_of(species) == 0) return;
        const u32 *const thresholds = l.hop_bits + 64 * first_class(species);
        NO_UNROLL for (int axis = departs; axis >= 0 && axis <= (departs > 0 ? departs : (int)l.axes_together); ++axis) {
            const u32 draws = after_round_0(s, hop_address(axis, species, 0, 0));
            Doors<MOST_CLASSES> doors;
            load_doors(l, g, axis, species, doors);
            NO_UNROLL for (int level = 0; level < AHEAD; ++level)
                decide_level<AHEAD_BLOCKS>(thresholds, s, series, draws, level, on_words(~0u), doors,
                                hops_ahead(desk, axis, species, level, MINUS),
                                hops_ahead(desk, axis, species, level, PLUS));
        }
    }
}

struct Moves {
    Bits minus[PLANES], plus[PLANES];
};

// Decides about the particles from number AHEAD on.
DEVICE void decide_from(const Lattice &l, const StepDraws &s, const WordSeries &series, const WordGroup &g, int axis,
                        int species, const Bits (&n)[PLANES], Bits there, Moves &moves) {
    constexpr int FIRST = AHEAD ? AHEAD : FIRST_LEVELS;
    const u32 *const thresholds = l.hop_bits + 64 * first_class(species);
    const u32 draws = after_round_0(s, hop_address(axis, species, 0, 0));
    Bits next = beyond(n, 1), minus, plus;
    Doors<MOST_CLASSES> doors;
    load_doors(l, g, axis, species, doors);
    NO_UNROLL for (int level = 0; !AHEAD && level < FIRST_LEVELS && any_site(there); ++level) {
        decide_level<2>(thresholds, s, series, draws, level, there, doors, minus, plus);
        count_up<0>(moves.minus, minus, LOW_PLANES);
        count_up<0>(moves.plus, plus, LOW_PLANES);
        there = next;
        next = beyond(n, 2);
    }
    NO_UNROLL for (int level = FIRST; level < SLOTS; ++level) {
        if (level == FIRST)
            there = beyond(n, FIRST);
        else if (level == FIRST + 1)
            there = beyond(n, FIRST + 1);
        else {
            there = on_words(~0u);
            UNROLL for (int i = 0; i < PLANES; ++i)
                there = majority(n[i], all_or_none(~((u32)level + 1) >> i & 1), there);
        }
        if (!any_site(there)) break;
        decide_level<1>(thresholds, s, series, draws, level, there, doors, minus, plus);
        count_up<0>(moves.minus, minus);
        count_up<0>(moves.plus, plus);
    }
}

// Decides about all particles of a species; takes those that hop out of `n`.
DEVICE void decide(const Lattice &l, const StepDraws &s, const WordSeries &series, const WordGroup &g, int axis,
                   int species, Bits (&n)[PLANES], Moves &moves, Desk &desk) {
    moves = {};
    if constexpr (MOST_CLASSES > 0) {
        if (classes_of(species) == 0) return;
        UNROLL for (int level = 0; level < AHEAD; ++level) {
            const Bits those = beyond(n, level);
            count_up<0>(moves.minus, those & hops_ahead(desk, axis, species, level, MINUS));
            count_up<0>(moves.plus, those & hops_ahead(desk, axis, species, level, PLUS));
        }
        Bits there = beyond(n, AHEAD);
        if (any_site(there))
            decide_from(l, s, series, g, axis, species, n, there, moves);
        else if (!AHEAD)
            return;
        subtract(n, moves.minus);
        subtract(n, moves.plus);
    }
}

DEVICE void store_counts(const Lattice &l, const WordGroup &g, int species, const Bits (&n)[PLANES]) {
    u32 *const plane = stayed_at(l, g.first, species);
    UNROLL for (int i = 0; i < PLANES; ++i) store_words(after(plane, l.plane_bytes, i), n[i]);
}

// Keeps what leaves. Planes above the lowest are written where a word of the group has such a count; those that have get
// a bit in `more`.
DEVICE void keep_moves(const Lattice &l, const WordGroup &g, int buffer, int species, const Moves &moves, Bits &more) {
    u32 *const minus = moved_at(l, moved_index(l, g.first), buffer, MINUS, species);
    u32 *const plus = after(minus, l.moved_bytes, N_SPECIES * PLANES);
    Bits high = {};
    UNROLL for (int i = 0; i < PLANES; ++i) {
        if (i == LOW_PLANES) {
            UNROLL for (int k = i; k < PLANES; ++k) high |= moves.minus[k] | moves.plus[k];
            if (!any_site(high)) return;
        }
        store_words(after(minus, l.moved_bytes, i), moves.minus[i]);
        store_words(after(plus, l.moved_bytes, i), moves.plus[i]);
    }
    more |= where_any(high) & (1u << species);
}

// Threads that go together have whole lines along x or y: which of them have the words on either side, and ~0 where
// there are such words.
struct LanesBeside {
    u32 before, after;
    Bits from_before, from_after;
};

DEVICE LanesBeside lanes_beside(const Lattice &l, int axis) {
    const Way way = way_along(l, EXCHANGE_ALONG_Y ? axis : 0);
    const u32 lane = (u32)THREAD_ID % 32, step = (u32)way.step, last = (u32)way.extent - 1;  // powers of 2, and less 1
    const u32 place = lane >> lowest_bit(step) & last, first = lane - place * step;
    return {first + ((place - 1) & last) * step, first + ((place + 1) & last) * step,
            all_or_none(way.round || place > 0), all_or_none(way.round || place < last)};
}

// Takes in what comes along x or y from words that threads have that go together.
DEVICE void exchange(const WordGroup &g, int axis, const LanesBeside &lanes, const Moves &moves, Bits (&n)[PLANES]) {
    i32 along_y = EXCHANGE_ALONG_Y && axis == 1;  // one text for both
    if (EXCHANGE_ALONG_Y) GO_ON_TOGETHER(along_y);
    const auto come_up = [&](Bits up) {
        const Bits beside = word_of_lane(up, lanes.before) & lanes.from_before;
        return along_y ? beside : ((up << 1) & g.inside) | (beside >> g.before & 1u);
    };
    const auto come_down = [&](Bits down) {
        const Bits beside = word_of_lane(down, lanes.after) & lanes.from_after;
        return along_y ? beside : (down >> 1) | (beside & 1u) << g.last;
    };
    Bits a[LOW_PLANES], b[LOW_PLANES], high = {};
    UNROLL for (int i = 0; i < LOW_PLANES; ++i) a[i] = come_up(moves.plus[i]), b[i] = come_down(moves.minus[i]);
    Bits carry = join_low(n, a, b);
    UNROLL for (int i = LOW_PLANES; i < PLANES; ++i) high |= moves.minus[i] | moves.plus[i];
    const bool some = any_site(high);
    UNROLL for (int i = LOW_PLANES; some && i < PLANES; ++i) {
        carry |= add_bit(n, i, come_up(moves.plus[i]));
        carry |= add_bit(n, i, come_down(moves.minus[i]));
    }
    saturate(n, carry);
}

// What comes to words along an axis from either side, in a plane.
struct Arrivals {
    Bits from_minus, from_plus;
};

// Where it comes from: words of the first species' planes, see `load_beside`.
struct Sources {
    const u32 *ups, *downs;
};

template <int MANY>
DEVICE Sources sources_of(const WordGroup &g, const u32 *ups, const u32 *downs) {
    return {beside_at<MANY>(ups, g.minus), beside_at<MANY>(downs, g.plus)};
}

DEVICE Arrivals load_arrivals(const WordGroup &g, const Sources &from) {
    return {load_beside(from.ups, g.minus, g.minus_follows), load_beside(from.downs, g.plus, g.plus_follows)};
}

// Flags of the planes that are written, or masks of the words where they are.
struct Flags {
    Arrivals beside;
    Bits own;
};

DEVICE Flags load_flags(const Lattice &l, const WordGroup &g, int axis, int buffer, int species) {
    const u32 *const flags = more_of(l, buffer, species);
    const Bits own = !EXCHANGE_ALONG_X && axis == 0 ? load_words(flags + moved_index(l, g.first)) & g.there : Bits{};
    return {load_arrivals(g, sources_of<1>(g, flags, flags)), own};
}

// What comes in a plane of a species. Along x most of it comes from within the words.
DEVICE Arrivals load_plane(const Lattice &l, const WordGroup &g, int axis, int buffer, const Sources &from, int species,
                           int plane, const Flags &written) {
    const int number = species * PLANES + plane;
    Arrivals come = load_arrivals(g, {after(from.ups, l.moved_bytes, number), after(from.downs, l.moved_bytes, number)});
    come.from_minus &= written.beside.from_minus, come.from_plus &= written.beside.from_plus;
    if (EXCHANGE_ALONG_X || axis != 0) return come;
    const i32 index = moved_index(l, g.first);
    const Bits up = load_words(moved_at(l, index, buffer, PLUS, species, plane)) & written.own;
    const Bits down = load_words(moved_at(l, index, buffer, MINUS, species, plane)) & written.own;
    return {(((up << 1) & g.inside) | (come.from_minus >> g.before & 1u)) & g.there,
            ((down >> 1) | (come.from_plus & 1u) << g.last) & g.there};
}

// What comes in low planes.
struct Incoming {
    Arrivals low[LOW_PLANES];
};

DEVICE Incoming load_incoming(const Lattice &l, const WordGroup &g, int axis, int buffer, const Sources &from, int species) {
    const Bits all = on_words(~0u);
    Incoming in;
    UNROLL for (int i = 0; i < LOW_PLANES; ++i)
        in.low[i] = load_plane(l, g, axis, buffer, from, species, i, {{all, all}, all});
    return in;
}

// Takes in what comes along an axis of a species.
DEVICE void arrive(const Lattice &l, const WordGroup &g, int axis, int buffer, const Sources &from, int species,
                   const Incoming &in, const Flags &flags, Bits (&n)[PLANES]) {
    Bits a[LOW_PLANES], b[LOW_PLANES];
    UNROLL for (int i = 0; i < LOW_PLANES; ++i) a[i] = in.low[i].from_minus, b[i] = in.low[i].from_plus;
    Bits carry = join_low(n, a, b);
    const u32 bit = 1u << species;
    if (any_site((flags.own | flags.beside.from_minus | flags.beside.from_plus) & bit)) {
        const Flags written = {{where_any(flags.beside.from_minus & bit), where_any(flags.beside.from_plus & bit)},
                               where_any(flags.own & bit)};
        UNROLL for (int i = LOW_PLANES; i < PLANES; ++i) {
            const Arrivals come = load_plane(l, g, axis, buffer, from, species, i, written);
            carry |= add_bit(n, i, come.from_minus);
            carry |= add_bit(n, i, come.from_plus);
        }
    }
    saturate(n, carry);
}

// ---------------------------------------------------------------- what comes through held faces

// How many come into a site is a Poisson number N. It passes k with probability P(N > k) / P(N >= k), which 64 random
// bits decide for all sites of a word that came so far.
DEVICE u32 ghost_address(int face, int species, u32 number, int block) {
    return plane_address(GHOSTS_OF_PLANES, (u32)(face << 3 | species) << 16 | number << 4 | (u32)block);
}

DEVICE Bits ghosts_that_pass(const StepDraws &s, const WordSeries &series, int face, int species, u32 number,
                             const u32 *threshold, Bits sites) {
    Bits passed = {}, all[1] = {on_words(~0u)};
    NO_UNROLL for (int block = 0; block < BLOCKS_OF_HOP && any_site(sites); ++block) {
        const Draw drawn = draw_of_words(s, series, ghost_address(face, species, number, block));
        compare<0>(threshold + 4 * block, drawn.x, all, sites, passed);
    }
    return passed;
}

// Takes in what comes to words through a face.
DEVICE_SELDOM void arrive_ghosts(const Lattice &l, const StepDraws &s, const WordGroup &g, int axis, int side,
                                 int species, Bits (&n)[PLANES]) {
    const int face = face_of(axis, side);
    Bits edge = {}, number;
    UNROLL for (int i = 0; i < PLANE_WORDS; ++i) {
        const u32 word = g.first + (u32)i;
        word_of(number, i) = word_number(l, word);
        if (word < (u32)l.words) word_of(edge, i) = sites_at_face(l, place_of_word(l, word), axis, side);
    }
    if (!any_site(edge)) return;
    const WordSeries series = word_series(s, number);
    NO_UNROLL for (int type = 0; type < N_TYPES; ++type) {
        const i32 row = l.ghost_rows[(face * N_TYPES + type) * N_SPECIES + species];
        if (row < 0) continue;
        Bits sites = N_TYPES == 1 ? edge : edge & load_words(l.type_sites + type * l.stride + g.first), carry = {};
        for (u32 number_in = 0; any_site(sites); ++number_in) {
            const u32 *const threshold = l.ghost_bits + 64 * ((i64)row + number_in);
            sites = ghosts_that_pass(s, series, face, species, number_in, threshold, sites);
            carry |= count_up<0>(n, sites);
        }
        saturate(n, carry);
    }
}

DEVICE void arrive_from_faces(const Lattice &l, const StepDraws &s, const WordGroup &g, int axis, int species,
                              Bits (&n)[PLANES]) {
    if (!SOME_HELD) return;
    NO_UNROLL for (int side = MINUS; side <= PLUS; ++side)
        if (face_kind(face_of(axis, side)) == HELD) arrive_ghosts(*l.kept, s, g, axis, side, species, n);
}

// How many of a species come to one site through a face: the same number.
DEVICE u32 ghosts_at(const Lattice &l, const StepDraws &s, u32 word, u32 place, int axis, int side, int species) {
    const int face = face_of(axis, side);
    if (face_kind(face) != HELD || !(sites_at_face(l, place_of_word(l, word), axis, side) >> place & 1)) return 0;
    int type = 0;
    for (int t = 1; t < N_TYPES; ++t) type = l.type_sites[t * l.stride + word] >> place & 1 ? t : type;
    const i32 row = l.ghost_rows[(face * N_TYPES + type) * N_SPECIES + species];
    for (u32 number = 0; row >= 0; ++number) {
        const u32 *const threshold = l.ghost_bits + 64 * ((i64)row + number);
        bool equal = true, passes = false;
        for (int bit = 0; bit < 64 && equal; ++bit) {
            const Philox4 drawn =
                draw_of_site(s, word_number(l, word), ghost_address(face, species, number, bit / 4));
            const u32 words[4] = {u32(drawn.x0), u32(drawn.x1), u32(drawn.x2), u32(drawn.x3)};
            const bool of_draw = words[bit % 4] >> place & 1, of_threshold = threshold[bit] & 1;
            equal = of_draw == of_threshold;
            passes = !equal && of_threshold;
        }
        if (!passes) return number;
    }
    return 0;
}

// ---------------------------------------------------------------- sites with too many particles

// Particles of a site: those that are there already, and those that come from either side.
struct Crowd {
    u32 stay[N_SPECIES], from_minus[N_SPECIES], from_plus[N_SPECIES];
};

DEVICE u32 count_moved(const Lattice &l, int buffer, int side, int species, i32 index, u32 place) {
    const bool all = more_of(l, buffer, species)[index] >> species & 1;
    u32 count = 0;
    NO_UNROLL for (int i = 0; i < (all ? PLANES : LOW_PLANES); ++i)
        count |= (*moved_at(l, index, buffer, side, species, i) >> place & 1) << i;
    return count;
}

DEVICE void crowd_at(const Lattice &l, const StepDraws &draws, u32 word, u32 place, int axis, int buffer, Crowd &crowd) {
    const WordPlace at = place_of_word(l, word);
    const u32 last = at.x == l.row - 1 ? l.last : 31;
    i32 minus = moved_index(l, word), plus = minus;
    u32 minus_place = place, plus_place = place;
    if (axis > 0 || place == 0) minus = beside_word(l, word, at, way_along(l, axis), MINUS);
    if (axis > 0 || place == last) plus = beside_word(l, word, at, way_along(l, axis), PLUS);
    if (axis == 0) {
        minus_place = place ? place - 1 : at.x == 0 ? l.last : 31;
        plus_place = place < last ? place + 1 : 0;
    }
    NO_UNROLL for (int s = 0; s < N_SPECIES; ++s) {
        u32 stay = 0;
        NO_UNROLL for (int i = 0; i < PLANES; ++i)
            stay |= (*stayed_at(l, word, s, i) >> place & 1) << i;
        crowd.stay[s] = stay;
        crowd.from_minus[s] = minus < 0 ? 0 : count_moved(l, buffer, PLUS, s, minus, minus_place);
        crowd.from_plus[s] = plus < 0 ? 0 : count_moved(l, buffer, MINUS, s, plus, plus_place);
        if (!SOME_HELD) continue;
        crowd.from_minus[s] += ghosts_at(l, draws, word, place, axis, MINUS, s);
        crowd.from_plus[s] += ghosts_at(l, draws, word, place, axis, PLUS, s);
    }
}

// Those of one side enter in an order that draws decide; the last ones wait.
DEVICE void enter(const Lattice &l, const StepDraws &s, u64 step, u32 word, u32 place, int axis, int side, u32 *coming,
                  u32 *counts, u32 &held, u32 &spilled) {
    u32 left = 0;
    for (int i = 0; i < N_SPECIES; ++i) left += coming[i];
    for (u32 turn = 0; left; ++turn, --left) {
        const u32 number = (u32)side << 8 | turn;
        const Philox4 drawn = draw_of_site(s, word_number(l, word),
                                           plane_address(SITE_CROWD + (u32)axis, number << 5 | place));
        u32 chosen = (u32)MULHI64(joined(drawn.x0, drawn.x1), (u64)left);
        int species = 0;
        while (chosen >= coming[species]) chosen -= coming[species++];
        --coming[species];
        if (held < SLOTS) {
            ++counts[species], ++held;
            continue;
        }
        atomic_add(l.work + SPILLS, 1);
        add_waiting(l, step & 1, word, first_site(l, word) + place,
                    step << 16 | ((u32)axis * SPILL_OF_AXIS + spilled++), (u32)species + 1);
    }
}

// Particles of a site that has no room for all that come: those from the minus side enter first.
DEVICE_SELDOM void settle_crowd(const Lattice &l, StepDraws s, u64 step, u32 word, u32 place, int axis,
                                int buffer, u32 *counts) {
    Crowd crowd;
    crowd_at(l, s, word, place, axis, buffer, crowd);
    u32 held = 0, spilled = 0;
    for (int i = 0; i < N_SPECIES; ++i) held += counts[i] = crowd.stay[i];
    enter(l, s, step, word, place, axis, MINUS, crowd.from_minus, counts, held, spilled);
    enter(l, s, step, word, place, axis, PLUS, crowd.from_plus, counts, held, spilled);
}

DEVICE void settle_crowds(const Lattice &l, const StepDraws &s, const WordGroup &g, u64 step, int axis, int buffer,
                          Bits sites, Desk &desk) {
    NO_UNROLL for (int i = 0; i < PLANE_WORDS; ++i) {
        for (u32 left = word_of(sites, i); left; left &= left - 1) {
            const u32 place = (u32)lowest_bit(left);
            u32 counts[N_SPECIES];
            settle_crowd(*l.kept, s, step, g.first + (u32)i, place, axis, buffer, counts);
            set_counts(desk, first_own() + i, place, counts);
        }
    }
}

// Where sites are crowded, those that find no room wait.
DEVICE void settle(const Lattice &l, const StepDraws &s, const WordGroup &g, u64 step, int axis, int buffer,
                   Bits sites, Desk &desk) {
    meet(desk);
    if (leads(desk)) settle_crowds(l, s, g, step, axis, buffer, sites, desk);
    meet(desk);
}
