// Exact simulation by rejection, for networks that are too large to unroll and have large counts
// (tables/rejection/rejection.h). The network is read from tables, and a team of threads runs one
// trajectory (team/team.h). A pilot has a stream of its own. It counts firings of each reaction,
// candidates, and new upper bounds.
#include "ensemble/control.h"
#include "model.h"
#include "device/prelude.h"
#include "tables/rejection/walk.h"

TEAM_KERNEL(ssa_rejection, const PhiloxKeys *keys, i64 per_point, i64 before, i64 first, i64 rows,
            const double *times, i64 n_times, const i32 *initial, i64 initial_stride,
            const double *constants, i64 constants_stride, u64 max_steps, u64 *next_row,
            i32 *counts, double *observables, i32 *final_counts, u8 *status, u64 *events,
            const i32 *__restrict__ whole_tables, const double *__restrict__ real_tables,
            double *all_values, i32 *all_counts, Whole *all_ranges, [[maybe_unused]] u64 *firings) {
    const Recorder out = {counts, observables, final_counts, status, n_times};
    const Tables tables = {whole_tables, real_tables};
    TEAM_MEMORY(shared, FAST_PARTS > 0 ? NODE_SIZE + N_COUNTS / 2 : 0);
    State s;
    s.v = {all_values + TEAM_OFFSET(N_VALUES)};
    s.x = {FAST_PARTS > 0 ? (i32 *)(shared + NODE_SIZE) : all_counts + TEAM_OFFSET(N_COUNTS)};
    s.n = {nullptr, {all_ranges + TEAM_OFFSET(N_WHOLE)}};
    const TeamArray<double> root = {FAST_PARTS > 0 ? shared : s.v.base};
    CandidateBatch batch;
    u64 fired = 0;

    for (;;) {
        const i64 row = team_same(team_leader() ? (i64)atomic_add(next_row, 1) : 0);
        if (row >= rows) break;
        const Place place = place_of(first, row, per_point, before);
        s.c = constants + place.input * constants_stride;
        const i32 *given = initial + place.input * initial_stride;
        team_each(0, N_PLACES, [&](i64 i) { s.x[i] = i < N_SPECIES ? given[i] : 0; });
        clear_possible_changes(s);
        team_sync();
        Rssa rssa({tables, s, root}, max_steps, firings);
        Samples samples(tables, out, row, times);
        u64 number = 0;
        u8 ended = DONE;
        while (!samples.done() && rssa.can_continue()) {
            // Candidates are reported as events, because most of them are.
            const bool looks = number % LOOK_EVERY_TEAM == 0;
            if (looks && team_leaves(next_row, number > 0 ? LOOK_EVERY_TEAM : 0, rssa.origin)) {
                ended = STEP_LIMIT;
                break;
            }
            batch.make(*keys, place, number);
            number += LANES;
            if (!take(rssa, batch, samples, ended)) break;
        }
        if (ended == DONE && !samples.done()) {
            ended = rssa.total == 0 ? ABSORBED : NOT_A_NUMBER;
            if (ended == ABSORBED) samples.record(infinity(), s);
        }
        record_end(tables, out, row, samples.k, ended, s);
        team_sync();
        fired += rssa.events;
        if (IS_PILOT && team_leader()) atomic_add(&firings[N_REACTIONS], number);
    }
    if (team_leader()) atomic_add(events, fired);
}
