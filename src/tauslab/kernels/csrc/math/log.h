// Logarithms and what is made of them: see docs/developers/portable-math.md for the errors.
//
// x = 2^k m with m in [0.695, 1.391); the interval of m among 32 gives r close to 1/m, so that
// y = 1 - m r is at most 1/64 and log(x) = k log(2) - log(r) + log(1 - y), with a short polynomial
// for the last term (Tang, ACM TOMS 16, 1990). Around m = 1 the table holds r = 1: the result
// there is y's alone and keeps its relative accuracy. log(r) is stored to 42 bits after the point,
// with r chosen such that the next 19 bits are zero: sums with k times the 42-bit log(2) are exact.
#pragma once

#include "math/double_double.h"

constexpr double LN2_HIGH = 0x1.62e42fefa38p-1;      // 42 bits after the point
constexpr double LN2_MIDDLE = 0x1.ef35793c7673p-45;  // log(2) - LN2_HIGH
constexpr double LN2_LOW = 0x1.f97b57a079a19p-103;   // log(2) - LN2_HIGH - LN2_MIDDLE

struct alignas(16) LogEntry {
    double reciprocal, log_reciprocal;
};

constexpr int LOG_ENTRIES = 32;

DEVICE LogEntry log_entry(u32 index) {
    static const LogEntry table[LOG_ENTRIES] = {
        {0x1.6c16d1c56e028p+0, 0x1.68acb1e50bp-2},  {0x1.642ca24368608p+0, 0x1.522b32f553p-2},
        {0x1.5c9893af657cap+0, 0x1.3c2559466cp-2},  {0x1.555575188c91fp+0, 0x1.2696805cefp-2},
        {0x1.4e5e0fe1b4d9cp+0, 0x1.1178f8c5b8p-2},  {0x1.47ae24112b604p+0, 0x1.f992283688p-3},
        {0x1.41415355d177p+0, 0x1.d103f2696ap-3},   {0x1.3b13c7144f472p+0, 0x1.a93f61ccacp-3},
        {0x1.3521dda8c4345p+0, 0x1.823c72d32cp-3},  {0x1.2f684fc2fa1eep+0, 0x1.5bf421195cp-3},
        {0x1.29e42fdafb2dfp+0, 0x1.36609402cep-3},  {0x1.2492589c945e7p+0, 0x1.1179546a8ap-3},
        {0x1.1f70495b1e924p+0, 0x1.da728b8ab8p-4},  {0x1.1a7ba37d39eedp+0, 0x1.9336a86d58p-4},
        {0x1.15b1e98dd4e9p+0, 0x1.4d314abe0cp-4},   {0x1.11112e69d666ep+0, 0x1.085b438d5cp-4},
        {0x1.0c9729e1e0b54p+0, 0x1.894d1eb328p-5},  {0x1.0842121cdfdep+0, 0x1.04160a1d9p-5},
        {0x1.04050033f104cp+0, 0x1.fe80c5f4ep-7},   {0x1p+0, 0.0},
        {0x1.f07c25ca99d6fp-1, -0x1.f828d1c9bp-6},  {0x1.e1e1e77ee8ddbp-1, -0x1.f0a2ac93ap-5},
        {0x1.d41d4209046c7p-1, -0x1.6f0d26df7p-4},  {0x1.c71c7c964ced2p-1, -0x1.e2701599fcp-4},
        {0x1.bacfaa11b9a09p-1, -0x1.2954bcf008p-3}, {0x1.af287d5a6f5bp-1, -0x1.5ff2b39ceap-3},
        {0x1.a41a5d2fcde98p-1, -0x1.952523863ep-3}, {0x1.9999a1e220691p-1, -0x1.c8ff530f08p-3},
        {0x1.8f9c2d9cf4cdap-1, -0x1.fb911d118p-3},  {0x1.8618647fbb34p-1, -0x1.1675c2eb6fp-2},
        {0x1.7d060a9f7216dp-1, -0x1.2e8def2191p-2}, {0x1.745d1f92abb36p-1, -0x1.4618a54e6ep-2},
    };
    return table[index];
}

