// Exponentials, powers, cube root and hyperbolic functions: see docs/developers/portable-math.md.
//
// exp(x) = 2^k exp(r) with |r| <= log(2) / 2 and r = x - k log(2), log(2) cut into three parts.
#pragma once

#include "math/log.h"

constexpr double INVERSE_LN2 = 0x1.71547652b82fep+0;

// 2^k (hi + lo), with 1/2 < hi < 4: rounded once, also where it is subnormal.
DEVICE double scaled_sum(double hi, double lo, i32 k) {
    if (k >= -1021 && k <= 1022) return (hi + lo) * power_of_two(k);
    if (k > 1100) return tl_infinity();
    if (k > 0) return (hi + lo) * power_of_two(k - 100) * 0x1p100;
    if (k < -1080) return 0.0;
    // The last place of `anchor` is the smallest subnormal, scaled: the sum is rounded there.
    const double anchor = power_of_two(-1022 - k);
    const Pair sum = two_sum(anchor, hi);
    const double rounded = hi < anchor ? (sum.hi + (sum.lo + lo)) - anchor : hi + lo;
    return rounded * power_of_two(k + 600) * 0x1p-600;
}

// 2^k (sum.hi + sum.lo), where `shifted` is 1.5 2^52 + k: k is in its low bits.
template <class Real>
struct ScaledPair {
    PairOf<Real> sum;
    Real shifted;
};

DEVICE i32 exponent_of(double shifted) {
    return (i32)(u32)as_bits(shifted);
}

// exp(x) for |x| < 746.
template <class Real>
DEVICE ScaledPair<Real> exp_parts(Real x) {
    const Real shifted = x * INVERSE_LN2 + 0x1.8p52;
    const Real whole = shifted - 0x1.8p52;
    const Real r_high = fused(-whole, number<Real>(LN2_HIGH), x);
    const Real r_part = whole * LN2_MIDDLE;
    const Real r = r_high - r_part;
    const Real r_rest = (r_high - r) - r_part;
    Real series = horner(r, number<Real>(0x1.af85e478d7978p-26), 0x1.28b02ad293707p-22);
    series = horner(r, series, 0x1.71dddfabb69eep-19);
    series = horner(r, series, 0x1.a01996edc3aa6p-16);
    series = horner(r, series, 0x1.a01a01bae1281p-13);
    series = horner(r, series, 0x1.6c16c18568d9ep-10);
    series = horner(r, series, 0x1.111111110d67cp-7);
    series = horner(r, series, 0x1.555555555021ap-5);
    series = horner(r, series, 0x1.5555555555561p-3);
    series = horner(r, series, 0x1.000000000000bp-1);
    const PairOf<Real> sum = fast_two_sum(number<Real>(1.0), r);
    return {{sum.hi, fused(r * r, series, sum.lo + r_rest)}, shifted};
}

DEVICE double tl_exp(double x) {
    if (!(x < 709.8)) return is_nan(x) ? tl_nan() : tl_infinity();
    if (x < -745.2) return 0.0;
    const ScaledPair<double> parts = exp_parts(x);
    return scaled_sum(parts.sum.hi, parts.sum.lo, exponent_of(parts.shifted));
}

