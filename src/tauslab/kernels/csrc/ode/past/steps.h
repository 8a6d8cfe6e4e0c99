// Steps of equations that look back. If a delay is shorter than the step, the step reads values that it is itself
// computing (`overlapped`). Then it is made again with the polynomial of the attempt before, until the result changes
// by at most SETTLED of the tolerance. After MOST_AGAIN repetitions a shorter step is tried.
#pragma once

#include "ode/error.h"
#include "ode/past/history.h"

typedef WithHistory OwnConstants;

constexpr int MOST_AGAIN = 8;
constexpr double SETTLED = 0.02;     // of the tolerance: how little the result changes
constexpr double UNSETTLED = 100.0;  // the error of a step that does not settle

// `Method::rates_here` are the rates at `x`, which `from_rates` sets; `dense` writes the polynomial of a step for delayed
// variables.
template <class Method>
DEVICE double attempt_looking_back(Method &method, Real *x, const WithHistory &c, double t,
                                   double h, double end) {
    History &past = *c.history;
    Real start[N_VARIABLES + 1], f[N_VARIABLES + 1], y[N_VARIABLES + 1];
    past.length = 0, past.overlapped = past.lost = false;
    for (int i = 0; i < N_VARIABLES; ++i) start[i] = x[i], f[i] = method.rates_here()[i];
    double error = 0;
    for (int turn = 0;; ++turn) {
        error = method.attempt(x, c, t, h, end);
        if (!(error <= 1.0 && past.overlapped)) break;
        if (turn > 0) {
            ErrorNorm change = no_error(method.allowed);
            for (int i = 0; i < N_VARIABLES; ++i) change.add(x[i] - y[i], x[i], y[i]);
            if (change.value() <= SETTLED) break;
        }
        method.dense(start, f, x, h, past.foreseen);
        for (int i = 0; i < N_VARIABLES; ++i) y[i] = x[i], x[i] = start[i];
        method.from_rates(f);
        if (turn == MOST_AGAIN) return UNSETTLED;
        past.length = h;
    }
    past.length = 0;
    if (error <= 1.0) method.dense(start, f, x, h, past.foreseen);
    return error;
}

// What `advance_watching` of csrc/events/ode_events.h does beside, where equations look back.
DEVICE void look_from(const WithHistory &c, const Real *x, const Real *f) {
    note_state(*c.history, x);
    for (int m = 0; m < N_DELAYED; ++m) c.history->f[m] = f[DELAYED[m]];
}

DEVICE double limit_step(const WithHistory &c, double t, double limit) {
    const double image = next_image(*c.history, c);
    return image < limit && image > t ? image : limit;
}

DEVICE u8 made_step(const WithHistory &c, double end) {
    if (c.history->lost) return HISTORY_FULL;
    if (end > c.history->now) keep_step(*c.history, end);  // a first step may be too short to count
    return ODE_DONE;
}

DEVICE void undo_step(const WithHistory &c, double from) {
    if (c.history->now > from) drop_step(*c.history);
}

DEVICE bool pass_images(const WithHistory &c, const Real *x) {
    return pass_images(*c.history, x, c);
}

DEVICE bool came_to_jump(const WithHistory &c, const Real *x, double t) {
    return came_to_jump(*c.history, x, c, t);
}

DEVICE void begin_looking(const WithHistory &c, const Real *x) {
    start_history(*c.history, x);
    pass_images(c, x);
}

// After events or (`order` 1) where rates jump.
DEVICE void jumped(const WithHistory &c, const Real *x, double t, int order) {
    c.history->now = t;
    note_state(*c.history, x);
    note_jump(*c.history, order);
    if (order == 0) look_anew(*c.history, x, c);
}

// The status of a trajectory that has no number: a delay below 0 says why.
DEVICE u8 without_number(const WithHistory &c, const Real *x) {
    const bool below = delays_below(0.0, x, c, c.history->now);
    return below ? (u8)NEGATIVE_DELAY : (u8)ODE_NOT_A_NUMBER;
}

// Looks for what is no number among what is recorded.
struct NumberCheck {
    bool *missing;
    DEVICE_MEMBER void put(int, Number value) const {
        if (!(value == value)) *missing = true;
    }
};

// Whether a delay below 0 leaves a quantity without a number.
DEVICE u8 check_sample(const WithHistory &c, const Real *x, double t) {
    if (!delays_below(-DELAY_SLACK, x, c, t)) return ODE_DONE;
    bool missing = false;
    const NumberCheck check = {&missing};
    ode_quantities(x, c, t, check);
    return missing ? (u8)NEGATIVE_DELAY : (u8)ODE_DONE;
}
