// Rows of numbers, one for each particle of a filter, in blocks: a work item has a block of a row.
#pragma once

#include "math/basic.h"

constexpr i64 IN_BLOCK = 32;

// Numbers begin .. end - 1 of a row of n, of an item.
struct Block {
    i64 row, begin, end;
};

DEVICE i64 blocks_of(i64 n) {
    return (n + IN_BLOCK - 1) / IN_BLOCK;
}

DEVICE Block block_of(i64 item, i64 n) {
    const i64 blocks = blocks_of(n), row = item / blocks;
    const i64 begin = (item - row * blocks) * IN_BLOCK;
    return {row, begin, begin + IN_BLOCK < n ? begin + IN_BLOCK : n};
}

// Lanes of a warp that share a block: each has one of its numbers, where a thread of a CPU has all.
#if defined(LANES_EXCHANGE)
constexpr i64 LANES_OF_BLOCK = IN_BLOCK;
#define BLOCK_READ(value, lane) LANES_READ(IN_BLOCK, (value), (int)(lane))
#else
constexpr i64 LANES_OF_BLOCK = 1;
#define BLOCK_READ(value, lane) (value)
#endif
constexpr i64 OF_LANE = IN_BLOCK / LANES_OF_BLOCK;

// Sum of a block of a row of n by halves: neighbours are added, then neighbouring sums. Numbers behind the end are
// 0. Sums of blocks are added so in turn, so that a whole row is added as analysis/particles/sums.py says.
DEVICE double sum_by_halves(double (&x)[OF_LANE], i64 n) {
#if defined(LANES_EXCHANGE)
    double sum = x[0];
    UNROLL for (int distance = 1; distance < IN_BLOCK; distance *= 2) {
        if (distance < n) sum = sum + LANES_EXCHANGE(IN_BLOCK, sum, distance);
    }
    return sum;
#else
    UNROLL for (int width = IN_BLOCK; width > 1; width /= 2) {
        if (width / 2 >= n) continue;  // the row has fewer numbers
        UNROLL for (int i = 0; i < width / 2; ++i) x[i] = x[2 * i] + x[2 * i + 1];
    }
    return x[0];
#endif
}

// The largest of what the lanes of a block have.
DEVICE double largest_of_lanes(double x) {
#if defined(LANES_EXCHANGE)
    UNROLL for (int distance = 1; distance < IN_BLOCK; distance *= 2) {
        const double other = LANES_EXCHANGE(IN_BLOCK, x, distance);
        x = other > x ? other : x;
    }
#endif
    return x;
}
