// The functions of a leap as loops over tables of the generated header, for a large network on a GPU. Loops go through
// reactions, channels and species in the order in which code without loops does, so that all sums have its bits.
// All lanes are at the same entry, so that tables in constant memory are read at once.
#pragma once

#include "leaping/leaps.h"

// Whether a reactant of a reaction lasts for fewer than ten firings.
template <class State>
DEVICE bool is_critical(int reaction, const State &x) {
    bool critical = false;
    UNROLL for (int k = 0; k < MOST_LOST; ++k)
        critical |= x[LOST[reaction].of[k]] < LOST[reaction].few[k];
    return critical;
}

// Channels without a reaction before have a sum of -0, which changes no bit of what is added.
constexpr double NOTHING = -0.0;

template <class Count, class Cells>
DEVICE Plan plan_leap([[maybe_unused]] Count *x, [[maybe_unused]] const double *c,
                      const Cells &leaping, const Tolerance &tolerance) {
    Plan plan = {0, 0, {1, 0}};
    NO_UNROLL for (int i = 0; i < N_CHANNELS; ++i) {
        double sum = NOTHING;
        NO_UNROLL for (int at = CHANNEL_AT[i]; at < CHANNEL_AT[i + 1]; ++at) {
            const int reaction = REACTION[at];
            sum += share(propensity_at(reaction, x, c), is_critical(reaction, x), plan);
        }
        leaping[i] = sum;
    }
    RELOAD;
    NO_UNROLL for (int i = 0; i < N_BOUNDING; ++i) {
        double gain = NOTHING, loss = NOTHING, variance = NOTHING;
        NO_UNROLL for (int at = BOUNDING[i].first; at < BOUNDING[i].end; ++at) {
            const double by = TURNOVER[at].by, cell = leaping[TURNOVER[at].channel];
            if (by > 0) gain += by * cell;
            if (by < 0) loss += -by * cell;
            variance += by * by * cell;
        }
        const double count = quantity(x[BOUNDING[i].species]);
        const TurnoverOf<double> turnover = {gain, loss, variance};
        if (BOUNDING[i].orders == 0) {
            bound(allowed_of(tolerance, count), turnover, plan.limit);
        } else {
            const double order = order_of(BOUNDING[i].orders, count, x, c);
            bound(allowed_of(tolerance, count, order), turnover, plan.limit);
        }
    }
    bound_further(x, c, leaping, plan);
    return plan;
}

// Propensities for the second half of a leap: `first` are those that it began with, in the state `before`, and
// x is the state between the halves. False if that has none.
template <class Count, class Before, class First, class Cells>
DEVICE bool second_half(const Count *x, const Before &before, const double *c, const First &first,
                        const Cells &leaping) {
    double sum = 0;
    NO_UNROLL for (int i = 0; i < N_CHANNELS; ++i) {
        double between = NOTHING;
        NO_UNROLL for (int at = CHANNEL_AT[i]; at < CHANNEL_AT[i + 1]; ++at) {
            const int reaction = REACTION[at];
            const double propensity = propensity_at(reaction, x, c);
            between += is_critical(reaction, before) ? 0.0 : propensity;
        }
        sum += between;
        leaping[i] = extrapolated(first[i], between);
    }
    return sum >= 0 && sum < tl_infinity();
}

// The channel of the critical reaction that fires, or -1.
template <class Count>
DEVICE int choose_critical(const Count *x, const double *c, double target) {
    double sum = 0;
    int chosen = -1;
    NO_UNROLL for (int i = 0; i < N_CHANNELS; ++i) {
        NO_UNROLL for (int at = CHANNEL_AT[i]; at < CHANNEL_AT[i + 1]; ++at) {
            const int reaction = REACTION[at];
            if (is_critical(reaction, x))
                choose(i, propensity_at(reaction, x, c), target, sum, chosen);
        }
    }
    return chosen;
}

// Fires; tells whether a count fell below 0 or passed 2147483647.
template <class Count, class Cells>
DEVICE auto apply_firings(Count *x, const Cells &firings) {
    OutcomeOf<Count> outcome = {};
    NO_UNROLL for (int i = 0; i < N_CHANGING; ++i) {
        i64 change = 0;
        NO_UNROLL for (int at = CHANGING[i].first; at < CHANGING[i].end; ++at)
            change += TURNOVER[at].by * number_of(firings[TURNOVER[at].channel]);
        add(x[CHANGING[i].species], change, outcome);
    }
    return outcome;
}

// What an exact event leaves for the next.
struct Exact {
    double sum;
    DEVICE_MEMBER double total() const { return sum; }
};

template <class Count, class Cells>
DEVICE void start_exact(Count *x, const double *c, Exact &exact, const Cells &cells) {
    double sum = 0;
    NO_UNROLL for (int j = 0; j < N_REACTIONS; ++j) sum += cells[j] = propensity_at(j, x, c);
    exact.sum = sum;
    RELOAD;
}

// Returns a negative number if a count passed 2147483647.
template <class Count, class Cells>
DEVICE i32 fire_exact(double target, Count *x, const double *c, Exact &exact,
                      const Cells &cells) {
    double sum = 0;
    int chosen = 0;
    UNROLL_SOME for (int j = 0; j < N_REACTIONS - 1; ++j) {
        sum += cells[j];
        chosen = sum <= target ? j + 1 : chosen;
    }
    i32 signs = 0;
    UNROLL for (int k = 0; k < MOST_CHANGED; ++k) {
        const int species = CHANGED[chosen].of[k];
        const Count count = plus(x[species], CHANGED[chosen].by[k]);
        x[species] = count;
        signs |= count;
    }
    start_exact(x, c, exact, cells);
    return signs;
}
