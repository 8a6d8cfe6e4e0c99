// A trajectory that leaps: its start, exact events between leaps, its end.
#pragma once

#include "ensemble/control.h"
#include "leaping/leaps.h"
#include "leaping/work.h"
#include "model.h"
#include "random/poisson.h"
#include "math/math.h"
#include "device/prelude.h"
#include "ensemble/sampling.h"
#include "random/streams.h"

struct Counts {
    i32 *x;
    DEVICE_MEMBER i32 operator[](int i) const { return x[i]; }
};

// A trajectory between two steps.
struct Trajectory {
    i32 x[N_SPECIES];
    u32 point;
    double c[N_CONSTANTS + 1];
    double t;
    u64 id, steps;
    u64 draws;   // of STREAM_TAU
    i64 row, k;  // where samples go, and the next of them
    u32 attempts;
    i32 overflowed;
};

DEVICE Philox4 next_bits(Trajectory &s, u64 seed) {
    return draw(trajectory_stream(seed, STREAM_TAU, s.id, s.point), s.draws++);
}

DEVICE u8 state_of(const Trajectory &s, double a0, u64 max_steps) {
    if (s.overflowed) return OVERFLOWED;
    if (!(a0 >= 0 && a0 < infinity())) return NOT_A_NUMBER;
    if (a0 == 0) return ABSORBED;
    return s.steps >= max_steps || s.attempts >= LARGEST_LEAP ? STEP_LIMIT : DONE;
}

// An end of the trajectory is noticed before the next leap.
template <class Cells>
DEVICE void exact_events(Trajectory &s, const Cells &cells, u64 seed, const Recorder &out,
                         const double *times, u64 max_steps, Work &work) {
    Exact exact;
    const Counts state = {s.x};
    start_exact(s.x, s.c, exact, cells);
    for (int i = 0; i < EXACT_EVENTS; ++i) {
        const double a0 = exact.total();
        if (state_of(s, a0, max_steps) != DONE) return;
        const Philox4 bits = next_bits(s, seed);
        const double t = s.t + tl_exponential(unit_open_low(bits.x0, bits.x1)) / a0;
        if (!(t <= times[s.k])) {
            for (; s.k < out.n_times && times[s.k] < t; ++s.k)
                record_sample(out, s.row, s.k, state, s.c);
            if (s.k == out.n_times) return;
        }
        const double target = unit_half_open(bits.x2, bits.x3) * a0;
        s.overflowed = fire_exact(target, s.x, s.c, exact, cells) < 0;
        s.t = t;
        ++s.steps, ++work.exact, ++work.firings;
    }
}

// The end of a trajectory, after the samples that it reached.
DEVICE void finish(Trajectory &s, const Recorder &out, u8 ended) {
    const bool valid = ended <= ABSORBED;
    const Counts state = {s.x};
    for (; valid && s.k < out.n_times; ++s.k) record_sample(out, s.row, s.k, state, s.c);
    if (!valid) record_missing(out, s.row, s.k);
    record_end(out, s.row, ended, valid, state);
    s.row = -1;
}

// Records the samples that the trajectory has reached, and begins its next step. False if it has ended.
DEVICE bool goes_on(Trajectory &s, double a0, const Recorder &out, const double *times,
                    u64 max_steps) {
    const Counts state = {s.x};
    const u8 ended = state_of(s, a0, max_steps);
    // The state at a sample is that after the last event at or before it.
    if (ended <= ABSORBED || ended == STEP_LIMIT)
        for (; s.k < out.n_times && times[s.k] <= s.t; ++s.k)
            record_sample(out, s.row, s.k, state, s.c);
    if (ended != DONE || s.k == out.n_times) {
        finish(s, out, s.k == out.n_times ? (u8)DONE : ended);
        return false;
    }
    ++s.steps;
    return true;
}

// Takes the next row; false if there is none.
DEVICE bool begin(Trajectory &s, const EnsembleArguments &launch) {
    const i64 row = take_row(launch.control, launch.rows);
    if (row >= launch.rows) return false;
    const Place place = place_in(launch, row);
    for (int i = 0; i < N_SPECIES; ++i)
        s.x[i] = launch.initial[place.input * launch.initial_stride + i];
    for (int i = 0; i < N_CONSTANTS; ++i)
        s.c[i] = launch.constants[place.input * launch.constants_stride + i];
    check_constants(s.c);
    s.id = place.trajectory, s.point = place.point, s.row = row;
    s.k = 0, s.t = 0, s.steps = 0, s.draws = 0, s.attempts = 0, s.overflowed = 0;
    return true;
}
