// Runge-Kutta with a fixed number of steps in every span, one trajectory per thread with its
// variables in registers.
#include "ode/rk4.h"
#include "ode/lanes.h"

struct FixedStepArguments {
    OdeJob job;
    i64 substeps;  // of a span
};

TRAJECTORIES_TOGETHER(ode_rk4)

#ifdef ON_LANES
// Trajectories from `first` on, on lanes that make all steps together. A lane too many repeats the first.
DEVICE void run_together(const OdeJob &job, i64 first, FixedSteps &method) {
    OdeLanes lanes = {};
    Real y[N_VARIABLES + 1], sum[N_VARIABLES + 1];
    const int count = job.rows - first < SIMD_LANES ? (int)(job.rows - first) : SIMD_LANES;
    for (int lane = 0; lane < SIMD_LANES; ++lane) {
        OfLane x = lanes.variables(lane), c = lanes.constants(lane);
        begin_trajectory(job, lane < count ? first + lane : first, x, c);
    }
    lanes.busy = (1u << count) - 1;
    for (i64 span = 0; span < job.n_spans && lanes.busy; ++span) {
        const double from = job.begin[span], to = job.end[span];
        u8 ended = ODE_DONE;
        for (int lane = 0; span % LOOK_EVERY_SPANS == 0 && lane < count; ++lane)
            if (lanes.busy >> lane & 1 && must_leave(job.next_row, 0, from)) ended = ODE_STEP_LIMIT;
        if (to > from && ended == ODE_DONE) {
            fixed_steps(lanes.x, y, sum, lanes.c, from, to, method.substeps);
            method.steps += (u64)method.substeps * (u64)popc(lanes.busy);
        }
        for (u32 rest = lanes.busy; rest; rest &= rest - 1) {
            const int lane = lowest_bit(rest);
            OfLane x = lanes.variables(lane);
            const OfLane c = lanes.constants(lane);
            const u8 status = ended == ODE_DONE && !all_finite(x) ? (u8)ODE_NOT_A_NUMBER : ended;
            if (status != ODE_DONE) {
                miss_samples(job, first + lane, span);
                if (job.status) job.status[first + lane] = status;
                lanes.busy &= ~(1u << lane);
                continue;
            }
            if (job.event[span] >= 0) ode_event(job.event[span], x, c, to);
            if (job.sample[span] >= 0) take_sample(job, first + lane, job.sample[span], x, c, to);
        }
    }
    for (int lane = 0; job.status && lane < count; ++lane)
        if (lanes.busy >> lane & 1) job.status[first + lane] = ODE_DONE;
}

#endif

KERNEL(ode_rk4, const FixedStepArguments arguments) {
    const OdeJob &job = arguments.job;
    FixedSteps method = {arguments.substeps, 0};
#ifdef ON_LANES
    for (i64 row = GLOBAL_ID * SIMD_LANES; row < job.rows; row += GLOBAL_SIZE * SIMD_LANES)
        run_together(job, row, method);
#else
    Real x[N_VARIABLES + 1] = {}, c[N_CONSTANTS + 1] = {};
    run_rows(job, GLOBAL_ID, GLOBAL_SIZE, method, x, c);
#endif
    if (job.steps) atomic_add(job.steps, method.steps);
}
