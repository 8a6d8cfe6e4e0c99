// What kernels are given that run trajectories in pairs, for derivatives by parameters.
#pragma once

#include "ensemble/arguments.h"

constexpr int PAIR_COLUMNS = 4;

// Both sides of an output in the columns of a pair. The square is for the fourth moment, which tells
// how many pairs the variance of the difference comes from.
DEVICE void record_difference(double *cell, i64 n_outputs, double first, double second) {
    const double difference = first - second;
    cell[0] = difference;
    cell[n_outputs] = first;
    cell[2 * n_outputs] = second;
    cell[3 * n_outputs] = difference * difference;
}

struct PairArguments {
    // Inputs have a row per point, which is a parameter: the counts, or constants, of the first side
    // and behind them those of the second. `observables` is [rows, n_times, 4, N_OBSERVABLES]:
    // first side less second, first, second, and the first of these squared: see record_difference.
    EnsembleArguments launch;
    const u32 *points;  // [points of the launch]: the point in the address of its draws
};
