// What generated laws (model.h) call, on SIMD lanes: the same numbers as math/math.h. Where a function has no form
// for vectors it is computed lane by lane, and so are lanes with special values.
#pragma once

#include "simd/lanes.h"
#include "math/math.h"

// A count on lanes is a double, exact up to 2^53.
DEVICE Real quantity(const Real &count) {
    return count;
}

DEVICE Real plus(const Real &count, const Real &change) {
    return count + change;
}

// Tables of math/log.h, a column after the other. They begin where a vector that is loaded lies in one line of cache.
struct alignas(64) LogColumns {
    double reciprocal[32], log_reciprocal[32], rest[32];
};

DEVICE LogColumns log_columns() {
    LogColumns columns;
    for (u32 i = 0; i < 32; ++i) {
        columns.reciprocal[i] = log_entry(i).reciprocal;
        columns.log_reciprocal[i] = log_entry(i).log_reciprocal;
        columns.rest[i] = log_reciprocal_rest(i);
    }
    return columns;
}

static const LogColumns LOG_COLUMNS = log_columns();

#if SIMD_LANES > 1
// `result`, with the function's own value on the lanes `others`.
template <class Function, class... Arguments>
DEVICE Real mended(Real result, u32 others, const Function &function,
                   const Arguments &...arguments) {
    NO_UNROLL for (; others; others &= others - 1) {
        const int lane = lowest_bit(others);
        put(result, lane, function(arguments[lane]...));
    }
    return result;
}

DEVICE u32 lanes_without(Mask condition) {
    return ALL_LANES ^ bits_of(condition);
}

// 2^k (pair.hi + pair.lo) for k in -1021..1022.
DEVICE Real usual_scaled(Real high, Real low, Real shifted) {
    return (high + low) * from_bits((as_bits(shifted) + 1023ull) << 52);
}

DEVICE_SHARED Real tl_exp(Real x) {
    const ScaledPair<Real> parts = exp_parts(x);
    const Mask zero = x < -745.2;  // as between pulses
    const Real usual = zero ? Real{} : usual_scaled(parts.sum.hi, parts.sum.lo, parts.shifted);
    const u32 others = lanes_without(((x > -707.0) & (x < 707.0)) | zero);
    if (LIKELY(others == 0)) return usual;
    return mended(usual, others, [](double a) { return tl_exp(a); }, x);
}

// Of positive normal numbers.
DEVICE LogPartsOf<Real, Words> log_parts(Real x) {
    const Words above = as_bits(x) + ((0x40000000ull - 0x3fe64000ull) << 32);
    const Real k = from_bits(above >> 52 | 0x4330000000000000ull) - (0x1p52 + 1024.0);
    const Real m = from_bits((above & 0x000fffffffffffffull) + (0x3fe64000ull << 32));
    return {k, m, above >> 47};
}

DEVICE Mask is_positive_normal(Real x) {
    return (x >= 0x1p-1022) & (x < tl_infinity());
}

DEVICE_SHARED Real tl_log(Real x) {
    const auto part = log_parts(x);
    const Real usual = log_of_parts(part.k, part.m, table_of_32(LOG_COLUMNS.reciprocal, part.index),
                                    table_of_32(LOG_COLUMNS.log_reciprocal, part.index));
    const u32 others = lanes_without(is_positive_normal(x));
    if (LIKELY(others == 0)) return usual;
    return mended(usual, others, [](double a) { return tl_log(a); }, x);
}

DEVICE PairOf<Real> log_pair(Real x) {
    const auto part = log_parts(x);
    const LogRow<Real> row = {table_of_32(LOG_COLUMNS.reciprocal, part.index),
                              table_of_32(LOG_COLUMNS.log_reciprocal, part.index),
                              table_of_32(LOG_COLUMNS.rest, part.index)};
    return log_pair_of_parts(x, Real{}, part.k, part.m, row);
}

DEVICE_SHARED Real tl_log10(Real x) {
    const Real usual = in_base_ten(log_pair(x));
    const u32 others = lanes_without(is_positive_normal(x));
    if (LIKELY(others == 0)) return usual;
    return mended(usual, others, [](double a) { return tl_log10(a); }, x);
}

