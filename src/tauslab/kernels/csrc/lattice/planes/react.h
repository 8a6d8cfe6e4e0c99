// Reactions of sites in a pass: the exact stochastic simulation of a site for the length of the pass, as in
// lattice/site/react.h.
//
// Few sites react in a pass, so sites are candidates first, with probability 2^-k each: those in which all of k random
// words have their bit. A candidate reacts with probability 2^k (1 - exp(-x)), x the sum of its propensities times the
// length of the pass. 2^-k bounds x of all sites of a type and of a class: at most 1 of each species, or at most 3.
// Sites with more are candidates always.
#pragma once

#include "math/exp.h"
#include "math/log.h"
#include "lattice/planes/planes.h"

enum SiteClass { SINGLE = 0, FEW = 1 };
constexpr int MOST_IN_TEXT = 16;                     // reactions
constexpr u32 MOST_EVENTS = (1u << 6) + (1u << 18);  // as in slots

DEVICE u32 site_address(u32 purpose, u32 place, u32 number) {
    return plane_address(purpose, number << 5 | place);
}

// Combinations of a reaction's reactants.
DEVICE u32 combinations(const i32 *reactants, const u32 *counts) {
    const i32 a = reactants[0], b = reactants[1];
    if (!a) return 1;
    const u32 n = counts[a - 1];
    if (!b) return n;
    return a == b ? n * (n - 1) / 2 : n * counts[b - 1];
}

// Sum of the propensities up to the reaction that passes `target`, which becomes `chosen`.
DEVICE_SHARED double sum_of_propensities(const Lattice &l, int type, const u32 *counts,
                                         double target, i32 &chosen) {
    double sum = 0;
    NO_UNROLL for (i32 r = 0; r < N_REACTIONS; ++r) {
        const u32 found = combinations(l.tables + REACTANTS + 2 * r, counts);
        if (!found) continue;
        const double chance = l.chances[r * N_TYPES + type];
        if (!(chance > 0)) continue;
        sum += chance * (double)found;
        chosen = r;
        if (sum > target) break;
    }
    return sum;
}

// Where a site is, for draws and for particles that wait.
struct SiteOf {
    u32 word;
    u32 place;
    u64 step;
};

// Takes reactants out and puts products in; those that find no slot wait.
DEVICE void fire(const Lattice &l, const SiteOf &at, i32 reaction, u32 *counts, u32 &spilled) {
    atomic_add(l.fired + reaction, 1);
    u32 held = 0;
    NO_UNROLL for (int i = 0; i < 2; ++i) {
        const i32 reactant = l.tables[REACTANTS + 2 * reaction + i];
        if (reactant) --counts[reactant - 1];
    }
    for (int s = 0; s < N_SPECIES; ++s) held += counts[s];
    NO_UNROLL for (i32 k = l.tables[PRODUCT_START + reaction]; k < l.tables[PRODUCT_START + reaction + 1]; ++k) {
        const u32 product = (u32)l.tables[PRODUCTS + k];
        if (held < SLOTS) {
            ++counts[product - 1];
            ++held;
            continue;
        }
        atomic_add(l.work + SPILLS, 1);
        add_waiting(l, at.step & 1, at.word, first_site(l, at.word) + at.place,
                    at.step << 16 | (SPILL_REACTION + spilled++), product);
    }
}

// Whether 64 random bits are below (1 - exp(-x)) / scale. It lies between x - x^2 / 2 and x, which decides nearly always.
DEVICE bool happens(u64 u, double x, double scale) {
    const double from = (double)(u >> 11) * 0x1p-53 * scale, to = (double)((u >> 11) + 1) * 0x1p-53 * scale;
    if (from > x * 1.000001) return false;
    if (to < (x - 0.5 * x * x) * 0.999999) return true;
    const double p = -tl_expm1(-x) / scale;
    return p >= 1.0 || u < (u64)(p * 0x1p64);
}

