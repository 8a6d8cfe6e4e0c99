// Events of ordinary differential equations, with an adaptive method: a trajectory is integrated to the next time
// that is known (a sample, a waiting execution, a switch of a relation of the time) and watched on the
// way. Where a trigger changes within a step, the step is made again up to the change.
//
// The cubic Hermite polynomial of a step tells where to end it: what the method then arrives at is
// looked at again, so its error does not enter. A few such turns find the change to the last digits.
#pragma once

#include "events/queue.h"
#include "ode/control.h"

constexpr int LOOKS_IN_A_STEP = 4;    // at triggers, the last at its end
constexpr int MOST_TURNS = 12;        // steps made again for one change
constexpr double TIME_ERROR = 1e-13;  // of a change, relative to the time or the step

struct AssignVariable {
    DEVICE_MEMBER bool operator()(Real *x, int index, double value) const {
        x[index] = (Real)value;
        return true;
    }
};

// What looks back does beside; nothing where nothing looks back.
#ifdef HAS_PAST
constexpr bool LOOKS_BACK = true;
#else
constexpr bool LOOKS_BACK = false;
typedef Real *OwnConstants;
DEVICE void look_from(GivenConstants, const Real *, const Real *) {}
DEVICE double limit_step(GivenConstants, double, double limit) {
    return limit;
}
DEVICE u8 made_step(GivenConstants, double) {
    return ODE_DONE;
}
DEVICE void undo_step(GivenConstants, double) {}
DEVICE bool pass_images(GivenConstants, const Real *) {
    return false;
}
DEVICE bool came_to_jump(GivenConstants, const Real *, double) {
    return false;
}
DEVICE void begin_looking(GivenConstants, const Real *) {}
DEVICE void jumped(GivenConstants, const Real *, double, int) {}
DEVICE u8 without_number(GivenConstants, const Real *) {
    return ODE_NOT_A_NUMBER;
}
DEVICE u8 check_sample(GivenConstants, const Real *, double) {
    return ODE_DONE;
}
#endif

// A step from one state to another, and what lies between.
struct WatchedStep {
    double from, to;
    Real x[N_VARIABLES + 1], y[N_VARIABLES + 1];  // states
    Real f[N_VARIABLES + 1], g[N_VARIABLES + 1];  // rates
};

// Whether a trigger has changed, or a lookup has come to a jump.
DEVICE bool something_changed(const EventQueue &queue, const Real *x, GivenConstants c, double t) {
    return triggers_changed(queue, x, c, t) || (LOOKS_BACK && came_to_jump(c, x, t));
}

// The cubic Hermite polynomial of a step at time `t`.
DEVICE_SHARED void state_within(const WatchedStep &step, double t, Real *z) {
    const double h = step.to - step.from, s = (t - step.from) / h, r = 1.0 - s;
    const double at_x = (1.0 + 2.0 * s) * r * r, at_y = s * s * (3.0 - 2.0 * s);
    const double at_f = h * s * r * r, at_g = -h * s * s * r;
    for (int i = 0; i < N_VARIABLES; ++i)
        z[i] = (Real)(at_x * (double)step.x[i] + at_y * (double)step.y[i] +
                      at_f * (double)step.f[i] + at_g * (double)step.g[i]);
}

// Whether a trigger changes within a step, and by the polynomial when: `found` is the first double
// after the change.
DEVICE_SHARED bool change_within(const EventQueue &queue, const WatchedStep &step, GivenConstants c,
                                 double &found) {
    Real z[N_VARIABLES + 1];
    double before = step.from;
    for (int look = 1; look <= LOOKS_IN_A_STEP; ++look) {
        const bool end = look == LOOKS_IN_A_STEP;
        double after = end ? step.to : step.from + (step.to - step.from) * look / LOOKS_IN_A_STEP;
        if (!end) state_within(step, after, z);
        if (!something_changed(queue, end ? step.y : z, c, after)) {
            before = after;
            continue;
        }
        for (;;) {
            const double middle = before + 0.5 * (after - before);
            if (!(middle > before && middle < after)) break;
            state_within(step, middle, z);
            (something_changed(queue, z, c, middle) ? after : before) = middle;
        }
        found = after;
        return true;
    }
    return false;
}

