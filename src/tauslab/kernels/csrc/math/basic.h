// Bits of doubles, rounding to whole numbers, minimum and maximum.
//
// Every NaN that the portable functions make is the canonical one: devices differ in the sign and
// payload of the NaN of 0/0.
#pragma once

#include "device/prelude.h"

// a * b + c, rounded once.
DEVICE double fused(double a, double b, double c) {
    return FMA(a, b, c);
}

// A number as a double, or on all lanes of a vector. Templates over `Real` are for both: what they
// call on vectors is in simd/lanes.h, which stands before them where there are vectors.
template <class Real>
DEVICE Real number(double value) {
    return value - Real{};  // x - 0 is x, also for x = -0
}

// c + x * series: a step of Horner's scheme.
template <class Real>
DEVICE Real horner(Real x, Real series, double c) {
    return fused(x, series, number<Real>(c));
}

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
template <class Real>
DEVICE Real absolute(Real x) {
    return x != x ? number<Real>(tl_nan()) : from_bits(as_bits(x) & 0x7fffffffffffffffull);
}

DEVICE double tl_abs(double x) {
    return absolute(x);
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
template <class Real>
DEVICE Real floor_of(Real x) {
    const Real size = absolute(x);
    const Real rounded =
        from_bits(as_bits((size + 0x1p52) - 0x1p52) | (as_bits(x) & 0x8000000000000000ull));
    const Real below = rounded > x ? rounded - 1.0 : rounded;
    return size < 0x1p52 ? below : x != x ? number<Real>(tl_nan()) : x;
}

DEVICE double tl_floor(double x) {
    return floor_of(x);
}

// Smallest whole number that is not below x; keeps the sign of zero.
template <class Real>
DEVICE Real ceiling_of(Real x) {
    return x != x ? number<Real>(tl_nan()) : -floor_of(-x);
}

DEVICE double tl_ceil(double x) {
    return ceiling_of(x);
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

// The double after a time; what follows 0 is so small that no sample sees it.
DEVICE double just_after(double t) {
    return t > 0 ? from_bits(as_bits(t) + 1) : 1e-30;
}
