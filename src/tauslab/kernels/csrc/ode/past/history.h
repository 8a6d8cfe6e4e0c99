// What a trajectory was: the method's polynomials of its last steps, for equations that look back (delay
// differential equations, by the method of steps; Bellen & Zennaro, Numerical Methods for Delay
// Differential Equations, 2003).
//
// A step is an entry: begin, length, the order of the jump that it begins with, and five coefficients of
// every variable that something reads later. The last HISTORY_LENGTH entries are kept. What is before
// time 0 the generated text knows: initial values.
//
// Jumps. If the derivative of order p jumps at time D (order 0: the variable itself), what reads it with a lag has a
// jump of order p + 1 at D + lag. A constant lag gives that time beforehand: a step ends there, and the lookup reads the
// polynomial left of D until then, and right of D afterwards. If the lag moves, the time at which the lookup reaches D
// is searched for, as the time of an event is.
#pragma once

#include "math/both_precisions.h"
#include "model.h"

constexpr int ENTRY_HEAD = 3, COEFFICIENTS = 5;
constexpr int ENTRY = ENTRY_HEAD + COEFFICIENTS * N_DELAYED;
constexpr i64 HISTORY_WORDS = HISTORY_LENGTH * ENTRY;
constexpr int SMOOTH = HIGHEST_ORDER + 1;  // the order of what is not followed
constexpr int HIGHEST_OF_MOVING = HIGHEST_ORDER < 2 ? HIGHEST_ORDER : 2;  // where a lag moves
constexpr double SAME_TIME = 1e-13;  // times that differ by less of themselves are one

// How looking back ends a trajectory; stored in /status.
enum PastStatus : u8 { NEGATIVE_DELAY = 9, HISTORY_FULL = 10 };

struct History {
    double *at;   // this trajectory's words, one in THREAD_STRIDE
    i64 written;  // entries since the start
    double now;   // where the last one ends
    int order;    // of the jump at `now`
    // For each lookup, numbers of entries. `found`: where it read last. A jump stands at the beginning of an entry.
    // `passed`: that of the last jump that the lookup has gone beyond (-1: none). `next`: the first that may have a
    // jump to come.
    i64 found[N_LOOKUPS + 1], passed[N_LOOKUPS + 1], next[N_LOOKUPS + 1];
    // Of the step that is being made: delayed variables and their rates at `now`, the polynomial that is
    // foreseen, and what lookups met.
    double x[N_DELAYED + 1], f[N_DELAYED + 1];
    double foreseen[COEFFICIENTS * N_DELAYED + 1];
    double length;  // of what is foreseen; 0: nothing is
    bool overlapped, lost;
};

// Constants of a trajectory, and its past.
struct WithHistory {
    double *values;
    History *history;
    DEVICE_MEMBER double &operator[](i64 i) const { return values[i]; }
};

DEVICE double &word_of(const History &past, i64 entry, int word) {
    return past.at[((entry % HISTORY_LENGTH) * ENTRY + word) * THREAD_STRIDE];
}

DEVICE i64 first_kept(const History &past) {
    // One less than there is room for: a step may be taken back.
    return past.written >= HISTORY_LENGTH ? past.written - HISTORY_LENGTH + 1 : 0;
}

// Where an entry begins; the one that is still to come begins at `now`.
DEVICE double begin_of(const History &past, i64 entry) {
    return entry < past.written ? word_of(past, entry, 0) : past.now;
}

DEVICE int order_of(const History &past, i64 entry) {
    return entry < past.written ? (int)word_of(past, entry, 2) : past.order;
}

template <class State>
DEVICE void note_state(History &past, const State &x) {
    for (int m = 0; m < N_DELAYED; ++m) past.x[m] = x[DELAYED[m]];
}

template <class State>
DEVICE void start_history(History &past, const State &x) {
    note_state(past, x);
    for (int m = 0; m < N_DELAYED; ++m) past.f[m] = 0;
    past.written = 0, past.now = 0, past.order = 0, past.length = 0;
    past.overlapped = past.lost = false;
    for (int k = 0; k < N_LOOKUPS; ++k) past.found[k] = past.next[k] = 0, past.passed[k] = -1;
}

