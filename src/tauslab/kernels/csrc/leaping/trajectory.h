// A trajectory that leaps: its start, exact firings between leaps, its end.
#pragma once

#include "ensemble/control.h"
#include "leaping/leaps.h"
#include "leaping/work.h"
#include "model.h"
#include "random/poisson.h"
#include "ensemble/sampling.h"
#include "ensemble/stepping.h"

// Where rates follow the time: the piece of the run that a trajectory is in, see ensemble/ssa.cc.
template <bool THINNED>
struct InPiece {
    DEVICE_MEMBER void begin(const double *) {}
    DEVICE_MEMBER const double *following() { return nullptr; }
};
template <>
struct InPiece<true> {
    const double *piece;
    DEVICE_MEMBER void begin(const double *first) { piece = first; }
    DEVICE_MEMBER const double *following() { return piece += PIECE_WORDS; }
};

// A trajectory between two steps.
struct Trajectory : InPiece<IS_THINNED> {
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
    if (!(a0 >= 0 && a0 < infinity()) || (IS_THINNED && !(s.t >= 0))) return NOT_A_NUMBER;
    if (a0 == 0 && !IS_THINNED) return ABSORBED;
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

// Records samples at times before `t`, or at `t` too.
template <bool TOO>
DEVICE void record_before(Trajectory &s, const Recorder &out, const double *times, double t) {
    const Counts state = {s.x};
    for (; s.k < out.n_times && (TOO ? times[s.k] <= t : times[s.k] < t); ++s.k) {
        if constexpr (IS_THINNED) s.c[TIME_AT] = times[s.k];
        record_sample(out, s.row, s.k, state, s.c);
    }
}

// When a leap ends at the latest: at the next sample, or with the piece of the run.
DEVICE double next_stop(const Trajectory &s, const double *times) {
    if constexpr (!IS_THINNED) return times[s.k];
    return tl_min(times[s.k], s.c[PIECE_AT]);
}

// Moves to the next piece of the run.
DEVICE void next_piece([[maybe_unused]] Trajectory &s) {
    if constexpr (IS_THINNED) {
        s.t = just_after(s.c[PIECE_AT]);
        load<PIECE_WORDS>(s.c + PIECE_AT, s.following());
    }
}

// Between two steps: records samples before the time of the trajectory, and moves to the piece of that time.
DEVICE void find_piece(Trajectory &s, const Recorder &out, const double *times) {
    if constexpr (IS_THINNED) {
        while (!s.overflowed && s.t >= s.c[PIECE_AT]) {
            record_before<true>(s, out, times, s.t);
            next_piece(s);
        }
    }
}

// An end of the trajectory is noticed before the next leap.
template <class Cells>
DEVICE void exact_events(Trajectory &s, const Cells &cells, const PhiloxKeys &keys,
                         const Recorder &out, const double *times, u64 max_steps, Work &work) {
    Exact exact;
    start_exact(s.x, s.c, exact, cells);
    const u64 left = max_steps > s.steps ? max_steps - s.steps : 0;
    const u32 most = left < EXACT_EVENTS ? (u32)left : EXACT_EVENTS;
    const u32 turns = s.overflowed || s.attempts >= LARGEST_LEAP ? 0 : most;
    PhiloxSeries series = draw_series(keys, STREAM_TAU, s.id, s.point, s.draws);
    double t_next = times[s.k];
    u32 made = 0;
    EventDraw next = draw_event(series, keys, (u32)s.draws);
    NO_UNROLL while (made < turns) {
        double a0 = exact.total();
        const bool usual = high_word(a0) - SMALLEST_USUAL < LARGEST_USUAL - SMALLEST_USUAL;
        if (!LIKELY(usual) && !(a0 > 0 && a0 < infinity()) && !(IS_THINNED && a0 == 0)) {
            if constexpr (IS_THINNED) s.t = not_a_number();
            break;
        }
        EventDraw draw = next;
        double t = s.t + (LIKELY(usual) ? quotient(draw.waiting, a0) : draw.waiting / a0);
        if (!LIKELY((u32)++s.draws != 0))
            series = draw_series(keys, STREAM_TAU, s.id, s.point, s.draws);
        if constexpr (IS_THINNED) {  // the rest of the waiting time has other bounds
            while (t > s.c[PIECE_AT] && s.k < out.n_times) {
                record_before<false>(s, out, times, s.c[PIECE_AT]);
                draw.waiting = rest_of_waiting(draw.waiting, a0, s.c[PIECE_AT] - s.t);
                next_piece(s);
                start_exact(s.x, s.c, exact, cells);
                a0 = exact.total(), t = s.t + draw.waiting / a0;
            }
        }
        if (!LIKELY(t <= t_next)) {
            record_before<false>(s, out, times, t);
            if (s.k == out.n_times) break;
            t_next = times[s.k];
        }
        if constexpr (IS_THINNED) {
            s.c[TIME_AT] = t;
            const double now = exact.total_now(s.x, s.c);
            if (!(t >= 0 && now >= 0 && now <= a0 * BOUND_HOLDS)) {
                s.t = not_a_number();
                break;
            }
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
    const u8 ended = state_of(s, a0, max_steps);
    // The state at a sample is that after the last firing at or before it.
    if (ended <= ABSORBED || ended == STEP_LIMIT) record_before<true>(s, out, times, s.t);
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
    const double *const own = launch.constants + place.input * launch.constants_stride;
    load<N_SPECIES>(s.x, launch.initial + place.input * launch.initial_stride);
    load<N_CONSTANTS>(s.c, own);
    s.begin(own + PIECE_AT);
    check_constants(s.c);
    s.id = place.trajectory, s.point = place.point, s.row = row;
    s.k = 0, s.t = 0, s.steps = 0, s.draws = 0, s.attempts = 0, s.overflowed = 0;
    return true;
}
