// A thread team: the threads that run one trajectory together. TEAM_THREADS (of the generated model.h) is 1; 8
// (a warp has four teams, which do not wait for each other); 32 (a warp); or a multiple (a block of warps).
// Every thread of a team runs the same program on the same numbers. Loops over independent items are divided
// among the threads, and what one thread wrote, the others may read after `team_sync`. Reductions have the
// canonical shape, so results do not depend on the size of the team. Every warp of a team runs a function of
// 32 lanes in the same way. A thread of a team of 8 has four of the lanes, 8 apart.
#pragma once

#include "device/butterfly.h"
#include "model.h"

// Array of one team inside an allocation that all teams share.
#if TEAM_THREADS == 1
#define TEAM_OFFSET(length) THREAD_OFFSET(length)
#define TEAM_STRIDE THREAD_STRIDE
#else
#define TEAM_OFFSET(length) (GLOBAL_ID / TEAM_THREADS * (i64)(length))
#define TEAM_STRIDE 1
#endif

template <class T>
struct TeamArray {
    T *base;
    DEVICE_MEMBER T &operator[](i64 i) const {
        return TEAM_THREADS == 1 ? base[i * TEAM_STRIDE] : base[(u32)i];
    }
};

// 32 neighbours of such an array, as lanes.
struct Neighbours {
    const TeamArray<double> &array;
    i32 begin;
    DEVICE_MEMBER double operator()(int lane) const { return array[begin + lane]; }
#ifdef HAS_OCTETS
    DEVICE_MEMBER Octet octet(int lane) const { return load_octet(&array[begin + lane]); }
#endif
};

#if TEAM_THREADS == 1
#include "team/team_of_one.h"
#else
#include "team/team_of_lanes.h"
#endif
