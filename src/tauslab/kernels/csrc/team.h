// A team: the threads that run one trajectory together. TEAM_THREADS (of the generated model.h) is
// 1, 32 (a warp) or a multiple (a block of warps). Every thread of a team runs the same program on
// the same numbers; loops over independent items are shared out, and what one thread wrote the
// others may read after `team_sync`. Reductions have the canonical shape, so results do not depend
// on the size of the team. A function of 32 lanes is run by every warp of a team alike.
#pragma once

#include "canonical.h"
#include "model.h"
#include "prelude.h"

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
    i64 stride;
    DEVICE_MEMBER T &operator[](i64 i) const { return base[i * stride]; }
};

// 32 neighbours of such an array, as lanes.
struct Neighbours {
    const TeamArray<double> &array;
    i64 begin;
    DEVICE_MEMBER double operator()(int lane) const { return array[begin + lane]; }
#ifdef HAS_OCTETS
    DEVICE_MEMBER Octet octet(int lane) const { return load_octet(&array[begin + lane]); }
#endif
};

#if TEAM_THREADS == 1

DEVICE void team_sync() {}

DEVICE bool team_leader() {
    return true;
}

DEVICE i64 team_same(i64 value) {
    return value;
}

DEVICE bool team_any(bool condition) {
    return condition;
}

// `work(i)` for every i, each by one thread.
template <class Work>
DEVICE void team_each(i64 begin, i64 end, Work work) {
    for (i64 i = begin; i < end; ++i) work(i);
}

// `work(i)` for every i, each by 32 lanes.
template <class Work>
DEVICE void team_groups(i64 begin, i64 end, Work work) {
    for (i64 i = begin; i < end; ++i) work(i);
}

DEVICE bool first_lane() {
    return true;
}

template <class Value>
DEVICE double lanes_sum(const Value &value) {
    return canonical_sum<LANES>(value);
}

// One of `width` lanes; see Butterfly::choose.
template <class Value>
DEVICE int lanes_choose(int width, const Value &value, double &target) {
    if (width == 8) return Butterfly<8, Value>(value).choose(target);
    if (width == 1) return 0;
    if (width == 2) return Butterfly<2, Value>(value).choose(target);
    if (width == 4) return Butterfly<4, Value>(value).choose(target);
    if (width == 16) return Butterfly<16, Value>(value).choose(target);
    return Butterfly<LANES, Value>(value).choose(target);
}

// The first of `count` lanes at which the sum of whole numbers so far exceeds `rank`, which is then
// what is left for that lane; `count`, and the rank less the sum, if there is none.
template <class Value>
DEVICE int lanes_find(int count, Value value, i64 &rank) {
    for (int i = 0; i < count; ++i) {
        const i64 here = value(i);
        if (rank < here) return i;
        rank -= here;
    }
    return count;
}

// Canonical sums of items `begin .. end - 1`: item i has `width(i)` numbers, lanes of `lanes_of(i)`.
// Widths are powers of two that do not grow from one item to the next; a warp sums as many items at
// a time as it has lanes for.
template <class Width, class LanesOf, class Store>
DEVICE void team_sums(i64 begin, i64 end, Width width, LanesOf lanes_of, Store store) {
    for (i64 i = begin; i < end; ++i) {
        const auto value = lanes_of(i);
        switch (width(i)) {
            case 1:
                store(i, value(0));
                break;
            case 2:
                store(i, canonical_sum<2>(value));
                break;
            case 4:
                store(i, canonical_sum<4>(value));
                break;
            case 8:
                store(i, canonical_sum<8>(value));
                break;
            case 16:
                store(i, canonical_sum<16>(value));
                break;
            default:
                store(i, canonical_sum<LANES>(value));
        }
    }
}

#else

constexpr int TEAM_WARPS = TEAM_THREADS / LANES;

DEVICE int team_rank() {
    return (int)(THREAD_IN_BLOCK % TEAM_THREADS);
}

DEVICE int own_lane() {
    return (int)(THREAD_IN_BLOCK % LANES);
}

DEVICE void team_sync() {
    if (TEAM_WARPS == 1)
        WARP_BARRIER();
    else
        BLOCK_BARRIER();
}

DEVICE bool team_leader() {
    return team_rank() == 0;
}

// The leader's value.
DEVICE i64 team_same(i64 value) {
    if (TEAM_WARPS == 1) return WARP_READ(value, 0);
    BLOCK_SHARED i64 shared;
    BLOCK_BARRIER();
    if (team_leader()) shared = value;
    BLOCK_BARRIER();
    return shared;
}

// Every thread of the team has to get here.
DEVICE bool team_any(bool condition) {
    if (TEAM_WARPS == 1) return WARP_BALLOT(condition) != 0;
    return BLOCK_ANY(condition);
}

template <class Work>
DEVICE void team_each(i64 begin, i64 end, Work work) {
    for (i64 i = begin + team_rank(); i < end; i += TEAM_THREADS) work(i);
}

template <class Work>
DEVICE void team_groups(i64 begin, i64 end, Work work) {
    for (i64 i = begin + team_rank() / LANES; i < end; i += TEAM_WARPS) work(i);
}

DEVICE bool first_lane() {
    return own_lane() == 0;
}

template <class Value>
DEVICE double lanes_sum(const Value &value) {
    double sum = value(own_lane());
    UNROLL for (int size = LANES / 2; size > 0; size /= 2) sum += WARP_EXCHANGE(sum, size);
    return sum;
}

template <class Value>
DEVICE int lanes_choose(int width, const Value &value, double &target) {
    if (width == 1) return 0;
    double at[6];  // partial sums of this lane, from the lane alone to the total
    at[0] = own_lane() < width ? value(own_lane()) : 0.0;
    UNROLL for (int level = 0; level < 5; ++level) at[level + 1] =
        at[level] + WARP_EXCHANGE(at[level], LANES / 2 >> level);
    int lane = 0;
    UNROLL for (int level = 4; level >= 0; --level) {
        const int size = LANES / 2 >> level;
        const double left = WARP_READ(at[level], lane), right = WARP_READ(at[level], lane + size);
        const bool go_right = target >= left && right > 0;
        target -= go_right ? left : 0.0;
        lane += go_right ? size : 0;
    }
    return lane;
}

template <class Value>
DEVICE int lanes_find(int count, Value value, i64 &rank) {
    i64 sum = own_lane() < count ? value(own_lane()) : 0;
    UNROLL for (int distance = 1; distance < LANES; distance *= 2) {
        const i64 before = WARP_READ(sum, own_lane() - distance);
        sum += own_lane() >= distance ? before : 0;
    }
    const u32 above = WARP_BALLOT(sum > rank);
    const int found = above != 0 ? FIRST_SET(above) : LANES;
    const i64 before = WARP_READ(sum, found - 1);
    rank -= found > 0 ? before : 0;
    return found < count ? found : count;
}

template <class Width, class LanesOf, class Store>
DEVICE void team_sums(i64 begin, i64 end, Width width, LanesOf lanes_of, Store store) {
    i64 first = begin;
    for (int batch = 0; first < end; ++batch) {
        const int lanes = width(first), lane = own_lane() % lanes;
        if (batch % TEAM_WARPS == team_rank() / LANES) {
            const i64 i = first + own_lane() / lanes;
            double sum = i < end && lane < width(i) ? lanes_of(i)(lane) : 0.0;
            for (int size = lanes / 2; size > 0; size /= 2) sum += WARP_EXCHANGE(sum, size);
            if (i < end && lane == 0) store(i, sum);
        }
        first += LANES / lanes;
    }
}

#endif
