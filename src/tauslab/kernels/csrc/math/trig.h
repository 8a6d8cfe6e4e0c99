// Sine, cosine, tangent and their inverses: see docs/developers/portable-math.md.
#pragma once

#include "math/double_double.h"

// pi / 2 in three doubles
constexpr double HALF_PI_HIGH = 0x1.921fb54442d18p+0;
constexpr double HALF_PI_MIDDLE = 0x1.1a62633145c07p-54;
constexpr double HALF_PI_LOW = -0x1.f1976b7ed8fbcp-110;
constexpr double TWO_OVER_PI = 0x1.45f306dc9c883p-1;

// An angle less a multiple of pi / 2: `rest` is within +-pi / 4.
struct Quadrant {
    Pair rest;
    u32 number;  // mod 4
};

// 32 bits of 2 / pi; word 0 stands before the binary point.
DEVICE u32 two_over_pi(i32 word) {
    static const u32 table[39] = {
        0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u, 0xdb629599u, 0x3c439041u,
        0xfe5163abu, 0xdebbc561u, 0xb7246e3au, 0x424dd2e0u, 0x06492eeau, 0x09d1921cu, 0xfe1deb1cu,
        0xb129a73eu, 0xe88235f5u, 0x2ebb4484u, 0xe99c7026u, 0xb45f7e41u, 0x3991d639u, 0x835339f4u,
        0x9c845f8bu, 0xbdf9283bu, 0x1ff897ffu, 0xde05980fu, 0xef2f118bu, 0x5a0a6d1fu, 0x6d367ecfu,
        0x27cb09b7u, 0x4f463f66u, 0x9e5fea2du, 0x7527bac7u, 0xebe5f17bu, 0x3d0739f7u, 0x8a5292eau,
        0x6bfb5fb1u, 0x1f8d5d08u, 0x56033046u, 0xfc7b6babu,
    };
    return table[word];
}

// Angles of 2^30 and more (Payne and Hanek, SIGNUM Newsletter 18, 1983): x = M 2^e times the seven
// words of 2 / pi that matter; what stands before them gives multiples of 4 quadrants, what comes
// after them less than 2^-137.
DEVICE Quadrant reduce_large(double size) {
    const u64 bits = as_bits(size);
    const i32 e = (i32)(bits >> 52) - 1075;
    const u32 m[2] = {(u32)bits, ((u32)(bits >> 32) & 0xfffffu) | 0x100000u};
    const i32 first = e < 2 ? 0 : (e - 2) / 32 + 1;

    // Product modulo 2^224, lowest word first.
    u32 product[7] = {0, 0, 0, 0, 0, 0, 0};
    UNROLL for (int j = 0; j < 2; ++j) {
        u64 carry = 0;
        UNROLL for (int i = 0; i + j < 7; ++i) {
            carry += (u64)m[j] * two_over_pi(first + 6 - i) + product[i + j];
            product[i + j] = (u32)carry;
            carry >>= 32;
        }
    }

    // Shift left so that the top two bits count quadrants; then those out too.
    const u32 shift = (u32)(222 - (32 * (first + 6) - e));
    UNROLL for (int i = 6; i > 0; --i)
        product[i] = (u32)((((u64)product[i] << 32 | product[i - 1]) << shift) >> 32);
    product[0] <<= shift;
    const u32 quadrant = product[6] >> 30;
    UNROLL for (int i = 6; i > 0; --i) product[i] = product[i] << 2 | product[i - 1] >> 30;
    product[0] <<= 2;

    // The fraction as a number in [-1/2, 1/2): from 1/2 on, the complement and the next quadrant.
    const u32 upper = product[6] >> 31;
    const u32 flip = 0u - upper;
    Pair fraction = {0.0, 0.0};
    double weight = 0x1p-32;
    UNROLL for (int i = 6; i >= 0; --i) {
        const Pair sum = two_sum(fraction.hi, (double)(product[i] ^ flip) * weight);
        fraction = {sum.hi, fraction.lo + sum.lo};
        weight *= 0x1p-32;
    }
    fraction = pair_product(fast_two_sum(fraction.hi, fraction.lo), {HALF_PI_HIGH, HALF_PI_MIDDLE});
    return {upper ? pair_negative(fraction) : fraction, (quadrant + upper) & 3};
}

