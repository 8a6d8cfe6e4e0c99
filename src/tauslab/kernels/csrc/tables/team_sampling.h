// Sample records of a team, from tables: no text of the size of the network.
#pragma once

#include "ensemble/control.h"
#include "tables/propensities.h"
#include "ensemble/sampling.h"
#ifdef HAS_EVENTS
#include "events/kept.h"
#endif

// As LOOK_EVERY, for trajectories of large networks, whose firings take longer.
constexpr u32 LOOK_EVERY_TEAM = 1024;

// As `must_leave`, with one answer for all threads of the team.
DEVICE bool team_leaves(u64 *control, u64 events, double t) {
    return team_same(team_leader() ? (i64)must_leave(control, events, t) : 0) != 0;
}

DEVICE void record_all(const Tables &tables, i32 *cell, const State &s) {
    team_each(0, N_RECORDED, [&](i64 i) { cell[i] = s.x[tables.at(AT_RECORDED, i)]; });
}

// State at sample time `k` of the launch's trajectory `row`. An observable that is a weighted sum
// of counts with whole weights is read from tables.
DEVICE void record_state(const Tables &tables, const Recorder &out, i64 row, i64 k,
                         const State &s) {
    if (N_RECORDED > 0 && out.counts)
        record_all(tables, out.counts + (row * out.n_times + k) * N_RECORDED, s);
    if (N_OBSERVABLES == 0 || !out.observables) return;
    double *cell = out.observables + (row * out.n_times + k) * N_OBSERVABLES;
    team_each(0, N_OBSERVABLES, [&](i64 i) {
        const bool is_sum = tables.at(AT_SUM_ROW, i) < tables.at(AT_SUM_ROW, i + 1);
        const auto &x = quantities_of(tables, s);
        cell[i] = is_sum ? weighted(tables, i, x) : general_observable((int)i, x, s.c, tables);
    });
}

// Records the end of a trajectory. Its samples from time `k` on are missing unless it `ended` well.
DEVICE void record_end(const Tables &tables, const Recorder &out, i64 row, i64 k, u8 ended,
                       const State &s) {
#ifdef HAS_EVENTS
    const bool valid = ended <= ABSORBED || ended == HALTED;
#else
    const bool valid = ended <= ABSORBED;
#endif
    if (team_leader() && !valid) record_missing(out, row, k);
    if (team_leader() && out.status) out.status[row] = ended;
    if (!out.final_counts) return;
    i32 *cell = out.final_counts + row * N_RECORDED;
    if (valid)
        record_all(tables, cell, s);
    else
        team_each(0, N_RECORDED, [&](i64 i) { cell[i] = MISSING_COUNT; });
}
