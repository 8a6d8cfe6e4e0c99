// Shared by all ODE kernels: the start of a trajectory, its spans, its samples and its end.
//
// A trajectory goes from span to span (see kernels/ode/lowering.py): it is integrated to the span's end,
// then an event may happen, then a sample may be taken.
#pragma once

#include "ensemble/control.h"
#include "model.h"
#include "ode/sample.h"
#ifdef HAS_PAST
#include "ode/past/history.h"
#endif

// Status of a trajectory, as stored in /status.
enum OdeStatus : u8 { ODE_DONE = 0, ODE_STEP_LIMIT = 3, ODE_NOT_A_NUMBER = 4 };

// The buffer for the samples of a launch: quantity q of row r at sample k stands at
// r * row_stride + k * time_stride + q * quantity_stride.
struct OdeSamples {
    Sampled *at;  // may be null
    i64 row_stride, time_stride, quantity_stride;
};

// The launch that every ODE kernel is given; see kernels/ode/engine.py.
struct OdeJob {
    const PhiloxKeys *keys;     // of the seed
    i64 per_point;              // trajectories of a point of a sweep; 0: no sweep
    i64 first, rows;            // trajectories `first` .. `first + rows - 1` of the run
    const double *begin, *end;  // begin and end of each span
    const i32 *event, *sample;  // at its end; -1: none
    i64 n_spans;
    const double *inputs;  // [inputs, N_INPUTS]
    i64 inputs_stride;     // from one to the next; 0: all share one
    const double *kept;    // [rows, N_VARIABLES]: states to go on from; null: from time 0
    // [rows]: the step to begin with, 0 for a guess; takes the one to go on with. May be null.
    double *kept_step;
    // [rows, QUEUE_WORDS]: triggers and executions to go on from; null: at the start. Takes those at
    // the end. Both may be null.
    const double *kept_queue;
    double *keep_queue;
    Priors priors;
    u64 *next_row;  // control words, see ensemble/control.h
    OdeSamples samples;
    double *drawn;  // value j of row r at r * drawn_row + j * drawn_prior; may be null
    i64 drawn_row, drawn_prior;
    double *final;  // [rows, final_count]: quantities at the last sample, may be null
    i64 final_count, last;
    u8 *status;  // [rows], may be null
    u64 *steps;  // made, and at 4 those rejected
};

// The constants of a trajectory, as functions take them; with its past where equations look back.
#ifdef HAS_PAST
typedef const WithHistory &GivenConstants;
#else
typedef const Real *GivenConstants;
#endif

// Times and steps of trajectories. What is made of them has an answer for each lane, where there are lanes.
#ifdef ON_LANES
typedef Real Time;
#else
typedef double Time;
#endif

DEVICE bool any_of(bool condition) {
    return condition;
}
#if defined(ON_LANES) && SIMD_LANES > 1
DEVICE bool any_of(Mask condition) {
    return bits_of(condition) != 0;
}
#endif

// Takes the quantities of one sample.
struct SampleOut {
    Sampled *at;
    i64 stride;
    DEVICE_MEMBER void put(int quantity, Number value) const {
        at[quantity * stride] = (Sampled)value;
    }
};

// Takes the first quantities at the end.
struct FinalOut {
    double *at;
    i64 count;
    DEVICE_MEMBER void put(int quantity, Number value) const {
        if (quantity < count) at[quantity] = (double)value;
    }
};

DEVICE Sampled missing_sample() {
    return (Sampled)tl_nan();
}

// Constants and initial values of a trajectory.
template <class State, class Constants>
DEVICE void begin_trajectory(const OdeJob &job, i64 row, State &x, Constants &c) {
    const Place place = place_of(job.first, row, job.per_point, 0);
    double p[N_INPUTS + 1] = {};
    for (int i = 0; i < N_INPUTS; ++i) p[i] = job.inputs[place.input * job.inputs_stride + i];
    double *drawn = job.drawn ? job.drawn + row * job.drawn_row : nullptr;
    draw_inputs(job.priors, *job.keys, place, p, drawn, job.drawn_prior);
    ode_constants(p, c);
    ode_initial(p, x);
    if (job.kept)
        for (int i = 0; i < N_VARIABLES; ++i) x[i] = (Number)job.kept[row * N_VARIABLES + i];
}

