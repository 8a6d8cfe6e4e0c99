// A piece that generated text of scores is made of.
#pragma once

#include "device/prelude.h"

// The derivative of a propensity. Where that is 0 and its derivative is not, no path of these
// parameters tells of the reaction, and the score is no number.
DEVICE double seen(double slope, double propensity) {
    return propensity > 0 || slope == 0 ? slope : from_bits(0x7ff8000000000000ull);
}
