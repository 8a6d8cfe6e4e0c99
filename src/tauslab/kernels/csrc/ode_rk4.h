// A step of the classical Runge-Kutta method of order 4 (Kutta 1901).
#pragma once

#include "ode.h"

// A step of length h, and what it multiplies by.
struct StepSize {
    double h;
    Real half, full, sixth;
};

DEVICE StepSize step_size(double h) {
    return {h, (Real)(0.5 * h), (Real)h, (Real)(h / 6.0)};
}

// Variables in registers need nothing between stages.
DEVICE void stage_ends(const Real *) {}

// x(t) to x(t + h), with room for the next stage's variables and for a sum of rates. The operations
// on a variable and their order are the same in ode_warps.cc.
template <class State, class Constants>
DEVICE void rk4_step(State &x, State &y, State &sum, const Constants &c, double t,
                     const StepSize &by) {
    const Real half = by.half, full = by.full, sixth = by.sixth;
    const Real middle = (Real)(t + 0.5 * by.h), last = (Real)(t + by.h);
    Real d[N_VARIABLES + 1];
    ode_rates(x, c, (Real)t, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) sum[i] = d[i], y[i] = fused(half, d[i], x[i]);
    stage_ends(y);
    ode_rates(y, c, middle, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) {
        sum[i] = fused((Real)2, d[i], sum[i]);
        y[i] = fused(half, d[i], x[i]);
    }
    stage_ends(y);
    ode_rates(y, c, middle, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) {
        sum[i] = fused((Real)2, d[i], sum[i]);
        y[i] = fused(full, d[i], x[i]);
    }
    stage_ends(y);
    ode_rates(y, c, last, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) x[i] = fused(sixth, sum[i] + d[i], x[i]);
    stage_ends(x);
}

// `substeps` steps from one time to another.
template <class State, class Constants>
DEVICE void fixed_steps(State &x, State &y, State &sum, const Constants &c, double from, double to,
                        i64 substeps) {
    const StepSize by = step_size((to - from) / (double)substeps);
    for (i64 i = 0; i < substeps; ++i) rk4_step(x, y, sum, c, from + (double)i * by.h, by);
}

struct FixedSteps {
    i64 substeps;
    u64 steps;

    DEVICE_MEMBER void start() const {}
    DEVICE_MEMBER void restart() const {}
};
