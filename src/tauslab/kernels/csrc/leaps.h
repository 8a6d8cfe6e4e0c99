// Small pieces that the generated part of a leap is made of.
#pragma once

#include "prelude.h"

DEVICE double larger(double a, double b) {
    return b > a ? b : a;
}

DEVICE double smaller(double a, double b) {
    return b < a ? b : a;
}

// Without the sign, also that of a zero: the propensity of 2 X is -0 where there is no X.
DEVICE double magnitude(double a) {
    return from_bits(as_bits(a) & 0x7fffffffffffffffull);
}

// Order of a law that is not mass action in one species: by how many per cent the propensity grows
// if the count grows by one per cent, from one molecule more.
DEVICE double law_order(double count, double now, double with_one_more) {
    return now > 0 ? count * magnitude(with_one_more - now) / now : 1.0;
}

// What `apply_firings` found, as bits.
constexpr int FITS = 0, FELL_BELOW_ZERO = 1, TOO_LARGE = 2;

DEVICE void put(i32 *to, i64 count, int &outcome) {
    if (count < 0) outcome |= FELL_BELOW_ZERO;
    if (count > 2147483647) outcome |= TOO_LARGE;
    *to = (i32)(u32)(u64)count;
}
