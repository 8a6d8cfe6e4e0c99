// A trajectory that leaps: its start, exact firings between leaps, its end.
#pragma once

#include "ensemble/control.h"
#include "leaping/leaps.h"
#include "leaping/work.h"
#include "model.h"
#include "random/poisson.h"
#include "ensemble/sampling.h"

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

DEVICE Philox4 next_bits(Trajectory &s, const PhiloxKeys &keys) {
    const PhiloxSeries series = draw_series(keys, STREAM_TAU, s.id, s.point, s.draws);
    return philox_draw(series, keys, (u32)s.draws++);
}

DEVICE u8 state_of(const Trajectory &s, double a0, u64 max_steps) {
    if (s.overflowed) return OVERFLOWED;
    if (!(a0 >= 0 && a0 < infinity())) return NOT_A_NUMBER;
    if (a0 == 0) return ABSORBED;
    return s.steps >= max_steps || s.attempts >= LARGEST_LEAP ? STEP_LIMIT : DONE;
}

// The numbers of an exact firing: its waiting time for a total propensity of 1, and which reaction it is.
struct EventDraw {
    double waiting, unit;
};

DEVICE EventDraw draw_event(const PhiloxSeries &series, const PhiloxKeys &keys, u32 number) {
    const Philox4 bits = philox_draw(series, keys, number);
    const double waiting = tl_exponential(unit_open_low(bits.x0, bits.x1));
    return {waiting, unit_half_open(bits.x2, bits.x3)};
}

// Total propensities that `quotient` takes: high words of 2^-900 and 2^900.
constexpr u32 SMALLEST_TOTAL = (1023 - 900) << 20, LARGEST_TOTAL = (1023 + 900) << 20;

// An end of the trajectory is noticed before the next leap.
template <class Cells>
DEVICE void exact_events(Trajectory &s, const Cells &cells, const PhiloxKeys &keys,
                         const Recorder &out, const double *times, u64 max_steps, Work &work) {
    Exact exact;
    const Counts state = {s.x};
    start_exact(s.x, s.c, exact, cells);
    const u64 left = max_steps > s.steps ? max_steps - s.steps : 0;
    const u32 most = left < EXACT_EVENTS ? (u32)left : EXACT_EVENTS;
    const u32 turns = s.overflowed || s.attempts >= LARGEST_LEAP ? 0 : most;
    PhiloxSeries series = draw_series(keys, STREAM_TAU, s.id, s.point, s.draws);
    double t_next = times[s.k];
    u32 made = 0;
    EventDraw next = draw_event(series, keys, (u32)s.draws);
    NO_UNROLL while (made < turns) {
        const double a0 = exact.total();
        const bool usual = high_word(a0) - SMALLEST_TOTAL < LARGEST_TOTAL - SMALLEST_TOTAL;
        if (!LIKELY(usual) && !(a0 > 0 && a0 < infinity())) break;
        const EventDraw draw = next;
        const double t =
            s.t + (LIKELY(usual) ? quotient(draw.waiting, a0) : draw.waiting / a0);
        if (!LIKELY((u32)++s.draws != 0))
            series = draw_series(keys, STREAM_TAU, s.id, s.point, s.draws);
        if (!LIKELY(t <= t_next)) {
            for (; s.k < out.n_times && times[s.k] < t; ++s.k)
                record_sample(out, s.row, s.k, state, s.c);
            if (s.k == out.n_times) break;
            t_next = times[s.k];
        }
        // The numbers of the next firing are drawn meanwhile: neither waits for the other.
        next = draw_event(series, keys, (u32)s.draws);
        const bool overflowed = fire_exact(draw.unit * a0, s.x, s.c, exact, cells) < 0;
        s.t = t;
        ++made;
        if (!LIKELY(!overflowed)) {
            s.overflowed = 1;
            break;
        }
    }
    s.steps += made, work.exact += made, work.firings += made;
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
    // The state at a sample is that after the last firing at or before it.
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
