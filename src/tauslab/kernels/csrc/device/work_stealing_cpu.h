// A CPU thread runs one trajectory at a time, so there is nothing to exchange.
#pragma once

#include "device/prelude.h"

template <class State>
struct WorkStealing {
    bool here = false;
    int phase = 0, next_phase = 0;

    WorkStealing(u32 *, int, int) {}

    template <class Begin>
    DEVICE_MEMBER void fill(State &s, const Begin &begin) {
        here = begin(s);
    }

    DEVICE_MEMBER void stop() const {}

    DEVICE_MEMBER bool next(State &) {
        phase = next_phase;
        return here;
    }
};
