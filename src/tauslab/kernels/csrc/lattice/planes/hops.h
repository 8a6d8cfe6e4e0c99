// Which particles hop along an axis: the k-th particles of all sites are decided about at once.
//
// A particle hops to one side with probability T / 2^64. The first of 64 random bits chooses the side; the others are
// compared with the 63 lower bits of T, the highest first, until all sites are decided: 7 bits, then 4 more at a time.
// No T reaches 2^63.
#pragma once

#include "lattice/planes/planes.h"

constexpr int FIRST_LEVELS = 3;  // levels that most words have: two blocks of random bits at once
constexpr int BLOCKS_OF_HOP = 16;

DEVICE u32 hop_address(int axis, int species, int level, int block) {
    return plane_address(HOPS_OF_PLANES + (u32)axis, (u32)(species << 11 | level << 5 | block));
}

// Sites of a word from which a particle hops with each class of a species' probabilities.
template <int CLASSES>
struct Doors {
    Bits minus[CLASSES], plus[CLASSES];
};

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
        const u32 *const of_axis = l.doors + (i64)(2 * axis) * HOP_CLASSES * l.stride;
        doors.minus[k] = load_words(of_axis + (first_class(species) + k) * l.stride + g.first);
        doors.plus[k] = load_words(of_axis + (HOP_CLASSES + first_class(species) + k) * l.stride + g.first);
    }
}

// Compares random words with bits of the thresholds from number `bit` on: takes sites that are decided out of `open`,
// and puts those whose particle hops into `hop`.
template <int COUNT, int CLASSES>
DEVICE void compare(const u32 *thresholds, int bit, const Bits *words, const Bits (&of_class)[CLASSES],
                    Bits &open, Bits &hop) {
    Bits below = {}, upto = on_words(~0u);
    UNROLL for (int i = COUNT - 1; i >= 0; --i) {
        Bits threshold = on_words(thresholds[bit + i]);
        if (CLASSES > 1) {
            threshold &= of_class[0];
            UNROLL for (int k = 1; k < CLASSES; ++k)
                threshold |= of_class[k] & on_words(thresholds[63 * k + bit + i]);
        }
        below = majority(~words[i], threshold, below);
        upto = majority(~words[i], threshold, upto);
    }
    hop |= open & below;
    open &= upto & ~below;
}

// Decides about particle `level` of each site that has it: those that hop to either side.
template <int BLOCKS_AT_ONCE, int CLASSES>
DEVICE void decide_level(const Lattice &l, const StepDraws &s, const WordSeries &series, int axis, int species,
                         int level, Bits there, const Doors<CLASSES> &doors, Bits &minus, Bits &plus) {
    const u32 *const thresholds = l.hop_bits + 63 * first_class(species);
    Bits words[4 * BLOCKS_AT_ONCE];
    UNROLL for (int block = 0; block < BLOCKS_AT_ONCE; ++block) {
        const Draw drawn = draw_of_words(s, series, hop_address(axis, species, level, block));
        UNROLL for (int i = 0; i < 4; ++i) words[4 * block + i] = drawn.x[i];
    }
    const Bits side = words[0];
    Bits of_class[CLASSES], doored = {}, hop = {};
    UNROLL for (int k = 0; k < CLASSES; ++k) {
        of_class[k] = MASKED ? either(side, doors.minus[k], doors.plus[k]) : on_words(~0u);
        doored |= of_class[k];
    }
    Bits open = there & doored;
    compare<4 * BLOCKS_AT_ONCE - 1, CLASSES>(thresholds, 0, words + 1, of_class, open, hop);
    NO_UNROLL for (int block = BLOCKS_AT_ONCE; block < BLOCKS_OF_HOP && any_site(open); ++block) {
        const Draw drawn = draw_of_words(s, series, hop_address(axis, species, level, block));
        compare<4, CLASSES>(thresholds, 4 * block - 1, drawn.x, of_class, open, hop);
    }
    minus = hop & side;
    plus = hop & ~side;
}

