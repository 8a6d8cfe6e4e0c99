// Intervals of values and entries of tables, for all that counts trajectories.
#pragma once

#include "device/prelude.h"

constexpr u8 NO_BIN = 255;  // of a value that is not finite: its trajectory is not counted there

// Intervals of quantity q: edges[first[q]] .. edges[first[q + 1] - 1]. Cells of q, from first[q] + 2 q
// on: its bins, then below, above, not finite.
struct Intervals {
    const double *edges;
    const i64 *first;
    u64 *cells;
};

// Which of the intervals between `inner` edges, edge[1] .. edge[inner], holds a finite value.
DEVICE i64 interval_of(double x, const double *edge, i64 inner) {
    i64 bin = 0;
    for (i64 b = 1; b <= inner; ++b) bin += edge[b] <= x;
    return bin;
}

// Tables: for table d the digits digits[first_digit[d]] .. digits[first_digit[d + 1] - 1], each the
// plane of bins in turn 0, how many planes further on it is in the next turn, and how many bins there
// are; the node's own bin is the last digit.
struct Tables {
    const i64 *digits;
    const u8 *bins;
    i64 stride, turn, row;

    DEVICE_MEMBER static const u8 *plane(const u8 *bins, const i64 *digit, i64 stride, i64 turn) {
        return bins + (digit[0] + digit[1] * turn) * stride;
    }

    // `number` with the digits `begin` .. `end` - 1 of the trajectory behind it; false without one.
    DEVICE_MEMBER bool append(u64 &number, i64 begin, i64 end) const {
        for (i64 d = begin; d < end; ++d) {
            const u8 bin = plane(bins, digits + 3 * d, stride, turn)[row];
            if (bin == NO_BIN) return false;
            number = number * (u64)digits[3 * d + 2] + bin;
        }
        return true;
    }
};
