// How threads take the trajectories of a method whose steps adapt.
#pragma once

#include "ode/lanes.h"

#ifndef ON_LANES
#include "ode/control.h"
#ifdef HAS_EVENTS
#include "events/ode_events.h"
#endif

// A method as `run_trajectory` takes it.
template <class Method>
struct Walking {
    Method &method;
    double &step;

    DEVICE_MEMBER void start() { method.start(); }
    DEVICE_MEMBER void restart() { method.restart(); }
    DEVICE_MEMBER u8 advance(Real *x, GivenConstants c, double from, double to) {
        return ::advance(method, x, c, from, to);
    }
};

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
        Walking<Method> walking = {method, method.step};
        run_trajectory(job, row, walking, x, c);
#endif
    }
    if (job.steps) atomic_add(job.steps, method.made), atomic_add(job.steps + 4, method.rejected);
}
#endif
