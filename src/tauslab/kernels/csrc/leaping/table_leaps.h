// Functions of leaps as loops over tables, which `model.h` defines before it includes this: the numbers are those of the
// text for every reaction that kernels/leaping/codegen.py writes, which takes a compiler seconds.
#pragma once

#include "leaping/leaps.h"

// Whether a reactant lasts for few firings.
template <class Counts>
DEVICE_SHARED bool critical_at(int reaction, const Counts &x) {
    const Rate &rate = RATES[reaction];
    if (rate.lost[0] >= 0)
        return (rate.lost[0] > 0 && x[rate.first] < rate.lost[0] * CRITICAL_FIRINGS) ||
               (rate.lost[1] > 0 && x[rate.second] < rate.lost[1] * CRITICAL_FIRINGS);
    bool few = false;
    NO_UNROLL for (int k = LOST_AT[reaction]; k < LOST_AT[reaction + 1]; ++k)
        few |= x[LOST[k]] < CRITICAL_FIRINGS * LOST_BY[k];
    return few;
}

// The sum of a number of each reaction of a channel.
template <class Number>
DEVICE double sum_of(int channel, const Number &number) {
    if (N_CHANNELS == N_REACTIONS) return number(channel);
    const int first = CHANNEL_AT[channel], end = CHANNEL_AT[channel + 1];
    double sum = number(MEMBER[first]);
    NO_UNROLL for (int k = first + 1; k < end; ++k) sum += number(MEMBER[k]);
    return sum;
}

// The longest leap, and the propensities to leap with.
template <class Count, class Cells>
SHARED_LAW Plan plan_leap(Count *x, const double *c, const Cells &leaping,
                          const Tolerance &tolerance) {
    Plan plan = {0.0, 0.0, {1.0, 0.0}};
    UNROLL_SOME for (int i = 0; i < N_CHANNELS; ++i)
        leaping[i] = sum_of(i, [&](int j) {
            return share(propensity_at(j, x, c), critical_at(j, x), plan);
        });
    NO_UNROLL for (int k = 0; k < N_CHANGING; ++k) {
        const int kind = ORDER_OF[k];
        if (kind < 0) continue;
        const double count = quantity(x[CHANGING[k]]);
        Turnover turnover = {0, 0, 0};
        NO_UNROLL for (int m = TURNOVER_AT[k]; m < TURNOVER_AT[k + 1]; ++m) {
            const double propensity = leaping[TURNOVER_OF[m]], by = TURNOVER_BY[m];
            (by > 0 ? turnover.gain : turnover.loss) += magnitude(by) * propensity;
            turnover.variance += by * by * propensity;
        }
        const AllowedOf<double> most = kind == FIRST_ORDER
            ? allowed_of(tolerance, count)
            : allowed_of(tolerance, count, order_at(kind, count, x, c));
        bound(most, turnover, plan.limit);
    }
    bound_by_triggers(x, c, leaping, plan);
    return plan;
}

// Propensities for the second half of a leap, see `leap_parts`.
template <class Count, class Before, class First, class Cells>
SHARED_LAW bool second_half(const Count *x, const Before &before, const double *c,
                            const First &first, const Cells &leaping) {
    double sum = 0;
    UNROLL_SOME for (int i = 0; i < N_CHANNELS; ++i) {
        const double between = sum_of(
            i, [&](int j) { return critical_at(j, before) ? 0.0 : propensity_at(j, x, c); });
        sum += between;
        leaping[i] = extrapolated((double)first[i], between);
    }
    return sum >= 0 && sum < tl_infinity();
}

// The channel of the critical reaction that fires, or -1.
template <class Count>
SHARED_LAW int choose_critical(const Count *x, const double *c, double target) {
    double sum = 0;
    int chosen = -1;
    NO_UNROLL for (int i = 0; i < N_CHANNELS; ++i)
        NO_UNROLL for (int k = CHANNEL_AT[i]; k < CHANNEL_AT[i + 1]; ++k) {
            const int j = MEMBER[k];
            if (critical_at(j, x)) choose(i, propensity_at(j, x, c), target, sum, chosen);
        }
    return chosen;
}

// Fires; tells whether a count fell below 0 or passed 2147483647.
template <class Count, class Cells>
SHARED_LAW OutcomeOf<Count> apply_firings(Count *x, const Cells &firings) {
    OutcomeOf<Count> outcome = {};
    NO_UNROLL for (int k = 0; k < N_CHANGING; ++k) {
        i64 change = 0;
        NO_UNROLL for (int m = TURNOVER_AT[k]; m < TURNOVER_AT[k + 1]; ++m)
            change += TURNOVER_BY[m] * number_of(firings[TURNOVER_OF[m]]);
        add(x[CHANGING[k]], change, outcome);
    }
    return outcome;
}

// Propensities to leap with.
template <class Count>
DEVICE_SHARED void channel_propensities(const Count *x, const double *c, double *all) {
    NO_UNROLL for (int i = 0; i < N_CHANNELS; ++i)
        all[i] = sum_of(
            i, [&](int j) { return critical_at(j, x) ? 0.0 : propensity_at(j, x, c); });
}
