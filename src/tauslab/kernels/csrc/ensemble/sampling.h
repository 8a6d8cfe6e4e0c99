// Shared by all ensemble kernels: trajectory status, sample records and the row counter.
#pragma once

#include "ensemble/arguments.h"
#include "model.h"

// Status of a trajectory, as stored in /status.
// 5 and 6 are in events/queue.h.
enum Status : u8 { DONE = 0, ABSORBED = 1, OVERFLOWED = 2, STEP_LIMIT = 3, NOT_A_NUMBER = 4 };

constexpr i32 MISSING_COUNT = -1;

DEVICE double infinity() {
    return from_bits(0x7ff0000000000000ull);
}

DEVICE double not_a_number() {
    return from_bits(0x7ff8000000000000ull);
}

// The buffers for the samples of a launch; a null pointer means "not recorded".
struct Recorder {
    i32 *counts;          // [rows, n_times, N_RECORDED]
    double *observables;  // [rows, n_times, N_OBSERVABLES]
    i32 *final_counts;    // [rows, N_RECORDED]
    u8 *status;           // [rows]
    i64 n_times;
};

DEVICE Recorder recorder_of(const EnsembleArguments &launch) {
    return {launch.counts, launch.observables, launch.final_counts, launch.status, launch.n_times};
}

// State at sample time `k` of the launch's trajectory `row`. `State` reads counts by index, `Constants` constants.
template <class State, class Constants>
DEVICE void record_sample(const Recorder &out, i64 row, i64 k, const State &x, const Constants &c) {
    if (N_RECORDED > 0 && out.counts)
        record_counts(x, out.counts + (row * out.n_times + k) * N_RECORDED);
    if (N_OBSERVABLES > 0 && out.observables)
        record_observables(x, c, out.observables + (row * out.n_times + k) * N_OBSERVABLES);
}

// The trajectory gave no sample from time `k` on.
DEVICE void record_missing(const Recorder &out, i64 row, i64 k) {
    if (out.counts)
        for (i64 i = k * N_RECORDED; i < out.n_times * N_RECORDED; ++i)
            out.counts[row * out.n_times * N_RECORDED + i] = MISSING_COUNT;
    if (out.observables)
        for (i64 i = k * N_OBSERVABLES; i < out.n_times * N_OBSERVABLES; ++i)
            out.observables[row * out.n_times * N_OBSERVABLES + i] = not_a_number();
}

// `complete` is false for a trajectory that ended before its last sample time.
template <class State>
DEVICE void record_end(const Recorder &out, i64 row, u8 status, bool complete, const State &x) {
    if (out.status) out.status[row] = status;
    if (!out.final_counts) return;
    i32 *cell = out.final_counts + row * N_RECORDED;
    if (complete) record_counts(x, cell);
    for (i64 i = 0; !complete && i < N_RECORDED; ++i) cell[i] = MISSING_COUNT;
}