// Integrates from `from` towards `to`, and ends earlier where a trigger has changed. `reached` is
// where it ended.
template <class Method>
DEVICE u8 advance_watching(Method &method, const EventQueue &queue, Real *x, GivenConstants c,
                           double from, double to, double &reached) {
    WatchedStep step;
    double t = from, limit = to;  // no step goes beyond a change that is known
    double shortest = 0;          // of steps that are made again; grows where they find no change
    int turns = 0;
    if (LOOKS_BACK) pass_images(c, x);
    ode_rates(x, c, (Real)t, step.g);
    while (t < to) {
        for (int i = 0; i < N_VARIABLES; ++i) step.x[i] = x[i], step.f[i] = step.g[i];
        step.from = t;
        const bool whole = turns && !LOOKS_BACK;
        const double end = limit_step(c, t, limit);
        look_from(c, x, step.f);
#ifdef HAS_PAST
        method.from_rates(step.f);
#endif
        u8 ended = walk(method, x, c, t, whole ? limit : end, step.to, !whole);
        if (ended == ODE_DONE && LOOKS_BACK) ended = made_step(c, step.to);
        if (ended != ODE_DONE) return ended;
        if (!all_finite(x)) return ODE_NOT_A_NUMBER;
        for (int i = 0; i < N_VARIABLES; ++i) step.y[i] = x[i];
        ode_rates(x, c, (Real)step.to, step.g);
        double change = 0;
        const bool changes = turns < MOST_TURNS && change_within(queue, step, c, change);
        const double least = TIME_ERROR * tl_max(step.to, method.step);
        const bool at_end = something_changed(queue, step.y, c, step.to);
        if (!changes && !at_end) {
            // Go on from here.
            shortest = turns ? tl_max(2 * shortest, least) : 0;
            t = step.to, limit = to, turns = 0;
            if (LOOKS_BACK && pass_images(c, x)) {
                if (something_changed(queue, step.y, c, t)) break;
                ode_rates(x, c, (Real)t, step.g);
            }
            continue;
        }
        // Right after 0 a step is as long as the first time after it, so that it has a reciprocal.
        change =
            changes ? tl_max(change, t + tl_max(shortest, t > 0 ? 0.0 : just_after(0))) : step.to;
        if (at_end && step.to - change <= least) {
            t = step.to;
            break;
        }
        if (!(change < step.to)) {  // seen by the polynomial alone
            t = step.to, limit = to, turns = 0;
            if (LOOKS_BACK && pass_images(c, x)) ode_rates(x, c, (Real)t, step.g);
            continue;
        }
        // Make the step again, up to the change.
        undo_step(c, step.from);
        const double usual = method.step;
        for (int i = 0; i < N_VARIABLES; ++i) x[i] = step.x[i], step.g[i] = step.f[i];
        method.restart();
        method.step = usual;
        limit = change;
        ++turns;
    }
    reached = t;
    return ODE_DONE;
}

// What comes at time `t`, and the next time at which something is known to come.
template <class Method>
DEVICE u8 settle_equations(EventQueue &queue, Method &method, Real *x, OwnConstants c, double t,
                           const PhiloxSeries &series, const PhiloxKeys &keys, double &stop) {
    const AssignVariable assign = {};
    u64 executed = 0;
    const u8 ended = settle(queue, x, c, t, series, keys, assign, executed);
    if (executed) {
        method.restart();
        jumped(c, x, t, 0);
    }
    stop = tl_min(next_switch(x, c, t), first_execution(queue));
    return ended;
}

// A trajectory of equations with events, from start to end.
template <class Method>
DEVICE void run_with_events(const OdeJob &job, i64 row, Method &method, Real *x, OwnConstants c) {
    begin_trajectory(job, row, x, c);
    method.start();
    take_up_step(job, row, method, 0);
    begin_looking(c, x);
    const Place place = place_of(job.first, row, job.per_point, 0);
    const PhiloxKeys keys = *job.keys;
    const PhiloxSeries series = draw_series(keys, STREAM_EVENTS, place.trajectory, place.point, 0);
    const AssignVariable assign = {};
    EventQueue queue;
    start_queue(queue);
    if (job.kept_queue) take_up_queue(queue, job.kept_queue + row * QUEUE_WORDS);
    u64 executed = 0;
    double t = job.kept_queue ? job.begin[0] : 0.0;
    u8 ended = settle(queue, x, c, t, series, keys, assign, executed);
    if (executed) method.restart();
    jumped(c, x, t, 0);
    double stop = tl_min(next_switch(x, c, t), first_execution(queue));
    i64 span = 0;
    for (; span < job.n_spans && ended == ODE_DONE; ++span) {
        const double from = job.begin[span], to = job.end[span];
        if (span % LOOK_EVERY_SPANS == 0 && must_leave(job.next_row, 0, from))
            ended = ODE_STEP_LIMIT;
        if (from > t) {  // past a jump of the rates, at which events may come too
            while (ended == ODE_DONE && stop <= from) {
                t = stop;
                ended = settle_equations(queue, method, x, c, t, series, keys, stop);
            }
            if (ended != ODE_DONE) break;
            t = from;
            jumped(c, x, t, 1);
        }
        while (ended == ODE_DONE && t < to) {
            const double target = stop < to ? stop : to;
            if (target > t) ended = advance_watching(method, queue, x, c, t, target, t);
            if (ended == ODE_DONE && !all_finite(x)) ended = ODE_NOT_A_NUMBER;
            if (ended != ODE_DONE) break;
            ended = settle_equations(queue, method, x, c, t, series, keys, stop);
        }
        if (ended == ODE_DONE && !all_finite(x)) ended = ODE_NOT_A_NUMBER;
        if (ended == ODE_DONE && LOOKS_BACK) ended = check_sample(c, x, to);
        if (ended != ODE_DONE) break;
        if (job.event[span] >= 0) method.restart();
        if (job.sample[span] >= 0) take_sample(job, row, job.sample[span], x, c, (Real)to);
    }
    if (ended == ODE_NOT_A_NUMBER) ended = without_number(c, x);
    miss_samples(job, row, span);
    keep_step(job, row, method, 0);
    if (job.keep_queue) keep_queue(queue, job.keep_queue + row * QUEUE_WORDS);
    if (job.status) job.status[row] = ended;
}
