// The reactions of a site in a pass: the exact stochastic simulation of the site for the length of the pass
// (Gillespie, J. Phys. Chem. 81, 2340 (1977)). Propensities are times the length of a pass, so that a pass
// lasts from 0 to 1.
//
// 64 bits decide whether anything happens, with probability 1 - exp(-x) for a sum x of the propensities, and
// then when: for most sites a look at a bound of x is all.
#pragma once

#include "math/exp.h"
#include "lattice/site/waiting.h"

constexpr double NO_TARGET = 1e300;

// Reactions of a site in a pass, as many as their draws have addresses: see LatticePurpose.
constexpr u32 FEW_EVENTS = 1u << 6, MORE_EVENTS = (1u << 18) / REACTION_PASSES;
constexpr u32 MOST_EVENTS = FEW_EVENTS + MORE_EVENTS;
// Products that find no slot in a step, as many as have ages: see SpillPass.
constexpr u32 MOST_SPILLED = SPILL_HOOK - SPILL_REACTION;

// Sums propensities in a fixed order, and stops at the reaction that passes `target`.
struct ReactionSum {
    const double *chances;  // of the site's type; the next reaction is N_TYPES further
    double target, sum;
    int chosen;

    DEVICE_MEMBER bool add(int reaction, int combinations) {
        sum += chances[reaction * N_TYPES] * (double)combinations;
        chosen = reaction;
        return sum > target;
    }
};

// Whether `slots[i]` is the first of its kind.
DEVICE bool is_first(const Slot *slots, int i) {
    NO_UNROLL for (int s = 0; s < i; ++s)
        if (slots[s] == slots[i]) return false;
    return true;
}

DEVICE int count_from(const Slot *slots, int n, int i) {
    int count = 1;
    NO_UNROLL for (int s = i + 1; s < n; ++s) count += slots[s] == slots[i];
    return count;
}

DEVICE bool add_pairs(const i32 *tables, u32 a, u32 b, int combinations, ReactionSum &sum) {
    if (PAIR_OTHER == PAIR_REACTION) return false;  // no reaction has two reactants
    const u32 low = a < b ? a : b, high = a < b ? b : a;
    NO_UNROLL for (i32 k = tables[PAIR_START + low]; k < tables[PAIR_START + low + 1]; ++k)
        if ((u32)tables[PAIR_OTHER + k] == high && sum.add(tables[PAIR_REACTION + k], combinations))
            return true;
    return false;
}

// Zeroth order; then for each kind in the order of slots its first order and its pairs.
DEVICE_SHARED void add_reactions(const i32 *tables, const Slot *slots, int n, ReactionSum &sum) {
    for (i32 k = 0; k < N_ZEROTH; ++k)
        if (sum.add(tables[ZEROTH + k], 1)) return;
    NO_UNROLL for (int i = 0; i < n; ++i) {
        if (!is_first(slots, i)) continue;
        const u32 kind = slots[i];
        const int count = count_from(slots, n, i);
        NO_UNROLL for (i32 k = tables[FIRST_START + kind]; k < tables[FIRST_START + kind + 1]; ++k)
            if (sum.add(tables[FIRST_REACTION + k], count)) return;
        if (count > 1 && add_pairs(tables, kind, kind, count * (count - 1) / 2, sum)) return;
        NO_UNROLL for (int j = i + 1; j < n && PAIR_OTHER < PAIR_REACTION; ++j)
            if (slots[j] != kind && is_first(slots, j) &&
                add_pairs(tables, kind, slots[j], count * count_from(slots, n, j), sum))
                return;
    }
}

// Removes reactants, the first of their kind, and appends products.
template <class Spill>
DEVICE void fire(const i32 *tables, int reaction, Slot *slots, int &n, u32 &spilled,
                 const Spill &spill) {
    NO_UNROLL for (int i = 0; i < 2; ++i) {
        const u32 reactant = (u32)tables[REACTANTS + 2 * reaction + i];
        if (reactant) remove_first(slots, n, reactant);
    }
    NO_UNROLL for (i32 k = tables[PRODUCT_START + reaction]; k < tables[PRODUCT_START + reaction + 1]; ++k) {
        const u32 product = (u32)tables[PRODUCTS + k];
        if (n < SLOTS)
            slots[n++] = (Particle)product;
        else
            spill(product, spilled++);
    }
}

// Whether an event of probability 1 - exp(-x) happens: 64 bits against a 64-bit threshold.
DEVICE bool happens(u64 u, double x) {
    if (!(x > 0)) return false;
    const double p = -tl_expm1(-x);
    return p >= 1.0 || u < (u64)(p * 0x1p64);
}

