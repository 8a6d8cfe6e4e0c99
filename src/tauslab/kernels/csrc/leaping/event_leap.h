// Leaps of a trajectory with events: as in leaping/tau_leap.cc, on a state of doubles that also holds
// quantities of any value and the time. A leap ends at the next stop at most. What moves by itself, quantities
// with an equation of their own and laws that depend on the time, moves along by the midpoint rule: the
// propensities of the second half are extrapolated from those in the middle of the leap, so that their integral
// over the leap is right to second order.
#pragma once

#include "leaping/leaps.h"
#include "leaping/crossing.h"
#include "events/state.h"
#include "leaping/draws.h"
#include "leaping/work.h"

// Where the random numbers of a trajectory come from. Every half of every attempt at a leap has a number;
// exact events and waiting times take their bits one after the other from STREAM_TAU.
struct LeapSource {
    PhiloxSeries series;
    u64 trajectory, draws;
    u32 point, attempts;

    DEVICE_MEMBER void start(const Place &place) {
        trajectory = place.trajectory, point = place.point, draws = 0, attempts = 0;
    }
    DEVICE_MEMBER Philox4 next(const PhiloxKeys &keys) {
        if ((u32)draws == 0) series = draw_series(keys, STREAM_TAU, trajectory, point, draws);
        return philox_draw(series, keys, (u32)draws++);
    }
};

struct LeapEnd {
    bool taken;  // false: only draws were used
    bool overflow;
    bool stopped;  // whether it ended at `end`
    double t;
};

constexpr double FIRST_REACH = 0.01, MOST_GROWTH = 4.0;

// Whether what moves by itself changes little in a leap of length h from state x at time t. `d` are the rates at
// its start, and `cells` the propensities to leap with.
template <class Cells>
DEVICE_SHARED bool moves_little(const double *x, const double *c, const double *d,
                                const Cells &cells, double t, double h,
                                const Tolerance &tolerance) {
    double y[N_SPECIES + 1], rates[N_FLOW + 1], there[N_CHANNELS];
    for (int i = 0; i < N_SPECIES; ++i) y[i] = x[i];
    NO_UNROLL for (int look = 0; look < 2; ++look) {
        const double s = look == 0 ? 0.5 * h : h;
        for (int i = 0; i < N_FLOW; ++i) y[FLOW[i]] = FMA(s, d[i], x[FLOW[i]]);
        y[N_SPECIES] = t + s;
        if (look == 0) {
            flow_rates(y, c, rates);
            for (int i = 0; i < N_FLOW; ++i) {
                const double size = larger(magnitude(x[FLOW[i]]), magnitude(FMA(h, d[i], x[FLOW[i]])));
                const double most = larger(tolerance.drift * tolerance.drift * size, 1e-9);
                if (!(magnitude(h * (rates[i] - d[i])) <= most)) return false;
            }
        }
        channel_propensities(y, c, there);
        for (int j = 0; j < N_CHANNELS; ++j) {
            const double most = tolerance.drift * larger(h * cells[j], 1.0);
            if (!(magnitude(h * (there[j] - cells[j])) <= most)) return false;
        }
        if (!relations_stay(x, y, c)) return false;
    }
    return true;
}

// Leaps from time t, at most to `end`, with the propensities in `cells`. `reach` is how far a leap may go for
// what moves by itself; it grows where leaps succeed.
template <class Cells>
DEVICE_SHARED LeapEnd leap(double *x, const double *c, const Plan &plan, const Cells &cells,
                           double t, double end, double &reach, LeapSource &source,
                           const PhiloxKeys &keys, const Tolerance &tolerance, Work &work) {
    const LeapEnd none = {false, false, false, t};
    double limit = plan.limit.time();
    double d[N_FLOW + 1];
    if constexpr (MOVES) {
        flow_rates(x, c, d);
        if (!(reach > 0)) reach = FIRST_REACH * (end - t);
        double h = tl_min(tl_min(limit, end - t), reach);
        while (!moves_little(x, c, d, cells, t, h, tolerance)) {
            reach = h *= 0.5;
            if (!(h * plan.a0 >= WORTH_EVENTS)) return none;
        }
        reach = larger(reach, MOST_GROWTH * h);
        limit = tl_min(limit, h);
    }
    if (!(tl_min(limit, end - t) * plan.a0 >= WORTH_EVENTS)) return none;
    double waiting = infinity(), target = 0;
    if (plan.critical > 0) {
        const Philox4 bits = source.next(keys);
        waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / plan.critical;
        target = unit_half_open(bits.x2, bits.x3) * plan.critical;
    }
    volatile double before[N_SPECIES + 1], first[N_CHANNELS];
    UNROLL_SOME for (int i = 0; i <= N_SPECIES; ++i) before[i] = x[i];
    UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j) first[j] = cells[j];
    for (;;) {
        // The leap ends at its limit, at the critical event or at `end`, whichever is first.
        bool fires = waiting < limit, cut = false;
        double tau = fires ? waiting : limit;
        if (!(t + tau < end)) {
            fires = fires && t + tau == end;
            tau = end - t;
            cut = true;
        }
        const int chosen = fires ? choose_critical(x, c, target) : -1;
        const u32 attempt = source.attempts;
        source.attempts += HALVES;
        u64 fired = 0;
        int outcome = FITS;
        NO_UNROLL for (int half = 0; half < HALVES && outcome == FITS; ++half) {
            if (half > 0) {
                if constexpr (MOVES) {
                    for (int i = 0; i < N_FLOW; ++i)
                        x[FLOW[i]] = FMA(0.5 * tau, d[i], (double)before[FLOW[i]]);
                    x[N_SPECIES] = t + 0.5 * tau;
                }
                if (!second_half(x, before, c, first, cells)) {
                    outcome = FELL_BELOW_ZERO;
                    break;
                }
                if constexpr (MOVES) {
                    double middle[N_FLOW + 1];
                    flow_rates(x, c, middle);
                    for (int i = 0; i < N_FLOW; ++i)
                        x[FLOW[i]] = FMA(tau, middle[i], (double)before[FLOW[i]]);
                }
            }
            const PhiloxSeries series =
                leap_series(keys, source.trajectory, source.point, attempt + (u32)half);
            outcome = fire_half(x, cells, 0.5 * tau, half > 0 ? chosen : -1, series, keys, fired);
        }
        if (!(outcome & FELL_BELOW_ZERO)) {
            work.firings += fired;
            ++work.leaps;
            const double reached = cut ? end : t + tau;
            x[N_SPECIES] = reached;
            return {true, (outcome & TOO_LARGE) != 0, cut, reached};
        }
        UNROLL_SOME for (int i = 0; i <= N_SPECIES; ++i) x[i] = before[i];
        UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j) cells[j] = first[j];
        limit *= 0.5;
        ++work.halved;
        if (!(limit * plan.a0 >= WORTH_EVENTS && source.attempts < LARGEST_LEAP)) return none;
    }
}

struct EventLeapArguments {
    EnsembleArguments launch;
    double epsilon;  // bound on the expected relative change of a propensity in a leap
};
