// The whole state of a trajectory with events as a row of doubles, so that it goes on later where it was left:
// the state with its time, triggers, and executions that wait. These are KEPT_WORDS; reactions that complete
// later stand behind them, see events/completions.h. kernels/events/tables.py computes the length too.
#pragma once

#include "ensemble/arguments.h"
#include "events/queue.h"
#include "device/prelude.h"

// Status of a trajectory that an event halted before the last sample time. Only particles have it.
constexpr u8 HALTED = 7;

constexpr int KEPT_PER_EXECUTION = 2 + MOST_ASSIGNED;
constexpr i64 KEPT_WORDS = N_SPECIES + 2 + N_EVENTS + QUEUE_LENGTH * KEPT_PER_EXECUTION;

// Takes up a trajectory that was kept, and returns its time. Draws begin anew: the seed is another.
DEVICE_SHARED double take_up(const EnsembleArguments &launch, i64 row, double *x,
                             EventQueue &queue) {
    if (!launch.kept) return 0;
    const double *from = launch.kept + row * launch.kept_words;
    for (int i = 0; i <= N_SPECIES; ++i) x[i] = from[i];
    from += N_SPECIES + 1;
    queue.length = (i32)from[0];
    for (int e = 0; e < N_EVENTS; ++e) queue.held[e] = from[1 + e] != 0;
    from += 1 + N_EVENTS;
    for (i32 i = 0; i < queue.length; ++i) {
        queue.time[i] = from[i * KEPT_PER_EXECUTION];
        queue.event[i] = (i32)from[i * KEPT_PER_EXECUTION + 1];
        for (int k = 0; k < MOST_ASSIGNED; ++k)
            queue.value[i * MOST_ASSIGNED + k] = from[i * KEPT_PER_EXECUTION + 2 + k];
    }
    return x[N_SPECIES];
}

// Keeps a trajectory at time `t`, if the launch keeps any.
DEVICE_SHARED void keep(const EnsembleArguments &launch, i64 row, double t, const double *x,
                        const EventQueue &queue) {
    if (!launch.keep) return;
    double *to = launch.keep + row * launch.kept_words;
    for (int i = 0; i < N_SPECIES; ++i) to[i] = x[i];
    to[N_SPECIES] = t;
    to += N_SPECIES + 1;
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

// Whether an event has set the quantity that halts a trajectory.
DEVICE bool halts(const EnsembleArguments &launch, const double *x) {
    return launch.halt >= 0 && x[launch.halt] != 0;
}
