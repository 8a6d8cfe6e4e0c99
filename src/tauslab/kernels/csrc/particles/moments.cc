// Weighted means, variances and distribution functions of quantities in rows of particles, in the tree of
// analysis/particles/sums.py.
#include "particles/blocks.h"

struct MomentArguments {
    i64 rows, n;
    i64 first, size;     // quantities first .. first + size - 1
    const void *counts;  // [particle, stride]: i32, or double if `real`
    i64 stride, real;
    const double *shares;  // [particle]
    const double *totals;  // [rows]: sums of shares, 1 where they are 0
    const i64 *held;  // [particle]: in a row, particles that have weight, in order; null: all have
    const double *numbers;  // [rows]: how many these are
    const double *means;    // [size, rows]: null for means, else variances around them
    i64 below;  // 1: weights of particles whose quantities are at most `means`, instead of variances
    double *sums;  // [size, rows, blocks]; of `terms` [size, n]
};

DEVICE double term(const MomentArguments &a, i64 row, i64 quantity, i64 i) {
    const double share = a.shares[i] / a.totals[row];
    const i64 at = i * a.stride + a.first + quantity;
    double x = a.real ? ((const double *)a.counts)[at] : (double)((const i32 *)a.counts)[at];
    if (a.below) {
        x = x <= a.means[quantity * a.rows + row] ? 1.0 : 0.0;
    } else if (a.means) {
        x = x - a.means[quantity * a.rows + row];
        x = x * x;
    }
    return share * x;
}

KERNEL(moments, const MomentArguments a) {
    const i64 blocks = blocks_of(a.n), items = a.size * a.rows * blocks;
    const i64 lane = GLOBAL_ID % LANES_OF_BLOCK;
    for (i64 item = GLOBAL_ID / LANES_OF_BLOCK; item < items;
         item += GLOBAL_SIZE / LANES_OF_BLOCK) {
        const i64 quantity = item / (a.rows * blocks);
        const Block block = block_of(item - quantity * a.rows * blocks, a.n);
        const i64 first = block.row * a.n;
        const i64 n = a.held ? (i64)a.numbers[block.row] : a.n;
        double x[OF_LANE];
    UNROLL for (int i = 0; i < OF_LANE; ++i) {
            const i64 place = block.begin + i + lane;
            x[i] = place < n ? term(a, block.row, quantity, first + (a.held ? a.held[first + place] : place)) : 0.0;
        }
        const double sum = sum_by_halves(x, n > 1 ? n : 1);
        if (lane == 0) a.sums[item] = sum;
    }
}

// What `moments` adds up, of one row.
KERNEL(terms, const MomentArguments a) {
    for (i64 item = GLOBAL_ID; item < a.size * a.n; item += GLOBAL_SIZE) {
        const i64 quantity = item / a.n, place = item - quantity * a.n;
        a.sums[item] = term(a, 0, quantity, a.held ? a.held[place] : place);
    }
}

constexpr i64 CHUNK = 512;  // blocks that an item goes through

struct HoldArguments {
    i64 rows, n;
    const double *shares;  // [particle]
    i64 *before;           // [rows, blocks]: particles with weight of a block, then before it in a chunk
    i64 *chunks;           // [rows, chunks]: the same of a chunk, then before it in a row
    i64 *held;             // [particle]
};

DEVICE i64 chunks_of(i64 n) {
    return (blocks_of(n) + CHUNK - 1) / CHUNK;
}

// Numbers in order become sums of those before; the sum of all.
DEVICE i64 sums_before(i64 *numbers, i64 size) {
    i64 sum = 0;
    for (i64 i = 0; i < size; ++i) {
        const i64 own = numbers[i];
        numbers[i] = sum;
        sum += own;
    }
    return sum;
}

KERNEL(count_held, const HoldArguments a) {
    const i64 items = a.rows * blocks_of(a.n);
    for (i64 item = GLOBAL_ID; item < items; item += GLOBAL_SIZE) {
        const Block block = block_of(item, a.n);
        i64 found = 0;
        for (i64 i = block.begin; i < block.end; ++i) found += a.shares[block.row * a.n + i] > 0.0;
        a.before[item] = found;
    }
}

KERNEL(add_blocks, const HoldArguments a) {
    const i64 blocks = blocks_of(a.n), chunks = chunks_of(a.n);
    for (i64 item = GLOBAL_ID; item < a.rows * chunks; item += GLOBAL_SIZE) {
        const i64 row = item / chunks, first = (item - row * chunks) * CHUNK;
        const i64 size = first + CHUNK < blocks ? CHUNK : blocks - first;
        a.chunks[item] = sums_before(a.before + row * blocks + first, size);
    }
}

KERNEL(add_chunks, const HoldArguments a) {
    const i64 chunks = chunks_of(a.n);
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) sums_before(a.chunks + row * chunks, chunks);
}

KERNEL(list_held, const HoldArguments a) {
    const i64 blocks = blocks_of(a.n), items = a.rows * blocks;
    for (i64 item = GLOBAL_ID; item < items; item += GLOBAL_SIZE) {
        const Block block = block_of(item, a.n);
        const i64 chunk = block.row * chunks_of(a.n) + (item - block.row * blocks) / CHUNK;
        i64 place = block.row * a.n + a.chunks[chunk] + a.before[item];
        for (i64 i = block.begin; i < block.end; ++i)
            if (a.shares[block.row * a.n + i] > 0.0) a.held[place++] = i;
    }
}
