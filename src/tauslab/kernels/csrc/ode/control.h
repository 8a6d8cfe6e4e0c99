// Adaptive steps of one trajectory: the loop over a span.
#pragma once

#include "ode/error.h"
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

// Walks from `from` to `to`, or `one_step` of the way; the last step ends there exactly.
// `Method::attempt(x, c, t, h, end)` makes a step if its error, which it returns, is at most 1. A
// trial with an error that is larger, or not a number, is made again with a smaller step, down to one
// of which a hundredth does not change the time in its last digit.
template <class Method>
DEVICE u8 walk(Method &method, Real *x, GivenConstants c, double from, double to, double &reached,
               bool one_step) {
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
        if (one_step && good) return reached = t, ODE_DONE;
        if (!good && !(t + 0.01 * method.step > t)) return ODE_NOT_A_NUMBER;
    }
}

template <class Method>
DEVICE u8 advance(Method &method, Real *x, GivenConstants c, double from, double to) {
    double reached = from;
    return walk(method, x, c, from, to, reached, false);
}
