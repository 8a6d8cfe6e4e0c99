// Trajectories of ordinary differential equations on the SIMD lanes of a CPU core: the same numbers as one at a time.
// Each lane has a trajectory, a time and a step of its own; all lanes try a step together. A lane that ends
// takes the next trajectory of the launch.
//
// `model.h` decides by ON_LANES whether a kernel runs so. Without it, this header gives the plain forms.
#pragma once

#include "ode/error.h"

#ifndef ON_LANES
#define TRAJECTORIES_TOGETHER(kernel)

// Numbers of a thread in memory that the host gives, for `length` of a trajectory, and where they begin.
DEVICE constexpr i64 own_numbers(i64 length) {
    return length;
}

template <class Value>
DEVICE Value *own_memory(Value *from) {
    return from;
}
#else
// How many trajectories a thread runs at a time, for the host.
#define TRAJECTORIES_TOGETHER(kernel) \
    extern "C" __attribute__((visibility("default"))) const int kernel##_together = SIMD_LANES;

// Numbers of a thread in memory that the host gives, for `length` of a trajectory, and where they begin: vectors are
// aligned.
DEVICE constexpr i64 own_numbers(i64 length) {
    return (length + 1) * SIMD_LANES;
}

DEVICE Real *own_memory(double *from) {
    return (Real *)(((u64)from + sizeof(Real) - 1) / sizeof(Real) * sizeof(Real));
}

// A number for each variable or constant, of one lane.
struct OfLane {
    Real *vectors;
    int lane;
    DEVICE_MEMBER double &operator[](int i) const { return ((double *)(vectors + i))[lane]; }
};

constexpr i64 IDLE = -1;  // instead of a row: no trajectory is left for the lane

// What all lanes of a thread are doing.
struct OdeLanes {
    Real x[N_VARIABLES + 1], c[N_CONSTANTS + 1];
    Time t, to, step;  // `to`: the end of the span
    Words tried;       // steps of the trajectory, also those that were rejected
    i64 row[SIMD_LANES], span[SIMD_LANES];
    u64 reported[SIMD_LANES];  // what of `tried` the control words have
    u32 busy = 0;              // a bit for each lane with a trajectory
    u32 fresh = 0;             // and with one that has no step yet

    DEVICE_MEMBER OfLane variables(int lane) { return {x, lane}; }
    DEVICE_MEMBER OfLane constants(int lane) { return {c, lane}; }
};

// The next span that takes time, from `span` on; what is between is done. False at the end of the trajectory, of
// which `ended` tells how.
DEVICE bool enter_span(const OdeJob &job, OdeLanes &lanes, int lane, i64 span, u8 &ended) {
    OfLane x = lanes.variables(lane);
    const OfLane c = lanes.constants(lane);
    for (; span < job.n_spans && ended == ODE_DONE; ++span) {
        const double from = job.begin[span], to = job.end[span];
        if (to > from && lanes.span[lane] != span) {
            lanes.span[lane] = span;
            at<double>(lanes.t, lane) = from, at<double>(lanes.to, lane) = to;
            if (!(at<double>(lanes.step, lane) > 0)) lanes.fresh |= 1u << lane;
            return true;
        }
        if (!all_finite(x)) ended = ODE_NOT_A_NUMBER;
        if (ended != ODE_DONE) break;
        if (job.event[span] >= 0) {
            ode_event(job.event[span], x, c, to);
            at<double>(lanes.step, lane) = 0;
        }
        if (job.sample[span] >= 0) take_sample(job, lanes.row[lane], job.sample[span], x, c, to);
    }
    miss_samples(job, lanes.row[lane], span);
    if (job.kept_step) job.kept_step[lanes.row[lane]] = at<double>(lanes.step, lane);
    return false;
}

// The lane takes trajectories of the launch until one has a step to make, or none is left.
DEVICE void begin_lane(const OdeJob &job, OdeLanes &lanes, int lane) {
    for (;;) {
        const i64 row = take_row(job.next_row, job.rows);
        lanes.row[lane] = row < job.rows ? row : IDLE;
        lanes.busy &= ~(1u << lane), lanes.fresh &= ~(1u << lane);
        at<u64>(lanes.tried, lane) = lanes.reported[lane] = 0;
        at<double>(lanes.t, lane) = at<double>(lanes.to, lane) = at<double>(lanes.step, lane) = 0;
        if (row >= job.rows) return;
        OfLane x = lanes.variables(lane), c = lanes.constants(lane);
        begin_trajectory(job, row, x, c);
        if (job.kept_step) at<double>(lanes.step, lane) = job.kept_step[row];
        lanes.span[lane] = -1;
        u8 ended = ODE_DONE;
        lanes.busy |= 1u << lane;
        if (enter_span(job, lanes, lane, 0, ended)) {
            lanes.fresh |= 1u << lane;  // its rates are not known
            return;
        }
        if (job.status) job.status[row] = ended;
    }
}