// The part of log(r) that `log_entry` leaves out.
DEVICE double log_reciprocal_rest(u32 index) {
    static const double table[32] = {
        0x1.a9738ed51f1c2p-63,  -0x1.74c020fd25311p-65,
        0x1.b761ded96ace6p-63,  0x1.22f18d0ce9fd9p-64,
        -0x1.8a80993880186p-64, -0x1.32f815ef04cc1p-66,
        0x1.7e0f4e7db5a3bp-63,  -0x1.d5653336e947bp-64,
        0x1.83916a1f1e7f6p-67,  -0x1.158f2a3aa687fp-64,
        0x1.88bbe3bc00d71p-64,  -0x1.8a5023b456ebfp-64,
        -0x1.75cc84402785fp-65, -0x1.0f740a0d8db8fp-63,
        0x1.b552969478c8ap-72,  -0x1.f7992e28f7918p-65,
        0x1.7118e2a15deb5p-63,  -0x1.3b130924f90f4p-62,
        0x1.b5b5b6fdb42c3p-66,  0.0,
        0x1.3bddea073a500p-62,  0x1.ad05f0cc6bd26p-64,
        0x1.98a41a4c9d073p-64,  -0x1.1cd165c3f088cp-66,
        -0x1.e7cd794303dfap-65, -0x1.4bb22fe0b8b0cp-62,
        -0x1.936a4eb01b327p-65, -0x1.8654699981155p-65,
        0x1.511d9cd2ecd62p-63,  0x1.b95a1b4b6c77ap-64,
        0x1.0a25c6ecd247dp-64,  -0x1.0207a44e02bb6p-64,
    };
    return table[index];
}

template <class Real, class Index>
struct LogPartsOf {
    Real k;  // exponent
    Real m;  // x / 2^k
    Index index;
};
typedef LogPartsOf<double, u32> LogParts;

// Splits a positive normal double.
DEVICE LogParts log_parts(double x) {
    const u32 above = high_word(x) + (0x40000000u - 0x3fe64000u);  // exponent + 1024, then m
    const double k = from_words(0x41300000u + (above >> 20), 0) - (0x1p20 + 1024.0);
    const double m = from_words((above & 0xfffffu) + 0x3fe64000u, low_word(x));
    return {k, m, (above >> 15) & 31};
}

// Coefficients of the series, then log(2).
struct LogSeries {
    double of[8];
};
TABLE LogSeries LOG_SERIES = {{
    0x1.001e3b4723c0cp-3,
    0x1.24adf439e696ap-3,
    0x1.555553e7dd6dcp-3,
    0x1.9999989642573p-3,
    0x1.0000000002b6bp-2,
    0x1.5555555556ad5p-2,
    LN2_HIGH,
    LN2_MIDDLE,
}};

// -k log(2) + log(r) - log(1 - y.hi) - y.lo; +0 for x = 1.
template <class Real>
DEVICE Real negative_log(Real k, PairOf<Real> y, Real log_reciprocal,
                         const LogSeries &coefficients = LOG_SERIES) {
    const double *const of = coefficients.of;
    const Real base = fused(-k, number<Real>(of[6]), log_reciprocal);
    Real series = fused(y.hi, number<Real>(of[0]), number<Real>(of[1]));
    UNROLL for (int i = 2; i < 6; ++i) series = fused(y.hi, series, number<Real>(of[i]));
    series = fused(y.hi, series, number<Real>(0.5));
    const PairOf<Real> sum = fast_two_sum(base, y.hi);
    const Real rest = fused(-k, number<Real>(of[7]), sum.lo - y.lo);
    return sum.hi + fused(y.hi * y.hi, series, rest);
}

DEVICE double exponential_by(const LogParts &part, const LogEntry &entry,
                             const LogSeries &series) {
    const double y = FMA(-part.m, entry.reciprocal, 1.0);
    return negative_log(part.k, {y, 0.0}, entry.log_reciprocal, series);
}

// -log(u) for u in (0, 1], a normal number: an exponential variate with mean 1.
DEVICE double tl_exponential(double u) {
    const LogParts part = log_parts(u);
    return exponential_by(part, log_entry(part.index), LOG_SERIES);
}

// The same. A kernel that draws in its innermost loop gives the coefficients from registers and a copy of the table
// that is nearer.
DEVICE double tl_exponential(double u, const LogSeries &series, const LogEntry *entries) {
    const LogParts part = log_parts(u);
    return exponential_by(part, entries[part.index], series);
}

// Whether x is positive, finite and not subnormal.
DEVICE bool is_positive_normal(double x) {
    return (u32)(as_bits(x) >> 32) - 0x00100000u < 0x7fe00000u;
}

// Logarithm in any base of zero, infinity, NaN and negative numbers.
DEVICE double log_of_special(double x) {
    if (x == 0.0) return -tl_infinity();
    return x > 0.0 ? x : tl_nan();
}

