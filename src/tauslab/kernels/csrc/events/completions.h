// Reactions that have begun and complete later: a heap of each trajectory, by time and then by order of
// beginning. `model.h` says which reactions are delayed and what a completion changes. A reaction may have
// several: its own end, and changes of hidden species, which hold what others were (model/network/past.py).
//
// Exact: between two completions propensities are constant, so that a waiting time that a completion
// cuts short is drawn anew (Cai 2007, "Exact stochastic simulation of coupled chemical reactions with
// delays"; Barrio et al. 2006).
#pragma once

#include "ensemble/sampling.h"
#include "events/kept.h"
#include "model.h"

// From a word of a queue to the next: threads of a GPU that run trajectories alone have theirs side by side.
#ifdef TEAM_STRIDE
#define WAITING_STRIDE TEAM_STRIDE
#else
#define WAITING_STRIDE THREAD_STRIDE
#endif

// Stored in /status: more reactions wait for their completion than the queue holds.
constexpr u8 DELAY_QUEUE_FULL = 8;
constexpr u8 NEGATIVE_DELAY = 9;  // a delay is below 0
constexpr u64 REACTION_BITS = 16;

// Arguments of the kernels of networks with events.
struct EventArguments {
    EnsembleArguments launch;
    u64 *waiting;  // memory of the queues, of each lane; none without delayed reactions
};

struct Completions {
    u64 *memory;  // of this lane: DELAY_QUEUE entries, each the bits of its time and `which`
    i32 length;
    u64 begun;

    DEVICE_MEMBER u64 &at(i32 entry, i32 word) const {
        return memory[(i64)(2 * entry + word) * WAITING_STRIDE];
    }
    DEVICE_MEMBER double time(i32 entry) const { return from_bits(at(entry, 0)); }
    DEVICE_MEMBER double first() const { return HAS_DELAYS && length > 0 ? time(0) : never(); }
    DEVICE_MEMBER int completion(i32 entry) const {
        return (int)(at(entry, 1) & ((1ull << REACTION_BITS) - 1));
    }
    DEVICE_MEMBER bool is_before(i32 entry, u64 time_bits, u64 which) const {
        const double one = time(entry), other = from_bits(time_bits);
        return one < other || (one == other && at(entry, 1) < which);
    }
    DEVICE_MEMBER void put(i32 entry, u64 time_bits, u64 which) const {
        at(entry, 0) = time_bits, at(entry, 1) = which;
    }
};

DEVICE void start_completions(Completions &queue) {
    queue.length = 0, queue.begun = 0;
}

// Notes that `completion` comes at `time`; false if there is no room. One that never does is not kept.
DEVICE_SHARED bool begin_reaction(Completions &queue, int completion, double time) {
    if (!(time < never())) return true;
    if (queue.length == DELAY_QUEUE) return false;
    const u64 bits = as_bits(time), which = queue.begun++ << REACTION_BITS | (u64)completion;
    i32 entry = queue.length++;
    while (entry > 0) {
        const i32 above = (entry - 1) / 2;
        if (queue.is_before(above, bits, which)) break;
        queue.put(entry, queue.at(above, 0), queue.at(above, 1));
        entry = above;
    }
    queue.put(entry, bits, which);
    return true;
}

// Notes that `completion` waits from `t` on; how the trajectory ends where that is not possible.
DEVICE_SHARED u8 begin_delayed(Completions &queue, int completion, double t, double delay) {
    if (!(delay >= 0)) return delay < 0 ? NEGATIVE_DELAY : (u8)NOT_A_NUMBER;
    return begin_reaction(queue, completion, t + delay) ? RUNNING : DELAY_QUEUE_FULL;
}

// Takes up what waited when the trajectory was kept: how many, how many had begun, then of each its time and
// `which`, all as numbers. They are in the order of the heap. `kept` is the whole row of the trajectory.
DEVICE_SHARED void take_up_waiting(Completions &queue, const double *kept) {
    if (!HAS_DELAYS) return;
    const double *const from = kept + KEPT_WORDS;
    queue.length = (i32)from[0], queue.begun = (u64)from[1];
    for (i32 i = 0; i < queue.length; ++i)
        queue.put(i, as_bits(from[2 + 2 * i]), (u64)from[3 + 2 * i]);
}

