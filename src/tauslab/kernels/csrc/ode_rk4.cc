// The classical Runge-Kutta method of order 4 (Kutta 1901) with a fixed number of steps in every
// span, one trajectory per thread with its variables in registers.
#include "ode.h"

// x(t) to x(t + h). The operations on a variable and their order are the same in ode_warps.cc.
DEVICE void rk4_step(Real *x, const Real *c, double t, const StepSize &by) {
    const Real half = by.half, full = by.full, sixth = by.sixth;
    const Real middle = (Real)(t + 0.5 * by.h), last = (Real)(t + by.h);
    Real d[N_VARIABLES + 1], y[N_VARIABLES + 1], sum[N_VARIABLES + 1];
    ode_rates(x, c, (Real)t, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) sum[i] = d[i], y[i] = fused(half, d[i], x[i]);
    ode_rates(y, c, middle, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) {
        sum[i] = fused((Real)2, d[i], sum[i]);
        y[i] = fused(half, d[i], x[i]);
    }
    ode_rates(y, c, middle, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) {
        sum[i] = fused((Real)2, d[i], sum[i]);
        y[i] = fused(full, d[i], x[i]);
    }
    ode_rates(y, c, last, d);
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) x[i] = fused(sixth, sum[i] + d[i], x[i]);
}

struct FixedSteps {
    i64 substeps;
    u64 steps;

    DEVICE_MEMBER void start() const {}
    DEVICE_MEMBER void restart() const {}
};

DEVICE u8 advance(FixedSteps &method, Real *x, const Real *c, double from, double to) {
    const StepSize by = step_size((to - from) / (double)method.substeps);
    for (i64 i = 0; i < method.substeps; ++i) rk4_step(x, c, from + (double)i * by.h, by);
    method.steps += (u64)method.substeps;
    return ODE_DONE;
}

// All trajectories take equally long: rows are dealt out, so that neighbours write side by side.
KERNEL(ode_rk4, ODE_ARGUMENTS, i64 substeps) {
    const OdeJob job = ODE_JOB;
    FixedSteps method = {substeps, 0};
    Real x[N_VARIABLES + 1] = {}, c[N_CONSTANTS + 1] = {};
    for (i64 row = GLOBAL_ID; row < job.rows; row += GLOBAL_SIZE)
        run_trajectory(job, row, method, x, c);
    if (job.steps) atomic_add(job.steps, method.steps);
}