// A lane has arrived at the end of its span, or ends there with another status.
DEVICE_SELDOM void settle_lane(const OdeJob &job, OdeLanes &lanes, int lane, u8 ended) {
    const i64 span = lanes.span[lane];
    if (enter_span(job, lanes, lane, span, ended)) return;
    if (job.status) job.status[lanes.row[lane]] = ended;
    begin_lane(job, lanes, lane);
}

// Tells how far the lanes are. True: leave them unfinished.
DEVICE_SELDOM bool must_leave(const OdeJob &job, OdeLanes &lanes) {
    bool leave = false;
    for (u32 rest = lanes.busy; rest; rest &= rest - 1) {
        const int lane = lowest_bit(rest);
        const u64 tried = at<u64>(lanes.tried, lane);
        leave |= must_leave(job.next_row, tried - lanes.reported[lane], at<double>(lanes.t, lane));
        lanes.reported[lane] = tried;
    }
    return leave;
}

// As `walk` of ode/control.h, on all lanes.
template <class Method>
DEVICE void try_steps(const OdeJob &job, OdeLanes &lanes, Method &method) {
    if (lanes.fresh) {
        // Other lanes get the rates again that they have.
        const Time first = method.begin(lanes.x, lanes.c, lanes.t, lanes.to - lanes.t);
        for (u32 rest = lanes.fresh; rest; rest &= rest - 1)
            if (!(at<double>(lanes.step, lowest_bit(rest)) > 0))
                put(lanes.step, lowest_bit(rest), at<const double>(first, lowest_bit(rest)));
        lanes.fresh = 0;
    }
    const Time t = lanes.t, step = lanes.step, left = lanes.to - t;
    const Mask before = step < 0.999999 * left;
    const Time h = before ? step : left, end = before ? t + h : lanes.to;
    const Time error = method.attempt(lanes.x, lanes.c, t, h, end);
    const Mask good = error <= 1.0;
    const Time next = h * step_factor(error, Method::ORDER);
    // A step that was cut at the end says little of what the next may be.
    const Mask cut = good & (before == 0) & (next < step);
    lanes.step = cut ? step : next;
    lanes.t = good ? end : t;
    lanes.tried += 1ull;
    const u32 made = bits_of(good) & lanes.busy, rejected = lanes.busy & ~made;
    method.made += (u64)popc(made), method.rejected += (u64)popc(rejected);
    const u32 arrived = made & ~bits_of(before);
    const u32 stuck = rejected & ~bits_of(t + 0.01 * lanes.step > t);
    for (u32 rest = arrived | stuck; rest; rest &= rest - 1) {
        const int lane = lowest_bit(rest);
        const bool fails = stuck >> lane & 1;
        settle_lane(job, lanes, lane, fails ? ODE_NOT_A_NUMBER : ODE_DONE);
    }
}

// Trajectories differ in steps: lanes take the next when they are done.
template <class Method>
DEVICE void take_turns(const OdeJob &job, Method &method, i64 threads) {
    OdeLanes lanes = {};
    // A thread takes no more trajectories at once than its share of the launch.
    const i64 share = (job.rows + threads - 1) / threads;
    for (int lane = 0; lane < SIMD_LANES; ++lane) {
        lanes.row[lane] = IDLE;
        if (lane < share) begin_lane(job, lanes, lane);
    }
    for (u64 turn = 1; lanes.busy; ++turn) {
        const u32 spent = bits_of((Mask)(lanes.tried >= method.most)) & lanes.busy;
    NO_UNROLL for (u32 rest = spent; rest; rest &= rest - 1)
            settle_lane(job, lanes, lowest_bit(rest), ODE_STEP_LIMIT);
        if (spent) continue;
        try_steps(job, lanes, method);
        if (turn % LOOK_EVERY_STEPS == 0 && must_leave(job, lanes)) break;
    }
    if (job.steps) atomic_add(job.steps, method.made), atomic_add(job.steps + 4, method.rejected);
}
#endif