// Positive normal x with results that are normal; and 0^y for a positive y, which counts often are.
DEVICE_SHARED Real tl_pow(Real x, Real y) {
    const PairOf<Real> log = log_pair(x);
    const Real high = y * log.hi;
    const ScaledPair<Real> parts = exp_pair_parts(pow_exponent(log, y, high));
    const PairOf<Real> one = one_plus(parts.sum);
    Real usual = usual_scaled(one.hi, one.lo, parts.shifted);
    const Mask zero = (Mask)(as_bits(x) == 0ull) & (y > 0.0) & (y < tl_infinity());
    usual = zero ? Real{} : usual;
    const Mask inside = is_positive_normal(x) & (high > -700.0) & (high < 700.0);
    const u32 others = lanes_without(inside | zero);
    if (LIKELY(others == 0)) return usual;
    return mended(usual, others, [](double a, double b) { return tl_pow(a, b); }, x, y);
}

// Sines of angles between 2^-27 and 2^30 plus `quarters` quadrants.
DEVICE Real usual_sine(Real x, u64 quarters) {
    const Real shifted = x * TWO_OVER_PI + 0x1.8p52, whole = shifted - 0x1.8p52;
    const PairOf<Real> rest = less_quarters(x, whole);
    const Words number = as_bits(shifted) + quarters;
    const Mask odd = (Mask)((number & 1ull) != 0ull);
    const Real value = odd ? cosine_pair(rest).hi : sine_pair(rest).hi;
    return from_bits(as_bits(value) ^ (number & 2ull) << 62);
}

DEVICE Mask is_usual_angle(Real x) {
    const Real size = absolute(x);
    return (size >= 0x1p-27) & (size < 0x1p30);
}

DEVICE_SHARED Real tl_sin(Real x) {
    const Real usual = usual_sine(x, 0);
    const u32 others = lanes_without(is_usual_angle(x));
    if (LIKELY(others == 0)) return usual;
    return mended(usual, others, [](double a) { return tl_sin(a); }, x);
}

DEVICE_SHARED Real tl_cos(Real x) {
    const Real usual = usual_sine(x, 1);
    const u32 others = lanes_without(is_usual_angle(x));
    if (LIKELY(others == 0)) return usual;
    return mended(usual, others, [](double a) { return tl_cos(a); }, x);
}

// What equations call by other names.
DEVICE Real root(Real x) {
    return square_root(x);
}

DEVICE Real reciprocal(Real x) {
    return 1.0 / x;
}

DEVICE Real tl_abs(Real x) {
    return absolute(x);
}

DEVICE Real tl_floor(Real x) {
    return floor_of(x);
}

DEVICE Real tl_ceil(Real x) {
    return ceiling_of(x);
}

// Without branches. Equal numbers differ in the sign of zero alone.
DEVICE Real tl_min(Real x, Real y) {
    const Real least = x == y ? from_bits(as_bits(x) | as_bits(y)) : x < y ? x : y;
    return ((x != x) | (y != y)) ? on_lanes(tl_nan()) : least;
}

DEVICE Real tl_max(Real x, Real y) {
    const Real largest = x == y ? from_bits(as_bits(x) & as_bits(y)) : x < y ? y : x;
    return ((x != x) | (y != y)) ? on_lanes(tl_nan()) : largest;
}

#define FUNCTION_ON_LANES(name) \
    DEVICE_SHARED Real name(Real a) { \
        return each_lane(a, [](double x) { return name(x); }); \
    }
// Of a number that all lanes share and one of each.
#define WITH_SHARED_NUMBER(name) \
    DEVICE Real name(Real a, double b) { \
        return name(a, on_lanes(b)); \
    } \
    DEVICE Real name(double a, Real b) { \
        return name(on_lanes(a), b); \
    }

FUNCTION_ON_LANES(tl_cbrt)
FUNCTION_ON_LANES(tl_tan)
FUNCTION_ON_LANES(tl_asin)
FUNCTION_ON_LANES(tl_acos)
FUNCTION_ON_LANES(tl_atan)
FUNCTION_ON_LANES(tl_sinh)
FUNCTION_ON_LANES(tl_cosh)
FUNCTION_ON_LANES(tl_tanh)
WITH_SHARED_NUMBER(tl_pow)
WITH_SHARED_NUMBER(tl_min)
WITH_SHARED_NUMBER(tl_max)

#undef FUNCTION_ON_LANES
#undef WITH_SHARED_NUMBER
#endif

// log_parts of normal numbers in (0, 1].
DEVICE auto log_parts_to_one(Real x) {
#if defined(VGETEXPPD)
    const Words above = as_bits(x) + ((0x3ff00000ull - 0x3fe64000ull) << 32);
    const Real m = from_bits((above & 0x000fffffffffffffull) + (0x3fe64000ull << 32));
    return LogPartsOf<Real, Words>{(Real)VGETEXPPD(from_bits(above)), m, above >> 47};
#else
    return log_parts(x);
#endif
}
