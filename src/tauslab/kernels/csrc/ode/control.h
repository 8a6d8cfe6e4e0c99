// Adaptive steps: the norm of an error, the next step, the loop over a span.
#pragma once

#include "ode/ode.h"

struct Tolerance {
    double relative, absolute;
};

// Root mean square of errors relative to the tolerance; in double in either precision.
struct ErrorNorm {
    Tolerance allowed;
    Time sum;

    DEVICE_MEMBER void add(Real error, Real before, Real after) {
        const Time size = tl_max(tl_abs((Time)before), tl_abs((Time)after));
        const Time scaled = (Time)error / fused(number<Time>(allowed.relative), size,
                                                number<Time>(allowed.absolute));
        sum = fused(scaled, scaled, sum);
    }
    DEVICE_MEMBER Time value() const {
        return root(sum / (double)(N_VARIABLES > 0 ? N_VARIABLES : 1));
    }
};

DEVICE ErrorNorm no_error(Tolerance allowed) {
    return {allowed, number<Time>(0.0)};
}

// The factor for the step after an error of norm `error` (1 is just allowed), for a method whose error grows
// with the power `order` of the step; Hairer, Norsett & Wanner 1993, II.4. A result that is not finite tells
// only that the step was too long.
DEVICE Time step_factor(Time error, double order) {
    const Time one = number<Time>(1.0), least = number<Time>(0.2), most = number<Time>(5.0);
    const auto usual = (error > 1e-10) & (error < 1e300);
    const Time factor = 0.9 * tl_exp(tl_log(usual ? error : one) / -order);
    const Time bounded = tl_min(most, tl_max(least, factor));
    return usual ? bounded : error <= 1e-10 ? most : least;
}

// The first step from a state, after Hairer, Norsett & Wanner (1993, II.4): a trial step of Euler's
// that changes variables by about a hundredth (a millionth of the span where the state is at rest or
// zero) tells how fast rates change, and from that the step follows whose error is about a hundredth
// of what is allowed; at most a hundred trials. `d0` receives the rates; `d1` and `y` are room.
template <class Constants>
DEVICE_SELDOM Time first_step(const Real *x, const Constants &c, Time t, Time span,
                              Tolerance allowed, double order, Real *d0, Real *d1, Real *y) {
    Time trial = number<Time>(0.0), speed = trial, bend = trial;
    NO_UNROLL for (int turn = 0; turn < 2; ++turn) {
        for (int i = 0; i < N_VARIABLES; ++i) y[i] = turn ? fused((Real)trial, d0[i], x[i]) : x[i];
        ode_rates(y, c, (Real)(t + trial), turn ? d1 : d0);
        ErrorNorm size = no_error(allowed), change = no_error(allowed);
        for (int i = 0; i < N_VARIABLES; ++i) {
            size.add(x[i], x[i], x[i]);
            change.add(turn ? d1[i] - d0[i] : d0[i], x[i], x[i]);
        }
        if (turn) {
            bend = change.value() / trial;
        } else {
            speed = change.value();
            const auto moves = (size.value() > 1e-5) & (speed * span > 1e-5);
            const Time wanted = 0.01 * size.value() / speed, little = 1e-6 * span;
            trial = tl_min(span, moves ? wanted : little);
        }
    }
    const Time most = tl_min(span, 100.0 * trial), least = 0.01 * trial;
    const Time ratio = bend / speed;  // about the size of the Jacobian
    const Time by_speed = tl_exp(tl_log(0.01 * ratio / speed) / order) / ratio;
    const Time by_bend = root(0.01 / bend);
    const Time step = speed > 0.0 ? by_speed : by_bend;
    const Time shorter = step < most ? step : most;
    return bend < 1e300 ? (bend > 0.0 ? shorter : most) : least;
}

#ifndef ON_LANES
#ifdef HAS_PAST
#include "ode/past/steps.h"
#endif

// A step; where equations look back, perhaps made again.
template <class Method>
DEVICE double attempt_step(Method &method, Real *x, GivenConstants c, double t, double h,
                           double end) {
#ifdef HAS_PAST
    return attempt_looking_back(method, x, c, t, h, end);
#else
    return method.attempt(x, c, t, h, end);
#endif
}

// Walks from `from` to `to`, or one step of the way; the last step ends there exactly.
// `Method::attempt(x, c, t, h, end)` makes a step if its error, which it returns, is at most 1. A
// trial with an error that is larger, or not a number, is made again with a smaller step, down to one
// of which a hundredth does not change the time in its last digit.
template <bool ONE_STEP, class Method>
DEVICE u8 walk(Method &method, Real *x, GivenConstants c, double from, double to, double &reached) {
    double t = from;
    if (!(method.step > 0)) method.step = method.begin(x, c, from, to - from);
    for (;;) {
        const double left = to - t;
        const bool last = !(method.step < 0.999999 * left);
        const double h = last ? left : method.step;
        if (method.made + method.rejected - method.before >= method.most) return ODE_STEP_LIMIT;
        const bool looks =
            (method.made + method.rejected) % LOOK_EVERY_STEPS == LOOK_EVERY_STEPS - 1;
        if (looks && must_leave(method.control, LOOK_EVERY_STEPS, t)) return ODE_STEP_LIMIT;
        const double error = attempt_step(method, x, c, t, h, last ? to : t + h);
        const bool good = error <= 1.0;
        if (good)
            ++method.made;
        else
            ++method.rejected;
        const double next = h * step_factor(error, Method::ORDER);
        // A step that was cut at the end says little of what the next may be.
        if (!(good && last && next < method.step)) method.step = next;
        if (good && last) return reached = to, ODE_DONE;
        if (good) t += h;
        if (ONE_STEP && good) return reached = t, ODE_DONE;
        if (!good && !(t + 0.01 * method.step > t)) return ODE_NOT_A_NUMBER;
    }
}

template <class Method>
DEVICE u8 advance(Method &method, Real *x, GivenConstants c, double from, double to) {
    double reached = from;
    return walk<false>(method, x, c, from, to, reached);
}

#ifdef HAS_EVENTS
#include "events/ode_events.h"
#endif

// Trajectories differ in steps: threads take the next when they are done.
template <class Method>
DEVICE void take_turns(const OdeJob &job, Method &method, i64,
                       [[maybe_unused]] double *history = nullptr) {
    Real x[N_VARIABLES + 1] = {}, c[N_CONSTANTS + 1] = {};
#ifdef HAS_PAST
    History steps;
    steps.at = history;
    WithHistory past = {c, &steps};
#endif
    method.control = job.next_row;
    for (;;) {
        const i64 row = take_row(job.next_row, job.rows);
        if (row >= job.rows) break;
#ifdef HAS_PAST
        run_with_events(job, row, method, x, past);
#elif defined(HAS_EVENTS)
        run_with_events(job, row, method, x, c);
#else
        run_trajectory(job, row, method, x, c);
#endif
    }
    if (job.steps) atomic_add(job.steps, method.made), atomic_add(job.steps + 4, method.rejected);
}
#endif
