// Shared by all ODE kernels: the start of a trajectory, its spans, its samples and its end.
//
// A trajectory goes from span to span (see kernels/ode/lowering.py): it is integrated to the span's end,
// then an event may happen, then a sample may be taken.
#pragma once

#include "ensemble/control.h"
#include "model.h"
#include "ode/sample.h"
#include "device/prelude.h"
#include "random/streams.h"

// Status of a trajectory, as stored in /status.
enum OdeStatus : u8 { ODE_DONE = 0, ODE_STEP_LIMIT = 3, ODE_NOT_A_NUMBER = 4 };

// The buffer for the samples of a launch: quantity q of row r at sample k stands at
// r * row_stride + k * time_stride + q * quantity_stride.
struct Samples {
    Sampled *at;  // may be null
    i64 row_stride, time_stride, quantity_stride;
};

struct OdeJob {
    const PhiloxKeys *keys;
    i64 per_point, first, rows;
    const double *begin, *end;  // begin and end of each span
    const i32 *event, *sample;
    i64 n_spans;
    const double *inputs;
    i64 inputs_stride;
    Priors priors;
    u64 *next_row;
    Samples samples;
    double *drawn;  // value j of row r at r * drawn_row + j * drawn_prior; may be null
    i64 drawn_row, drawn_prior;
    double *final;  // [rows, final_count]: quantities at the last sample, may be null
    i64 final_count, last;
    u8 *status;  // [rows], may be null
    u64 *steps;  // made, and at 4 those rejected
};

#define ODE_ARGUMENTS \
    const PhiloxKeys *keys, i64 per_point, i64 first, i64 rows, const double *begin, \
        const double *end, const i32 *event, const i32 *sample, i64 n_spans, const double *inputs, \
        i64 inputs_stride, const double *priors, i64 n_priors, const double *table, \
        i64 table_rows, i64 table_columns, u64 *next_row, Sampled *samples, i64 row_stride, \
        i64 time_stride, i64 quantity_stride, double *drawn, i64 drawn_row, i64 drawn_prior, \
        double *final, i64 final_count, i64 last, u8 *status, u64 *steps
#define ODE_JOB \
    {keys,          per_point, \
     first,         rows, \
     begin,         end, \
     event,         sample, \
     n_spans,       inputs, \
     inputs_stride, {priors, n_priors, table, table_rows, table_columns}, \
     next_row,      {samples, row_stride, time_stride, quantity_stride}, \
     drawn,         drawn_row, \
     drawn_prior,   final, \
     final_count,   last, \
     status,        steps}

// Takes the quantities of one sample.
struct SampleOut {
    Sampled *at;
    i64 stride;
    DEVICE_MEMBER void put(int quantity, Real value) const {
        at[quantity * stride] = (Sampled)value;
    }
};

// Takes the first quantities at the end.
struct FinalOut {
    double *at;
    i64 count;
    DEVICE_MEMBER void put(int quantity, Real value) const {
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
}

// Whether every variable is a finite number.
template <class State>
DEVICE bool all_finite(const State &x) {
    Real sum = 0;
    UNROLL for (int i = 0; i < N_VARIABLES; ++i) sum += x[i] * (Real)0;
    return sum == 0;
}

template <class State, class Constants>
DEVICE void take_sample(const OdeJob &job, i64 row, i64 k, const State &x, const Constants &c,
                        Real t) {
    const Samples &out = job.samples;
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
    const Samples &out = job.samples;
    if (job.final && span < job.n_spans)
        for (i64 q = 0; q < job.final_count; ++q) job.final[row * job.final_count + q] = tl_nan();
    if (!out.at) return;
    for (; span < job.n_spans; ++span) {
        if (job.sample[span] < 0) continue;
        Sampled *at = out.at + row * out.row_stride + job.sample[span] * out.time_stride;
        for (int q = 0; q < N_QUANTITIES; ++q) at[q * out.quantity_stride] = missing_sample();
    }
}

constexpr i64 LOOK_EVERY_SPANS = 64;  // between looks at the control words

// A trajectory from start to end. `advance(method, x, c, from, to)` integrates and gives a status.
template <class Method, class State, class Constants>
DEVICE void run_trajectory(const OdeJob &job, i64 row, Method &method, State &x, Constants &c) {
    begin_trajectory(job, row, x, c);
    method.start();
    u8 ended = ODE_DONE;
    i64 span = 0;
    for (; span < job.n_spans; ++span) {
        const double from = job.begin[span], to = job.end[span];
        if (span % LOOK_EVERY_SPANS == 0 && must_leave(job.next_row, 0, from)) ended = ODE_STEP_LIMIT;
        if (ended != ODE_DONE) break;
        if (to > from) ended = advance(method, x, c, from, to);
        if (ended == ODE_DONE && !all_finite(x)) ended = ODE_NOT_A_NUMBER;
        if (ended != ODE_DONE) break;
        if (job.event[span] >= 0) ode_event(job.event[span], x, c, (Real)to), method.restart();
        if (job.sample[span] >= 0) take_sample(job, row, job.sample[span], x, c, (Real)to);
    }
    miss_samples(job, row, span);
    if (job.status) job.status[row] = ended;
}
