// Runge-Kutta with a fixed number of steps in every span, one trajectory per thread with its
// variables in registers.
#include "ode/rk4.h"

struct FixedStepArguments {
    OdeJob job;
    i64 substeps;  // of a span
};

// All trajectories take equally long: rows are dealt out, so that neighbours write side by side.
KERNEL(ode_rk4, const FixedStepArguments arguments) {
    const OdeJob &job = arguments.job;
    FixedSteps method = {arguments.substeps, 0};
    Real x[N_VARIABLES + 1] = {}, c[N_CONSTANTS + 1] = {};
    for (i64 row = GLOBAL_ID; row < job.rows; row += GLOBAL_SIZE)
        run_trajectory(job, row, method, x, c);
    if (job.steps) atomic_add(job.steps, method.steps);
}
