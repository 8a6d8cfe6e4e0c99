// What every kernel that samples trajectories of a network is given. Python reads this struct and fills it
// by the names of its fields (kernels/backends/arguments.py, kernels/ensemble/launch.py).
#pragma once

#include "random/streams.h"

struct EnsembleArguments {
    const PhiloxKeys *keys;  // of the seed
    i64 per_point;           // trajectories of a point of a sweep; 0: no sweep
    i64 before;              // number of a point's first trajectory: earlier runs had those below
    i64 first, rows;         // the launch has trajectories `first` .. `first + rows - 1` of the run
    const double *times;     // [n_times]: of samples, ascending
    i64 n_times;
    const i32 *initial;       // [inputs, N_SPECIES]: counts at the start
    i64 initial_stride;       // from an input to the next; 0: all share one
    const double *constants;  // [inputs, N_CONSTANTS]: rate constants that are not in the text
    i64 constants_stride;
    u64 max_steps;        // of a trajectory
    u64 *control;         // see ensemble/control.h; the first word counts rows that were taken
    i32 *counts;          // [rows, n_times, N_RECORDED]; this and what follows may be null
    double *observables;  // [rows, n_times, N_OBSERVABLES]
    i32 *final_counts;    // [rows, N_RECORDED]
    u8 *status;           // [rows]
    u64 *work;            // events, then what leaps count: WORK of kernels/ensemble/launch.py
    const double
        *kept;     // [rows, kept_words], see events/kept.h: states to go on from; null: from time 0
    double *keep;  // the same of states that are reached; null: none. May be `kept`
    i64 kept_words;
    double *final_amounts;  // [rows, N_AMOUNTS]: of networks whose species are real numbers
    i64 halt;  // the quantity that halts a trajectory with events when it is not 0; -1: none
    const i64 *order;  // [rows]: rows as they are taken; null: 0, 1, ...
    u64 *lengths;      // [rows]: firings of each; null: nobody asks
};

// The place of row `row` of the launch, see place_of in random/streams.h.
DEVICE Place place_in(const EnsembleArguments &launch, i64 row) {
    return place_of(launch.first, row, launch.per_point, launch.before);
}

// The row that is taken as number `turn` of the launch; `rows` or more where none is left.
DEVICE i64 row_of(const EnsembleArguments &launch, i64 turn) {
    return launch.order && turn < launch.rows ? launch.order[turn] : turn;
}

DEVICE u64 seed_of(const EnsembleArguments &launch) {
    return (u64)launch.keys->k1[0] << 32 | launch.keys->k0[0];
}
