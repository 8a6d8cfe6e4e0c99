// Parts of a leap, which the generated code calls.
//
//     Cao, Gillespie & Petzold 2006     here
//     epsilon                           `epsilon`, Tolerance::drift
//     g_i                               `order`, the order of the highest reaction that reads species i
//     mu_i, sigma_i^2                   Turnover::gain - loss, Turnover::variance, per unit of time
//     tau' (eq. 33)                     Limit::time after `bound` of every species
//     critical reactions, a_0^c         `share`, Plan::critical
//     Anderson & Koyama 2012, theta     1/2: HALVES, `extrapolated`
#pragma once

#include "device/prelude.h"

DEVICE double larger(double a, double b) {
    return b > a ? b : a;
}

// The absolute value, also of -0: the propensity of 2 X is -0 where there is no X.
DEVICE double magnitude(double a) {
    return from_bits(as_bits(a) & 0x7fffffffffffffffull);
}

// The order of a general rate law in one species: the propensity grows by so many per cent if the count
// grows by one per cent. It is estimated by one molecule more.
DEVICE double law_order(double count, double now, double with_one_more) {
    return now > 0 ? count * magnitude(with_one_more - now) / now : 1.0;
}

// How much a species may change in a leap, as a fraction of its count divided by its order g: its expected
// change, one standard deviation, and its loss without its gain. The limit of the loss keeps leaps stable
// where gain and loss nearly cancel. `noise` and `loss` may be larger than `drift`: leaps of second order
// reproduce noise and balance to a higher order than a drift. docs/tau-leaping.md has the errors of other
// choices.
struct Tolerance {
    double drift, noise, loss;
};

constexpr double LOSS_SQUARED_OVER_EPSILON = 4.0 / 3.0, LARGEST_LOSS = 0.8, NOISE_OVER_LOSS = 0.5;

DEVICE Tolerance tolerance_of(double epsilon) {
    const double root = SQRT(LOSS_SQUARED_OVER_EPSILON * epsilon);
    const double loss = root < LARGEST_LOSS ? root : LARGEST_LOSS;
    return {epsilon, larger(epsilon, NOISE_OVER_LOSS * loss), larger(epsilon, loss)};
}

// The tolerance of checked leaps: the whole change of a species must stay within epsilon.
DEVICE Tolerance checked_tolerance_of(double epsilon) {
    return {epsilon, epsilon, tolerance_of(epsilon).loss};
}

// Gain and loss of a species, and the variance of its change, per unit of time.
struct Turnover {
    double gain, loss, variance;
};

// The longest leap, as a fraction: only the smallest fraction is divided.
struct Limit {
    double top, bottom;
    DEVICE_MEMBER double time() const { return top / bottom; }
    DEVICE_MEMBER void bound(double change, double speed) {
        if (change * bottom < top * speed) top = change, bottom = speed;
    }
};

// How many molecules a species may change by.
DEVICE double allowed(double part, double count, double order) {
    return larger(part * count / order, 1.0);
}

// Applies the limits of one species: drift and noise by eq. 33, and loss.
DEVICE void bound(double count, double order, const Turnover &of, const Tolerance &tolerance,
                  Limit &limit) {
    const double noise = allowed(tolerance.noise, count, order);
    limit.bound(allowed(tolerance.drift, count, order), magnitude(of.gain - of.loss));
    limit.bound(noise * noise, of.variance);
    limit.bound(allowed(tolerance.loss, count, order), of.loss);
}

// What is known before a leap: the total propensity, that of critical reactions, and the longest leap.
struct Plan {
    double a0, critical;
    Limit limit;
};

// The propensity with which a reaction takes part in a leap: 0 if it is critical.
DEVICE double share(double propensity, bool critical, Plan &plan) {
    plan.a0 += propensity;
    if (critical) plan.critical += propensity;
    return critical ? 0.0 : propensity;
}

// A leap has two halves. The first uses the propensities before the leap. The second uses propensities that
// are extrapolated to the end of the leap, from the states before it and between its halves.
constexpr int HALVES = 2;

DEVICE double extrapolated(double before, double between) {
    return larger(0.0, 2.0 * between - before);
}

// A cell of doubles that had a mean has the number of firings later, as the bits of an integer.
DEVICE i64 number_of(double cell) {
    return (i64)as_bits(cell);
}

DEVICE double cell_of(i64 number) {
    return from_bits((u64)number);
}

// A channel is a set of reactions with the same change of counts. Channels with a mean below SMALL_MEAN draw
// one number together, and then choose which of them fires. In networks of at most FEW_CHANNELS every
// channel draws for itself.
constexpr double SMALL_MEAN = 0.5;
constexpr int FEW_CHANNELS = 10;
constexpr int PICKS = 4;  // firings that get their channels at a time

// A cell with a small mean counts firings in its last 12 bits: the mean has 41 bits. (Not 16 bits:
// g++ 12 forgets to clear the last 16 bits of a double that is chosen by a condition.)
constexpr u64 FIRINGS_OF_SMALL = 0xfffull;
constexpr i64 MOST_PICKS = 0xfff;

DEVICE double small_cell(double mean) {
    return from_bits(as_bits(mean) & ~FIRINGS_OF_SMALL);
}

DEVICE void choose(int channel, double propensity, double target, double &sum, int &chosen) {
    if (propensity > 0 && (chosen < 0 || sum <= target)) chosen = channel;
    sum += propensity;
}

// The outcome of `apply_firings`, as bits.
constexpr int FITS = 0, FELL_BELOW_ZERO = 1, TOO_LARGE = 2;

DEVICE void add(i32 &count, i64 change, int &outcome) {
    const i64 sum = count + change;
    if (sum < 0) outcome |= FELL_BELOW_ZERO;
    if (sum > 2147483647) outcome |= TOO_LARGE;
    count = (i32)(u32)(u64)sum;
}

// The same of a count that is held as a double.
DEVICE void add(double &count, i64 change, int &outcome) {
    const double sum = count + (double)change;
    if (sum < 0) outcome |= FELL_BELOW_ZERO;
    if (sum > 2147483647.0) outcome |= TOO_LARGE;
    count = sum;
}
