// What formulas read beside the state, in a network that draws nothing: constants alone.
#pragma once

#include "random/streams.h"

struct Draws {};

DEVICE void start_draws(Draws &, const PhiloxKeys &, const Place &) {}

DEVICE const double *formula_constants(const double *c, const Draws &) {
    return c;
}
