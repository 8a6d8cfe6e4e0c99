// Pieces that generated text of pairs and of scores is made of.
#pragma once

#include "device/prelude.h"

struct CoupledPair {
    i32 *x, *y;          // counts of the first and of the second side
    double *c, *d;       // their constants
    double *a, *b;       // their propensities
    double *cumulative;  // sums of the larger of both
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

// The derivative of a propensity. Where that is 0 and its derivative is not, no path of these
// parameters tells of the reaction, and the score is no number.
DEVICE double seen(double slope, double propensity) {
    return propensity > 0 || slope == 0 ? slope : from_bits(0x7ff8000000000000ull);
}
