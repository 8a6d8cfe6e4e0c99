// Work stealing within a block: its lanes exchange trajectories, of which there may be more than lanes, so that lanes
// which run together do the same kind of work.
//
//     WorkStealing<Trajectory> pool(memory, per_lane, width);
//     pool.fill(s, begin);
//     while (pool.next(s)) {        // all lanes of a warp call it; `s` is the lane's trajectory
//         if (pool.here) ...        // does what `pool.phase` says; sets `here`, `next_phase`
//     }
//     pool.stop();
//
// The numbers of a trajectory do not depend on which lane runs it, or when.
#pragma once

#include "device/prelude.h"

#ifdef WARPS_STEAL
#include "device/work_stealing_cuda.h"
#else
// A CPU thread runs one trajectory at a time, so there is nothing to exchange.
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
#endif
