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

#define TEAM_KERNEL KERNEL

// Items that a team looks at with one load of its threads; none where it is one thread.
constexpr int TEAM_NEAR = 0;

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

// `work(i)` for every i, each by one thread. Numbers of items have 31 bits.
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

// The sum of 32 lanes, `total()`, which one of them is then chosen by, `choose(target)`.
template <class Value>
using LaneSums = Butterfly<LANES, Value>;

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

// Canonical sums of items `begin .. end - 1`: `item(i)` has 2^`exponent()` numbers, `lanes()`.
// They do not get more from one item to the next; a warp sums as many items at
// a time as it has lanes for.
template <class Item, class Store>
DEVICE void team_sums(i64 begin, i64 end, Item item, Store store) {
    for (i64 i = begin; i < end; ++i) {
        const auto one = item(i);
        const auto value = one.lanes();
        switch (1 << one.exponent()) {
            case 1:
                store(one, value(0));
                break;
            case 2:
                store(one, canonical_sum<2>(value));
                break;
            case 4:
                store(one, canonical_sum<4>(value));
                break;
            case 8:
                store(one, canonical_sum<8>(value));
                break;
            case 16:
                store(one, canonical_sum<16>(value));
                break;
            default:
                store(one, canonical_sum<LANES>(value));
        }
    }
}

#else

// 64 registers, so that a processor has room for 32 warps.
#define TEAM_KERNEL(name, ...) KERNEL_IN_BLOCKS(8, name, __VA_ARGS__)

constexpr int TEAM_WARPS = TEAM_THREADS / LANES;
constexpr int TEAM_NEAR = LANES;

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
    NO_UNROLL for (u32 i = (u32)(begin + team_rank()); i < (u32)end; i += TEAM_THREADS) work(i);
}

template <class Work>
DEVICE void team_groups(i64 begin, i64 end, Work work) {
    NO_UNROLL for (u32 i = (u32)(begin + team_rank() / LANES); i < (u32)end; i += TEAM_WARPS)
        work(i);
}

DEVICE bool first_lane() {
    return own_lane() == 0;
}

// Every lane walks down the tree as if the choice fell on it: at each level it has the sum of its own
// half and, from the way up, its neighbour's. One lane meets no turn away from itself.
template <class Value>
class LaneSums {
  public:
    // Of `width` lanes, a power of two; a sum with a lane beyond is a sum with zero.
    DEVICE_MEMBER explicit LaneSums(const Value &value, int width = LANES) : width_(width) {
        double sum = own_lane() < width ? value(own_lane()) : 0.0;
        UNROLL for (int level = 0; level < 5; ++level) {
            const int size = LANES / 2 >> level;
            mine_[level] = sum;
            other_[level] = size < width ? WARP_EXCHANGE(sum, size) : 0.0;
            sum += other_[level];
        }
        total_ = sum;
    }

    DEVICE_MEMBER double total() const { return total_; }

    DEVICE_MEMBER int choose(double &target) const {
        bool here = own_lane() < width_;
        double left_over = target;
        UNROLL for (int level = 4; level >= 0; --level) {
            const bool is_right = (own_lane() & (LANES / 2 >> level)) != 0;
            const double left = is_right ? other_[level] : mine_[level];
            const double right = is_right ? mine_[level] : other_[level];
            const bool go_right = left_over >= left && right > 0;
            left_over -= go_right ? left : 0.0;
            here = here && go_right == is_right;
        }
        const int lane = FIRST_SET(WARP_BALLOT(here));
        target = WARP_READ(left_over, lane);
        return lane;
    }

  private:
    double mine_[5], other_[5], total_;
    int width_;
};

template <class Value>
DEVICE double lanes_sum(const Value &value) {
    return LaneSums<Value>(value).total();
}

template <class Value>
DEVICE int lanes_choose(int width, const Value &value, double &target) {
    if (width == 1) return 0;
    return LaneSums<Value>(value, width).choose(target);
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

template <class Item, class Store>
DEVICE void team_sums(i64 begin, i64 end, Item item, Store store) {
    i64 first = begin;
    NO_UNROLL for (int batch = 0; first < end; ++batch) {
        const int exponent = item(first).exponent(), lane = own_lane() & ((1 << exponent) - 1);
        if (batch % TEAM_WARPS == team_rank() / LANES) {
            const i64 i = first + (own_lane() >> exponent);
            const auto one = item(i < end ? i : first);
            double sum = i < end && lane < 1 << one.exponent() ? one.lanes()(lane) : 0.0;
            NO_UNROLL for (int size = 1 << exponent >> 1; size > 0; size /= 2)
                sum += WARP_EXCHANGE(sum, size);
            if (i < end && lane == 0) store(one, sum);
        }
        first += LANES >> exponent;
    }
}

#endif