struct Moves {
    Bits minus[PLANES], plus[PLANES];
};

// Decides about all particles of a species, which has up to CLASSES probabilities; takes those that hop out of `n`.
template <int CLASSES>
DEVICE void decide(const Lattice &l, const StepDraws &s, const WordSeries &series, const WordGroup &g, int axis,
                   int species, Bits (&n)[PLANES], Moves &moves) {
    moves = {};
    if constexpr (CLASSES > 0) {
        if (classes_of(species) == 0) return;
        Bits there = beyond(n, 0), minus, plus;
        if (!any_site(there)) return;
        Doors<CLASSES> doors;
        load_doors(l, g, axis, species, doors);
        NO_UNROLL for (int level = 0; level < FIRST_LEVELS; ++level) {
            if (level > 0) {
                there = level == 1 ? beyond(n, 1) : beyond(n, 2);
                if (!any_site(there)) break;
            }
            decide_level<2, CLASSES>(l, s, series, axis, species, level, there, doors, minus, plus);
            count_up<0>(moves.minus, minus, LOW_PLANES);
            count_up<0>(moves.plus, plus, LOW_PLANES);
        }
        NO_UNROLL for (int level = FIRST_LEVELS; level < SLOTS; ++level) {
            there = on_words(~0u);
            UNROLL for (int i = 0; i < PLANES; ++i)
                there = majority(n[i], all_or_none(~((u32)level + 1) >> i & 1), there);
            if (!any_site(there)) break;
            decide_level<1, CLASSES>(l, s, series, axis, species, level, there, doors, minus, plus);
            count_up<0>(moves.minus, minus);
            count_up<0>(moves.plus, plus);
        }
        subtract(n, moves.minus);
        subtract(n, moves.plus);
    }
}

// What leaves words along an axis of each species, in low planes.
typedef Bits LowMoves[OWN][2][LOW_PLANES];

// Keeps what leaves. Planes above the lowest are written where a word of the group has such a count; those that have get
// a bit in `more`.
DEVICE void keep_moves(const Lattice &l, const WordGroup &g, int buffer, int species, const Moves &moves,
                       LowMoves &low, Bits &more) {
    UNROLL for (int i = 0; i < LOW_PLANES; ++i)
        low[species % OWN][MINUS][i] = moves.minus[i], low[species % OWN][PLUS][i] = moves.plus[i];
    Bits high = {};
    UNROLL for (int i = LOW_PLANES; i < PLANES; ++i) high |= moves.minus[i] | moves.plus[i];
    if (!any_site(high)) return;
    u32 *const minus = moved_plane(l, buffer, MINUS, species) + moved_index(l, g.first);
    u32 *const plus = after(minus, l.moved_bytes, N_SPECIES * PLANES);
    UNROLL for (int i = LOW_PLANES; i < PLANES; ++i) {
        store_words(after(minus, l.moved_bytes, i), moves.minus[i]);
        store_words(after(plus, l.moved_bytes, i), moves.plus[i]);
    }
    more |= where_any(high) & (1u << species);
}

// Decides which particles of a species, and of those after it, leave along an axis.
template <int SPECIES>
DEVICE void depart(const Lattice &l, const StepDraws &s, const WordSeries &series, const WordGroup &g, int axis,
                   int buffer, Counts &n, LowMoves &low, Bits &more) {
    if constexpr (SPECIES < N_SPECIES) {
        Moves moves;
        decide<classes_of(SPECIES)>(l, s, series, g, axis, SPECIES, n[SPECIES], moves);
        keep_moves(l, g, buffer, SPECIES, moves, low, more);
        depart<SPECIES + 1>(l, s, series, g, axis, buffer, n, low, more);
    }
}

