// The state of an exact trajectory with events: how it starts, how events set it, and its propensities.
#pragma once

#include "ensemble/control.h"
#include "model.h"
#include "math/math.h"
#include "ensemble/sampling.h"
#include "events/kept.h"

// Sets a count to a whole number, half to even; a quantity to any value. False where it may not have it.
struct AssignState {
    DEVICE_MEMBER bool operator()(double *x, int index, double value) const {
        if (IS_REAL[index]) {
            x[index] = value;
            return value == value;
        }
        if (!can_be_a_count(value)) return false;
        x[index] = whole_amount(value);
        return true;
    }
};

DEVICE void add_up(int first, const double *a, double *cumulative) {
    double sum = first > 0 ? cumulative[first - 1] : 0.0;
    UNROLL_MORE for (int j = first; j < N_REACTIONS; ++j) cumulative[j] = sum = sum + a[j];
}

DEVICE double total_of(const double *cumulative) {
    return N_REACTIONS > 0 ? cumulative[N_REACTIONS > 0 ? N_REACTIONS - 1 : 0] : 0.0;
}

// The reaction is the first whose cumulative propensity exceeds the target.
DEVICE int reaction_at(double target, const double *cumulative) {
    int reaction = 0;
    UNROLL_MORE for (int j = 0; j < N_REACTIONS - 1; ++j) reaction += cumulative[j] <= target;
    return reaction;
}

// The last state of a network whose species are recorded as real numbers: the first of the observables.
DEVICE void record_final_amounts(const EnsembleArguments &launch, i64 row, bool complete,
                                 const double *x, const double *c) {
    if (N_AMOUNTS == 0 || !launch.final_amounts) return;
    double values[N_OBSERVABLES + 1];
    record_observables(x, c, values);
    for (i64 i = 0; i < N_AMOUNTS; ++i)
        launch.final_amounts[row * N_AMOUNTS + i] = complete ? values[i] : not_a_number();
}

// Constants and the state at time 0.
DEVICE void load_start(const EnsembleArguments &launch, const Place &place, double *x, double *c) {
    for (int i = 0; i < N_CONSTANTS; ++i)
        c[i] = launch.constants[place.input * launch.constants_stride + i];
    check_constants(c);
    UNROLL_UP_TO_16(N_SPECIES) for (int i = 0; i < N_SPECIES; ++i) {
        x[i] = (double)launch.initial[place.input * launch.initial_stride + i];
    }
    set_reals(x, c);
    x[N_SPECIES] = 0;
}
