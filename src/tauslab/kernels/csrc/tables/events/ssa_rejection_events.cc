// The kernel of tables/rejection/ssa_rejection.cc for networks with events. Candidates are drawn up to the next stop,
// and anew behind it: the exponential distribution has no memory. An item that changes what a trigger reads is taken
// alone, and triggers are looked at behind it.
#include "ensemble/control.h"
#include "model.h"
#include "device/prelude.h"
#include "tables/arguments.h"
#include "tables/rejection/walk.h"

TEAM_KERNEL(ssa_rejection_events, const TableArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const Tables tables = {arguments.whole_tables, arguments.real_tables};
    TEAM_MEMORY(shared, SHARED_STATE);
    State s = state_of(arguments.values + TEAM_OFFSET(N_VALUES),
                       arguments.team_counts + TEAM_OFFSET(N_COUNTS),
                       arguments.whole + TEAM_OFFSET(N_WHOLE), shared);
    s.reals = {arguments.reals + TEAM_OFFSET(N_REALS)};
    const BoundTree tree(s, shared);
    EventMemory &events =
        *(EventMemory *)(arguments.events + GLOBAL_ID / TEAM_THREADS * EVENT_WORDS);
    CandidateBatch batch;
    u64 fired = 0;

    for (;;) {
        const i64 row = team_same(team_leader() ? (i64)atomic_add(launch.control, 1) : 0);
        if (row >= launch.rows) break;
        const Place place = place_in(launch, row);
        s.c = launch.constants + place.input * launch.constants_stride;
        s.time = 0;
        const i32 *given = launch.initial + place.input * launch.initial_stride;
        team_each(0, N_PLACES, [&](i64 i) { s.x[i] = i < N_GIVEN ? given[i] : 0; });
        clear_possible_changes(s);
        team_sync();
        if (team_leader()) {
            events.halt = launch.halt;
            start_events(
                events, HAS_DELAYS ? arguments.waiting + TEAM_OFFSET(2 * DELAY_QUEUE) : nullptr,
                kept_row(launch.kept, launch.kept_words, row), tables, s, *launch.keys, place);
        }
        team_sync();
        u8 ended = events.found == EVENTS_DONE ? (u8)DONE : events.found;
        s.time = events.begins;
        Rssa rssa({tables, s, tree}, launch.max_steps, arguments.firings);
        rssa.queue = &events, rssa.keys = launch.keys, rssa.place = place;
        rssa.origin = s.time;
        team_sync();  // all have read what the next look will write
        if (ended == DONE) rssa.look(s.time, 0, true, ended);
        Samples samples(tables, out, row, launch.times);
        u64 number = 0, turn = 0;
        for (; ended == DONE && !samples.done(); ++turn) {
            constexpr u64 TURNS = LOOK_EVERY_TEAM / LANES;
            // Candidates are reported as events, because most of them are.
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
            } else if (rssa.total == 0 && rssa.stop < infinity()) {
                take_stop(rssa, 0, samples, ended);
            } else {
                ended = rssa.total == 0 ? ABSORBED : NOT_A_NUMBER;
                if (ended == ABSORBED) samples.record(infinity(), s);
            }
        }
        record_end(tables, out, row, samples.k, ended, s);
        if (launch.keep && team_leader())
            keep_events(events, kept_row(launch.keep, launch.kept_words, row), tables, s,
                        ended <= ABSORBED ? launch.times[launch.n_times - 1] : rssa.bounds.s.time);
        team_sync();
        fired += rssa.events;
        if (IS_PILOT && team_leader()) atomic_add(&arguments.firings[N_REACTIONS], number);
    }
    if (team_leader()) atomic_add(launch.work, fired);
}