// The sum of all propensities, where few reactions are text.
DEVICE double all_propensities(const Lattice &l, int type, const u32 (&counts)[N_SPECIES]) {
    i32 chosen;
    if (N_REACTIONS > MOST_IN_TEXT) return sum_of_propensities(l, type, counts, 1e300, chosen);
    double sum = 0;
    UNROLL for (int r = 0; r < (N_REACTIONS > MOST_IN_TEXT ? 0 : N_REACTIONS); ++r) {
        const int a = first_reactant(r), b = second_reactant(r);
        const u32 n = counts[a < 0 ? 0 : a], m = counts[b < 0 ? 0 : b];
        sum += l.chances[r * N_TYPES + type] * (double)(a < 0 ? 1 : b < 0 ? n : a == b ? n * (n - 1) / 2 : n * m);
    }
    return sum;
}

// Of a candidate of probability 2^-k, in which x is the sum of the propensities.
struct Candidate {
    double scale, x;  // 2^-k
    Philox4 drawn;
};

// Whether a candidate may react: 1 - exp(-x) is below x, which is enough for most.
DEVICE bool may_react(const Lattice &l, const StepDraws &s, const SiteOf &at, int type,
                      const u32 (&counts)[N_SPECIES], Candidate &c) {
    u32 most = 0;
    UNROLL for (int i = 0; i < N_SPECIES; ++i) most = counts[i] > most ? counts[i] : most;
    const i32 k = most > 3 ? 0 : l.thinning[2 * type + (most > 1 ? FEW : SINGLE)];
    c.scale = from_bits((u64)(1023 - k) << 52);
    c.x = all_propensities(l, type, counts);
    if (!(c.x > 0)) return false;
    c.drawn = draw_of_site(s, word_number(l, at.word), site_address(SITE_REACTION, at.place, 0));
    return (double)(joined(c.drawn.x0, c.drawn.x1) >> 11) * 0x1p-53 * c.scale <= c.x * 1.000001;
}

enum Outcome : u32 { NOTHING = 0, REACTED = 1, REACTED_AND_SPILLED = 2 };

// The reactions of a candidate.
DEVICE_SELDOM Outcome react_at(const Lattice &l, StepDraws s, SiteOf at, int type, const Candidate &c, u32 *counts) {
    u32 spilled = 0;
    i32 chosen = -1;
    double x = c.x;
    const double scale = c.scale;
    const u32 word = word_number(l, at.word);
    Philox4 drawn = c.drawn;
    u64 u = joined(drawn.x0, drawn.x1);
    if (!happens(u, x, scale)) return NOTHING;
    double left = 1.0, among = (double)(u >> 11) * 0x1p-53 * scale;
    for (u32 event = 1;; ++event) {
        sum_of_propensities(l, type, counts, unit_half_open(drawn.x2, drawn.x3) * x, chosen);
        fire(l, at, chosen, counts, spilled);
        const Outcome so_far = spilled ? REACTED_AND_SPILLED : REACTED;
        const double before = x;
        x = sum_of_propensities(l, type, counts, 1e300, chosen);
        drawn = draw_of_site(s, word, site_address(SITE_REACTION, at.place, event));
        u = joined(drawn.x0, drawn.x1);
        // With all of the pass left nothing more would happen, for most.
        if ((double)(u >> 11) * 0x1p-53 > x * 1.000001) return so_far;
        left -= tl_exponential(1.0 - among) / before;
        if (!(x * left > 0) || !happens(u, x * left, 1.0)) return so_far;
        if (event == MOST_EVENTS || spilled + (u32)MOST_PRODUCTS > MOST_SPILLED) {
            atomic_add(l.work + TRUNCATED, 1);
            return so_far;
        }
        among = (double)(u >> 11) * 0x1p-53;
    }
}

// Sites of each type that have the reactants of something.
DEVICE void find_active(const Lattice &l, const WordGroup &g, const Desk &desk, Bits (&active)[N_TYPES]) {
    UNROLL for (int t = 0; t < N_TYPES; ++t) active[t] = Bits{};
    UNROLL for (int c = 0; c < N_CAUSES; ++c) {
        Bits present = g.inside;
        if (cause_first(c) >= 0) {
            present = beyond(desk, cause_first(c) < 0 ? 0 : cause_first(c), cause_first(c) == cause_second(c));
            if (cause_second(c) >= 0) present &= beyond(desk, cause_second(c) < 0 ? 0 : cause_second(c), 0);
        }
        const u32 types = l.cause_types[c];
        UNROLL for (int t = 0; t < N_TYPES; ++t) active[t] |= present & all_or_none(types >> t & 1);
    }
    if (N_TYPES > 1)
        UNROLL for (int t = 0; t < N_TYPES; ++t) active[t] &=
            load_words(l.type_sites + t * l.stride + g.first);
}

