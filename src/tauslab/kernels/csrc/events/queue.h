// Events of a trajectory: which triggers hold, and which executions are still to come. The meaning is that of
// SBML Level 3 Version 2 Core, section 4.11.
//
// `model.h` numbers expressions: first the trigger of every event, then the times at which relations of
// the time change (switches), then delays, priorities and assigned values, as its tables tell.
#pragma once

#include "math/math.h"
#include "model.h"
#include "random/streams.h"

// How events end a trajectory; 0 if they do not. Stored in /status.
enum EventStatus : u8 {
    EVENTS_DONE = 0,
    EVENT_OVERFLOWED = 2,
    EVENT_NOT_A_NUMBER = 4,
    EVENT_QUEUE_FULL = 5,
    EVENT_CASCADE = 6
};

// What events may set a count to.
constexpr u8 RUNNING = 254;  // no end of a trajectory
constexpr double LARGEST_COUNT = 2147483647.0;

DEVICE bool can_be_a_count(double value) {
    return value >= -0.5 && value <= LARGEST_COUNT;
}

// Half to even.
DEVICE double whole_amount(double value) {
    return (value + 0x1p52) - 0x1p52;
}

// Executions at one time after which a trajectory ends: its events fire each other for ever.
constexpr u32 MOST_AT_ONE_TIME = 10000;

DEVICE double never() {
    return from_bits(0x7ff0000000000000ull);
}

struct EventQueue {
    double time[QUEUE_LENGTH];  // of execution
    i32 event[QUEUE_LENGTH];
    double value[QUEUE_LENGTH * (MOST_ASSIGNED + 1)];  // those computed at the trigger
    i32 length;
    bool held[N_EVENTS + 1];  // whether a trigger held when it was last looked at
    u32 ties;                 // draws made
};

DEVICE void start_queue(EventQueue &queue) {
    queue.length = 0, queue.ties = 0;
    for (int e = 0; e < N_EVENTS; ++e) queue.held[e] = EVENT_INITIAL[e];
}

// A queue as a row of doubles: how many executions wait, which triggers held, the executions.
constexpr int KEPT_PER_EXECUTION = 2 + MOST_ASSIGNED;
constexpr i64 QUEUE_WORDS = 1 + N_EVENTS + QUEUE_LENGTH * KEPT_PER_EXECUTION;

// Takes up a queue that was kept. Draws begin anew: the seed is another.
DEVICE_SHARED void take_up_queue(EventQueue &queue, const double *from) {
    queue.length = (i32)from[0];
    for (int e = 0; e < N_EVENTS; ++e) queue.held[e] = from[1 + e] != 0;
    from += 1 + N_EVENTS;
    for (i32 i = 0; i < queue.length; ++i) {
        queue.time[i] = from[i * KEPT_PER_EXECUTION];
        queue.event[i] = (i32)from[i * KEPT_PER_EXECUTION + 1];
        for (int k = 0; k < MOST_ASSIGNED; ++k)
            queue.value[i * MOST_ASSIGNED + k] = from[i * KEPT_PER_EXECUTION + 2 + k];
    }
}

DEVICE_SHARED void keep_queue(const EventQueue &queue, double *to) {
    to[0] = queue.length;
    for (int e = 0; e < N_EVENTS; ++e) to[1 + e] = queue.held[e];
    to += 1 + N_EVENTS;
    for (i32 i = 0; i < QUEUE_LENGTH; ++i) {
        const bool waits = i < queue.length;
        const int e = waits ? queue.event[i] : 0;
        to[i * KEPT_PER_EXECUTION] = waits ? queue.time[i] : 0;
        to[i * KEPT_PER_EXECUTION + 1] = e;
        const int early = EVENT_EARLY[e] ? FIRST_ASSIGNED[e + 1] - FIRST_ASSIGNED[e] : 0;
        for (int k = 0; k < MOST_ASSIGNED; ++k)
            to[i * KEPT_PER_EXECUTION + 2 + k] =
                waits && k < early ? queue.value[i * MOST_ASSIGNED + k] : 0;
    }
}

template <class State, class Constants>
DEVICE bool trigger_holds(int event, const State &x, const Constants &c, double t) {
    const double value = event_expression(event, x, c, t);
    return value != 0 && value == value;
}

// Whether a trigger holds that did not, or the other way round.
template <class State, class Constants>
DEVICE_SHARED bool triggers_changed(const EventQueue &queue, const State &x, const Constants &c,
                                    double t) {
    for (int e = 0; e < N_EVENTS; ++e)
        if (trigger_holds(e, x, c, t) != queue.held[e]) return true;
    return false;
}

// The first time after `t` at which a relation of the time changes, or has changed just before.
template <class State, class Constants>
DEVICE_SHARED double next_switch(const State &x, const Constants &c, double t) {
    double next = never();
    for (int s = 0; s < N_SWITCHES; ++s) {
        const double at = event_expression(N_EVENTS + s, x, c, t);
        if (!(at >= 0)) continue;
        const double after = just_after(at);
        if (at > t)
            next = tl_min(next, at);
        else if (after > t)
            next = tl_min(next, after);
    }
    return next;
}

DEVICE double first_execution(const EventQueue &queue) {
    double first = never();
    NO_UNROLL for (i32 i = 0; i < queue.length; ++i) first = queue.time[i] < first ? queue.time[i] : first;
    return first;
}

