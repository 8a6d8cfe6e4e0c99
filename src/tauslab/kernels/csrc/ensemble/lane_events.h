// An event of all lanes of a thread, and the times of the next ones.
#pragma once

#include "ensemble/lane_draws.h"
#include "model.h"

// Of all lanes: the time to the next event, and when it happens.
struct NextEvents {
    Real waiting[VECTORS], t[VECTORS];
};

DEVICE void set_times(const Thread &thread, const Running *run, int d, NextEvents &next) {
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        next.waiting[v] = thread.waiting[d][v] / run[v].cumulative[N_REACTIONS - 1];
        next.t[v] = run[v].t + next.waiting[v];
    }
}

// All lanes fire an event, at their next times.
DEVICE void fire(const Thread &thread, Running *run, const Lanes *lanes, int d,
                 const NextEvents &next) {
    Real target[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        const Real a0 = run[v].cumulative[N_REACTIONS - 1];
        target[v] = fused(thread.unit[d][v], a0, -a0);
        run[v].t = next.t[v];
    }
#if defined(FIRES_BY_SEARCH)
    fire_by_search(target, run);
#else
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        Real a[N_REACTIONS];
        fire_together(target[v], run[v].x, lanes[v].c, a, run[v].cumulative);
    }
#endif
}

// What fire() leaves to be done between random bits, and the step that has all propensities, or a later one.
#if defined(FIRES_BY_SEARCH)
constexpr int TIMES_AT = SEARCH_STEPS > 3 ? SEARCH_STEPS - 1 : 3;

DEVICE void after_fire(int step, Running *run, const Lanes *lanes) {
    for_parts_of(step, [&](int part) { propensities_part(part, run, lanes); });
}
#else
constexpr int TIMES_AT = 3;

DEVICE void after_fire(int, Running *, const Lanes *) {}
#endif
