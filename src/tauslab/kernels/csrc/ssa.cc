// Exact stochastic simulation, direct method (Gillespie 1977), for networks small enough to be
// unrolled: one thread runs one trajectory and takes the next of the launch when it ends, so no
// lane waits for the slowest. Selector `linear`: propensities are summed in order of reactions.
//
// Draw number `step` of the trajectory's stream gives the step's 128 random bits: words 0 and 1
// the waiting time, words 2 and 3 the reaction.
#include "model.h"
#include "portable_math.h"
#include "prelude.h"
#include "sampling.h"
#include "streams.h"

struct Counts {
    i32 *x;
    DEVICE_MEMBER i32 operator[](int i) const { return x[i]; }
};

KERNEL(ssa, u64 seed, u32 point, i64 first, i64 rows, const double *times, i64 n_times,
       const i32 *initial, i64 initial_stride, const double *constants, i64 constants_stride,
       u64 max_steps, u64 *next_row, i32 *counts, double *observables, i32 *final_counts,
       u8 *status, u64 *events) {
    const Recorder out = {counts, observables, final_counts, status, n_times};
    i32 x[N_SPECIES];
    double c[N_CONSTANTS + 1];
    double a[N_REACTIONS];
    double cumulative[N_REACTIONS];
    const Counts state = {x};
    TrajectoryStream stream = trajectory_stream(seed, STREAM_SSA, 0, point);
    i64 row = -1, k = 0;
    u64 step = 0, fired = 0;
    double t = 0, t_next = 0;
    u8 ended = DONE;

    for (;;) {
        if (row < 0) {
            row = (i64)atomic_add(next_row, 1);
            if (row >= rows) break;
            UNROLL for (int i = 0; i < N_SPECIES; ++i) x[i] = initial[row * initial_stride + i];
            UNROLL for (int i = 0; i < N_CONSTANTS; ++i)
                c[i] = constants[row * constants_stride + i];
            stream = trajectory_stream(seed, STREAM_SSA, (u64)(first + row), point);
            all_propensities(x, c, a, cumulative);
            k = 0, step = 0, t = 0, t_next = times[0], ended = DONE;
        }

        // When the next event happens.
        const Philox4 bits = draw(stream, step);
        const double a0 = cumulative[N_REACTIONS - 1];
        double t_event = infinity();
        if (LIKELY(a0 > 0 && a0 < infinity()))
            t_event = t + tl_exponential(unit_open_low(bits.x0, bits.x1)) / a0;
        else if (ended == DONE)
            ended = a0 == 0 ? ABSORBED : NOT_A_NUMBER;

        // Samples before it, and the end of the trajectory.
        if (t_event > t_next || ended > ABSORBED) {
            const bool valid = ended <= ABSORBED;
            for (; valid && k < n_times && times[k] < t_event; ++k)
                record_sample(out, row, k, state, c);
            if (!valid || k == n_times) {
                if (!valid) record_missing(out, row, k);
                record_end(out, row, ended, valid, state);
                fired += step;
                row = -1;
                continue;
            }
            t_next = times[k];
        }

        if (step >= max_steps) {
            ended = STEP_LIMIT;
            continue;
        }

        // Which reaction it is: the first whose cumulative propensity exceeds the target.
        const double target = unit_half_open(bits.x2, bits.x3) * a0;
        int reaction = 0;
        UNROLL for (int j = 0; j < N_REACTIONS - 1; ++j) reaction += cumulative[j] <= target;
        if (fire(reaction, x, c, a, cumulative) < 0) ended = OVERFLOWED;
        t = t_event;
        ++step;
    }
    atomic_add(events, fired);
}