DEVICE_SHARED void remove_execution(EventQueue &queue, i32 which) {
    NO_UNROLL for (i32 i = which; i + 1 < queue.length; ++i) {
        queue.time[i] = queue.time[i + 1], queue.event[i] = queue.event[i + 1];
        for (int k = 0; k < MOST_ASSIGNED; ++k)
            queue.value[i * MOST_ASSIGNED + k] = queue.value[(i + 1) * MOST_ASSIGNED + k];
    }
    --queue.length;
}

// Looks at every trigger: those that turned true are queued, those that turned false may take back.
template <class State, class Constants>
DEVICE_SHARED bool look_at_triggers(EventQueue &queue, const State &x, const Constants &c,
                                    double t) {
    for (int e = 0; e < N_EVENTS; ++e) {
        const bool holds = trigger_holds(e, x, c, t);
        if (!holds && queue.held[e] && !EVENT_PERSISTENT[e])
            NO_UNROLL for (i32 i = queue.length - 1; i >= 0; --i)
                if (queue.event[i] == e) remove_execution(queue, i);
        if (holds && !queue.held[e]) {
            const i32 last = queue.length;
            if (last == QUEUE_LENGTH) return false;
            const double delay =
                EVENT_DELAY[e] < 0 ? 0.0 : event_expression(EVENT_DELAY[e], x, c, t);
            queue.time[last] = delay > 0 ? t + delay : t;
            queue.event[last] = e;
            NO_UNROLL for (int k = FIRST_ASSIGNED[e]; EVENT_EARLY[e] && k < FIRST_ASSIGNED[e + 1]; ++k)
                queue.value[last * MOST_ASSIGNED + k - FIRST_ASSIGNED[e]] =
                    event_expression(ASSIGNED_VALUE[k], x, c, t);
            ++queue.length;
        }
        queue.held[e] = holds;
    }
    return true;
}

// Where the draws of formulas are, and a way back; nothing where formulas draw nothing.
template <class Constants>
DEVICE u64 next_of(const Constants &) {
    return 0;
}
template <class Constants>
DEVICE void go_to(const Constants &, u64) {}

// The execution that is next among those whose time has come: the one with the highest priority,
// of equal ones any; -1 if there is none.
template <class State, class Constants>
DEVICE_SHARED i32 choose_execution(EventQueue &queue, const State &x, const Constants &c, double t,
                                   const PhiloxSeries &series, const PhiloxKeys &keys) {
    i32 chosen = -1, equal = 0;
    double highest = 0;
    const u64 before = next_of(c);
    NO_UNROLL for (i32 turn = 0; turn < 2; ++turn) {
        // The first turn finds how many are equal, the second the one that is drawn of them.
        i32 skip = 0;
        if (turn == 1) {
            if (equal < 2) return chosen;
            go_to(c, before);  // priorities are those of the first turn
            const Philox4 bits = philox_draw(series, keys, queue.ties++);
            skip = (i32)(unit_half_open(bits.x0, bits.x1) * (double)equal);
        }
        NO_UNROLL for (i32 i = 0; i < queue.length; ++i) {
            if (!(queue.time[i] <= t)) continue;
            const int place = EVENT_PRIORITY[queue.event[i]];
            double priority = place < 0 ? -never() : event_expression(place, x, c, t);
            if (!(priority == priority)) priority = -never();
            if (turn == 1) {
                if (priority == highest && skip-- == 0) chosen = i;
            } else if (chosen < 0 || priority > highest) {
                chosen = i, highest = priority, equal = 1;
            } else if (priority == highest) {
                ++equal;
            }
        }
    }
    return chosen;
}

// Executes what has come at `t`, and what that sets off, until nothing is left. `assign(x, i, value)`
// sets variable i and tells whether it may have that value. Adds to `executed`.
template <class State, class Constants, class Assign>
DEVICE_SHARED u8 settle(EventQueue &queue, State &x, const Constants &c, double t,
                        const PhiloxSeries &series, const PhiloxKeys &keys, const Assign &assign,
                        u64 &executed) {
    for (u32 turn = 0;; ++turn) {
        if (!look_at_triggers(queue, x, c, t)) return EVENT_QUEUE_FULL;
        const i32 which = choose_execution(queue, x, c, t, series, keys);
        if (which < 0) return EVENTS_DONE;
        if (turn == MOST_AT_ONE_TIME) return EVENT_CASCADE;
        const int e = queue.event[which];
        const int first = FIRST_ASSIGNED[e], count = FIRST_ASSIGNED[e + 1] - first;
        double value[MOST_ASSIGNED + 1];
        NO_UNROLL for (int k = 0; k < count; ++k)
            value[k] = EVENT_EARLY[e] ? queue.value[which * MOST_ASSIGNED + k]
                                      : event_expression(ASSIGNED_VALUE[first + k], x, c, t);
        remove_execution(queue, which);
        NO_UNROLL for (int k = 0; k < count; ++k)
            if (!assign(x, ASSIGNED[first + k], value[k]))
                return value[k] > 0 && value[k] < never() ? EVENT_OVERFLOWED : EVENT_NOT_A_NUMBER;
        ++executed;
    }
}