// An angle less `whole` times pi / 2. Below 2^30 three parts of pi / 2 are enough (Cody and Waite): the first difference
// is exact.
template <class Real>
DEVICE PairOf<Real> less_quarters(Real x, Real whole) {
    const PairOf<Real> part = two_product(whole, number<Real>(HALF_PI_MIDDLE));
    const Real first = fused(-whole, number<Real>(HALF_PI_HIGH), x);
    const PairOf<Real> difference = two_sum(first, -part.hi);
    const Real rest = difference.lo - fused(whole, number<Real>(HALF_PI_LOW), part.lo);
    return fast_two_sum(difference.hi, rest);
}

DEVICE Quadrant reduce_angle(double x) {
    const double size = tl_abs(x);
    if (size <= 0x1.921fb54442d18p-1) return {{x, 0.0}, 0};
    if (size < 0x1p30) {
        i32 k;
        const double whole = nearest(x * TWO_OVER_PI, k);
        return {less_quarters(x, whole), (u32)k & 3};
    }
    const Quadrant q = reduce_large(size);
    if (x > 0.0) return q;
    return {pair_negative(q.rest), (0u - q.number) & 3};
}

// Sine of a reduced angle.
template <class Real>
DEVICE PairOf<Real> sine_pair(PairOf<Real> r) {
    const Real z = r.hi * r.hi;
    Real series = horner(z, number<Real>(0x1.5d9293e9e032ap-33), -0x1.ae5e655ea0272p-26);
    series = horner(z, series, 0x1.71de35779a006p-19);
    series = horner(z, series, -0x1.a01a019c12fdbp-13);
    series = horner(z, series, 0x1.111111110f897p-7);
    series = horner(z, series, -0x1.5555555555549p-3);
    const Real rest = r.lo * horner(z, number<Real>(-0.5), 1.0);
    return fast_two_sum(r.hi, fused(z * r.hi, series, rest));
}

// Cosine of a reduced angle.
template <class Real>
DEVICE PairOf<Real> cosine_pair(PairOf<Real> r) {
    const PairOf<Real> z = two_product(r.hi, r.hi);
    Real series = horner(z.hi, number<Real>(-0x1.8fbbc21c9eabep-37), 0x1.1eea07fbf3cd6p-29);
    series = horner(z.hi, series, -0x1.27e4f8382d292p-22);
    series = horner(z.hi, series, 0x1.a01a019cfa98cp-16);
    series = horner(z.hi, series, -0x1.6c16c16c154e3p-10);
    series = horner(z.hi, series, 0x1.555555555554ep-5);
    const PairOf<Real> sum = fast_two_sum(number<Real>(1.0), -0.5 * z.hi);
    const Real rest = sum.lo - fused(r.hi, r.lo, 0.5 * z.lo);
    return fast_two_sum(sum.hi, fused(z.hi * z.hi, series, rest));
}

DEVICE bool is_finite(double x) {
    return tl_abs(x) < tl_infinity();
}

// Sine of the angle plus `quarters` quadrants.
DEVICE double sine_of(Quadrant q, u32 quarters) {
    const u32 number = q.number + quarters;
    const double value = number & 1 ? cosine_pair(q.rest).hi : sine_pair(q.rest).hi;
    return number & 2 ? -value : value;
}

DEVICE double tl_sin(double x) {
    if (!is_finite(x)) return tl_nan();
    if (tl_abs(x) < 0x1p-27) return x;
    return sine_of(reduce_angle(x), 0);
}

DEVICE double tl_cos(double x) {
    if (!is_finite(x)) return tl_nan();
    return sine_of(reduce_angle(x), 1);
}

