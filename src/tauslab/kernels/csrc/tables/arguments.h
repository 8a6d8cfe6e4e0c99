// What kernels of large networks are given beside a launch; see kernels/exact/table_network.py.
#pragma once

#include "ensemble/arguments.h"
#include "tables/propensities.h"

struct TableArguments {
    EnsembleArguments launch;
    const i32 *whole_tables;    // addressed by the constants AT_... of model.h
    const double *real_tables;  // likewise
    double *values;    // [teams, N_VALUES]: of trajectories in flight; counts and whole numbers too
    i32 *team_counts;  // [teams, N_COUNTS]
    Whole *whole;      // [teams, N_WHOLE]
    u64 *firings;      // [N_REACTIONS + 2]: what a pilot counts; null in other runs
    double *reals;     // [teams, N_REALS]: quantities of networks with events; null in others
    u64 *events;   // [teams, EVENT_WORDS]: their queues, see tables/events/team_events.h; or null
    u64 *waiting;  // [teams, 2 * DELAY_QUEUE]: delayed reactions, see events/completions.h; or null
};