// The step that was just made becomes an entry.
DEVICE_SELDOM void keep_step(History &past, double end) {
    const i64 entry = past.written;
    const double begin = past.now;
    ++past.written;
    word_of(past, entry, 0) = begin, word_of(past, entry, 1) = end - begin;
    word_of(past, entry, 2) = (double)past.order;
    for (int k = 0; k < COEFFICIENTS * N_DELAYED; ++k)
        word_of(past, entry, ENTRY_HEAD + k) = past.foreseen[k];
    past.now = end, past.order = SMOOTH;
}

// And is taken back.
DEVICE void drop_step(History &past) {
    --past.written;
    past.now = word_of(past, past.written, 0), past.order = (int)word_of(past, past.written, 2);
    for (int k = 0; k < N_LOOKUPS; ++k)
        if (past.next[k] > past.written && past.passed[k] < past.written)
            past.next[k] = past.written;
}

// The next jump that a lookup may come to, of an order below `order`; infinite where none is known.
DEVICE double next_jump(History &past, int lookup, int order) {
    i64 &next = past.next[lookup];
    if (next < first_kept(past)) next = first_kept(past);
    while (next < past.written && order_of(past, next) >= order) ++next;
    if (next > past.written || order_of(past, next) >= order)
        return from_bits(0x7ff0000000000000ull);
    return begin_of(past, next);
}

// The time at which a lookup with a constant lag comes to it.
DEVICE double next_image(History &past, const WithHistory &c, int lookup) {
    return next_jump(past, lookup, HIGHEST_ORDER) + constant_lag(lookup, c);
}

// Whether a lookup whose lag moves has come to a jump, at time `t` in state `x`.
template <class State>
DEVICE_SELDOM bool came_to_jump(History &past, const State &x, const WithHistory &c, double t) {
    for (int k = 0; k < N_LOOKUPS; ++k)
        if (!IS_CONSTANT_LAG[k] && moving_time(k, x, c, t) >= next_jump(past, k, HIGHEST_OF_MOVING))
            return true;
    return false;
}

DEVICE void pass_jump(History &past, int lookup) {
    const int order = order_of(past, past.next[lookup]) + 1;
    past.order = order < past.order ? order : past.order;
    past.passed[lookup] = past.next[lookup]++;
}

// Lags that move may have been set anew.
template <class State>
DEVICE_SELDOM void look_anew(History &past, const State &x, const WithHistory &c) {
    for (int k = 0; k < N_LOOKUPS; ++k) {
        if (IS_CONSTANT_LAG[k]) continue;
        const double s = moving_time(k, x, c, past.now);
        past.next[k] = first_kept(past);
        while (next_jump(past, k, HIGHEST_OF_MOVING) <= s) past.passed[k] = past.next[k]++;
    }
}

// The first time at which a lookup comes to a jump.
DEVICE_SELDOM double next_image(History &past, const WithHistory &c) {
    double first = from_bits(0x7ff0000000000000ull);
    for (int k = 0; k < N_LOOKUPS; ++k)
        if (IS_CONSTANT_LAG[k]) first = tl_min(first, next_image(past, c, k));
    return first;
}

// Lookups go on to the right of the jumps to which they have come. Whether there was one.
template <class State>
DEVICE_SELDOM bool pass_images(History &past, const State &x, const WithHistory &c) {
    bool any = false;
    for (int k = 0; k < N_LOOKUPS; ++k) {
        if (IS_CONSTANT_LAG[k]) {
            while (next_image(past, c, k) <= past.now + SAME_TIME * past.now)
                pass_jump(past, k), any = true;
        } else {
            const double s = moving_time(k, x, c, past.now);
            while (next_jump(past, k, HIGHEST_OF_MOVING) <= s) pass_jump(past, k), any = true;
        }
    }
    return any;
}

// The state jumps at `now`, or (order 1) its rates do.
DEVICE void note_jump(History &past, int order) {
    past.order = order < past.order ? order : past.order;
}

// The polynomial of a step at the part `theta` of it, and its derivative by theta. A step that is read beyond its
// end is read a little beyond.
template <class Coefficients>
DEVICE double value_of_step(const Coefficients &a, double theta) {
    const double rest = 1.0 - theta;
    const double inner = fused(rest, a[4], a[3]);
    return fused(theta, fused(rest, fused(theta, inner, a[2]), a[1]), a[0]);
}

