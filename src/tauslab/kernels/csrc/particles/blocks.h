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

// Sum of a block of a row of n by halves: neighbours are added, then neighbouring sums. Numbers behind the end are
// 0. Sums of blocks are added so in turn, so that a whole row is added as analysis/particles/sums.py says.
DEVICE double sum_by_halves(double (&x)[IN_BLOCK], i64 n) {
    UNROLL for (int width = IN_BLOCK; width > 1; width /= 2) {
        if (width / 2 >= n) continue;  // the row has fewer numbers
        UNROLL for (int i = 0; i < width / 2; ++i) x[i] = x[2 * i] + x[2 * i + 1];
    }
    return x[0];
}
