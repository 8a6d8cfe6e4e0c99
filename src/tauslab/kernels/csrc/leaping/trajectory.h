// A trajectory that leaps: its start, exact firings between leaps, its end.
#pragma once

#include "ensemble/control.h"
#include "leaping/leaps.h"
#include "leaping/work.h"
#include "model.h"
#include "random/poisson.h"
#include "ensemble/pieces.h"
#include "ensemble/sampling.h"

// Where rates follow the time: the pieces of the run, and that whose bounds exact firings use, see ensemble/pieces.h.
template <bool THINNED>
struct InPiece {};
template <>
struct InPiece<true> {
    const double *tree;
    i32 piece;
};

// Behind the words of a piece: the end and the length of the leaf in which a trajectory leaps.
constexpr int LEAF_LENGTH_AT = LEAF_AT + 1;

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

// When a leap ends at the latest: at the next sample, or with the leaf.
DEVICE double next_stop(const Trajectory &s, const double *times) {
    if constexpr (!IS_THINNED) return times[s.k];
    return tl_min(times[s.k], s.c[LEAF_AT]);
}

// Functions of a trajectory with pieces are templates, since others lack what they name.

// Begins at the root of a tree, in no leaf.
template <class Thinned>
DEVICE void start_pieces([[maybe_unused]] Thinned &s, [[maybe_unused]] const double *tree) {
    if constexpr (IS_THINNED) s.tree = tree, s.piece = 1, s.c[LEAF_AT] = -infinity();
}

// Moves to the leaf of the time, behind the end of another.
template <class Thinned>
DEVICE void find_leaf([[maybe_unused]] Thinned &s) {
    if constexpr (IS_THINNED) {
        if (s.t == s.c[LEAF_AT]) s.t = just_after(s.t);
        i32 node = 1;
        double begin = 0;
    NO_UNROLL while (words_of(s.tree, node)[1] < infinity()) {
            node *= 2;
            const double middle = words_of(s.tree, node)[0];
            if (s.t > middle) ++node, begin = middle;
        }
        s.c[LEAF_AT] = words_of(s.tree, node)[0];
        s.c[LEAF_LENGTH_AT] = s.c[LEAF_AT] - begin;
    }
}

// Between two steps: records samples before the time of the trajectory, and moves to the leaf of that time.
DEVICE void enter_leaf(Trajectory &s, const Recorder &out, const double *times) {
    if constexpr (IS_THINNED) {
        while (!s.overflowed && s.t >= s.c[LEAF_AT]) {
            record_before<true>(s, out, times, s.t);
            find_leaf(s);
        }
    }
}

// Computes the total of the bounds of exact firings.
struct TotalOfBounds {
    const Trajectory &s;
    DEVICE_MEMBER double operator()() const {
        double a[N_REACTIONS], cumulative[N_REACTIONS];
        all_propensities(s.x, s.c, a, cumulative);
        return cumulative[N_REACTIONS - 1];
    }
};

// Before exact firings: the piece of the time.
template <class Thinned>
DEVICE void find_piece([[maybe_unused]] Thinned &s) {
    if constexpr (IS_THINNED) {
        const TotalOfBounds total = {s};
        load_piece(s.tree, s.piece = 1, s.c);
        refined(s.tree, s.piece, s.t, total(), s.c, total);
    }
}

// Moves behind the end of the piece.
template <class Thinned>
DEVICE void cross_piece([[maybe_unused]] Thinned &s) {
    if constexpr (IS_THINNED) {
        s.t = just_after(s.c[PIECE_AT]);
        next_piece(s.tree, s.piece, s.t, s.c, TotalOfBounds{s});
    }
}

// Moves to the part of the piece that the total of the bounds asks for.
template <class Thinned>
DEVICE void refine_piece([[maybe_unused]] Thinned &s, [[maybe_unused]] double a0) {
    if constexpr (IS_THINNED) refined(s.tree, s.piece, s.t, a0, s.c, TotalOfBounds{s});
}

// An end of the trajectory is noticed before the next leap.
template <class Cells>
DEVICE void exact_events(Trajectory &s, const Cells &cells, const PhiloxKeys &keys,
                         const Recorder &out, const double *times, u64 max_steps, Work &work) {
    Exact exact;
    find_piece(s);
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
        if constexpr (IS_THINNED) {
            if (a0 > s.c[LIMIT_AT]) {
                refine_piece(s, a0);
                start_exact(s.x, s.c, exact, cells);
                a0 = exact.total();
            }
        }
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
                cross_piece(s);
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
    start_pieces(s, own + PIECE_AT);
    check_constants(s.c);
    s.id = place.trajectory, s.point = place.point, s.row = row;
    s.k = 0, s.t = 0, s.steps = 0, s.draws = 0, s.attempts = 0, s.overflowed = 0;
    return true;
}
