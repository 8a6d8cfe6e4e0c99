// The trajectories of a thread whose lanes leap: those on lanes, those that wait for exact firings, and those that wait
// for a lane.
#pragma once

#include "leaping/lanes/draws.h"
#include "leaping/step.h"

// Exact firings of so many vectors of trajectories are made together: neither waits for the other's numbers.
constexpr int EXACT_VECTORS = 2;
constexpr int POOL = (2 + EXACT_VECTORS) * SIMD_LANES;

// Numbers of places in the pool.
struct Places {
    int place[POOL], count = 0;
    DEVICE_MEMBER void push(int one) { place[count++] = one; }
    DEVICE_MEMBER int pop() { return place[--count]; }
};

// What the lanes of a thread share.
struct Thread {
    const EnsembleArguments &launch;
    const PhiloxKeys &keys;
    const Recorder out;
    const Tolerance tolerance;
    const Drawing drawing;
    Trajectory *const pool;
    int share;  // how many trajectories the thread has at once
    Places empty = {}, exact = {}, ready = {};
    Work work = {};
    Looks looks = {};
};

constexpr int NONE = -1;

// The place of a trajectory that is to leap; NONE if there is none.
DEVICE int next_to_leap(Thread &thread) {
    if (thread.ready.count > 0) return thread.ready.pop();
    if (POOL - thread.empty.count >= thread.share) return NONE;
    const int place = thread.empty.pop();
    if (begin(thread.pool[place], thread.launch)) return place;
    thread.empty.push(place);
    thread.share = 0;  // none is left
    return NONE;
}

// Trajectories on lanes.
struct Lanes {
    Real x[N_SPECIES > 0 ? N_SPECIES : 1], c[N_CONSTANTS + 1];
    Real t, t_next;
    Words c2, c3;  // of their counters, see random/streams.h
    Words steps, draws, attempts;
    int place[SIMD_LANES];
    int end_at;  // the constant at which a leaf ends, or a piece: of lanes that leap, and of others
    u32 here = 0;  // a bit for each lane with a trajectory

    // The series of draw `draws` of STREAM_TAU.
    DEVICE_MEMBER SeriesOnLanes series(const KeysOnLanes &keys) const {
        const Words c1 = (draws >> 32 & 0xffffull) | (u64)STREAM_TAU << 16;
        return series_on_lanes(keys, c1, c2, c3);
    }
};

// The counts and constants of a lane.
struct OfLane {
    const Real *vectors;
    int lane;
    DEVICE_MEMBER double operator[](int i) const { return ((const double *)(vectors + i))[lane]; }
};

struct CountsOfLane {
    OfLane x;
    DEVICE_MEMBER i32 operator[](int i) const { return (i32)x[i]; }
};

// When a leap, or a piece of exact firings, ends at the latest; -infinity after the last sample.
DEVICE double next_stop(const Thread &thread, const Lanes &lanes, int lane) {
    const i64 k = thread.pool[lanes.place[lane]].k;
    if (k >= thread.out.n_times) return -infinity();
    const double sample = thread.launch.times[k];
    return IS_THINNED ? tl_min(sample, OfLane{lanes.c, lane}[lanes.end_at]) : sample;
}

// Moves the lane to another leaf or piece by `work`, a function of its trajectory.
template <class Work>
DEVICE_SELDOM void move_lane(const Thread &thread, Lanes &lanes, int lane, const Work &work) {
    if constexpr (IS_THINNED) {
        Trajectory &s = thread.pool[lanes.place[lane]];
        for (int i = 0; i < N_SPECIES; ++i) s.x[i] = (i32)at<double>(lanes.x[i], lane);
        s.t = at<double>(lanes.t, lane);
        work(s);
        at<double>(lanes.t, lane) = s.t;
        for (int i = PIECE_AT; i <= LEAF_LENGTH_AT; ++i) at<double>(lanes.c[i], lane) = s.c[i];
        at<double>(lanes.t_next, lane) = next_stop(thread, lanes, lane);
    }
}

DEVICE_SELDOM void load_lane(const Thread &thread, Lanes &lanes, int lane, int place) {
    const Trajectory &s = thread.pool[place];
    for (int i = 0; i < N_SPECIES; ++i) at<double>(lanes.x[i], lane) = (double)s.x[i];
    for (int i = 0; i < N_CONSTANTS; ++i) at<double>(lanes.c[i], lane) = s.c[i];
    at<double>(lanes.t, lane) = s.t;
    const TrajectoryStream stream = trajectory_stream(0, 0, s.id, s.point);
    at<u64>(lanes.c2, lane) = stream.c2, at<u64>(lanes.c3, lane) = stream.c3;
    at<u64>(lanes.steps, lane) = s.steps, at<u64>(lanes.draws, lane) = s.draws;
    at<u64>(lanes.attempts, lane) = s.attempts;
    lanes.place[lane] = place;
    at<double>(lanes.t_next, lane) = next_stop(thread, lanes, lane);
    lanes.here |= 1u << lane;
}

// Takes the lane's trajectory back to its place.
DEVICE_SELDOM int store_lane(const Thread &thread, Lanes &lanes, int lane) {
    const int place = lanes.place[lane];
    Trajectory &s = thread.pool[place];
    for (int i = 0; i < N_SPECIES; ++i) s.x[i] = (i32)at<double>(lanes.x[i], lane);
    s.t = at<double>(lanes.t, lane);
    s.steps = at<u64>(lanes.steps, lane), s.draws = at<u64>(lanes.draws, lane);
    s.attempts = (u32)at<u64>(lanes.attempts, lane);
    lanes.here &= ~(1u << lane);
    return place;
}

// Samples of a lane at times before `t`, or at `t` too; the time of the next, or -infinity if there is none.
template <bool TOO>
DEVICE double sample_lane(const Thread &thread, Lanes &lanes, int lane, double t) {
    Trajectory &s = thread.pool[lanes.place[lane]];
    const double *const times = thread.launch.times;
    const CountsOfLane state = {{lanes.x, lane}};
    const OfLane c = {lanes.c, lane};
    for (; s.k < thread.out.n_times && (TOO ? times[s.k] <= t : times[s.k] < t); ++s.k) {
        if constexpr (IS_THINNED) at<double>(lanes.c[TIME_AT], lane) = times[s.k];
        record_sample(thread.out, s.row, s.k, state, c);
    }
    return next_stop(thread, lanes, lane);
}