// Stores the low planes of what leaves, and the flags.
DEVICE void store_moves(const Lattice &l, const WordGroup &g, int buffer, const LowMoves &low, Bits more) {
    const i32 at = moved_index(l, g.first);
    u32 *const minus = moved_plane(l, buffer, MINUS, g.species) + at;
    u32 *const plus = after(minus, l.moved_bytes, N_SPECIES * PLANES);
    UNROLL for (int s = 0; s < OWN; ++s) {
        UNROLL for (int i = 0; i < LOW_PLANES; ++i) {
            store_words(after(minus, l.moved_bytes, s * PLANES + i), low[s][MINUS][i]);
            store_words(after(plus, l.moved_bytes, s * PLANES + i), low[s][PLUS][i]);
        }
    }
    store_words(more_of(l, buffer, g.species) + at, more);
}

DEVICE void store_counts(const Lattice &l, const WordGroup &g, const Counts &n) {
    u32 *const own = plane_of(l, l.stayed, g.species) + g.first;
    UNROLL for (int s = 0; s < OWN; ++s)
        UNROLL for (int i = 0; i < PLANES; ++i) store_words(after(own, l.plane_bytes, s * PLANES + i), n[s][i]);
}

// What comes to words along an axis from either side, in a plane.
struct Arrivals {
    Bits from_minus, from_plus;
};

DEVICE Arrivals load_arrivals(const WordGroup &g, const u32 *ups, const u32 *downs) {
    return {load_beside(ups, g.minus, g.minus_follows), load_beside(downs, g.plus, g.plus_follows)};
}

// Along x most of it comes from within the words. `own` is ~0 where the words' own planes are written.
DEVICE Arrivals arriving_along_x(const Lattice &l, const WordGroup &g, const u32 *ups, const u32 *downs, Bits own,
                                 const Arrivals &beside) {
    const i32 at = moved_index(l, g.first);
    const Bits up = load_words(ups + at) & own, down = load_words(downs + at) & own;
    return {(((up << 1) & g.inside) | (beside.from_minus >> g.before & 1u)) & g.there,
            ((down >> 1) | (beside.from_plus & 1u) << g.last) & g.there};
}

// What comes, and flags of the planes that are written.
struct Incoming {
    Arrivals low[OWN][LOW_PLANES], flags;
    Bits own_flags;
};

// All loads, before the first of them is needed.
DEVICE Incoming load_incoming(const Lattice &l, const WordGroup &g, int axis, int buffer) {
    Incoming in;
    const u32 *const flags = more_of(l, buffer, g.species);
    const u32 *const downs = moved_plane(l, buffer, MINUS, g.species);
    const u32 *const ups = after(downs, l.moved_bytes, N_SPECIES * PLANES);
    in.flags = load_arrivals(g, flags, flags), in.own_flags = Bits{};
    UNROLL for (int s = 0; s < OWN; ++s)
        UNROLL for (int i = 0; i < LOW_PLANES; ++i)
            in.low[s][i] = load_arrivals(g, after(ups, l.moved_bytes, s * PLANES + i),
                                         after(downs, l.moved_bytes, s * PLANES + i));
    if (axis != 0) return in;
    in.own_flags = load_words(flags + moved_index(l, g.first)) & g.there;
    UNROLL for (int s = 0; s < OWN; ++s)
        UNROLL for (int i = 0; i < LOW_PLANES; ++i)
            in.low[s][i] = arriving_along_x(l, g, after(ups, l.moved_bytes, s * PLANES + i),
                                            after(downs, l.moved_bytes, s * PLANES + i), on_words(~0u), in.low[s][i]);
    return in;
}

