// How far a leap may go before a relation in a trigger may change, such as X >= 100.
//
// The margin of a relation is the difference of its sides. It is `distance` from 0. Within a leap it moves
// towards 0 by its drift and by a martingale, whose steps towards 0 are at most `jump` and whose variance
// grows by `variance` per unit of time. Freedman (Ann. Probab. 3, 100, 1975): the chance that the martingale
// passes d before its variance passes v is at most exp(-d^2 / (2 (v + jump d / 3))), at any time on the way.
// The leap is the longest for which this is MISSED for d = distance - drift time, v = variance time. So a
// relation changes in exact events, and in a leap with a chance of at most MISSED.
//
// Within 2 / 3 log(1 / MISSED) jumps of the threshold, 9.2 molecules for X >= 100, no leap is taken at all.
#pragma once

#include "math/math.h"
#include "leaping/leaps.h"

// The chance that a relation changes within a leap, and its logarithm with the other sign.
constexpr double MISSED = 1e-6, MINUS_LOG_MISSED = 13.815510557964274;

struct Crossing {
    double distance, side;  // the margin is side * distance
    double drift, variance, jump;
    bool bounded;  // whether everything so far is a number

    // A channel with this propensity changes the margin by so much.
    DEVICE_MEMBER void add(double propensity, double change) {
        if (!(propensity > 0)) return;
        const double towards = -side * change;
        drift += propensity * towards;
        variance += propensity * change * change;
        jump = larger(jump, towards);
        bounded = bounded && magnitude(change) < tl_infinity();
    }

    // Shortens a leap. With L = log(1 / MISSED): distance^2 / 2 L - jump distance / 3 = c0 is positive if any
    // leap is allowed, and the longest is the smaller root of a quadratic equation.
    DEVICE_MEMBER void bound(Limit &limit) const {
        const double scaled = distance / MINUS_LOG_MISSED;
        const double c0 = distance * (0.5 * scaled - jump * (1.0 / 3.0));
        if (!(bounded && distance < tl_infinity() && c0 > 0)) {
            limit.bound(0.0, 1.0);
            return;
        }
        const double b = larger(drift, 0.0);
        const double rest = variance - b * jump * (1.0 / 3.0);
        const double root = SQRT(FMA(rest, rest, 2.0 * b * scaled * variance));
        limit.bound(2.0 * c0, b * scaled + rest + root);
    }
};

// `part` of the distance is left to leaps.
DEVICE Crossing crossing_of(double margin, double part) {
    return {part * magnitude(margin), margin < 0 ? -1.0 : 1.0, 0, 0, 0, true};
}
