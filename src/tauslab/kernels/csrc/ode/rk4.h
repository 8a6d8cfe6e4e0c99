// A step of the classical Runge-Kutta method of order 4 (Kutta 1901).
//
//     k_1 .. k_4                         `d` of each stage
//     h / 2, h, h / 6                    StepSize::half, full, sixth
//     k_1 + 2 k_2 + 2 k_3 + k_4          `sum`
#pragma once

#include "ode/ode.h"

// A step of length h, and what it multiplies by.
struct StepSize {
    double h;
    Real half, full, sixth;
};

DEVICE StepSize step_size(double h) {
    return {h, number<Real>(0.5 * h), number<Real>(h), number<Real>(h / 6.0)};
}

// Numbers in registers need nothing between stages; those in memory are loaded again, or they would
// be kept in registers after all.
DEVICE void stage_ends(const Real *, const Real *) {}
template <class State, class Constants>
DEVICE void stage_ends(const State &, const Constants &) {
    RELOAD;
}

// The same as `unrolled_step` with one text for the four stages, where that is long: instructions are
// kept in a cache too. A sum that begins with -0 is the first rate, whatever the sign of a zero.
template <class State, class Constants>
DEVICE void rolled_step(State &x, State &y, State &sum, const Constants &c, double t,
                        const StepSize &by) {
    Real d[N_VARIABLES + 1];
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) y[i] = x[i], sum[i] = number<Real>(-0.0);
    stage_ends(y, c);
    NO_UNROLL for (int stage = 0; stage < 4; ++stage) {
        const Real weight = number<Real>(stage == 1 || stage == 2 ? 2.0 : 1.0);
        const Real ahead = stage < 2 ? by.half : by.full;
        const double later = stage == 0 ? 0.0 : stage == 3 ? by.h : 0.5 * by.h;
        ode_rates(y, c, number<Real>(t + later), d);
        UNROLL for (int i = 0; i < N_VARIABLES; ++i) {
            sum[i] = fused(weight, d[i], sum[i]);
            y[i] = fused(ahead, d[i], x[i]);
        }
        stage_ends(y, c);
    }
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) x[i] = fused(by.sixth, sum[i], x[i]);
    stage_ends(x, c);
}

// x(t) to x(t + h), with room for the next stage's variables and for a sum of rates. The operations
// on a variable and their order are the same in ode/blocks/warps.cc.
template <class State, class Constants>
DEVICE void unrolled_step(State &x, State &y, State &sum, const Constants &c, double t,
                          const StepSize &by) {
    const Real half = by.half, full = by.full, sixth = by.sixth;
    const Real middle = number<Real>(t + 0.5 * by.h), last = number<Real>(t + by.h);
    Real d[N_VARIABLES + 1];
    ode_rates(x, c, number<Real>(t), d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) sum[i] = d[i], y[i] = fused(half, d[i], x[i]);
    stage_ends(y, c);
    ode_rates(y, c, middle, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) {
        sum[i] = fused(number<Real>(2.0), d[i], sum[i]);
        y[i] = fused(half, d[i], x[i]);
    }
    stage_ends(y, c);
    ode_rates(y, c, middle, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) {
        sum[i] = fused(number<Real>(2.0), d[i], sum[i]);
        y[i] = fused(full, d[i], x[i]);
    }
    stage_ends(y, c);
    ode_rates(y, c, last, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) x[i] = fused(sixth, sum[i] + d[i], x[i]);
    stage_ends(x, c);
}

// `substeps` steps from one time to another.
template <class State, class Constants>
DEVICE void fixed_steps(State &x, State &y, State &sum, const Constants &c, double from, double to,
                        i64 substeps) {
    const StepSize by = step_size((to - from) / (double)substeps);
    for (i64 i = 0; i < substeps; ++i) {
        const double t = from + (double)i * by.h;
        if constexpr (LONG_STEP)
            rolled_step(x, y, sum, c, t, by);
        else
            unrolled_step(x, y, sum, c, t, by);
    }
}

struct FixedSteps {
    i64 substeps;
    u64 steps;

    DEVICE_MEMBER void start() const {}
    DEVICE_MEMBER void restart() const {}
    template <class State, class Constants>
    DEVICE_MEMBER u8 advance(State &x, const Constants &c, double from, double to) {
        Real y[N_VARIABLES + 1], sum[N_VARIABLES + 1];
        fixed_steps(x, y, sum, c, from, to, substeps);
        steps += (u64)substeps;
        return ODE_DONE;
    }
};