DEVICE double tl_tan(double x) {
    if (!is_finite(x)) return tl_nan();
    if (tl_abs(x) < 0x1p-27) return x;
    const Quadrant q = reduce_angle(x);
    const Pair sine = sine_pair(q.rest);
    const Pair cosine = cosine_pair(q.rest);
    if (q.number & 1) return -pair_quotient(cosine, sine).hi;
    return pair_quotient(sine, cosine).hi;
}

// atan(i / 8), i = 0..8
DEVICE Pair atan_of_eighths(i32 i) {
    static const Pair table[9] = {
        {0.0, 0.0},
        {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
        {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
        {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
        {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
        {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
        {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
        {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
        {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
    };
    return table[i];
}

// a - c b, for a number c of few bits
DEVICE Pair pair_less(Pair a, double c, Pair b) {
    const Pair product = two_product(c, b.hi);
    const Pair high = two_sum(a.hi, -product.hi);
    return fast_two_sum(high.hi, high.lo + FMA(-c, b.lo, a.lo - product.lo));
}

// Angle of the point (x, y) of the first quadrant, neither coordinate tiny or huge:
// atan(y / x) = atan(c) + atan((y - c x) / (x + c y)) with c = i / 8 near y / x.
DEVICE Pair angle_of(Pair x, Pair y) {
    const bool steep = y.hi > x.hi;
    const Pair below = steep ? y : x;
    const Pair above = steep ? x : y;
    const i32 i = (i32)FMA(8.0, above.hi / below.hi, 0.5);
    const double c = 0.125 * (double)i;
    const Pair t = pair_quotient(pair_less(above, c, below), pair_less(below, -c, above));
    const double z = t.hi * t.hi;
    double series = FMA(z, 0x1.37625a334153dp-4, -0x1.7458121e9b322p-4);
    series = FMA(z, series, 0x1.c71c6e6b6cc03p-4);
    series = FMA(z, series, -0x1.249249240111bp-3);
    series = FMA(z, series, 0x1.9999999999832p-3);
    series = FMA(z, series, -0x1.5555555555555p-2);
    const Pair small = fast_two_sum(t.hi, FMA(t.hi * z, series, t.lo));
    const Pair angle = pair_sum(atan_of_eighths(i), small);
    return steep ? pair_sum({HALF_PI_HIGH, HALF_PI_MIDDLE}, pair_negative(angle)) : angle;
}

DEVICE double tl_atan(double x) {
    const double size = tl_abs(x);
    if (size < 0x1p-27) return x;
    if (!(size < 0x1p60)) return is_nan(x) ? tl_nan() : with_sign(HALF_PI_HIGH, x);
    return with_sign(angle_of({1.0, 0.0}, {size, 0.0}).hi, x);
}

// Root of 1 - size^2 for size in [0, 1)
DEVICE Pair other_leg(double size) {
    return pair_root(pair_product(two_sum(1.0, -size), two_sum(1.0, size)));
}

DEVICE double tl_asin(double x) {
    const double size = tl_abs(x);
    if (!(size < 1.0)) return size == 1.0 ? with_sign(HALF_PI_HIGH, x) : tl_nan();
    if (size < 0x1p-27) return x;
    return with_sign(angle_of(other_leg(size), {size, 0.0}).hi, x);
}

DEVICE double tl_acos(double x) {
    const double size = tl_abs(x);
    if (!(size < 1.0)) {
        if (size != 1.0) return tl_nan();
        return x > 0.0 ? 0.0 : 2.0 * HALF_PI_HIGH;
    }
    if (size < 0x1p-60) return HALF_PI_HIGH;
    const Pair angle = angle_of({size, 0.0}, other_leg(size));
    if (x > 0.0) return angle.hi;
    return pair_sum({2.0 * HALF_PI_HIGH, 2.0 * HALF_PI_MIDDLE}, pair_negative(angle)).hi;
}
