// Events of a trajectory of a large network: the queue of events/queue.h in memory of the team. One thread of the
// team looks at triggers and executes; what it found, all read.
#pragma once

#include "ensemble/arguments.h"
#include "team/team.h"
#include "events/completions.h"
#include "tables/arguments.h"

// Variables that events set at one time and whose readers are looked up; where more are set, all is computed again.
constexpr i32 FEW_SET = 8;

// What AT_WATCHED says of a reaction: it changes what a trigger reads; something of it comes later; its rate follows
// the time, and its propensity is a bound.
constexpr i32 SETS_OFF = 1, IS_LATE = 2, FOLLOWS_TIME = 4;

struct EventMemory {
    EventQueue queue;
    Completions delayed;
    Draws numbers;          // of formulas
    double stop;            // the time at which something may happen that no reaction does
    double begins;          // the time from which the trajectory runs
    u64 executed;           // events
    i64 halt;               // the quantity that halts the trajectory; -1: none
    i32 variable[FEW_SET];  // that were set
    i32 set;                // how many of them; more than FEW_SET: too many
    i32 due;                // a completion, or -1
    u8 found;               // how the trajectory ends, or EVENTS_DONE
};
static_assert(sizeof(EventMemory) <= 8 * EVENT_WORDS);

// Sets a quantity of the state; false where it may not have the value.
DEVICE bool set_quantity(const State &s, i64 index, double value) {
    if (index >= N_GIVEN) {
        s.reals[index - N_GIVEN] = value;
        return value == value;
    }
    if (!can_be_a_count(value)) return false;
    s.x[index] = (i32)whole_amount(value);
    return true;
}

// Sets a count to a whole number, half to even; a quantity to any value. Notes what was set.
struct AssignAndNote {
    EventMemory &memory;

    DEVICE_MEMBER bool operator()(const Quantities &x, int index, double value) const {
        if (!set_quantity(x.s, index, value)) return false;
        for (i32 i = 0; i < memory.set && i < FEW_SET; ++i)
            if (memory.variable[i] == index) return true;
        if (memory.set < FEW_SET) memory.variable[memory.set] = index;
        if (memory.set <= FEW_SET) ++memory.set;
        return true;
    }
};

// The state from which a trajectory goes on, if `kept` is its row of states; its counts are set otherwise. One
// thread of the team calls it. What it is given are copies: the address of what others keep in registers is not taken.
DEVICE_SELDOM void start_events(EventMemory &memory, u64 *waiting, const double *kept,
                                Tables tables, State s, const PhiloxKeys &keys, Place place) {
    start_draws(memory.numbers, keys, place);
    start_queue(memory.queue);
    memory.delayed.memory = waiting;
    start_completions(memory.delayed);
    memory.executed = 0, memory.set = 0, memory.begins = 0;
    memory.found = EVENTS_DONE;
    set_reals(s.reals, s.c);
    if (kept) {
        for (i32 i = 0; i < N_GIVEN; ++i) set_quantity(s, tables.at(AT_PLACE_OF, i), kept[i]);
        memory.begins = kept[N_GIVEN];
        take_up_queue(memory.queue, kept + N_GIVEN + 1);
        take_up_waiting(memory.delayed, kept);
        return;
    }
    const AssignAndNote assign = {memory};
    const Quantities x = {s, tables};
    if (!set_drawn(x, formula_constants(s.c, memory.numbers), assign))
        memory.found = EVENT_NOT_A_NUMBER;
}

// The row of a launch's trajectory among states that are kept; null where none are.
template <class Number>
DEVICE Number *kept_row(Number *states, i64 words, i64 row) {
    return states ? states + row * words : nullptr;
}

// Memory of the team, in a kernel.
#define EVENTS_OF_TEAM(arguments) \
    *(EventMemory *)(arguments.events + GLOBAL_ID / TEAM_THREADS * EVENT_WORDS)
#define WAITING_OF_TEAM(arguments) \
    (HAS_DELAYS ? arguments.waiting + TEAM_OFFSET(2 * DELAY_QUEUE) : nullptr)