DEVICE_SHARED void keep_waiting(const Completions &queue, double *kept) {
    if (!HAS_DELAYS) return;
    double *const to = kept + KEPT_WORDS;
    to[0] = queue.length, to[1] = (double)queue.begun;
    for (i32 i = 0; i < DELAY_QUEUE; ++i) {
        const bool waits = i < queue.length;
        to[2 + 2 * i] = waits ? queue.time(i) : 0;
        to[3 + 2 * i] = waits ? (double)queue.at(i, 1) : 0;
    }
}

DEVICE void take_up_completions(const EnsembleArguments &launch, i64 row, Completions &queue) {
    if (launch.kept) take_up_waiting(queue, launch.kept + row * launch.kept_words);
}

DEVICE void keep_completions(const EnsembleArguments &launch, i64 row, const Completions &queue) {
    if (launch.keep) keep_waiting(queue, launch.keep + row * launch.kept_words);
}

DEVICE_SHARED void remove_first(Completions &queue) {
    const i32 last = --queue.length;
    const u64 bits = queue.at(last, 0), which = queue.at(last, 1);
    i32 entry = 0;
    for (;;) {
        i32 below = 2 * entry + 1;
        if (below >= last) break;
        if (below + 1 < last && queue.is_before(below + 1, queue.at(below, 0), queue.at(below, 1)))
            ++below;
        if (!queue.is_before(below, bits, which)) break;
        queue.put(entry, queue.at(below, 0), queue.at(below, 1));
        entry = below;
    }
    queue.put(entry, bits, which);
}

// Takes the first completion out that is due at `t`; -1 if none is.
DEVICE_SHARED int take_due(Completions &queue, double t) {
    if (!(queue.first() <= t)) return -1;
    const int completion = queue.completion(0);
    remove_first(queue);
    return completion;
}

// Completes what is due at `t`, in order; false if a count passed 2147483647. Adds to `completed`.
template <class State>
DEVICE_SHARED bool complete_reactions(Completions &queue, State *x, double t, u64 &completed) {
    for (;;) {
        const int completion = take_due(queue, t);
        if (completion < 0) return true;
        ++completed;
        if (!complete(completion, x)) return false;
    }
}

// Counts that events set and formulas look back at: a change of such a count comes to the hidden count that holds
// what it was, when the delay is over (model/network/past.py). A change is a sum of powers of two, each of which waits
// as a completion of its own: completion FIRST_JUMP + 64 j + p adds 2^p to the hidden count of number j, and p + 32
// takes it away. All of one change come at one time, before anything reads the count.
struct Jumps {
    double before[N_JUMPS + 1];

    // Counts before events.
    template <class State>
    DEVICE_MEMBER explicit Jumps(const State &x) {
        for (int j = 0; j < N_JUMPS; ++j) before[j] = x[JUMP_OF[j]];
    }

    // Notes how events have changed them at `t`; how the trajectory ends if that is not possible.
    template <class State, class Constants>
    DEVICE_MEMBER u8 begin(Completions &queue, const State &x, const Constants &c, double t) const {
        for (int j = 0; j < N_JUMPS; ++j) {
            const double change = x[JUMP_OF[j]] - before[j];
            if (change == 0) continue;
            const int first = FIRST_JUMP + 64 * j;
            const double delay = completion_delay(first, x, c);
            const u32 size = (u32)(change < 0 ? -change : change);
            for (int power = 0; power < 31; ++power) {
                if ((size >> power & 1) == 0) continue;
                const u8 ended =
                    begin_delayed(queue, first + power + (change < 0 ? 32 : 0), t, delay);
                if (ended != RUNNING) return ended;
            }
        }
        return RUNNING;
    }
};