// exp(x.hi + x.lo) = 2^k (1 + e) for |x| < 1500, with e as the pair: it keeps about 2^-58 of its own size,
// also where x is small.
template <class Real>
DEVICE ScaledPair<Real> exp_pair_parts(PairOf<Real> x) {
    const Real shifted = x.hi * INVERSE_LN2 + 0x1.8p52;
    const Real whole = shifted - 0x1.8p52;
    const PairOf<Real> part = two_product(whole, number<Real>(LN2_MIDDLE));
    const PairOf<Real> difference = two_sum(fused(-whole, number<Real>(LN2_HIGH), x.hi), -part.hi);
    const Real rest = fused(-whole, number<Real>(LN2_LOW), difference.lo - part.lo) + x.lo;
    const PairOf<Real> r = fast_two_sum(difference.hi, rest);

    Real series = horner(r.hi, number<Real>(0x1.1f92ff15ff297p-29), 0x1.af5e62bdc64d1p-26);
    series = horner(r.hi, series, 0x1.27e4c7aaea6eep-22);
    series = horner(r.hi, series, 0x1.71ddf8add4fecp-19);
    series = horner(r.hi, series, 0x1.a01a01af66b05p-16);
    series = horner(r.hi, series, 0x1.a01a01afaf1a1p-13);
    series = horner(r.hi, series, 0x1.6c16c16c14a9ep-10);
    series = horner(r.hi, series, 0x1.111111110f773p-7);
    series = horner(r.hi, series, 0x1.5555555555559p-5);
    series = horner(r.hi, series, 0x1.5555555555559p-3);
    const PairOf<Real> square = pair_scaled(pair_product(r, r), 0.5);
    const Real cubic = r.hi * (square.hi + square.hi) * series;
    const PairOf<Real> sum = pair_sum(r, square);
    const PairOf<Real> total = fast_two_sum(sum.hi, cubic);
    return {fast_two_sum(total.hi, total.lo + sum.lo), shifted};
}

struct Exponential {
    Pair e;
    i32 k;
};

DEVICE Exponential exp_pair(Pair x) {
    const ScaledPair<double> parts = exp_pair_parts(x);
    return {parts.sum, exponent_of(parts.shifted)};
}

template <class Real>
DEVICE PairOf<Real> one_plus(PairOf<Real> e) {
    return pair_sum({number<Real>(1.0), number<Real>(0.0)}, e);
}

// x^y = exp(result) for a positive x, without its special cases. `high` is nearly that exponent.
template <class Real>
DEVICE PairOf<Real> pow_exponent(PairOf<Real> log, Real y, Real high) {
    return fast_two_sum(high, fused(y, log.hi, -high) + y * log.lo);
}

// exp(x) - 1
DEVICE double tl_expm1(double x) {
    if (!(x < 709.8)) return is_nan(x) ? tl_nan() : tl_infinity();
    if (x < -40.0) return -1.0;
    if (tl_abs(x) < 0x1p-54) return x;
    const Exponential p = exp_pair({x, 0.0});
    if (p.k == 0) return p.e.hi + p.e.lo;
    const double one = p.k < 200 ? power_of_two(-p.k) : 0.0;
    const Pair sum = pair_sum(two_sum(1.0, -one), p.e);
    if (p.k < 0) return (sum.hi + sum.lo) * power_of_two(p.k);
    return scaled_sum(sum.hi, sum.lo, p.k);
}

// Whether y is a whole number; `odd` if it is an odd one.
DEVICE bool is_whole(double y, bool &odd) {
    odd = false;
    if (tl_abs(y) >= 0x1p53) return true;
    const double half = 0.5 * y;
    odd = tl_floor(y) == y && tl_floor(half) != half;
    return tl_floor(y) == y;
}

// x^y where x is 0, infinite or negative with whole y gives the sign, or y is infinite.
DEVICE double pow_of_special(double size, double y, bool negative) {
    double result;
    if (size == 1.0)
        result = 1.0;
    else
        result = (size > 1.0) == (y > 0.0) ? tl_infinity() : 0.0;
    return negative ? -result : result;
}

// x^y with the special cases of C's pow: pow(x, 0) = pow(1, y) = 1 even for NaN.
DEVICE double tl_pow(double x, double y) {
    if (y == 0.0 || x == 1.0) return 1.0;
    if (is_nan(x) || is_nan(y)) return tl_nan();
    bool odd;
    const bool whole = is_whole(y, odd);
    const double size = tl_abs(x);
    const bool negative = sign_bit(x) && odd;
    if (size == 0.0 || size == tl_infinity() || tl_abs(y) == tl_infinity())
        return pow_of_special(size, y, negative);
    if (x < 0.0 && !whole) return tl_nan();
    const Pair log = log_pair_any(size);
    const double high = y * log.hi;
    if (!(tl_abs(high) < 800.0)) return pow_of_special(size, y, negative);
    const Exponential p = exp_pair(pow_exponent(log, y, high));
    const Pair one = one_plus(p.e);
    const double result = scaled_sum(one.hi, one.lo, p.k);
    return negative ? -result : result;
}

