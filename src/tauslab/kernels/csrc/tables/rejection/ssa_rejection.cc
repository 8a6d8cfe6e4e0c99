// Exact simulation by rejection, for networks that are too large to unroll and have large counts
// (tables/rejection/rejection.h). The network is read from tables, and a team of threads runs one
// trajectory (team/team.h). A pilot has a stream of its own. It counts firings of each reaction,
// candidates, and new upper bounds.
#include "ensemble/control.h"
#include "model.h"
#include "device/prelude.h"
#include "tables/arguments.h"
#include "tables/rejection/walk.h"

TEAM_KERNEL(ssa_rejection, const TableArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const Tables tables = {arguments.whole_tables, arguments.real_tables};
    TEAM_MEMORY(shared, SHARED_STATE);
    State s = state_of(arguments.values + TEAM_OFFSET(N_VALUES),
                       arguments.team_counts + TEAM_OFFSET(N_COUNTS),
                       arguments.whole + TEAM_OFFSET(N_WHOLE), shared);
    const BoundTree tree(s, shared);
    CandidateBatch batch;
    u64 fired = 0;

    for (;;) {
        const i64 row = team_same(team_leader() ? (i64)atomic_add(launch.control, 1) : 0);
        if (row >= launch.rows) break;
        const Place place = place_in(launch, row);
        s.c = launch.constants + place.input * launch.constants_stride;
        const i32 *given = launch.initial + place.input * launch.initial_stride;
        team_each(0, N_PLACES, [&](i64 i) { s.x[i] = i < N_SPECIES ? given[i] : 0; });
        clear_possible_changes(s);
        team_sync();
        Rssa rssa({tables, s, tree}, launch.max_steps, arguments.firings);
        Samples samples(tables, out, row, launch.times);
        u64 number = 0;
        u8 ended = DONE;
        while (!samples.done() && rssa.can_continue()) {
            // Candidates are reported as events, because most of them are.
            const bool looks = number % LOOK_EVERY_TEAM == 0;
            if (looks &&
                team_leaves(launch.control, number > 0 ? LOOK_EVERY_TEAM : 0, rssa.origin)) {
                ended = STEP_LIMIT;
                break;
            }
            batch.make(*launch.keys, place, number);
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
        if (IS_PILOT && team_leader()) atomic_add(&arguments.firings[N_REACTIONS], number);
    }
    if (team_leader()) atomic_add(launch.work, fired);
}
