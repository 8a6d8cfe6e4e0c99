// Weighted means and variances of quantities in rows of particles, in the tree of analysis/particles/sums.py.
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
    double *sums;           // [size, rows, blocks]; of `terms` [size, n]
};

DEVICE double term(const MomentArguments &a, i64 row, i64 quantity, i64 i) {
    const double share = a.shares[i] / a.totals[row];
    const i64 at = i * a.stride + a.first + quantity;
    double x = a.real ? ((const double *)a.counts)[at] : (double)((const i32 *)a.counts)[at];
    if (a.means) {
        x = x - a.means[quantity * a.rows + row];
        x = x * x;
    }
    return share * x;
}

KERNEL(moments, const MomentArguments a) {
    const i64 blocks = blocks_of(a.n), items = a.size * a.rows * blocks;
    for (i64 item = GLOBAL_ID; item < items; item += GLOBAL_SIZE) {
        const i64 quantity = item / (a.rows * blocks);
        const Block block = block_of(item - quantity * a.rows * blocks, a.n);
        const i64 first = block.row * a.n;
        const i64 n = a.held ? (i64)a.numbers[block.row] : a.n;
        double x[IN_BLOCK];
    UNROLL for (int i = 0; i < IN_BLOCK; ++i) {
            const i64 place = block.begin + i;
            x[i] = place < n ? term(a, block.row, quantity, first + (a.held ? a.held[first + place] : place)) : 0.0;
        }
        a.sums[item] = sum_by_halves(x, n > 1 ? n : 1);
    }
}

// What `moments` adds up, of one row.
KERNEL(terms, const MomentArguments a) {
    for (i64 item = GLOBAL_ID; item < a.size * a.n; item += GLOBAL_SIZE) {
        const i64 quantity = item / a.n, place = item - quantity * a.n;
        a.sums[item] = term(a, 0, quantity, a.held ? a.held[place] : place);
    }
}

struct HoldArguments {
    i64 rows, n;
    const double *shares;  // [particle]
    i64 *before;           // [rows, blocks]: particles of a row with weight, of a block, then before it
    i64 *held;             // [particle]
};

KERNEL(count_held, const HoldArguments a) {
    const i64 items = a.rows * blocks_of(a.n);
    for (i64 item = GLOBAL_ID; item < items; item += GLOBAL_SIZE) {
        const Block block = block_of(item, a.n);
        i64 found = 0;
        for (i64 i = block.begin; i < block.end; ++i) found += a.shares[block.row * a.n + i] > 0.0;
        a.before[item] = found;
    }
}

KERNEL(add_held, const HoldArguments a) {
    const i64 blocks = blocks_of(a.n);
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) {
        i64 sum = 0;
        for (i64 block = row * blocks; block < (row + 1) * blocks; ++block) {
            const i64 own = a.before[block];
            a.before[block] = sum;
            sum += own;
        }
    }
}

KERNEL(list_held, const HoldArguments a) {
    const i64 items = a.rows * blocks_of(a.n);
    for (i64 item = GLOBAL_ID; item < items; item += GLOBAL_SIZE) {
        const Block block = block_of(item, a.n);
        i64 place = block.row * a.n + a.before[item];
        for (i64 i = block.begin; i < block.end; ++i)
            if (a.shares[block.row * a.n + i] > 0.0) a.held[place++] = i;
    }
}
