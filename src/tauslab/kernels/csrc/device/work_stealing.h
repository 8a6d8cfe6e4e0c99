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

#ifdef WARPS_STEAL
#include "device/work_stealing_cuda.h"
#else
#include "device/work_stealing_cpu.h"
#endif
