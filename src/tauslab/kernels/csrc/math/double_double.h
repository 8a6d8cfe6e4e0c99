// Sums of two doubles (about 106 bits), for the places where one double is not enough.
// Error-free sums after Knuth and Dekker; products with one fused multiply-add. `Real` is double, or a
// vector of doubles on the lanes of a CPU core.
#pragma once

#include "math/basic.h"

template <class Real>
struct PairOf {
    Real hi, lo;
};
typedef PairOf<double> Pair;

// Exact a + b, for |a| >= |b| or a = 0.
template <class Real>
DEVICE PairOf<Real> fast_two_sum(Real a, Real b) {
    const Real sum = a + b;
    return {sum, b - (sum - a)};
}

// Exact a + b.
template <class Real>
DEVICE PairOf<Real> two_sum(Real a, Real b) {
    const Real sum = a + b;
    const Real b_part = sum - a;
    return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// Exact a * b unless it underflows.
template <class Real>
DEVICE PairOf<Real> two_product(Real a, Real b) {
    const Real product = a * b;
    return {product, fused(a, b, -product)};
}

template <class Real>
DEVICE PairOf<Real> pair_sum(PairOf<Real> a, PairOf<Real> b) {
    const PairOf<Real> sum = two_sum(a.hi, b.hi);
    return fast_two_sum(sum.hi, sum.lo + (a.lo + b.lo));
}

template <class Real>
DEVICE PairOf<Real> pair_negative(PairOf<Real> a) {
    return {-a.hi, -a.lo};
}

template <class Real>
DEVICE PairOf<Real> pair_scaled(PairOf<Real> a, double power_of_two) {
    return {a.hi * power_of_two, a.lo * power_of_two};
}

template <class Real>
DEVICE PairOf<Real> pair_product(PairOf<Real> a, PairOf<Real> b) {
    const PairOf<Real> product = two_product(a.hi, b.hi);
    const Real cross = fused(a.hi, b.lo, a.lo * b.hi);
    return fast_two_sum(product.hi, product.lo + cross);
}

DEVICE Pair pair_quotient(Pair a, Pair b) {
    const double quotient = a.hi / b.hi;
    const double rest = (FMA(-quotient, b.hi, a.hi) + a.lo) - quotient * b.lo;
    return fast_two_sum(quotient, rest / b.hi);
}

// Root of a positive pair.
DEVICE Pair pair_root(Pair a) {
    const double root = SQRT(a.hi);
    return fast_two_sum(root, (FMA(-root, root, a.hi) + a.lo) / (2.0 * root));
}
