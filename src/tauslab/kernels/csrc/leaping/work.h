// When a leap pays, and the work of a kernel that leaps.
#pragma once

#include "ensemble/control.h"

constexpr int EXACT_EVENTS = 100;      // after a leap that would not pay
constexpr double WORTH_EVENTS = 10.0;  // a leap pays if it spans this many firings
constexpr u32 LOOK_EVERY_TURNS = 64;   // of a kernel's loop, between looks at the control words

// Work of a kernel call, added to the launch's numbers at its end.
struct Work {
    u64 firings, leaps, exact, halved, rejected;
};

// Adds the numbers of a thread to those of the launch. No kernel has leaps of both last kinds.
DEVICE void add_work(u64 *to, const Work &work) {
    atomic_add(to, work.firings);
    atomic_add(to + 1, work.leaps);
    atomic_add(to + 2, work.exact);
    if (work.halved > 0) atomic_add(to + 3, work.halved);
    if (work.rejected > 0) atomic_add(to + 4, work.rejected);
}

// When a thread looked at the control words last.
struct Looks {
    u64 reported;  // firings that were added to the control words
    u32 turns;     // of the kernel's loop

    // One turn of the loop; whether the next look is due.
    DEVICE_MEMBER bool due() { return ++turns % LOOK_EVERY_TURNS == 0; }

    // As `must_leave`; of a trajectory that has reached `t`, or none of the thread for t < 0.
    DEVICE_MEMBER bool leave(u64 *control, const Work &work, double t) {
        const u64 more = work.firings - reported;
        reported = work.firings;
        return must_leave(control, more, t);
    }
};
