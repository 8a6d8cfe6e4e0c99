// Exact stochastic simulation, direct method (Gillespie 1977), for networks that are small enough to be
// unrolled. One thread runs one trajectory, and takes the next one of the launch when it ends, so no lane
// waits for the slowest. Selector `linear`: propensities are summed in the order of reactions.
//
//     Gillespie 1977     here
//     X_i                x[i]
//     a_mu, a_0          a[j], cumulative[N_REACTIONS - 1]
//     r_1, tau           words 0 and 1 of a draw; `waiting` / a0
//     r_2, mu            words 2 and 3; `fire` chooses the reaction and applies it
//
// Draw number `step` of the trajectory's stream gives the 128 random bits of that step.
#include "ensemble/control.h"
#include "model.h"
#include "math/math.h"
#include "device/prelude.h"
#include "ensemble/sampling.h"
#include "ensemble/stepping.h"
#include "random/streams.h"

// Registers for seven blocks on a multiprocessor, where some reactions need little more: 28 warps hide what a
// thread waits for better than 20 that keep all in registers. (Vilar's 16 reactions would take 102 registers, and
// 14 % more time; fewer than eight fit as they are, and 61 take half as long again if they must wait in memory.)
constexpr int WEIGHT = N_REACTIONS + 2 * N_CONSTANTS;
constexpr int RESIDENT_BLOCKS = (N_REACTIONS >= 8 || N_CONSTANTS > 0) && WEIGHT <= 16 ? 7 : 0;

KERNEL_IN_BLOCKS(RESIDENT_BLOCKS, ssa, const EnsembleArguments launch) {
    const Recorder out = recorder_of(launch);
    Recorder samples = out;
    samples.n_times = 1;  // rows of one sample: `sample` counts those of all trajectories
    const i64 rows = launch.rows;
    const i32 n_times = (i32)launch.n_times;
    const double *const times = launch.times;
    i32 x[N_SPECIES] = {};
    double c[N_CONSTANTS + N_NUMBERS + 1] = {};
    double a[N_REACTIONS] = {};
    double cumulative[N_REACTIONS] = {};
    const Counts state = {x};
    PhiloxSeries series = {};
    StepDraws draws = {};
    const PhiloxKeys keys = *launch.keys;  // in registers: loaded, so not made again in the loop
    const LogSeries &logs = in_registers(LOG_SERIES, launch.rows);
    const Numbers numbers = in_registers(NUMBERS, launch.rows);
    UNROLL for (int i = 0; i < N_NUMBERS; ++i) c[N_CONSTANTS + i] = numbers.of[i];
    i64 row = -1, sample = 0;
    i32 k = 0;
    u64 fired = 0;
    u32 era = 0, step = 0, pause = 0;  // halves of the draw's number
    double t = 0, t_next = 0;
    i32 signs = 0;  // negative after an overflow

    for (;;) {
        // When the next event happens.
        const u32 now = step % DRAWS_AHEAD;
        double a0 = cumulative[N_REACTIONS - 1];
        const double waiting = draws.waiting[now];
        double t_event = t + quotient(waiting, a0);

        // Everything rare in one branch: a0 that is zero, infinite, NaN, negative or beyond what
        // `quotient` takes, a count that passed its limit (a sign bit), a sample, a pause.
        const u32 size = high_word(a0) | ((u32)signs & 0x80000000u);
        const bool usual = size - SMALLEST_USUAL < LARGEST_USUAL - SMALLEST_USUAL;
        i32 fires = 1;
        if (!LIKELY(usual & (t_event <= t_next) & (step != pause))) {
            u8 ended = DONE;
            if (!LIKELY(usual)) {
                t_event = t + waiting / a0;
                if (signs < 0)
                    ended = OVERFLOWED;
                else if (a0 == 0)
                    ended = ABSORBED, t_event = infinity();
                else if (!(a0 > 0 && a0 < infinity()))
                    ended = NOT_A_NUMBER;
            }

            // Samples before the event.
            bool valid = ended <= ABSORBED;
            if (LIKELY(valid)) {
                NO_UNROLL while (t_next < t_event) {
                    record_sample(samples, sample, 0, state, c);
                    ++sample;
                    t_next = ++k < n_times ? times[k] : infinity();
                }
            }

            if (!LIKELY(valid & (k < n_times) & (step != pause))) {
                if (valid && k < n_times) {
                    const u64 number = (u64)era << 32 | step;
                    if (number >= launch.max_steps) {
                        ended = STEP_LIMIT, valid = false;
                    } else {
                        if (must_leave(launch.control, LOOK_EVERY, t)) break;
                        if (step == 0xffffffffu) {
                            ++era;
                            const Place place = place_in(launch, row);
                            series = draw_series(keys, STREAM_SSA, place.trajectory, place.point,
                                                 number + 1);
                        }
                        pause = next_pause(number + 1, launch.max_steps);
                    }
                }

                // The end of the trajectory, and the start of the next.
                if (!valid || k >= n_times) {
                    if (row >= 0) {
                        if (!valid) record_missing(out, row, k);
                        record_end(out, row, ended, valid, state);
                        fired += (u64)era << 32 | step;
                    }
                    row = take_row(launch.control, rows);
                    if (row >= rows) break;
                    const Place place = place_in(launch, row);
                    series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, 0);
                    load<N_SPECIES>(x, launch.initial + place.input * launch.initial_stride);
                    load<N_CONSTANTS>(c, launch.constants + place.input * launch.constants_stride);
                    check_constants(c);
                    k = 0, sample = row * n_times;
                    era = 0, pause = next_pause(0, launch.max_steps);
                    t_next = times[0];
                    if constexpr (FIRES_ALL) {
                        // The last reaction leads to the start.
                        UNROLL for (int j = 0; j < N_REACTIONS; ++j) cumulative[j] = 0;
                        before_last(x);
                        draws.unit[now] = 2, a0 = 0;
                        t_event = 0, step = 0xffffffffu;
                    } else {
                        all_propensities(x, c, a, cumulative);
                        draw_ahead(series, keys, 0, draws, logs);
                        t = 0, step = 0, signs = 0, fires = 0;
                    }
                }
            }
        }

        GO_ON_TOGETHER(step);
        if (FIRES_ALL || fires) {
            // The reaction is the first whose cumulative propensity exceeds the target. The numbers of the next
            // event are drawn meanwhile: neither waits for the other.
            const double target = scaled_half_open(draws.unit[now], a0);
            t = t_event;
            ++step;
            if (step % DRAWS_AHEAD == 0) draw_ahead(series, keys, step, draws, logs);
            signs = fire(target, x, c, a, cumulative);
        }
    }
    atomic_add(launch.work, fired);
}
