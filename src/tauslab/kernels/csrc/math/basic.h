// Bits of doubles, rounding to whole numbers, minimum and maximum.
//
// Every NaN that the portable functions make is the canonical one: devices differ in the sign and
// payload of the NaN of 0/0.
#pragma once

#include "device/prelude.h"

DEVICE double tl_nan() {
    return from_bits(0x7ff8000000000000ull);
}

DEVICE double tl_infinity() {
    return from_bits(0x7ff0000000000000ull);
}

DEVICE bool is_nan(double x) {
    return x != x;
}

// The sign bit of x and nothing else.
DEVICE u64 sign_bit(double x) {
    return as_bits(x) & 0x8000000000000000ull;
}

// |x|, or the canonical NaN.
DEVICE double tl_abs(double x) {
    return is_nan(x) ? tl_nan() : from_bits(as_bits(x) & 0x7fffffffffffffffull);
}

// `magnitude`, which is not negative, with the sign of x.
DEVICE double with_sign(double magnitude, double x) {
    return from_bits(as_bits(magnitude) | sign_bit(x));
}

// 2^k for k in -1022..1023.
DEVICE double power_of_two(i32 k) {
    return from_bits((u64)(k + 1023) << 52);
}

// Nearest whole number (ties to even) of |x| < 2^51, and in `whole` its low 32 bits.
DEVICE double nearest(double x, i32 &whole) {
    const double shifted = x + 0x1.8p52;
    whole = (i32)(u32)as_bits(shifted);
    return shifted - 0x1.8p52;
}

// Largest whole number that is not above x; keeps the sign of zero.
DEVICE double tl_floor(double x) {
    const double size = tl_abs(x);
    if (!(size < 0x1p52)) return is_nan(x) ? tl_nan() : x;
    const double rounded = with_sign((size + 0x1p52) - 0x1p52, x);
    return rounded > x ? rounded - 1.0 : rounded;
}

// Smallest whole number that is not below x; keeps the sign of zero.
DEVICE double tl_ceil(double x) {
    return is_nan(x) ? tl_nan() : -tl_floor(-x);
}

// NaN if one argument is NaN; -0 counts as less than +0.
DEVICE double tl_min(double x, double y) {
    if (is_nan(x) || is_nan(y)) return tl_nan();
    if (x == y) return sign_bit(x) ? x : y;
    return x < y ? x : y;
}

// NaN if one argument is NaN; +0 counts as more than -0.
DEVICE double tl_max(double x, double y) {
    if (is_nan(x) || is_nan(y)) return tl_nan();
    if (x == y) return sign_bit(x) ? y : x;
    return x > y ? x : y;
}
