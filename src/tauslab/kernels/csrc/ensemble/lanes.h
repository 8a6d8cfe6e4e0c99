// What a thread of ssa_lanes.cc keeps of its trajectories, the draws that they have in store, and a firing of all lanes.
#pragma once

#include "simd/laws.h"
#include "ensemble/control.h"
#include "ensemble/stepping.h"
#include "ensemble/sampling.h"
#include "simd/draws.h"
#include "model.h"
#include "ensemble/pieces.h"

constexpr int LANES_HERE = VECTORS * SIMD_LANES;
// Draws that each lane has in store, and those that are made together. The one that was made last still lacks its
// logarithm.
constexpr int STORE = 16, TOGETHER = 4;
constexpr i64 IDLE = -1;  // instead of a row: no trajectory is left for the lane
constexpr u64 NEVER = ~0ull;

// What the loop keeps of a vector of trajectories.
struct Running {
    Real x[N_SPECIES > 0 ? N_SPECIES : 1], cumulative[N_REACTIONS];
    Real t, t_next;
};

// The rest, lane by lane.
struct Lanes {
    SeriesOnLanes series;
    // The clock when the trajectory began, and PHILOX_M0 times the clock when the low half of the draw's number did.
    Words begun, begun_product;
    Real c[N_CONSTANTS + 1];
    const double *tree[SIMD_LANES];  // where rates follow the time: ensemble/pieces.h
    i32 piece[SIMD_LANES];
    i64 row[SIMD_LANES], k[SIMD_LANES];
    u64 reported[SIMD_LANES], pause[SIMD_LANES];
    // Copies of what runs, for functions that are seldom called.
    double x[N_SPECIES > 0 ? N_SPECIES : 1][SIMD_LANES], a0[SIMD_LANES];
    double t[SIMD_LANES], t_event[SIMD_LANES], t_next[SIMD_LANES];
};

struct CountsOfLane {
    const Lanes &lanes;
    int lane;
    DEVICE_MEMBER i32 operator[](int i) const { return (i32)lanes.x[i][lane]; }
};

// Counts that may have passed their limit.
struct LargeCountsOfLane {
    const Lanes &lanes;
    int lane;
    DEVICE_MEMBER double operator[](int i) const { return lanes.x[i][lane]; }
};

struct ConstantsOfLane {
    Lanes &lanes;
    int lane;
    DEVICE_MEMBER double operator[](int i) const { return at<double>(lanes.c[i], lane); }
};

// The launch, and what all vectors of a thread share.
struct Thread {
    const EnsembleArguments &launch;
    Recorder out;
    LogColumns log_table;
    u64 fired = 0, look = LOOK_EVERY, pause = LOOK_EVERY;
    int busy = 0;  // lanes that have a trajectory
    Real waiting[STORE][VECTORS] = {}, unit[STORE][VECTORS] = {};
};

// Draws of the next STORE firings of all lanes.
DEVICE void fill_store(Thread &thread, Lanes *lanes, u64 clock) {
    const KeysOnLanes keys(*thread.launch.keys);
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        const SeriesOnLanes series = lanes[v].series;
        const Words number = clock - lanes[v].begun;
        NO_UNROLL for (int d = 0; d < STORE; d += TOGETHER) {
            DrawsOnLanes draws[TOGETHER];
            const auto same = [&](int) -> const SeriesOnLanes & { return series; };
            const auto next = [&](int i) { return number + (u64)(d + i); };
            draw_together<TOGETHER>(same, next, keys, draws);
            UNROLL for (int i = 0; i < TOGETHER; ++i) {
                thread.waiting[d + i][v] = draws[i].waiting;
                thread.unit[d + i][v] = draws[i].unit;
            }
        }
    }
    UNROLL for (int v = 0; v < VECTORS; ++v)
        NO_UNROLL for (int d = 0; d < STORE - 1; ++d) thread.waiting[d][v] =
            exponential_on_lanes(thread.log_table, thread.waiting[d][v]);
}

