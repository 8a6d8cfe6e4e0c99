// Counts that events set and formulas look back at: a change of such a count comes to the hidden count that holds
// what it was, when the delay is over (model/network/past.py). A change is a sum of powers of two, each of which waits
// as a completion of its own: completion FIRST_JUMP + 64 j + p adds 2^p to the hidden count of number j, and p + 32
// takes it away. All of one change come at one time, before anything reads the count.
#pragma once

#include "events/completions.h"

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
