// Where a trajectory stands when a launch has sampled it, as a row of doubles, so that a later launch goes on with the
// same draws: N_SPECIES counts, the time of the last firing, and the number of the next draw. Of one that
// ended early the time is its status, negated, and counts and number say nothing. Compiled where runs ask for it.
#pragma once

#include "ensemble/sampling.h"

#ifdef KEEPS_STATES
constexpr bool GOES_ON = true;

template <class State>
DEVICE void keep_standing(const EnsembleArguments &launch, i64 row, u8 ended, bool valid, double t,
                          u64 number, const State &x) {
    if (!launch.keep) return;
    double *const to = launch.keep + row * launch.kept_words;
    for (int i = 0; i < N_SPECIES; ++i) to[i] = valid ? (double)x[i] : (double)MISSING_COUNT;
    to[N_SPECIES] = valid ? t : -(double)ended;
    to[N_SPECIES + 1] = valid ? (double)number : 0;
}

// Records a trajectory that ended early in an earlier launch; false of another.
template <class State>
DEVICE bool ended_before(const EnsembleArguments &launch, const Recorder &out, i64 row,
                         const State &x) {
    if (!launch.kept) return false;
    const double t = launch.kept[row * launch.kept_words + N_SPECIES];
    if (t >= 0) return false;
    const u8 status = (u8)-t;
    record_missing(out, row, 0);
    record_end(out, row, status, false, x);
    keep_standing(launch, row, status, false, t, 0, x);
    return true;
}

// Gives the place at which a trajectory goes on, `count(i, x)` for each species; false where it begins anew.
template <class Count>
DEVICE bool take_up(const EnsembleArguments &launch, i64 row, double &t, u64 &number,
                    const Count &count) {
    if (!launch.kept) return false;
    const double *const from = launch.kept + row * launch.kept_words;
    for (int i = 0; i < N_SPECIES; ++i) count(i, from[i]);
    t = from[N_SPECIES], number = (u64)from[N_SPECIES + 1];
    return true;
}
#else
constexpr bool GOES_ON = false;

template <class... Any>
DEVICE void keep_standing(const Any &...) {}

template <class... Any>
DEVICE bool ended_before(const Any &...) {
    return false;
}

template <class... Any>
DEVICE bool take_up(const Any &...) {
    return false;
}
#endif
