// The kernel of tables/ssa_table.cc for networks with events. Between two stops all propensities are constant, so that
// a waiting time which a stop cuts short is drawn anew: the exponential distribution has no memory. Triggers are
// looked at at stops, and after reactions that change what they read.
#include "ensemble/control.h"
#include "tables/arguments.h"
#include "model.h"
#include "math/math.h"
#include "device/prelude.h"
#include "random/streams.h"
#include "tables/events/team_events.h"
#include "tables/selector.h"
#include "tables/team_sampling.h"

// Propensities after events: of what reads the variables that were set, and the time if `at_stop`; of all if the
// trajectory begins, `is_new`.
DEVICE_SELDOM void update_readers(Tables tables, const EventMemory &events, bool is_new,
                                  bool at_stop, State s) {
    bool few = !is_new && events.set <= FEW_SET;
    // Whole numbers of terms have to follow the change of a count, which nobody has noted.
    for (i32 i = 0; N_OWNERS > 0 && few && i < events.set; ++i) few = events.variable[i] >= N_GIVEN;
    if (!few) {
        build(tables, s);
        Selector::arrange(s);
        return;
    }
    Selector::Draws unused;
    Selector::forget(unused);
    const i32 last = events.set + (at_stop ? 1 : 0);
    for (i32 i = 0; i < last; ++i) {
        const i32 index = i < events.set ? events.variable[i] : (i32)N_SPECIES - 1;
        Selector::fire(tables, tables.at(AT_VARIABLE_PLAN, index), s, unused);
    }
}

// Completes delayed reactions that are due; false if a count passed 2147483647.
DEVICE_SELDOM bool complete_due(Tables tables, EventMemory &events, State s) {
    Selector::Draws unused;
    Selector::forget(unused);
    if (team_leader()) events.set = 0;
    for (i32 due = next_due(events, tables, s); due >= 0; due = next_due(events, tables, s)) {
        const i32 reaction = (i32)AT_FIRST_LATE_PLAN + due;
        const Plan plan(tables, reaction);
        bool is_short = false;  // of a reaction that takes at its end
        for (i32 i = plan.at[0]; i < plan.at[1]; ++i) {
            const IntPair one = tables.pair(AT_ENTRY, i);
            is_short = is_short || (one.b < 0 && s.x[one.a] < -one.b);
        }
        team_sync();
        if (!is_short && !Selector::fire(tables, reaction, s, unused)) return false;
    }
    if (N_JUMPS > 0) update_readers(tables, events, false, false, s);
    team_sync();  // all have read what was noted
    return true;
}

TEAM_KERNEL(ssa_table_events, const TableArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const Tables tables = {arguments.whole_tables, arguments.real_tables};
    const i64 n_times = launch.n_times;
    const double *const times = launch.times;
    TEAM_MEMORY(shared, SHARED_DOUBLES);
    State s;
    s.v = {SHARED_PARTS > 0 ? shared : arguments.values + TEAM_OFFSET(N_VALUES)};
    s.top = top_of(s, shared);
    s.x = {SHARED_PARTS > 1 ? (i32 *)(shared + N_VALUES)
                            : arguments.team_counts + TEAM_OFFSET(N_COUNTS)};
    s.n = {(Whole *)(shared + N_VALUES + ROOM_OF_COUNTS), {arguments.whole + TEAM_OFFSET(N_WHOLE)}};
    s.reals = {arguments.reals + TEAM_OFFSET(N_REALS)};
    EventMemory &events =
        *(EventMemory *)(arguments.events + GLOBAL_ID / TEAM_THREADS * EVENT_WORDS);
    Selector::Draws draws;
    u64 fired = 0;

    for (;;) {
        const i64 row = team_same(team_leader() ? take_row(launch.control, launch.rows) : 0);
        if (row >= launch.rows) break;
        const Place place = place_in(launch, row);
        s.c = launch.constants + place.input * launch.constants_stride;
        s.time = 0;
        start_counts(launch.initial + place.input * launch.initial_stride, s);
        if (team_leader()) {
            events.halt = launch.halt;
            start_events(
                events, HAS_DELAYS ? arguments.waiting + TEAM_OFFSET(2 * DELAY_QUEUE) : nullptr,
                kept_row(launch.kept, launch.kept_words, row), tables, s, *launch.keys, place);
        }
        team_sync();
        i64 k = 0;
        u64 step = 0;
        double t = events.begins, stop = 0, sample = n_times > 0 ? times[0] : infinity();
        s.time = t;
        Selector::reset(draws);
        bool looks = true, at_stop = true, is_new = true;
        u8 ended = events.found == EVENTS_DONE ? (u8)DONE : events.found;
        team_sync();  // all have read it
        while (n_times > 0 && ended == DONE) {
            if (looks) {
                if (is_new) update_readers(tables, events, is_new, at_stop, s);
                if (HAS_DELAYS && at_stop && !complete_due(tables, events, s)) {
                    ended = OVERFLOWED;
                    break;
                }
                if (team_leader()) settle_alone(events, tables, s, *launch.keys, place);
                team_sync();
                if (events.found != EVENTS_DONE) {
                    ended = events.found;
                    break;
                }
                stop = events.stop;
                if (at_stop || events.set > 0) {
                    update_readers(tables, events, false, at_stop, s);
                    Selector::forget(draws);
                }
                is_new = looks = false;
                team_sync();  // all have read what events have set
            }
            Selector::Event event(*launch.keys, place, step, draws, s);
            if (!(event.total() >= 0 && event.total() < infinity())) {
                ended = NOT_A_NUMBER;
                break;
            }
            const double t_event = event.total() > 0 ? t + event.waiting(tables) : infinity();
            const double t_next = t_event < stop ? t_event : stop;
            for (; sample < t_next; sample = ++k < n_times ? times[k] : infinity()) {
                s.time = sample;
                record_state(tables, out, row, k, s);
            }
            if (k == n_times) {
                ended = t_next < infinity() ? DONE : ABSORBED;
                break;
            }
            const bool leaves = step % LOOK_EVERY_TEAM == LOOK_EVERY_TEAM - 1;
            if (step >= launch.max_steps ||
                (leaves && team_leaves(launch.control, LOOK_EVERY_TEAM, t))) {
                ended = STEP_LIMIT;
                break;
            }
            ++step;
            s.time = t = t_next;
            at_stop = !(t_event < stop);
            looks = at_stop;
            if (at_stop) {
                team_sync();  // all have read what events will change
                continue;
            }
            const i32 reaction = event.reaction(tables);
            if (IS_PILOT && team_leader()) atomic_add(&arguments.firings[reaction], 1);
            const i32 flags = tables.at(AT_WATCHED, reaction);
            if (HAS_DELAYS && (flags & IS_LATE) != 0) {
                team_sync();
                if (team_leader()) begin_late(events, tables, s, reaction);
                team_sync();
                stop = events.stop;
                ended = events.found;
                if (ended != EVENTS_DONE) break;
            }
            ++fired;
            team_sync();  // all have read what the reaction will change
            if (!Selector::fire(tables, reaction, s, draws)) {
                ended = OVERFLOWED;
                break;
            }
            looks = (flags & SETS_OFF) != 0;
        }
        record_end(tables, out, row, k, ended, s);
        if (launch.keep && team_leader())
            keep_events(events, kept_row(launch.keep, launch.kept_words, row), tables, s,
                        ended <= ABSORBED ? times[n_times - 1] : t);
        team_sync();
    }
    if (team_leader()) atomic_add(launch.work, fired);
}
