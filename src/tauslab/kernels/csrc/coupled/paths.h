// The loop of exact trajectories that are compared with others or with their scores, one firing after the other.
// A `Path` is the trajectory that a thread runs. Its draws are apart: what has an array with an index that is not known stays in memory.
//
//     begin(place), draw_from(place, number)  takes the state at time 0; draws from firing `number` on
//     prepare(step)                           the total propensity, when the next firing is drawn
//     waiting(usual)                          the time to it; `usual`: no step of a division can overflow
//     fire(waiting, elapsed)                  what happens then: `elapsed` is the difference of the rounded times
//     sample(row, k, later)                   records the state at sample `k`, `later` than the last firing
//     end(row, k, ended, valid)               records the end; it gave no sample from `k` on
//     signs                                   negative after an overflow
#pragma once

#include "ensemble/control.h"
#include "model.h"
#include "ensemble/sampling.h"
#include "ensemble/stepping.h"

template <class Path>
DEVICE void run_paths(const EnsembleArguments &launch, u64 most, Path &path) {
    const i64 n_times = launch.n_times, rows = launch.rows;
    const double *const times = launch.times;
    i64 row = -1, k = 0;
    u64 fired = 0;
    u32 era = 0, step = 0, pause = 0;  // halves of the firing's number
    double t = 0, t_next = 0;

    for (;;) {
        const double total = path.prepare(step);
        double waiting = path.waiting(true), t_event = t + waiting;

        // Everything rare in one branch, as in ensemble/ssa.cc.
        const u32 size = high_word(total) | ((u32)path.signs & 0x80000000u);
        const bool usual = size - SMALLEST_USUAL < LARGEST_USUAL - SMALLEST_USUAL;
        if (!LIKELY(usual & (t_event <= t_next) & (step != pause))) {
            u8 ended = DONE;
            if (!LIKELY(usual)) {
                waiting = path.waiting(false), t_event = t + waiting;
                if (path.signs < 0)
                    ended = OVERFLOWED;
                else if (total == 0)
                    ended = ABSORBED, t_event = infinity();
                else if (!(total > 0 && total < infinity()))
                    ended = NOT_A_NUMBER;
            }

            // Samples before the firing.
            bool valid = ended <= ABSORBED;
            if (LIKELY(valid && row >= 0))
                for (; k < n_times && times[k] < t_event; ++k) path.sample(row, k, times[k] - t);

            if (valid && row >= 0 && k < n_times && step == pause) {
                const u64 number = (u64)era << 32 | step;
                if (number >= most) {
                    ended = STEP_LIMIT, valid = false;
                } else {
                    if (must_leave(launch.control, LOOK_EVERY, t)) break;
                    if (step == 0xffffffffu)
                        ++era, path.draw_from(place_in(launch, row), number + 1);
                    pause = next_pause(number + 1, most);
                }
            }

            // The end of the trajectory, and the start of the next.
            if (!valid || k == n_times || row < 0) {
                if (row >= 0) {
                    path.end(row, k, ended, valid);
                    fired += (u64)era << 32 | step;
                }
                row = take_row(launch.control, rows);
                if (row >= rows) break;
                path.begin(place_in(launch, row));
                path.signs = 0;
                k = 0, era = 0, step = 0, pause = next_pause(0, most);
                t = 0, t_next = times[0];
                continue;
            }
            t_next = times[k];
        }

        path.fire(waiting, t_event - t);
        t = t_event;
        ++step;
    }
    atomic_add(launch.work, fired);
}

// The numbers of the next firings, of a stream of the trajectory's own.
struct PathDraws {
    const PhiloxKeys keys;
    PhiloxSeries series;
    StepDraws ahead;
    u32 now;

    DEVICE_MEMBER void prepare(u32 step) {
        now = step % DRAWS_AHEAD;
        if (now == 0) draw_ahead(series, keys, step, ahead);
    }
    DEVICE_MEMBER double waiting(double total, bool usual) const {
        return usual ? quotient(ahead.waiting[now], total) : ahead.waiting[now] / total;
    }
    DEVICE_MEMBER double target(double total) const {
        return scaled_half_open(ahead.unit[now], total);
    }
};

// The end of a trajectory with `width` numbers a sample, of which it gave none from sample `k` on.
DEVICE void end_samples(const EnsembleArguments &launch, i64 row, i64 k, i64 width, u8 ended) {
    for (i64 i = k * width; i < launch.n_times * width; ++i)
        launch.observables[row * launch.n_times * width + i] = not_a_number();
    launch.status[row] = ended;
}

constexpr int PAIR_COLUMNS = 4;

// Both sides of an output in the columns of a pair. The square is for the fourth moment, which tells
// how many pairs the variance of the difference comes from.
DEVICE void record_difference(double *cell, i64 n_outputs, double first, double second) {
    const double difference = first - second;
    cell[0] = difference;
    cell[n_outputs] = first;
    cell[2 * n_outputs] = second;
    cell[3 * n_outputs] = difference * difference;
}
