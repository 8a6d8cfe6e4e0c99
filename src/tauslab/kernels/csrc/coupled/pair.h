// A pair of coupled trajectories, for the text that is made from a model.
#pragma once

#include "device/prelude.h"

struct CoupledPair {
    i32 *x, *y;           // counts of the first and of the second side
    const double *c, *d;  // their constants
    double *a, *b;        // their propensities
    double *cumulative;   // sums of the larger of both
};

// The larger of two propensities; not a number where one is not.
DEVICE double larger(double a, double b) {
    return a >= b ? a : a < b ? b : a + b;
}

// The reaction of a pair is chosen by a target in [0, max(a, b)): which sides fire it. Where both
// propensities are equal both do, whatever rounding has made of the target.
struct Sides {
    bool first, second;
};

DEVICE Sides sides_of(double target, double a, double b) {
    const bool first = a >= b, second = b >= a;
    const bool both = target < (first ? b : a);
    return {both || first, both || second};
}
