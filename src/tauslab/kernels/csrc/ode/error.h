// Adaptive steps: the norm of an error, the first step and the next.
#pragma once

#include "math/step_changes.h"
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

// The error of a step from `x` with rates `f` to `y` with rates `g`; too large where rates change on the way and no
// stage need have seen it: where two relations change in turn, or one does in the middle and not at the end. Such a
// step is made again, shorter.
#ifdef HAS_RELATIONS
constexpr double PASSED_OVER = 32;

template <class Constants>
DEVICE_SHARED Time seen_error(Time error, const Real *x, const Real *y, const Real *f,
                              const Real *g, const Constants &c, Time t, Time h, Time end) {
    Real before[N_RELATIONS], between[N_RELATIONS], after[N_RELATIONS];
    Real middle[N_VARIABLES + 1];  // of the cubic Hermite polynomial of the step
    const Real eighth = (Real)(0.125 * h), half = number<Real>(0.5), zero = number<Real>(0.0);
    for (int i = 0; i < N_VARIABLES; ++i)
        middle[i] = fused(eighth, f[i] - g[i], half * (x[i] + y[i]));
    ode_relations(x, c, (Real)t, before);
    ode_relations(middle, c, (Real)(t + 0.5 * h), between);
    ode_relations(y, c, (Real)end, after);
    Real first = number<Real>(1.0), last = zero;  // changes, in parts of the step
    auto back = first < zero;
    for (int k = 0; k < N_RELATIONS; ++k) {
        const auto changes = (before[k] < zero) != (after[k] < zero);
        const auto inside = (before[k] < zero) != (between[k] < zero);
        const Real at = before[k] / (before[k] - after[k]);
        first = changes ? tl_min(first, at) : first;
        last = changes ? tl_max(last, at) : last;
        back = back | (inside & (changes == (zero < zero)));
    }
    const auto apart = last - first > number<Real>(sizeof(Number) < 8 ? TOGETHER_SINGLE : TOGETHER);
    const auto passes = (back | apart) & (error <= 1.0) & (t + SHORT * h > t);
    return passes ? number<Time>(PASSED_OVER) : error;
}
#else
template <class Constants>
DEVICE Time seen_error(Time error, const Real *, const Real *, const Real *, const Real *,
                       const Constants &, Time, Time, Time) {
    return error;
}
#endif

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
        UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) y[i] = turn ? fused((Real)trial, d0[i], x[i]) : x[i];
        ode_rates(y, c, (Real)(t + trial), turn ? d1 : d0);
        ErrorNorm size = no_error(allowed), change = no_error(allowed);
        UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) {
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
