// A team that is one thread, which loops over the lanes; included by team/team.h, which says more.
#pragma once

#include "device/butterfly.h"
#include "model.h"

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

// `store(i, make(i))` for every i below `count`, each by one thread.
template <class Make, class Store>
DEVICE void team_make(i64 count, Make make, Store store) {
    for (i64 i = 0; i < count; ++i) store(i, make(i));
}

// Adds `by` times the second number of `entry(i)` at the place that is its first, for every i; the
// places differ.
template <class Number, class Entry, class Numbers>
DEVICE void team_add(i64 begin, i64 end, Entry entry, i32 by, const Numbers &numbers) {
    for (i64 i = begin; i < end; ++i) {
        const IntPair one = entry(i);
        numbers[one.a] += (Number)by * one.b;
    }
}

// `work(i)` for every i, each by 32 lanes.
template <class Work>
DEVICE void team_groups(i64 begin, i64 end, Work work) {
    for (i64 i = begin; i < end; ++i) work(i);
}

// `work(lane)` for all lanes of a group.
template <class Work>
DEVICE void lanes_each(Work work) {
    LANE_LOOP for (int lane = 0; lane < LANES; ++lane) work(lane);
}

DEVICE bool first_lane() {
    return true;
}

template <class Value>
DEVICE double lanes_sum(const Value &value) {
    return canonical_sum<LANES>(value);
}

// The sum of 32 lanes, `total()`, and the choice of one of them, `choose(target)`.
template <class Value, int WIDTH = LANES>
using LaneSums = Butterfly<WIDTH, Value>;

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

// `store(i, sum)` for all partial sums of a butterfly of 32 lanes: 1 is the total, the two halves of
// number `size + i` are `2 * size + i` and `3 * size + i` (see Butterfly).
template <class Value, class Store>
DEVICE void lanes_partial_sums(const Value &value, Store store) {
    const Butterfly<LANES, Value> sums(value);
    for (int i = 1; i < LANES; ++i) store(i, sums.at[i]);
}

// Finds the first of `count` lanes at which the running sum of whole numbers exceeds `rank`. `rank` becomes what
// is left for that lane. If there is none, returns `count`, and `rank` becomes the rank less the sum.
template <class Value, class Number>
DEVICE int lanes_find(int count, Value value, Number &rank) {
    for (int i = 0; i < count; ++i) {
        const Number here = value(i);
        if (rank < here) return i;
        rank -= here;
    }
    return count;
}

// Canonical sums of items `begin .. end - 1`: `item(i)` has 2^`exponent()` numbers, `lanes()`.
// The numbers of an item are at most those of the item before. A warp sums as many items at a time as
// it has lanes for.
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