template <class Coefficients>
DEVICE double slope_of_step(const Coefficients &a, double theta) {
    const double rest = 1.0 - theta;
    const double inner = fused(rest, a[4], a[3]);  // and its derivative -a4
    const double middle = fused(theta, inner, a[2]);
    const double outer = fused(rest, middle, a[1]);
    const double by_middle = fused(theta, -a[4], inner);
    return fused(theta, fused(rest, by_middle, -middle), outer);
}

struct EntryCoefficients {
    const History &past;
    i64 entry;
    int first;
    DEVICE_MEMBER double operator[](int k) const {
        return word_of(past, entry, ENTRY_HEAD + first + k);
    }
};

// The entry in which a lookup finds time `s`, which is before `now`.
DEVICE_SELDOM i64 entry_at(History &past, int lookup, double s, double t) {
    const i64 first = first_kept(past), last = past.written - 1;
    i64 e = past.found[lookup];
    e = e < first ? first : e > last ? last : e;
    while (e > first && begin_of(past, e) > s) --e;
    while (e < last && begin_of(past, e + 1) <= s) ++e;
    if (first > 0 && s >= 0 && begin_of(past, first) > s) past.lost = true;
    past.found[lookup] = e;
    const i64 next = past.next[lookup], passed = past.passed[lookup];
    if (e >= next && next > first) e = next - 1;
    if (IS_CONSTANT_LAG[lookup]) {
        if (e < passed && passed <= last) {
            const double begin = begin_of(past, passed);
            if (begin - s <= SAME_TIME * t) e = passed;
        }
    }
    return e;
}

// Value or slope (by time) of delayed variable `m` at time `s`, at or after `now`: of what is foreseen, else of the
// step before, if the way is smooth, else along the rates.
template <bool SLOPE>
DEVICE_SELDOM double ahead(History &past, int m, double s) {
    past.overlapped = true;
    const double *a = past.foreseen + COEFFICIENTS * m;
    if (past.length > 0) {
        const double theta = (s - past.now) / past.length;
        return SLOPE ? slope_of_step(a, theta) / past.length : value_of_step(a, theta);
    }
    const i64 last = past.written - 1;
    if (last >= 0 && past.order >= SMOOTH) {
        const double length = word_of(past, last, 1);
        const double theta = (s - word_of(past, last, 0)) / length;
        const EntryCoefficients b = {past, last, COEFFICIENTS * m};
        return SLOPE ? slope_of_step(b, theta) / length : value_of_step(b, theta);
    }
    return SLOPE ? past.f[m] : fused(s - past.now, past.f[m], past.x[m]);
}

template <bool SLOPE>
DEVICE_SELDOM double looked_up(const WithHistory &c, int lookup, int m, double s, double t) {
    History &past = *c.history;
    if (past.written == 0 && s <= past.now) return SLOPE ? 0.0 : past.x[m];
    const bool near = IS_CONSTANT_LAG[lookup] && tl_abs(s - past.now) <= SAME_TIME * t;
    const bool left = near ? past.passed[lookup] < past.written : s < past.now;
    if (!left || past.written == 0) return ahead<SLOPE>(past, m, s);
    const i64 e = entry_at(past, lookup, s, t);
    const double length = word_of(past, e, 1), theta = (s - word_of(past, e, 0)) / length;
    const EntryCoefficients a = {past, e, COEFFICIENTS * m};
    return SLOPE ? slope_of_step(a, theta) / length : value_of_step(a, theta);
}

// What delayed variable `m` was at time `s`, read by `lookup` at time `t`, at which it is `x`. A time that is still to
// come has no number.
DEVICE double past(const WithHistory &c, int lookup, int m, double s, double x, double t) {
    if (!(s < t)) return s - t <= fused(SAME_TIME, t, DELAY_SLACK) ? x : tl_nan();
    return looked_up<false>(c, lookup, m, s, t);
}

// And how fast it changed.
DEVICE double past_slope(const WithHistory &c, int lookup, int m, double s, double t) {
    return s < t ? looked_up<true>(c, lookup, m, s, t) : 0.0;
}

// Whether a lookup reads what was before the start.
DEVICE double before(const WithHistory &c, int lookup, double s, double) {
    if (IS_CONSTANT_LAG[lookup]) return c.history->passed[lookup] < 0 ? 1.0 : 0.0;
    return s < 0 ? 1.0 : 0.0;
}
