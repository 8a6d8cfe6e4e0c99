// What formulas read beside the state, in a network that draws: constants, and where the trajectory's
// random numbers come from. events/no_draws.h has the same names for all others.
#pragma once

#include "random/distributions.h"

struct FormulaConstants {
    const double *values;
    Draws *draws;

    DEVICE_MEMBER operator const double *() const { return values; }
};

DEVICE FormulaConstants formula_constants(const double *c, Draws &draws) {
    return {c, &draws};
}

DEVICE Draws &draws_of(const FormulaConstants &constants) {
    return *constants.draws;
}

// Where the draws are, so that a formula can be computed again with the same numbers.
DEVICE u64 next_of(const FormulaConstants &constants) {
    return constants.draws->next;
}

DEVICE void go_to(const FormulaConstants &constants, u64 next) {
    constants.draws->next = next;
}
