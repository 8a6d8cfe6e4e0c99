// A leap of one trajectory, and what comes after it. The paper's symbols are in leaping/tau_leap.cc.
#pragma once

#include "leaping/draws.h"
#include "leaping/trajectory.h"
#include "model.h"

// The next step of a trajectory.
enum Phase : int { LEAPS = 0, EXACT = 1 };

// Leaps, at most to `t_next`, with the propensities in `cells`. Returns false if a leap would not pay; then
// only draws were used.
//
// Rates that follow the time change little in a leaf of the pieces of the run, where a leap ends at the latest. The second half uses
// those of the middle of the leap, so that their integral is right to second order; a critical firing is waited for with
// those of the middle of the longest leap.
template <class Cells>
DEVICE bool leap(Trajectory &s, const Plan &plan, const Cells &cells, const PhiloxKeys &keys,
                 double t_next, Work &work) {
    double limit = plan.limit.time();
    double waiting = infinity(), target = 0;
    [[maybe_unused]] double planned = s.t;
    if (plan.critical > 0) {
        double critical = plan.critical;
        if constexpr (IS_THINNED) {
            planned = s.t + 0.5 * tl_min(limit, t_next - s.t);
            set_time<i32>(s.c, planned);
            critical = critical_propensity(s.x, s.c);
        }
        const Philox4 bits = next_bits(s, keys);
        waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / critical;
        target = unit_half_open(bits.x2, bits.x3) * critical;
    }
    // Volatile: in memory, as registers of a GPU are scarce (584 bytes of Ras/cAMP/PKA's 33 species and
    // 39 reactions spill, not 2022).
    volatile i32 before[N_SPECIES];
    volatile double first[N_CHANNELS];
    for (int i = 0; i < N_SPECIES; ++i) before[i] = s.x[i];
    UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j) first[j] = cells[j];
    for (;;) {
        // The leap ends at its limit, at the critical firing or at the sample, whichever is first.
        bool fires = waiting < limit, cut = false;
        double tau = fires ? waiting : limit;
        if (!(s.t + tau < t_next)) {
            fires = fires && s.t + tau == t_next;
            tau = t_next - s.t;
            cut = true;
        }
        const int chosen = fires ? choose_critical(s.x, s.c, target) : -1;
        const u32 attempt = s.attempts;
        s.attempts += HALVES;
        u64 fired = 0;
        int outcome = FITS;
    NO_UNROLL for (int half = 0; half < HALVES && outcome == FITS; ++half) {
            if (IS_THINNED && half > 0) set_time<i32>(s.c, s.t + 0.5 * tau);
            if (half > 0 && !second_half(s.x, before, s.c, first, cells)) {
                outcome = FELL_BELOW_ZERO;
                break;
            }
            const PhiloxSeries series = leap_series(keys, s.id, s.point, attempt + (u32)half);
            outcome = fire_half(s.x, cells, 0.5 * tau, half > 0 ? chosen : -1, series, keys, fired);
        }
        if (!(outcome & FELL_BELOW_ZERO)) {
            s.overflowed = outcome & TOO_LARGE;
            s.t = cut ? t_next : s.t + tau;
            work.firings += fired;
            ++work.leaps;
            return true;
        }
        if constexpr (IS_THINNED) set_time<i32>(s.c, planned);
        for (int i = 0; i < N_SPECIES; ++i) s.x[i] = before[i];
        UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j) cells[j] = first[j];
        limit *= 0.5;
        ++work.halved;
        if (!(limit * plan.a0 >= WORTH_EVENTS && s.attempts < LARGEST_LEAP)) return false;
    }
}

// A leap, or the end of the trajectory (its row is then -1). Returns what comes next.
template <class Cells>
DEVICE Phase step(Trajectory &s, const Cells &cells, const PhiloxKeys &keys,
                  const Recorder &out, const double *times, u64 max_steps,
                  const Tolerance &tolerance, Work &work) {
    enter_leaf(s, out, times);
    if constexpr (IS_THINNED) set_time<i32>(s.c, s.t);
    const Plan plan = plan_leap(s.x, s.c, cells, tolerance);
    if (!goes_on(s, plan.a0, out, times, max_steps)) return LEAPS;
    double longest = plan.limit.time();
    if constexpr (IS_THINNED) longest = tl_min(longest, s.c[LEAF_LENGTH_AT]);
    const bool pays = longest * plan.a0 >= WORTH_EVENTS;
    return pays && leap(s, plan, cells, keys, next_stop(s, times), work) ? LEAPS : EXACT;
}
