// What tables/ssa_table.cc does for events. Between two stops all propensities are constant, so that a waiting time
// which a stop cuts short is drawn anew: the exponential distribution has no memory. Triggers are looked at at stops, and
// after reactions that change what they read. Networks without events have the same names, which do nothing.
#pragma once

#include "ensemble/sampling.h"
#include "tables/arguments.h"
#include "tables/selector.h"

#ifndef HAS_EVENTS

struct Stops {
    static constexpr bool SOME = false, FOLLOWS = false;
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
    DEVICE_MEMBER static bool refines(double, const Tables &, State &, Selector::Draws &) {
        return false;
    }
    DEVICE_MEMBER static bool accepts(const PhiloxKeys &, const Place &, u64, const Tables &,
                                      const State &, i32, u8 &) {
        return true;
    }
    DEVICE_MEMBER static u8 begin_reaction(const Tables &, State &, i32) { return DONE; }
    DEVICE_MEMBER static void keep(const EnsembleArguments &, i64, const Tables &, const State &,
                                   u8, double) {}
    DEVICE_MEMBER static void set_time(State &, double) {}
};

#else

#include "ensemble/pieces.h"
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

// The total propensity with the bounds of a piece.
DEVICE_SELDOM double total_in_piece(Tables tables, const double *words, State s) {
    s.bound = words + (LIMIT_AT + 1 - PIECE_AT);
    Selector::Draws unused;
    Selector::forget(unused);
    Selector::fire(tables, tables.at(AT_VARIABLE_PLAN, (i32)N_SPECIES - 1), s, unused);
    const Neighbours below = {s.top, V_ROOT};
    return Root(below).total();
}

struct Stops {
    static constexpr bool SOME = true, FOLLOWS = IS_THINNED;  // FOLLOWS: rates follow the time
    EventMemory &events;
    u64 *const waiting;
    double stop = 0;
    u8 begun = DONE;                                 // not DONE: nothing could begin
    bool due = true, at_stop = true, is_new = true;  // `due`: triggers are to be looked at
    const double *tree = nullptr;                    // ensemble/pieces.h
    i32 piece = 1;

    DEVICE_MEMBER Stops(EventMemory &memory, u64 *queue) : events(memory), waiting(queue) {}

    // Takes the state from which the trajectory begins, and returns its time.
    DEVICE_MEMBER double begin(const EnsembleArguments &launch, i64 row, const Place &place,
                               const Tables &tables, State &s, Selector::Draws &draws) {
        tree = s.c + PIECE_AT, piece = 1;
        s.bound = words_of(tree, piece) + (LIMIT_AT + 1 - PIECE_AT);
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
        if (IS_THINNED && s.time >= words_of(tree, piece)[0]) cross_piece(tables, s);
        if (at_stop || events.set > 0) {
            update_readers(tables, events, false, at_stop, s);
            Selector::forget(draws);
        }
        is_new = due = false;
        team_sync();  // all have read what events have set
        return DONE;
    }

    DEVICE_MEMBER double next() const {
        return IS_THINNED ? tl_min(stop, words_of(tree, piece)[0]) : stop;
    }

    // Moves to a part of the piece, at the time of the state, if the total of bounds is above the limit of the piece.
    DEVICE_MEMBER bool refines(double total, const Tables &tables, State &s,
                               Selector::Draws &draws) {
        if (!IS_THINNED || !(total > words_of(tree, piece)[1])) return false;
        team_sync();  // all have read what changes
        piece *= 2;
        if (s.time > words_of(tree, piece)[0]) ++piece;
        take_piece(tables, s);
        Selector::forget(draws);
        return true;
    }

    // Whether the reaction of a candidate at the time of the state is accepted; sets `ended` where no bound holds.
    DEVICE_MEMBER bool accepts(const PhiloxKeys &keys, const Place &place, u64 step,
                               const Tables &tables, const State &s, i32 reaction,
                               u8 &ended) const {
        if (!IS_THINNED || (tables.at(AT_WATCHED, reaction) & FOLLOWS_TIME) == 0) return true;
        const Quantities x = quantities_of(tables, s);
        const double bound = propensity(tables, reaction, x, s.c);
        const double now = propensity_now(reaction, x, s.c, tables);
        if (!(now >= 0 && now <= bound * BOUND_HOLDS)) ended = NOT_A_NUMBER;
        const PhiloxSeries series =
            draw_series(keys, STREAM_THINNING, place.trajectory, place.point, step);
        const Philox4 bits = philox_draw(series, keys, (u32)step);
        return ended == DONE && unit_half_open(bits.x0, bits.x1) * bound < now;
    }

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

  private:
    // Computes propensities with the bounds of the piece; their total.
    DEVICE_MEMBER double take_piece(const Tables &tables, State &s) const {
        const double *const words = words_of(tree, piece);
        s.bound = words + (LIMIT_AT + 1 - PIECE_AT);
        return total_in_piece(tables, words, s);
    }

    // Moves behind the end of the piece, as `next_piece` of ensemble/pieces.h.
    DEVICE_MEMBER void cross_piece(const Tables &tables, State &s) {
        ++piece;
        bool fits = take_piece(tables, s) <= words_of(tree, piece)[1];
        while (fits && piece % 2 == 0) {
            piece /= 2;
            fits = 2 * take_piece(tables, s) <= words_of(tree, piece)[1];
            if (fits) continue;
            piece *= 2;
            take_piece(tables, s);
        }
    }
};

#endif
