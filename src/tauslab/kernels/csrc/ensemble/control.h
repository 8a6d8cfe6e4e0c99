// Control words: messages between the host and a running launch, in a few words behind the row counter. The host
// may write STOP and read the others at any time (`Backend.write_now`, `read_now`), so that a launch
// ends soon, however long its trajectories are, and shows how far it is.
//
// A launch that was asked to stop leaves trajectories unfinished and counts them in LEFT: what it gave
// is then of no use, and is computed again. So when it was asked can change no result.
#pragma once

#include "device/prelude.h"

enum ControlWord {
    NEXT_ROW = 0,      // the next trajectory of the launch that no thread has taken
    STOP = 1,          // not 0: end soon
    LEFT = 2,          // trajectories that were left, or not begun, for that reason
    RUN_EVENTS = 3,    // firings or steps that trajectories have reported so far
    REACHED_TIME = 4,  // bits of the latest time that one of them has reached
    PARKED = 5         // what lanes have parked, see ensemble/parking.h
};

// Firings of a trajectory between two looks at the control words. A thread of a full GPU fires so many
// within two seconds, one of a CPU within milliseconds. A power of 2.
constexpr u32 LOOK_EVERY = 8192;

DEVICE bool asked_to_stop(const u64 *control) {
    return read_now(control + STOP) != 0;
}

// The next row of the launch; `rows` or more where none is left, or none shall be begun.
DEVICE i64 take_row(u64 *control, i64 rows) {
    const i64 row = (i64)atomic_add(control + NEXT_ROW, 1);
    if (row >= rows || !asked_to_stop(control)) return row;
    atomic_add(control + LEFT, 1);
    return rows;
}

// Tells `events` more of a trajectory that has reached `t`. True: leave it unfinished.
DEVICE bool must_leave(u64 *control, u64 events, double t) {
    if (events > 0) atomic_add(control + RUN_EVENTS, events);
    if (t > 0) atomic_largest(control + REACHED_TIME, as_bits(t));
    if (!asked_to_stop(control)) return false;
    atomic_add(control + LEFT, 1);
    return true;
}
