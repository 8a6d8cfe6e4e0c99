// Small pieces that the generated part of a leap is made of.
#pragma once

#include "device/prelude.h"

DEVICE double larger(double a, double b) {
    return b > a ? b : a;
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

// By what part of itself, over its order g, a species may change in a leap: its expected change, one
// standard deviation, and what is lost of it, whatever is gained. The last keeps leaps stable where gain
// and loss nearly cancel. The last two may be larger than the first, as leaps of second order repeat
// noise and balance to a higher order than a drift. docs/tau-leaping.md has the errors of other choices.
struct Tolerance {
    double drift, noise, loss;
};

constexpr double LOSS_SQUARED_OVER_EPSILON = 4.0 / 3.0, LARGEST_LOSS = 0.8, NOISE_OVER_LOSS = 0.5;

DEVICE Tolerance tolerance_of(double epsilon) {
    const double root = SQRT(LOSS_SQUARED_OVER_EPSILON * epsilon);
    const double loss = root < LARGEST_LOSS ? root : LARGEST_LOSS;
    return {epsilon, larger(epsilon, NOISE_OVER_LOSS * loss), larger(epsilon, loss)};
}

// Where every leap is checked: the whole change of a species stays within epsilon.
DEVICE Tolerance checked_tolerance_of(double epsilon) {
    return {epsilon, epsilon, tolerance_of(epsilon).loss};
}

// How much of a species is gained and lost, and the variance of its change, in a unit of time.
struct Turnover {
    double gain, loss, variance;
};

// The longest leap: a fraction, so that only the least is divided.
struct Limit {
    double top, bottom;
    DEVICE_MEMBER double time() const { return top / bottom; }
    DEVICE_MEMBER void bound(double change, double speed) {
        if (change * bottom < top * speed) top = change, bottom = speed;
    }
};

// By how many molecules a species may change.
DEVICE double allowed(double part, double count, double order) {
    return larger(part * count / order, 1.0);
}

// The limit by one species: by drift and noise as Cao, Gillespie & Petzold (2006), eq. 33.
DEVICE void bound(double count, double order, const Turnover &of, const Tolerance &tolerance,
                  Limit &limit) {
    const double noise = allowed(tolerance.noise, count, order);
    limit.bound(allowed(tolerance.drift, count, order), magnitude(of.gain - of.loss));
    limit.bound(noise * noise, of.variance);
    limit.bound(allowed(tolerance.loss, count, order), of.loss);
}

// What is known before a leap: total propensity, that of critical reactions, and how long it may be.
struct Plan {
    double a0, critical;
    Limit limit;
};

// The propensity to leap with: that of a reaction which is not critical.
DEVICE double share(double propensity, bool critical, Plan &plan) {
    plan.a0 += propensity;
    if (critical) plan.critical += propensity;
    return critical ? 0.0 : propensity;
}

// A leap has two halves (Anderson & Koyama 2012, theta 1/2). In the first, propensities are those
// before the leap; in the second those that are extrapolated from there, and from the state between
// the halves, to the end.
constexpr int HALVES = 2;

DEVICE double extrapolated(double before, double between) {
    return larger(0.0, 2.0 * between - before);
}

// Numbers of firings stand where the means were, as whole numbers in the bits of a double.
DEVICE i64 number_of(double cell) {
    return (i64)as_bits(cell);
}

DEVICE double cell_of(i64 number) {
    return from_bits((u64)number);
}

// A channel is a set of reactions that change the same. Channels with a smaller mean draw one number
// together, and then which of them fires. In networks with few, every channel draws for itself.
constexpr double SMALL_MEAN = 0.5;
constexpr int FEW_CHANNELS = 10;
constexpr int PICKS = 4;  // firings that are placed at a time

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

// What `apply_firings` found, as bits.
constexpr int FITS = 0, FELL_BELOW_ZERO = 1, TOO_LARGE = 2;

DEVICE void add(i32 &count, i64 change, int &outcome) {
    const i64 sum = count + change;
    if (sum < 0) outcome |= FELL_BELOW_ZERO;
    if (sum > 2147483647) outcome |= TOO_LARGE;
    count = (i32)(u32)(u64)sum;
}
