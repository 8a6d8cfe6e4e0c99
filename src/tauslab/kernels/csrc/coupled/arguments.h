// What kernels are given that run trajectories in pairs, for derivatives by parameters.
#pragma once

#include "ensemble/arguments.h"

struct PairArguments {
    // Inputs have a row per point, which is a parameter: the counts, or constants, of the first side
    // and behind them those of the second. `observables` is [rows, n_times, 3, N_OBSERVABLES]:
    // first side less second, first, second.
    EnsembleArguments launch;
    const u32 *points;  // [points of the launch]: the point in the address of its draws
};
