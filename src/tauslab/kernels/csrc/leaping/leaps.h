// Parts of a leap, which the generated code calls.
//
//     Cao, Gillespie & Petzold 2006     here
//     epsilon                           `epsilon`, Tolerance::drift
//     g_i                               `order`, the order of the highest reaction that reads species i
//     mu_i, sigma_i^2                   Turnover::gain - loss, Turnover::variance, per unit of time
//     tau' (eq. 33)                     Limit::time after `bound` of every species
//     critical reactions, a_0^c         `share`, Plan::critical
//     Anderson & Koyama 2012, theta     1/2: HALVES, `extrapolated`
//
// Templates over `Real` are for one trajectory, and for several on the SIMD lanes of a CPU core.
#pragma once

#include "math/basic.h"

// Of one trajectory this is a branch; the form for lanes is in simd/lanes.h.
template <class Real>
DEVICE void set_where(bool here, Real &to, Real value) {
    if (here) to = value;
}

template <class Real>
DEVICE Real larger(Real a, Real b) {
    return b > a ? b : a;
}

// The absolute value, also of -0: the propensity of 2 X is -0 where there is no X.
template <class Real>
DEVICE Real magnitude(Real a) {
    return from_bits(as_bits(a) & 0x7fffffffffffffffull);
}

// The order of a general rate law in one species: the propensity grows by so many per cent if the count
// grows by one per cent. It is estimated by one molecule more.
template <class Real>
DEVICE Real law_order(Real count, Real now, Real with_one_more) {
    return now > 0 ? count * magnitude(with_one_more - now) / now : number<Real>(1.0);
}

// How much a species may change in a leap, as a fraction of its count divided by its order g: its expected
// change, one standard deviation, and its loss without its gain. The limit of the loss keeps leaps stable
// where gain and loss nearly cancel. `noise` and `loss` may be larger than `drift`: leaps of second order
// reproduce noise and balance to a higher order than a drift. docs/developers/leaps.md has the errors of other
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
template <class Real>
struct TurnoverOf {
    Real gain, loss, variance;
};
typedef TurnoverOf<double> Turnover;

// The longest leap, as a fraction: only the smallest fraction is divided.
template <class Real>
struct LimitOf {
    Real top, bottom;
    DEVICE_MEMBER Real time() const { return top / bottom; }
    DEVICE_MEMBER void bound(Real change, Real speed) {
        const auto shorter = change * bottom < top * speed;
        set_where(shorter, top, change), set_where(shorter, bottom, speed);
    }
};
typedef LimitOf<double> Limit;

// How many molecules a species may change by.
template <class Real>
DEVICE Real allowed(double part, Real count, Real order) {
    return larger(part * count / order, number<Real>(1.0));
}

// The same for each part of the tolerance.
template <class Real>
struct AllowedOf {
    Real drift, noise, loss;
};

template <class Real>
DEVICE AllowedOf<Real> allowed_of(const Tolerance &tolerance, Real count, Real order) {
    return {allowed(tolerance.drift, count, order), allowed(tolerance.noise, count, order),
            allowed(tolerance.loss, count, order)};
}

// An order of 1 takes no division.
template <class Real>
DEVICE AllowedOf<Real> allowed_of(const Tolerance &tolerance, Real count) {
    const Real one = number<Real>(1.0);
    return {larger(tolerance.drift * count, one), larger(tolerance.noise * count, one),
            larger(tolerance.loss * count, one)};
}

// Orders that `quotient` divides by: below 2^900. They are at least 1.
constexpr u32 LARGEST_USUAL_ORDER = (1023 + 900) << 20;

// Of one trajectory: three divisions at once.
DEVICE AllowedOf<double> allowed_of(const Tolerance &tolerance, double count, double order) {
    if (LIKELY(high_word(order) < LARGEST_USUAL_ORDER))
        return {larger(quotient(tolerance.drift * count, order), 1.0),
                larger(quotient(tolerance.noise * count, order), 1.0),
                larger(quotient(tolerance.loss * count, order), 1.0)};
    return {allowed(tolerance.drift, count, order), allowed(tolerance.noise, count, order),
            allowed(tolerance.loss, count, order)};
}

// a / (count - m) for a > 0; infinity where no more than m are left over.
template <class Real>
DEVICE Real over(double a, Real rest) {
    return a / rest;
}

DEVICE double over(double a, double rest) {
    const double found = quotient(a, rest);
    return rest != 0 ? found : tl_infinity();
}

// Applies the limits of one species: drift and noise by eq. 33, and loss.
template <class Real>
DEVICE void bound(const AllowedOf<Real> &change, const TurnoverOf<Real> &of, LimitOf<Real> &limit) {
    limit.bound(change.drift, magnitude(of.gain - of.loss));
    limit.bound(change.noise * change.noise, of.variance);
    limit.bound(change.loss, of.loss);
}

// What is known before a leap: the total propensity, that of critical reactions, and the longest leap.
template <class Real>
struct PlanOf {
    Real a0, critical;
    LimitOf<Real> limit;
};
typedef PlanOf<double> Plan;

// The propensity with which a reaction takes part in a leap: 0 if it is critical.
template <class Real, class Condition>
DEVICE Real share(Real propensity, Condition critical, PlanOf<Real> &plan) {
    plan.a0 += propensity;
    set_where(critical, plan.critical, plan.critical + propensity);
    return critical ? number<Real>(0.0) : propensity;
}

// A leap has two halves. The first uses the propensities before the leap. The second uses propensities that
// are extrapolated to the end of the leap, from the states before it and between its halves.
constexpr int HALVES = 2;

template <class Real>
DEVICE Real extrapolated(Real before, Real between) {
    return larger(number<Real>(0.0), 2.0 * between - before);
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

template <class Real, class Chosen>
DEVICE void choose(int channel, Real propensity, Real target, Real &sum, Chosen &chosen) {
    const Chosen here = Chosen{} + channel;
    set_where(propensity > 0 && (chosen < 0 || sum <= target), chosen, here);
    sum += propensity;
}

// The outcome of `apply_firings`, as bits.
constexpr int FITS = 0, FELL_BELOW_ZERO = 1, TOO_LARGE = 2;

// Its type. Counts on SIMD lanes have one of their own.
template <class Count>
struct OutcomeFor {
    typedef int type;
};
template <class Count>
using OutcomeOf = typename OutcomeFor<Count>::type;

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