DEVICE bool is_subnormal_positive(double x) {
    return x > 0.0 && x < 0x1p-1022;
}

// log of 2^k m, without the rounding of y, which is felt just above the interval around 1.
template <class Real>
DEVICE Real log_of_parts(Real k, Real m, Real reciprocal, Real log_reciprocal) {
    const Real product = m * reciprocal;
    const Real y = 1.0 - product;
    const Real y_rest = fused(m, reciprocal, -product);
    return 0.0 - negative_log(k, {y, fused(y, y_rest, y_rest)}, log_reciprocal);
}

DEVICE double tl_log(double x) {
    double extra_exponent = 0.0;
    if (!is_positive_normal(x)) {
        if (!is_subnormal_positive(x)) return log_of_special(x);
        x *= 0x1p54;
        extra_exponent = -54.0;
    }
    const LogParts part = log_parts(x);
    const LogEntry entry = log_entry(part.index);
    return log_of_parts(part.k + extra_exponent, part.m, entry.reciprocal, entry.log_reciprocal);
}

// What log_pair takes from its tables.
template <class Real>
struct LogRow {
    Real reciprocal, log_reciprocal, rest;
};

// log(x + rest) to about 2^-65 of itself, where x has these parts and the rest is below its rounding.
template <class Real>
DEVICE PairOf<Real> log_pair_of_parts(Real x, Real rest, Real k, Real m, LogRow<Real> row) {
    const PairOf<Real> product = two_product(m, row.reciprocal);
    const Real m_rest = rest * (m / x);
    const PairOf<Real> y = fast_two_sum(1.0 - product.hi, -product.lo - m_rest * row.reciprocal);

    Real series = horner(y.hi, number<Real>(0x1.c74bbd696c825p-4), 0x1.0013821bceb54p-3);
    series = horner(y.hi, series, 0x1.249248405810dp-3);
    series = horner(y.hi, series, 0x1.555554de6c93dp-3);
    series = horner(y.hi, series, 0x1.999999999be35p-3);
    series = horner(y.hi, series, 0x1.000000000035bp-2);
    const PairOf<Real> third =
        fast_two_sum(number<Real>(0x1.5555555555555p-2), horner(y.hi, series, 0x1.5555555555555p-56));
    const PairOf<Real> y2 = pair_product(y, y);
    const PairOf<Real> cubic = pair_product(y2, pair_product(y, third));
    const PairOf<Real> powers = pair_sum(y, pair_sum(pair_scaled(y2, 0.5), cubic));

    const Real base = fused(-k, number<Real>(LN2_HIGH), row.log_reciprocal);
    const Real base_rest = fused(-k, number<Real>(LN2_MIDDLE), row.rest);
    return pair_negative(pair_sum(two_sum(base, base_rest), powers));
}

// The same of a positive normal x.
DEVICE Pair log_pair(double x, double rest, double extra_exponent) {
    const LogParts part = log_parts(x);
    const LogEntry entry = log_entry(part.index);
    const LogRow<double> row = {entry.reciprocal, entry.log_reciprocal,
                                log_reciprocal_rest(part.index)};
    return log_pair_of_parts(x, rest, part.k + extra_exponent, part.m, row);
}

// log_pair of any positive finite double.
DEVICE Pair log_pair_any(double x) {
    return x < 0x1p-1022 ? log_pair(x * 0x1p54, 0.0, -54.0) : log_pair(x, 0.0, 0.0);
}

// log10(x) of log(x).
template <class Real>
DEVICE Real in_base_ten(PairOf<Real> log) {
    const PairOf<Real> log10 = pair_product(
        log, {number<Real>(0x1.bcb7b1526e50ep-2), number<Real>(0x1.95355baaafad3p-57)});
    return log10.hi + log10.lo;
}

DEVICE double tl_log10(double x) {
    if (!is_positive_normal(x) && !is_subnormal_positive(x)) return log_of_special(x);
    return in_base_ten(log_pair_any(x));
}

// log(1 + x)
DEVICE double tl_log1p(double x) {
    if (!(x > -1.0 && x < tl_infinity())) return log_of_special(1.0 + x);
    if (tl_abs(x) < 0x1p-54) return x;
    const Pair sum = two_sum(1.0, x);
    const Pair log = log_pair(sum.hi, sum.lo, 0.0);
    return log.hi + log.lo;
}
