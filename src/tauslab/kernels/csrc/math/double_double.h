// Sums of two doubles (about 106 bits), for the places where one double is not enough.
// Error-free sums after Knuth and Dekker; products with one fused multiply-add.
#pragma once

#include "device/prelude.h"

struct Pair {
    double hi, lo;
};

// Exact a + b, for |a| >= |b| or a = 0.
DEVICE Pair fast_two_sum(double a, double b) {
    const double sum = a + b;
    return {sum, b - (sum - a)};
}

// Exact a + b.
DEVICE Pair two_sum(double a, double b) {
    const double sum = a + b;
    const double b_part = sum - a;
    return {sum, (a - (sum - b_part)) + (b - b_part)};
}

// Exact a * b unless it underflows.
DEVICE Pair two_product(double a, double b) {
    const double product = a * b;
    return {product, FMA(a, b, -product)};
}

DEVICE Pair pair_sum(Pair a, Pair b) {
    const Pair sum = two_sum(a.hi, b.hi);
    return fast_two_sum(sum.hi, sum.lo + (a.lo + b.lo));
}

DEVICE Pair pair_negative(Pair a) {
    return {-a.hi, -a.lo};
}

DEVICE Pair pair_scaled(Pair a, double power_of_two) {
    return {a.hi * power_of_two, a.lo * power_of_two};
}

DEVICE Pair pair_product(Pair a, Pair b) {
    const Pair product = two_product(a.hi, b.hi);
    const double cross = FMA(a.hi, b.lo, a.lo * b.hi);
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
