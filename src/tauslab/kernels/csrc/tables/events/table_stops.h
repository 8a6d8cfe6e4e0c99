// What tables/ssa_table.cc does for events. Between two stops all propensities are constant, so that a waiting time
// which a stop cuts short is drawn anew: the exponential distribution has no memory. Triggers are looked at at stops, and
// after reactions that change what they read. Networks without events have the same names, which do nothing.
#pragma once

#include "ensemble/sampling.h"
#include "tables/arguments.h"
#include "tables/selector.h"

#ifndef HAS_EVENTS

struct Stops {
    static constexpr bool SOME = false;
    static constexpr u8 begun = DONE;
    static constexpr bool due = false;

    DEVICE_MEMBER double begin(const EnsembleArguments &launch, i64, const Place &place,
                               const Tables &tables, State &s, Selector::Draws &draws) const {
        start(tables, launch.initial + place.input * launch.initial_stride, s);
        Selector::forget(draws);
        return 0;
    }
    DEVICE_MEMBER static u8 look(const EnsembleArguments &, const Place &, const Tables &, State &,
                                 Selector::Draws &) {
        return DONE;
    }
    DEVICE_MEMBER static double next() { return infinity(); }
    DEVICE_MEMBER static bool pass(bool) { return false; }
    DEVICE_MEMBER static u8 begin_reaction(const Tables &, State &, i32) { return DONE; }
    DEVICE_MEMBER static void keep(const EnsembleArguments &, i64, const Tables &, const State &,
                                   u8, double) {}
    DEVICE_MEMBER static void set_time(State &, double) {}
};

#else

#include "tables/events/team_events.h"

// Propensities after events: of what reads the variables that were set, and the time if `at_stop`; of all if the
// trajectory begins, `is_new`.
DEVICE_SELDOM void update_readers(Tables tables, const EventMemory &events, bool is_new,
                                  bool at_stop, State s) {
    bool few = !is_new && events.set <= FEW_SET;
    // Whole numbers of terms have to follow the change of a count, which nobody has noted.
    for (i32 i = 0; N_OWNERS > 0 && few && i < events.set; ++i) few = events.variable[i] >= N_GIVEN;
    if (!few) return build(tables, s);
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

struct Stops {
    static constexpr bool SOME = true;
    EventMemory &events;
    u64 *const waiting;
    double stop = 0;
    u8 begun = DONE;                                 // not DONE: nothing could begin
    bool due = true, at_stop = true, is_new = true;  // `due`: triggers are to be looked at

    DEVICE_MEMBER Stops(EventMemory &memory, u64 *queue) : events(memory), waiting(queue) {}

    // Takes the state from which the trajectory begins, and returns its time.
    DEVICE_MEMBER double begin(const EnsembleArguments &launch, i64 row, const Place &place,
                               const Tables &tables, State &s, Selector::Draws &draws) {
        s.time = 0;  // for initial values that read it
        start_counts(launch.initial + place.input * launch.initial_stride, s);
        begin_events(events, waiting, launch, row, tables, s, place);
        stop = 0, due = at_stop = is_new = true;
        begun = events.found == EVENTS_DONE ? (u8)DONE : events.found;
        s.time = events.begins;
        Selector::forget(draws);
        team_sync();  // all have read it
        return s.time;
    }

    // Completes what is due, looks at triggers and executes events; how the trajectory ends by it, or DONE.
    DEVICE_MEMBER u8 look(const EnsembleArguments &launch, const Place &place, const Tables &tables,
                          State &s, Selector::Draws &draws) {
        if (is_new) update_readers(tables, events, is_new, at_stop, s);
        if (HAS_DELAYS && at_stop && !complete_due(tables, events, s)) return OVERFLOWED;
        if (team_leader()) settle_alone(events, tables, s, *launch.keys, place);
        team_sync();
        if (events.found != EVENTS_DONE) return events.found;
        stop = events.stop;
        if (at_stop || events.set > 0) {
            update_readers(tables, events, false, at_stop, s);
            Selector::forget(draws);
        }
        is_new = due = false;
        team_sync();  // all have read what events have set
        return DONE;
    }

    DEVICE_MEMBER double next() const { return stop; }

    // Whether the step ends at the stop, since no reaction `comes` before.
    DEVICE_MEMBER bool pass(bool comes) {
        due = at_stop = !comes;
        if (at_stop) team_sync();  // all have read what events will change
        return at_stop;
    }

    // Notes what a reaction sets off and what of it comes later; how the trajectory ends by it, or DONE.
    DEVICE_MEMBER u8 begin_reaction(const Tables &tables, State &s, i32 reaction) {
        const i32 flags = tables.at(AT_WATCHED, reaction);
        due = (flags & SETS_OFF) != 0;
        if (!HAS_DELAYS || (flags & IS_LATE) == 0) return DONE;
        team_sync();
        if (team_leader()) begin_late(events, tables, s, reaction);
        team_sync();
        stop = events.stop;
        return events.found;
    }

    DEVICE_MEMBER void keep(const EnsembleArguments &launch, i64 row, const Tables &tables,
                            const State &s, u8 ended, double t) const {
        keep_state(events, launch, row, tables, s, ended, t);
    }

    DEVICE_MEMBER static void set_time(State &s, double t) { s.time = t; }
};

#endif