// Starts the events of the launch's trajectory `row`, whose counts are set.
DEVICE void begin_events(EventMemory &memory, u64 *waiting, const EnsembleArguments &launch,
                         i64 row, const Tables &tables, const State &s, const Place &place) {
    if (team_leader()) {
        memory.halt = launch.halt;
        start_events(memory, waiting, kept_row(launch.kept, launch.kept_words, row), tables, s,
                     *launch.keys, place);
    }
    team_sync();
}

// Keeps the state at time `t`. One thread of the team calls it.
DEVICE_SELDOM void keep_events(const EventMemory &memory, double *to, Tables tables, State s,
                               double t) {
    const Quantities x = {s, tables};
    for (i32 i = 0; i < N_GIVEN; ++i) to[i] = x[tables.at(AT_PLACE_OF, i)];
    to[N_GIVEN] = t;
    keep_queue(memory.queue, to + N_GIVEN + 1);
    keep_waiting(memory.delayed, to);
}

// Keeps the state in which the launch's trajectory `row` `ended` at `t`, if the launch keeps any.
DEVICE void keep_state(const EventMemory &memory, const EnsembleArguments &launch, i64 row,
                       const Tables &tables, const State &s, u8 ended, double t) {
    if (!launch.keep || !team_leader()) return;
    if (ended <= ABSORBED) t = launch.times[launch.n_times - 1];
    keep_events(memory, kept_row(launch.keep, launch.kept_words, row), tables, s, t);
}

// Executes what has come at the time of the state, and what that sets off. One thread of the team calls it.
DEVICE_SELDOM void settle_alone(EventMemory &memory, Tables tables, State s, const PhiloxKeys &keys,
                                Place place) {
    const PhiloxSeries ties = draw_series(keys, STREAM_EVENTS, place.trajectory, place.point, 0);
    const auto inputs = formula_constants(s.c, memory.numbers);
    const Quantities x = {s, tables};
    const AssignAndNote assign = {memory};
    const Jumps jumps(x);
    memory.set = 0;
    memory.found = settle(memory.queue, x, inputs, s.time, ties, keys, assign, memory.executed);
    if (N_JUMPS > 0 && memory.found == EVENTS_DONE) {
        const u8 ended = jumps.begin(memory.delayed, x, inputs, s.time);
        if (ended != RUNNING) memory.found = ended;
    }
    memory.stop = tl_min(next_switch(x, inputs, s.time), first_execution(memory.queue));
    memory.stop = tl_min(memory.stop, memory.delayed.first());
    if (memory.found == EVENTS_DONE && memory.halt >= 0 &&
        x[tables.at(AT_PLACE_OF, memory.halt)] != 0)
        memory.found = HALTED;
}

// Notes what comes later of a reaction that begins now, before it changes counts. One thread of the team calls it.
DEVICE_SELDOM void begin_late(EventMemory &memory, Tables tables, State s, i32 reaction) {
    const Quantities x = {s, tables};
    const auto inputs = formula_constants(s.c, memory.numbers);
    u8 ended = RUNNING;
    for (i32 end = tables.at(AT_FIRST_COMPLETION, reaction); end >= 0 && ended == RUNNING;
         end = tables.at(AT_NEXT_COMPLETION, end))
        ended = begin_delayed(memory.delayed, end, s.time, completion_delay(end, x, inputs));
    memory.found = ended == RUNNING ? (u8)EVENTS_DONE : ended;
    memory.stop = tl_min(memory.stop, memory.delayed.first());
}

// The next completion of a reaction that is due at the time of the state, or -1: the same for all threads of the team.
// Jumps that are due before it have come to what holds the past, and are noted as what events set.
DEVICE i32 next_due(EventMemory &memory, const Tables &tables, const State &s) {
    if (team_leader()) {
        memory.due = take_due(memory.delayed, s.time);
        for (; N_JUMPS > 0 && memory.due >= FIRST_JUMP;
             memory.due = take_due(memory.delayed, s.time)) {
            const int which = memory.due - FIRST_JUMP, to = JUMP_TO[which / 64];
            const i32 by = (i32)(1u << which % 32);
            const Quantities x = {s, tables};
            AssignAndNote{memory}(x, to, x[to] + (double)(which % 64 < 32 ? by : -by));
        }
    }
    team_sync();
    const i32 due = memory.due;
    team_sync();
    return due;
}