// Keeps sites in which all words of a candidate before `end` have their bit; `drawn` has the last four of `words`.
DEVICE void thin(const StepDraws &s, const Bits &number, i32 end, i32 &words, Draw &drawn, Bits &all) {
    NO_UNROLL while (words < end) {
        const i32 block = words / 4, from = words % 4, upto = end - 4 * block;
        if (from == 0) drawn = draw_of_words(s, word_series(s, number), plane_address(CANDIDATES, (u32)block));
        UNROLL for (int i = 0; i < 4; ++i) all &= drawn.x[i] | all_or_none(i < from || i >= upto);
        words = upto < 4 ? end : 4 * block + 4;
    }
}

// The same of all entries, for `candidates`.
DEVICE void thin_ahead(const Lattice &l, const StepDraws &s, const Bits &number, Desk &desk) {
    Bits all = on_words(~0u);
    Draw drawn = {};
    i32 words = 0;
    NO_UNROLL for (int e = 0; e < 2 * N_TYPES; ++e) {
        const i32 end = l.thinned[3 * e];
        NO_UNROLL while (words < end && any_site(all)) {
            const i32 next = (words | 3) + 1;
            thin(s, number, next < end ? next : end, words, drawn, all);
        }
        thinned_ahead(desk, e) = all;
    }
}

// Sites that are candidates.
DEVICE Bits candidates(const Lattice &l, const StepDraws &s, const Bits &number, Desk &desk,
                       const Bits (&active)[N_TYPES]) {
    Bits of_class[2], some, few = {}, many = {}, open, rest = {};
    UNROLL for (int k = 0; k < N_SPECIES; ++k) {
        Bits n[PLANES];
        take(desk, k, n);
        few |= n[1];
        UNROLL for (int i = 2; i < PLANES; ++i) many |= n[i];
    }
    of_class[SINGLE] = ~(few | many), of_class[FEW] = few & ~many;
    UNROLL for (int t = 0; t < N_TYPES; ++t) rest |= active[t];
    open = rest & many;
    rest &= ~many;
    Bits all = on_words(~0u);
    Draw drawn = {};
    i32 words = 0;
    NO_UNROLL for (int e = 0; e < 2 * N_TYPES && any_site(rest & all); ++e) {
        if (TEAM_WARPS > 1)
            all = thinned_ahead(desk, e);
        else
            thin(s, number, l.thinned[3 * e], words, drawn, all);
        some = Bits{};
        UNROLL for (int t = 0; t < N_TYPES; ++t) some |= active[t] & all_or_none(t == l.thinned[3 * e + 1]);
        some &= l.thinned[3 * e + 2] == SINGLE ? of_class[SINGLE] : of_class[FEW];
        open |= some & all;
        rest &= ~some;
    }
    return open;
}

DEVICE void find_candidates(const Lattice &l, const StepDraws &s, const Bits &number, const WordGroup &g,
                            Desk &desk) {
    if (N_CAUSES == 0) return;
    Bits active[N_TYPES];
    find_active(l, g, desk, active);
    list_sites(candidates(l, s, number, desk, active), desk);
}

// The reactions of a pass.
DEVICE void react(const Lattice &l, const StepDraws &s, const WordGroup &g, u64 step, Desk &desk) {
    each_listed(desk, [&](int word, u32 place) {
        const SiteOf at = {g.first - (u32)first_own() + (u32)word, place, step};
        int type = 0;
        UNROLL for (int t = 1; t < N_TYPES; ++t)
            type = l.type_sites[t * l.stride + at.word] >> place & 1 ? t : type;
        u32 counts[N_SPECIES];
        counts_at(desk, word, place, counts);
        Candidate found;
        if (!may_react(l, s, at, type, counts, found)) return;
        u32 after[N_SPECIES];
        UNROLL for (int k = 0; k < N_SPECIES; ++k) after[k] = counts[k];
        const Outcome outcome = react_at(*l.kept, s, at, type, found, after);
        if (outcome != NOTHING) change_counts(desk, word, place, counts, after);
        if (outcome == REACTED_AND_SPILLED) or_in_block(&note_of(desk), 1);
    });
}