// The step of a method whose steps adapt goes from one launch to the next; others have none.
template <class Method>
DEVICE auto take_up_step(const OdeJob &job, i64 row, Method &method, int)
    -> decltype((void)method.step) {
    if (job.kept_step) method.step = job.kept_step[row];
}
template <class Method>
DEVICE void take_up_step(const OdeJob &, i64, Method &, i64) {}

template <class Method>
DEVICE auto keep_step(const OdeJob &job, i64 row, const Method &method, int)
    -> decltype((void)method.step) {
    if (job.kept_step) job.kept_step[row] = method.step;
}
template <class Method>
DEVICE void keep_step(const OdeJob &, i64, const Method &, i64) {}

// Whether every variable is a finite number. `Value` is Number, or Real for an answer on each lane.
template <class Value, class State>
DEVICE auto are_finite(const State &x) {
    const Value zero = number<Value>(0.0);
    Value sum = zero;
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) sum += x[i] * zero;
    return sum == zero;
}

// Whether a trajectory goes on: its variables are finite, and sizes of compartments above 0.
template <class State>
DEVICE bool all_finite(const State &x) {
#ifdef HAS_SIZES
    for (int i : SIZES)
        if (!(x[i] > 0)) return false;
#endif
    return are_finite<Number>(x);
}

template <class State, class Constants>
DEVICE void take_sample(const OdeJob &job, i64 row, i64 k, const State &x, const Constants &c,
                        Number t) {
    const OdeSamples &out = job.samples;
    if (out.at) {
        const SampleOut to = {out.at + row * out.row_stride + k * out.time_stride,
                              out.quantity_stride};
        ode_quantities(x, c, t, to);
    }
    if (job.final && k == job.last) {
        const FinalOut to = {job.final + row * job.final_count, job.final_count};
        ode_quantities(x, c, t, to);
    }
}

// The trajectory gave no sample from span `span` on.
DEVICE void miss_samples(const OdeJob &job, i64 row, i64 span) {
    const OdeSamples &out = job.samples;
    if (job.final && span < job.n_spans)
        for (i64 q = 0; q < job.final_count; ++q) job.final[row * job.final_count + q] = tl_nan();
    if (!out.at) return;
    for (; span < job.n_spans; ++span) {
        if (job.sample[span] < 0) continue;
        Sampled *at = out.at + row * out.row_stride + job.sample[span] * out.time_stride;
        for (int q = 0; q < N_QUANTITIES; ++q) at[q * out.quantity_stride] = missing_sample();
    }
}

// Between looks at the control words.
constexpr i64 LOOK_EVERY_SPANS = 64;
constexpr u64 LOOK_EVERY_STEPS = 256;

// A trajectory from start to end. `Method::advance(x, c, from, to)` integrates and gives a status.
template <class Method, class State, class Constants>
DEVICE void run_trajectory(const OdeJob &job, i64 row, Method &method, State &x, Constants &c) {
    begin_trajectory(job, row, x, c);
    method.start();
    take_up_step(job, row, method, 0);
    u8 ended = ODE_DONE;
    i64 span = 0;
    for (; span < job.n_spans; ++span) {
        const double from = job.begin[span], to = job.end[span];
        if (span % LOOK_EVERY_SPANS == 0 && must_leave(job.next_row, 0, from)) ended = ODE_STEP_LIMIT;
        if (ended != ODE_DONE) break;
        if (to > from) ended = method.advance(x, c, from, to);
        if (ended == ODE_DONE && !all_finite(x)) ended = ODE_NOT_A_NUMBER;
        if (ended != ODE_DONE) break;
        if (job.event[span] >= 0) ode_event(job.event[span], x, c, (Number)to), method.restart();
        if (job.sample[span] >= 0) take_sample(job, row, job.sample[span], x, c, (Number)to);
    }
    miss_samples(job, row, span);
    keep_step(job, row, method, 0);
    if (job.status) job.status[row] = ended;
}

// All trajectories take equally long: rows are dealt out, so that neighbouring threads write side by side.
template <class Method, class State, class Constants>
DEVICE void run_rows(const OdeJob &job, i64 first, i64 apart, Method &method, State &x,
                     Constants &c) {
    for (i64 row = first; row < job.rows; row += apart) run_trajectory(job, row, method, x, c);
}