// Takes in what comes along an axis.
DEVICE void arrive(const Lattice &l, const WordGroup &g, int axis, int buffer, const Incoming &in, Counts &n) {
    Bits carry[OWN];
    UNROLL for (int s = 0; s < OWN; ++s) {
        Bits a[LOW_PLANES], b[LOW_PLANES];
        UNROLL for (int i = 0; i < LOW_PLANES; ++i) a[i] = in.low[s][i].from_minus, b[i] = in.low[s][i].from_plus;
        carry[s] = join_low(n[s], a, b);
    }
    const bool high = any_site(in.own_flags | in.flags.from_minus | in.flags.from_plus);
    UNROLL for (int s = 0; high && s < OWN; ++s) {
        const u32 bit = 1u << (g.species + s);
        UNROLL for (int i = LOW_PLANES; i < PLANES; ++i) {
            const u32 *const ups = moved_plane(l, buffer, PLUS, g.species + s, i);
            const u32 *const downs = moved_plane(l, buffer, MINUS, g.species + s, i);
            Arrivals come = load_arrivals(g, ups, downs);
            come.from_minus &= where_any(in.flags.from_minus & bit), come.from_plus &= where_any(in.flags.from_plus & bit);
            if (axis == 0) come = arriving_along_x(l, g, ups, downs, where_any(in.own_flags & bit), come);
            carry[s] |= add_bit(n[s], i, come.from_minus);
            carry[s] |= add_bit(n[s], i, come.from_plus);
        }
    }
    UNROLL for (int s = 0; s < OWN; ++s) saturate(n[s], carry[s]);
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
        compare<4, 1>(threshold, 4 * block, drawn.x, all, sites, passed);
    }
    return passed;
}

// Takes in what comes to words through a face.
DEVICE_SELDOM void arrive_ghosts(const Lattice &l, const StepDraws &s, const WordGroup &g, int axis, int side, Counts &n) {
    const int face = face_of(axis, side);
    Bits edge = {}, number;
    UNROLL for (int i = 0; i < PLANE_WORDS; ++i) {
        const u32 word = g.first + (u32)i;
        word_of(number, i) = word_number(l, word);
        if (word < (u32)l.words) word_of(edge, i) = sites_at_face(l, place_of_word(l, word), axis, side);
    }
    if (!any_site(edge)) return;
    const WordSeries series = word_series(s, number);
    NO_UNROLL for (int k = 0; k < OWN * N_TYPES; ++k) {
        const int own = k / N_TYPES, type = k % N_TYPES, species = g.species + own;
        const i32 row = l.ghost_rows[(face * N_TYPES + type) * N_SPECIES + species];
        if (row < 0) continue;
        Bits sites = N_TYPES == 1 ? edge : edge & load_words(l.type_sites + type * l.stride + g.first), carry = {};
        for (u32 number_in = 0; any_site(sites); ++number_in) {
            const u32 *const threshold = l.ghost_bits + 64 * ((i64)row + number_in);
            sites = ghosts_that_pass(s, series, face, species, number_in, threshold, sites);
            carry |= count_up<0>(n[own], sites);
        }
        saturate(n[own], carry);
    }
}

DEVICE void arrive_from_faces(const Lattice &l, const StepDraws &s, const WordGroup &g, int axis, Counts &n) {
    if (!SOME_HELD) return;
    NO_UNROLL for (int side = MINUS; side <= PLUS; ++side)
        if (face_kind(face_of(axis, side)) == HELD) arrive_ghosts(*l.kept, s, g, axis, side, n);
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

DEVICE u32 moved_at(const Lattice &l, int buffer, int side, int species, i32 index, u32 place) {
    const bool all = more_of(l, buffer, species)[index] >> species & 1;
    u32 count = 0;
    NO_UNROLL for (int i = 0; i < (all ? PLANES : LOW_PLANES); ++i)
        count |= (moved_plane(l, buffer, side, species, i)[index] >> place & 1) << i;
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
            stay |= (plane_of(l, l.stayed, s, i)[word] >> place & 1) << i;
        crowd.stay[s] = stay;
        crowd.from_minus[s] = minus < 0 ? 0 : moved_at(l, buffer, PLUS, s, minus, minus_place);
        crowd.from_plus[s] = plus < 0 ? 0 : moved_at(l, buffer, MINUS, s, plus, plus_place);
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
                   Bits sites, Desk &desk, Counts &n) {
    meet(desk);
    if (leads(g)) settle_crowds(l, s, g, step, axis, buffer, sites, desk);
    meet(desk);
    take_back(g, desk, n);
}
