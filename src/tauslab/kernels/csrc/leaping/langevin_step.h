// A step of the chemical Langevin equation (Gillespie 2000): the weak trapezoidal method.
//
//     Anderson & Mattingly 2011     here
//     theta                         1/2
//     y, y*, y' of a step           x at its start, in the middle, at its end
//     xi_1, xi_2                    2, 1: the second half has the rates 2 a(y*) - a(y), where positive
//     eta_1k, eta_2k                `first`, `second` of a channel's draw
//
// A half fires channel j a real number of times, k_j = m_j + sqrt(m_j) eta_j with m_j = a_j h / 2. Zero is respected
// by channels, not by amounts: where channels together take more of a species than there is, each of them is cut by
// the same factor. So no amount falls below zero, and what reactions conserve stays conserved.
#pragma once

#include "events/state.h"
#include "leaping/leaps.h"

enum Kind : int { JUMP = 0, FLOW_ALONE = 1, NOISY = 2, CHOSEN = 3 };

constexpr double TURN = 0x1.921fb54442d18p+2;  // 2 pi

// Two independent normal numbers, by Box and Muller (1958).
struct TwoNormals {
    double first, second;
};

DEVICE_SHARED TwoNormals two_normals(const Philox4 &bits) {
    const double radius = SQRT(-2.0 * tl_log(unit_open_low(bits.x0, bits.x1)));
    const double angle = TURN * unit_half_open(bits.x2, bits.x3);
    return {radius * tl_cos(angle), radius * tl_sin(angle)};
}

// Propensities, none below 0: that of 2 X is, between no molecule and one. False where one is no number.
DEVICE_SHARED bool rates_at(const double *x, const double *c, double *a) {
    all_propensities(x, c, a);
    bool known = true;
    for (int j = 0; j < N_REACTIONS; ++j) {
        known = known && a[j] < infinity();
        a[j] = larger(a[j], 0.0);
    }
    return known;
}

// Adds the firings of the channels that flow, cut so that no amount falls below zero.
DEVICE_SHARED void add_firings(double *x, const bool *flows, double *firings) {
    double lost[N_SPECIES + 1] = {};
    for (int j = 0; j < N_REACTIONS; ++j)
        for (int e = FIRST_CHANGE[j]; flows[j] && e < FIRST_CHANGE[j + 1]; ++e)
            lost[CHANGED[e]] += larger(-CHANGE[e] * firings[j], 0.0);
    for (int j = 0; j < N_REACTIONS; ++j) {
        double factor = 1;
        for (int e = FIRST_CHANGE[j]; flows[j] && e < FIRST_CHANGE[j + 1]; ++e) {
            const int i = CHANGED[e];
            if (CHANGE[e] * firings[j] < 0 && lost[i] > x[i])
                factor = tl_min(factor, x[i] / lost[i]);
        }
        firings[j] *= factor;
    }
    for (int j = 0; j < N_REACTIONS; ++j)
        for (int e = FIRST_CHANGE[j]; flows[j] && e < FIRST_CHANGE[j + 1]; ++e)
            x[CHANGED[e]] = FMA(CHANGE[e], firings[j], x[CHANGED[e]]);
    for (int i = 0; i < N_SPECIES; ++i) x[i] = larger(x[i], 0.0);  // rounding alone
}

// The longest step by which no propensity changes much: the bounds of leaps, of the channels that `count`.
DEVICE_SHARED double longest_step(const double *x, const double *a, const bool *count,
                                  const Tolerance &tolerance) {
    double gain[N_SPECIES + 1] = {}, loss[N_SPECIES + 1] = {}, variance[N_SPECIES + 1] = {};
    for (int j = 0; j < N_REACTIONS; ++j)
        for (int e = FIRST_CHANGE[j]; count[j] && e < FIRST_CHANGE[j + 1]; ++e) {
            const double change = CHANGE[e] * a[j];
            (change > 0 ? gain : loss)[CHANGED[e]] += magnitude(change);
            variance[CHANGED[e]] += CHANGE[e] * change;
        }
    double step = infinity();
    for (int i = 0; i < N_SPECIES; ++i) {
        if (ORDER[i] == 0) continue;  // no propensity reads it
        const AllowedOf<double> most = allowed_of(tolerance, x[i], (double)ORDER[i]);
        const double drift = magnitude(gain[i] - loss[i]);
        if (drift > 0) step = tl_min(step, most.drift / drift);
        if (variance[i] > 0) step = tl_min(step, most.noise * most.noise / variance[i]);
        if (loss[i] > 0) step = tl_min(step, most.loss / loss[i]);
    }
    return step;
}
