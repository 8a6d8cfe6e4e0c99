// Exact simulation by rejection, for networks that are too large to unroll and have large counts
// (tables/rejection/rejection.h). The network is read from tables, and a team of threads runs one
// trajectory (team/team.h). A pilot has a stream of its own. It counts firings of each reaction,
// candidates, and new upper bounds.
//
// In networks with events candidates are drawn up to the next stop, and anew behind it: the exponential distribution has
// no memory. An item that changes what a trigger reads is taken alone, and triggers are looked at behind it.
#include "ensemble/control.h"
#include "model.h"
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
#ifdef HAS_EVENTS
    s.reals = {arguments.reals + TEAM_OFFSET(N_REALS)};
    EventMemory &events = EVENTS_OF_TEAM(arguments);
#endif
    const BoundTree tree(s, shared);
    CandidateBatch batch;
    u64 fired = 0;

    for (;;) {
        const i64 row = team_same(team_leader() ? (i64)atomic_add(launch.control, 1) : 0);
        if (row >= launch.rows) break;
        const Place place = place_in(launch, row);
        s.c = launch.constants + place.input * launch.constants_stride;
        const i32 *given = launch.initial + place.input * launch.initial_stride;
        team_each(0, N_PLACES, [&](i64 i) { s.x[i] = i < N_GIVEN ? given[i] : 0; });
        clear_possible_changes(s);
        team_sync();
        u8 ended = DONE;
#ifdef HAS_EVENTS
        s.time = 0;
        begin_events(events, WAITING_OF_TEAM(arguments), launch, row, tables, s, place);
        if (events.found != EVENTS_DONE) ended = events.found;
        s.time = events.begins;
        Rssa rssa({tables, s, tree}, launch.max_steps, arguments.firings);
        rssa.queue = &events, rssa.keys = launch.keys, rssa.place = place;
        rssa.origin = s.time;
        team_sync();  // all have read what the next look will write
        if (ended == DONE) rssa.look(s.time, 0, true, ended);
#else
        Rssa rssa({tables, s, tree}, launch.max_steps, arguments.firings);
#endif
        Samples samples(tables, out, row, launch.times);
        u64 number = 0;
        for (u64 turn = 0; ended == DONE && !samples.done(); ++turn) {
            constexpr u64 TURNS = LOOK_EVERY_TEAM / LANES;  // a batch or a stop each
            // Candidates are reported as firings, because most of them are.
            if (turn % TURNS == 0 &&
                team_leaves(launch.control, turn > 0 ? LOOK_EVERY_TEAM : 0, rssa.origin)) {
                ended = STEP_LIMIT;
                break;
            }
            rssa.before = 0;
            if (rssa.can_continue()) {
                batch.make(*launch.keys, place, number);
                number += LANES;
                take(rssa, batch, samples, ended);
                continue;
            }
#ifdef HAS_EVENTS
            if (rssa.total == 0 && rssa.stop < infinity()) {
                take_stop(rssa, 0, samples, ended);
                continue;
            }
#endif
            ended = rssa.total == 0 ? ABSORBED : NOT_A_NUMBER;
            if (ended == ABSORBED) samples.record(infinity(), s);
        }
        record_end(tables, out, row, samples.k, ended, s);
#ifdef HAS_EVENTS
        keep_state(events, launch, row, tables, s, ended, rssa.bounds.s.time);
#endif
        team_sync();
        fired += rssa.events;
        if (IS_PILOT && team_leader()) atomic_add(&arguments.firings[N_REACTIONS], number);
    }
    if (team_leader()) atomic_add(launch.work, fired);
}