// An upper bound of x 2^32 from one look-up per particle. A pair counts half for either particle,
// with the fastest partner.
DEVICE u64 bound_of(const u32 *bounds, const Slot *slots, int n) {
    u64 bound = bounds[0];  // zeroth order
    const u32 others = (u32)n - 1;
    UNROLL for (int i = 0; i < GROUP; ++i) {
        if (i >= n) continue;
        const u32 *of = bounds + 2 * slots[i];
        bound += of[0] + (u64)others * of[1];
    }
    NO_UNROLL for (int i = GROUP; i < n; ++i) {
        const u32 *of = bounds + 2 * slots[i];
        bound += of[0] + (u64)others * of[1];
    }
    return bound;
}

// Whether the upper 32 of a site's random bits tell that nothing happens, as they do for most sites:
// first by its number of particles.
DEVICE bool is_beyond_bound(const Lattice &l, int type, u32 upper, const Slot *slots, int n) {
    const u32 *bounds = l.bounds + 2 * ROW * type;
    if (LIKELY(upper > bounds[0] + (u64)(u32)(n * n) * bounds[1])) return true;
    RELOAD;  // or the compiler would do both at once
    return upper > bound_of(bounds, slots, n);
}

// The draw of a reaction, counted from 0 in its pass: x0, x1 choose it, x2, x3 are the time to the next.
DEVICE Philox4 event_draw(const LatticeStream &s, u64 site, u32 pass, u32 event) {
    const bool few = event < FEW_EVENTS;
    const u32 number = few ? event : pass * MORE_EVENTS + (event - FEW_EVENTS);
    return lattice_draw(s, site, few ? PURPOSE_CHOICE : PURPOSE_MORE_CHOICES, number % FEW_EVENTS,
                        few ? pass : number / FEW_EVENTS);
}

// The time to a reaction, times the sum of the propensities, by the random bits that tell that it happens. Most
// reactions are the only one of their pass, so that it is seldom needed.
DEVICE_SELDOM double waiting_time(u64 u) {
    return tl_exponential(1.0 - (double)(u >> 11) * 0x1p-53);
}

// A reaction of a pass, if one happens in what is `left` of it: draws, fires, and sets `total`, the sum of the
// propensities before it, and `u`, the random bits of the next one.
template <class Spill>
DEVICE bool react_once(const Lattice &l, const LatticeStream &s, u64 site, int type, u32 pass, u32 event,
                       double left, u64 &u, double &total, Slot *slots, int &n, u32 &spilled,
                       const Spill &spill) {
    ReactionSum sum = {l.chances + type, NO_TARGET, 0.0, -1};
    const u64 last = u;
    NO_UNROLL for (int turn = 0; turn < 2; ++turn) {  // whether, then which
        sum.sum = 0;
        add_reactions(l.tables, slots, n, sum);
        if (turn == 1) break;
        if (!happens(last, sum.sum * left)) return false;
        if (event == MOST_EVENTS || spilled + (u32)MOST_PRODUCTS > MOST_SPILLED) {
            if (owns_site(l, site)) atomic_add(l.work + TRUNCATED, 1);
            return false;
        }
        const Philox4 x = event_draw(s, site, pass, event);
        total = sum.sum;
        sum.target = unit_half_open(x.x0, x.x1) * total;
        u = joined(x.x2, x.x3);
    }
    if (owns_site(l, site)) atomic_add(l.fired + sum.chosen, 1);
    fire(l.tables, sum.chosen, slots, n, spilled, spill);
    return true;
}

// What may follow the first reaction of a pass. What is left of the pass after a reaction is a shorter pass.
template <class Spill>
DEVICE void react_again(const Lattice &l, const LatticeStream &s, u64 site, int type, u32 pass, u64 last,
                        u64 u, double total, Slot *slots, int &n, u32 &spilled, const Spill &spill) {
    double left = 1.0;
    for (u32 event = 1;; ++event) {
        left -= waiting_time(last) / total;
        last = u;
        if (!react_once(l, s, site, type, pass, event, left, u, total, slots, n, spilled, spill)) return;
        if (LIKELY(is_beyond_bound(l, type, (u32)(u >> 32), slots, n))) return;
    }
}

// One pass at a site; `u` are its 64 random bits. The first reaction has a copy of the code of its own, which GPUs
// run faster than one loop over all.
template <class Spill>
DEVICE_SHARED void react(const Lattice &l, const LatticeStream &s, u64 site, int type, u32 pass,
                         u64 u, Slot *slots, int &n, u32 &spilled, const Spill &spill) {
    if (LIKELY(is_beyond_bound(l, type, (u32)(u >> 32), slots, n))) return;
    const u64 first = u;
    double total = 0.0;
    if (!react_once(l, s, site, type, pass, 0, 1.0, u, total, slots, n, spilled, spill)) return;
    if (LIKELY(is_beyond_bound(l, type, (u32)(u >> 32), slots, n))) return;
    react_again(l, s, site, type, pass, first, u, total, slots, n, spilled, spill);
}
