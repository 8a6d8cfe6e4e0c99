// The whole state of a trajectory with events as a row of doubles, so that it goes on later where it was left:
// the state with its time, triggers, and executions that wait. These are KEPT_WORDS; reactions that complete
// later stand behind them, see events/completions.h. kernels/events/tables.py computes the length too.
#pragma once

#include "ensemble/arguments.h"
#include "events/queue.h"

// Status of a trajectory that an event halted before the last sample time. Only particles have it.
constexpr u8 HALTED = 7;

#ifdef HAS_EVENTS  // of a network in tables
constexpr i64 KEPT_QUANTITIES = N_GIVEN;
#else
constexpr i64 KEPT_QUANTITIES = N_SPECIES;
#endif
constexpr i64 KEPT_WORDS = KEPT_QUANTITIES + 1 + QUEUE_WORDS;

// Takes up a trajectory that was kept, and returns its time. Draws begin anew: the seed is another.
DEVICE_SHARED double take_up(const EnsembleArguments &launch, i64 row, double *x,
                             EventQueue &queue) {
    if (!launch.kept) return 0;
    const double *from = launch.kept + row * launch.kept_words;
    UNROLL_UP_TO_16(N_SPECIES) for (int i = 0; i <= N_SPECIES; ++i) x[i] = from[i];
    take_up_queue(queue, from + N_SPECIES + 1);
    return x[N_SPECIES];
}

// Keeps a trajectory at time `t`, if the launch keeps any.
DEVICE_SHARED void keep(const EnsembleArguments &launch, i64 row, double t, const double *x,
                        const EventQueue &queue) {
    if (!launch.keep) return;
    double *to = launch.keep + row * launch.kept_words;
    UNROLL_UP_TO_16(N_SPECIES) for (int i = 0; i < N_SPECIES; ++i) to[i] = x[i];
    to[N_SPECIES] = t;
    keep_queue(queue, to + N_SPECIES + 1);
}

// Whether an event has set the quantity that halts a trajectory.
DEVICE bool halts(const EnsembleArguments &launch, const double *x) {
    return launch.halt >= 0 && x[launch.halt] != 0;
}