// Draws from number `first` on for one lane, in store from place `d` on: here lanes hold draws that follow each other.
DEVICE void fill_store_of_lane(Thread &thread, const PhiloxSeries &one, int v, int lane, int d,
                               u64 first) {
    constexpr int COUNT = STORE / SIMD_LANES;
    const KeysOnLanes keys(*thread.launch.keys);
    const SeriesOnLanes series = {on_lanes((u64)one.x2), on_lanes((u64)one.x0),
                                  on_lanes((u64)one.x2_next), on_lanes((u64)one.x3_next)};
    Words number = {};
    for (int i = 0; i < SIMD_LANES; ++i) at<u64>(number, i) = first + (u64)i;
    DrawsOnLanes draws[COUNT];
    const auto same = [&](int) -> const SeriesOnLanes & { return series; };
    const auto next = [&](int i) { return number + (u64)(i * SIMD_LANES); };
    draw_together<COUNT>(same, next, keys, draws);
    for (int i = 0; i < COUNT; ++i) {
        Real waiting = exponential_on_lanes(thread.log_table, draws[i].waiting);
        for (int j = 0; j < SIMD_LANES; ++j, d = (d + 1) % STORE) {
            const bool last = i * SIMD_LANES + j == STORE - 1;
            at<double>(thread.waiting[d][v], lane) = at<double>(last ? draws[i].waiting : waiting, j);
            at<double>(thread.unit[d][v], lane) = at<double>(draws[i].unit, j);
        }
    }
}

// Random bits of the firing that comes STORE after that at `clock`, for all lanes, at the place `d` of that firing, and
// logarithms of those that the firing before made. Neither waits for the other, so each fills the other's waiting
// times, and `meanwhile(step)` too.
template <class Meanwhile>
DEVICE void refill(Thread &thread, const Lanes *lanes, const KeysOnLanes &keys, u64 clock, int d,
                   const Meanwhile &meanwhile) {
    DrawsOnLanes draws[VECTORS];
    const auto series = [&](int v) -> const SeriesOnLanes & { return lanes[v].series; };
    // A product less another is one instruction, and waits less than a product.
    const u64 now = (clock + STORE) * PHILOX_M0;
    const auto product = [&](int v) { return now - lanes[v].begun_product; };
    Real *const before = thread.waiting[(d + STORE - 1) % STORE];
    ExponentialsInSteps<VECTORS> logs(thread.log_table);
    UNROLL for (int v = 0; v < VECTORS; ++v) logs.begin(v, before[v]);
    draw_by_products<VECTORS>(series, product, keys, draws, [&](int step) {
        UNROLL for (int v = 0; v < VECTORS; ++v) logs.step(v, step);
        meanwhile(step);
    });
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        before[v] = logs.end(v);
        thread.waiting[d][v] = draws[v].waiting;
        thread.unit[d][v] = draws[v].unit;
    }
}

// Of all lanes: the time to the next firing, and when it happens.
struct NextEvents {
    Real waiting[VECTORS], t[VECTORS];
};

DEVICE void set_times(const Thread &thread, const Running *run, int d, NextEvents &next) {
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        next.waiting[v] = thread.waiting[d][v] / run[v].cumulative[N_REACTIONS - 1];
        next.t[v] = run[v].t + next.waiting[v];
    }
}

// All lanes fire once, at their next times. True if all fire one of the last reactions of simd/search.h.
DEVICE bool fire(const Thread &thread, Running *run, Lanes *lanes, int d,
                 const NextEvents &next) {
    Real target[VECTORS];
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        const Real a0 = run[v].cumulative[N_REACTIONS - 1];
        target[v] = fused(thread.unit[d][v], a0, -a0);
        run[v].t = next.t[v];
        if constexpr (IS_THINNED) {
            lanes[v].c[TIME_AT] = next.t[v];
            propensities_now(run[v].x, lanes[v].c, run[v].cumulative);
            const Real now = run[v].cumulative[N_REACTIONS - 2];
            const Mask known = (now >= 0.0) & (now <= a0 * BOUND_HOLDS);
            run[v].t = known ? next.t[v] : on_lanes(not_a_number());
        }
    }
#if defined(FIRES_BY_SEARCH)
    return fire_by_search(target, run);
#else
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        Real a[N_REACTIONS];
        fire_together(target[v], run[v].x, lanes[v].c, a, run[v].cumulative);
    }
    return false;
#endif
}

// What fire() leaves to be done between random bits, and the step that has all propensities, or a later one.
#if defined(FIRES_BY_SEARCH)
constexpr int TIMES_AT = SEARCH_STEPS > 3 ? SEARCH_STEPS - 1 : 3;

template <bool LAST>
DEVICE void after_fire(int step, Running *run, const Lanes *lanes) {
    for_parts_of(step, [&](int part) { propensities_part<LAST>(part, run, lanes); });
}
#else
constexpr int TIMES_AT = 3;

template <bool>
DEVICE void after_fire(int, Running *, const Lanes *) {}
#endif