// Third root, by Newton's method; the last step has the exact rest of x - y^3.
DEVICE double tl_cbrt(double x) {
    double size = tl_abs(x);
    if (!(size > 0.0 && size < tl_infinity())) return is_nan(x) ? tl_nan() : x;
    const double scale = size < 0x1p-1022 ? 0x1p-18 : 1.0;
    if (scale < 1.0) size *= 0x1p54;
    // size = 8^third 2^left m, m in [1, 2)
    const u64 bits = as_bits(size);
    const i32 exponent = (i32)(bits >> 52) - 1023;
    const i32 third = (exponent + 1200) / 3 - 400;
    const i32 left = exponent - 3 * third;
    const double m = from_bits((bits & 0x000fffffffffffffull) | 0x3ff0000000000000ull);
    const double scaled = m * (double)(1 << left);
    double root = FMA(m, -0x1.5b77e6b237de1p-7, 0x1.60a14c7f40ee0p-4);
    root = FMA(m, root, -0x1.33d3817784d38p-2);
    root = FMA(m, root, 0x1.6fb1de4fd03d7p-1);
    root = FMA(m, root, 0x1.0392cd6ba95f6p-1);
    root *= left == 0 ? 1.0 : left == 1 ? 0x1.428a2f98d728bp+0 : 0x1.965fea53d6e3dp+0;
    root = root - (root - scaled / (root * root)) * (1.0 / 3.0);
    const Pair square = two_product(root, root);
    const Pair cube = two_product(root, square.hi);
    const double rest = ((scaled - cube.hi) - cube.lo) - root * square.lo;
    root = root + rest / (3.0 * square.hi);
    return with_sign(root * power_of_two(third) * scale, x);
}

// (e + e / (1 + e)) / 2 near zero, (E - 1 / E) / 2 elsewhere, with E = 1 + e.
DEVICE double tl_sinh(double x) {
    const double size = tl_abs(x);
    if (!(size < 711.0)) return is_nan(x) ? tl_nan() : with_sign(tl_infinity(), x);
    if (size < 0x1p-28) return x;
    const Exponential p = exp_pair({size, 0.0});
    const Pair one = one_plus(p.e);
    if (p.k == 0) {
        const Pair sum = pair_sum(p.e, pair_quotient(p.e, one));
        return with_sign(0.5 * (sum.hi + sum.lo), x);
    }
    const double shrink = p.k < 60 ? power_of_two(-2 * p.k) : 0.0;
    const Pair inverse = pair_scaled(pair_quotient({1.0, 0.0}, one), -shrink);
    const Pair sum = pair_sum(one, inverse);
    return with_sign(scaled_sum(sum.hi, sum.lo, p.k - 1), x);
}

DEVICE double tl_cosh(double x) {
    const double size = tl_abs(x);
    if (!(size < 711.0)) return is_nan(x) ? tl_nan() : tl_infinity();
    const Exponential p = exp_pair({size, 0.0});
    const Pair one = one_plus(p.e);
    const double shrink = p.k < 60 ? power_of_two(-2 * p.k) : 0.0;
    const Pair sum = pair_sum(one, pair_scaled(pair_quotient({1.0, 0.0}, one), shrink));
    return scaled_sum(sum.hi, sum.lo, p.k - 1);
}

// (E - 1) / (E + 1) with E = exp(2 |x|)
DEVICE double tl_tanh(double x) {
    const double size = tl_abs(x);
    if (!(size < 22.0)) return is_nan(x) ? tl_nan() : with_sign(1.0, x);
    if (size < 0x1p-28) return x;
    const Exponential p = exp_pair({2.0 * size, 0.0});
    const double one = power_of_two(-p.k);
    const Pair above = pair_sum(two_sum(1.0, -one), p.e);
    const Pair below = pair_sum(two_sum(1.0, one), p.e);
    const Pair ratio = pair_quotient(above, below);
    return with_sign(ratio.hi + ratio.lo, x);
}
