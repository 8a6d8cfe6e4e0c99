// Trajectories that take turns on the lanes of a warp, so that lanes which run together do the same.
//
//     WorkStealing<Trajectory> turns(memory, per_lane);
//     turns.fill(s, begin);
//     while (turns.next(s)) {        // all lanes of a warp call it; `s` is the lane's trajectory
//         if (turns.here) ...        // does what `turns.phase` says; sets `here`, `next_phase`
//     }
//
// A trajectory's numbers do not depend on when it has its turn.
#pragma once

#ifdef __CUDACC__
#include "device/work_stealing_cuda.h"
#else
#include "device/work_stealing_cpu.h"
#endif
