// Fluctuation intervals of counts (tables/rejection/bounds.h).
#pragma once

#include "math/basic.h"
#include "tables/propensities.h"

// Which interval a species has: a wide one, one of width 0, or one without ends where nothing reads it.
enum IntervalKind : i32 { WIDE = 0, EXACT = 1, UNREAD = 2 };
constexpr i32 MOST_COUNT = 2147483647;
// A smaller count has an interval of width 0.
constexpr i32 LEAST_WIDE = 8;
// A count is near an end of its interval if 32 changes by one molecule can reach it. The margin is at
// most an eighth of the interval.
constexpr i32 MARGIN = 32, PARTS = 8;

// The interval of a count, and its inner part `first .. first + width`, which is not near the ends.
struct FluctuationInterval {
    i32 low, high, first, width;

    // An interval that begins at 0 is that of no molecules, or has no ends.
    DEVICE_MEMBER static FluctuationInterval between(i32 low, i32 high) {
        const i32 whole = high - low, part = low == 0 ? 0 : whole / PARTS;
        const i32 margin = part < MARGIN ? part : MARGIN;
        return {low, high, low + margin, whole - 2 * margin};
    }

    // A wider interval is left less often, and causes more rejected candidates. A count that walks at
    // random leaves an interval after about the square of the width in events. So the width is about
    // the count to the power of two thirds.
    DEVICE_MEMBER static FluctuationInterval around(i32 count, i32 kind) {
        const i32 bits = 32 - leading_zeros((u32)count);
        const i32 wide = count >> (1 + bits / 3);
        const bool narrow = kind == EXACT || count < LEAST_WIDE || plus(count, wide) < 0;
        const i32 width = narrow ? 0 : wide;
        return between(kind == UNREAD ? 0 : count - width,
                       kind == UNREAD ? MOST_COUNT : count + width);
    }

    DEVICE_MEMBER bool contains_well_inside(i32 count) const {
        return (u32)count - (u32)first <= (u32)width;
    }
    // How far the count may fall and rise; negative if it has left the interval. A count beyond
    // 2147483647 has wrapped around.
    DEVICE_MEMBER i32 down(i32 count) const { return (i32)((u32)count - (u32)low); }
    DEVICE_MEMBER i32 up(i32 count) const { return (i32)((u32)high - (u32)count); }
    DEVICE_MEMBER bool contains(i32 count) const { return down(count) >= 0 && up(count) >= 0; }
};

// Children of a node, and partial sums of them.
constexpr u32 NODE_SIZE = 2 * LANES;

// An item and its new upper bound.
struct NewBound {
    i32 item;
    double bound;
};
