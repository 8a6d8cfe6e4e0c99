// Events of a trajectory of a large network: the queue of events/queue.h in memory of the team. One thread of the
// team looks at triggers and executes; what it found, all read.
#pragma once

#include "ensemble/arguments.h"
#include "events/amounts.h"
#include "events/queue.h"
#include "tables/propensities.h"

// Variables that events set at one time and whose readers are looked up; where more are set, all is computed again.
constexpr i32 FEW_SET = 8;

struct EventMemory {
    EventQueue queue;
    Draws numbers;         // of formulas
    double stop;           // the time at which something may happen that no reaction does
    u64 executed;          // events
    i32 variable[FEW_SET]; // that were set
    i32 set;               // how many of them; more than FEW_SET: too many
    u8 found;              // how the trajectory ends, or EVENTS_DONE
};
static_assert(sizeof(EventMemory) <= 8 * EVENT_WORDS);

// Sets a count to a whole number, half to even; a quantity to any value. False where it may not have it.
// Notes what was set.
struct AssignAndNote {
    EventMemory &memory;

    DEVICE_MEMBER bool operator()(const Quantities &x, int index, double value) const {
        if (index >= N_GIVEN) {
            x.s.reals[index - N_GIVEN] = value;
            if (!(value == value)) return false;
        } else {
            if (!can_be_a_count(value)) return false;
            x.s.x[index] = (i32)whole_amount(value);
        }
        bool known = false;
        for (i32 i = 0; i < memory.set && i < FEW_SET; ++i)
            known = known || memory.variable[i] == index;
        if (known) return true;
        if (memory.set < FEW_SET) memory.variable[memory.set] = index;
        if (memory.set <= FEW_SET) ++memory.set;
        return true;
    }
};

// The state of a trajectory at time 0, whose counts are set. One thread of the team calls it.
// What it is given are copies: the address of what others keep in registers is not taken.
DEVICE_SELDOM void start_events(EventMemory &memory, Tables tables, State s, const PhiloxKeys &keys,
                                Place place) {
    start_draws(memory.numbers, keys, place);
    start_queue(memory.queue);
    memory.executed = 0, memory.set = 0;
    const Quantities x = {s, tables};
    set_reals(s.reals, s.c);
    const AssignAndNote assign = {memory};
    memory.found =
        set_drawn(x, formula_constants(s.c, memory.numbers), assign) ? EVENTS_DONE : EVENT_NOT_A_NUMBER;
}

// Executes what has come at the time of the state, and what that sets off. One thread of the team calls it.
DEVICE_SELDOM void settle_alone(EventMemory &memory, Tables tables, State s, const PhiloxKeys &keys,
                                Place place) {
    const PhiloxSeries ties = draw_series(keys, STREAM_EVENTS, place.trajectory, place.point, 0);
    const auto inputs = formula_constants(s.c, memory.numbers);
    const Quantities x = {s, tables};
    const AssignAndNote assign = {memory};
    memory.set = 0;
    memory.found = settle(memory.queue, x, inputs, s.time, ties, keys, assign, memory.executed);
    memory.stop = tl_min(next_switch(x, inputs, s.time), first_execution(memory.queue));
}

// The plan of a variable that events set, or of the time; -1 where nothing reads it.
DEVICE i32 plan_of_variable(const Tables &tables, i32 index) {
    return tables.at(AT_VARIABLE_PLAN, index);
}
