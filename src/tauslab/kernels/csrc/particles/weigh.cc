// Weights of particles: logarithms that grow by densities, weights over the largest of their row, and sums of rows.
//
// A row is a filter of n particles. Sums have the tree of analysis/particles/sums.py, functions the bits of
// model/portable.py: what the host would compute. Sums and maxima of blocks are reduced by launches in turn.
#include "particles/blocks.h"
#include "particles/noise.h"

constexpr double LEAST = -700.0;  // logarithm of a relative weight that counts as 0

struct WeighArguments {
    i64 rows, n;         // particles are rows * n
    const u8 *leveled;   // [rows]: particles weighed the same before; null: of no row
    const u8 *status;    // [particle]: 2 and above have ended; null: none has
    const void *counts;  // [particle, stride]: i32, or double if `real`
    i64 stride, real;
    const double
        *values;  // [given, particle]: quantities that no column of counts has, or log densities
    const Observed *seen;  // [columns]
    const double *own;     // [2 * columns, particle]: parameters of each particle, or null
    i64 columns;
    const double *logs;  // [particle]
    double *after;       // [particle]: logarithms of the weights that come out
    double *largest;     // [rows, blocks]: infinite where one is no number
};

DEVICE double log_density_of(const WeighArguments &a, i64 i) {
    const i64 all = a.rows * a.n;
    double total = 0.0;
    for (i64 k = 0; k < a.columns; ++k) {
        const Observed &seen = a.seen[k];
        double x;
        if (seen.column < 0)
            x = a.values[(-1 - seen.column) * all + i];
        else if (a.real)
            x = ((const double *)a.counts)[i * a.stride + seen.column];
        else
            x = (double)((const i32 *)a.counts)[i * a.stride + seen.column];
        const bool missing = is_nan(x) && seen.kind != GIVEN;
        if (missing) x = 0.0;
        double found =
            a.own ? density_of_own(seen, x, a.own[2 * k * all + i], a.own[(2 * k + 1) * all + i])
                  : density(seen, x);
        if (missing) found = -tl_infinity();
        total = k ? total + found : found;
    }
    return total;
}

KERNEL(weigh_particles, const WeighArguments a) {
    const i64 items = a.rows * blocks_of(a.n), lane = GLOBAL_ID % LANES_OF_BLOCK;
    for (i64 item = GLOBAL_ID / LANES_OF_BLOCK; item < items;
         item += GLOBAL_SIZE / LANES_OF_BLOCK) {
        const Block block = block_of(item, a.n);
        const i64 first = block.row * a.n;
        const bool leveled = a.leveled && a.leveled[block.row];
        double largest = -tl_infinity();
        for (i64 i = first + block.begin + lane; i < first + block.end; i += LANES_OF_BLOCK) {
            double log = leveled ? 0.0 : a.logs[i];
            if (a.status && a.status[i] > 1)
                log = -tl_infinity();
            else if (a.columns)
                log = log + log_density_of(a, i);
            a.after[i] = log;
            largest = log > largest ? log : is_nan(log) ? tl_infinity() : largest;
        }
        largest = largest_of_lanes(largest);
        if (lane == 0) a.largest[item] = largest;
    }
}

struct ShareArguments {
    i64 rows, n;
    const double *logs;     // [particle]
    const double *largest;  // [rows]
    double *shares;         // [particle]: weights over the largest
    double *sums;           // [3, rows, blocks]: of shares, of their squares, and numbers above 0
};

KERNEL(share_weights, const ShareArguments a) {
    const i64 items = a.rows * blocks_of(a.n), lane = GLOBAL_ID % LANES_OF_BLOCK;
    for (i64 item = GLOBAL_ID / LANES_OF_BLOCK; item < items;
         item += GLOBAL_SIZE / LANES_OF_BLOCK) {
        const Block block = block_of(item, a.n);
        const double largest = a.largest[block.row];
        const double some = largest == -tl_infinity() ? 0.0 : largest;
        double share[OF_LANE], square[OF_LANE], above[OF_LANE];
        const i64 first = block.row * a.n + block.begin + lane,
                  size = block.end - block.begin - lane;
        LANE_LOOP for (int i = 0; i < OF_LANE; ++i) share[i] =
            i < size ? a.logs[first + i] - some : LEAST;
        LANE_LOOP for (int i = 0; i < OF_LANE; ++i) {
            const double less = share[i] > LEAST ? share[i] : LEAST;
            const double x = host_exp(less);
            share[i] = less > LEAST ? x : 0.0;
        }
        for (int i = 0; i < OF_LANE && i < size; ++i) a.shares[first + i] = share[i];
        LANE_LOOP for (int i = 0; i < OF_LANE; ++i) {
            square[i] = share[i] * share[i];
            above[i] = share[i] > 0.0 ? 1.0 : 0.0;
        }
        const double sum = sum_by_halves(share, a.n), squares = sum_by_halves(square, a.n);
        const double number = sum_by_halves(above, a.n);
        if (lane != 0) continue;
        a.sums[item] = sum;
        a.sums[items + item] = squares;
        a.sums[2 * items + item] = number;
    }
}

struct ReduceArguments {
    i64 rows, n;         // numbers of a row
    i64 each;            // blocks that an item takes together: 1, or as many as a block has numbers
    i64 stride;          // from one row of `from` to the next
    const double *from;  // [rows, n]
    double *to;          // [rows, parts]: of so many blocks each
};

// Numbers begin .. end - 1 of a row, of an item.
DEVICE Block part_of(i64 item, const ReduceArguments &a) {
    const i64 size = a.each * IN_BLOCK, parts = (a.n + size - 1) / size, row = item / parts;
    const i64 begin = (item - row * parts) * size;
    return {row, begin, begin + size < a.n ? begin + size : a.n};
}

DEVICE i64 parts_of(const ReduceArguments &a) {
    return a.rows * ((a.n + a.each * IN_BLOCK - 1) / (a.each * IN_BLOCK));
}

KERNEL(reduce_sums, const ReduceArguments a) {
    const i64 items = parts_of(a), lane = GLOBAL_ID % LANES_OF_BLOCK;
    for (i64 item = GLOBAL_ID / LANES_OF_BLOCK; item < items;
         item += GLOBAL_SIZE / LANES_OF_BLOCK) {
        const Block part = part_of(item, a);
        double sum = 0.0, sums[OF_LANE] = {};  // of a block; of each, one for a lane
        UNROLL_SOME for (i64 block = 0; block < a.each; ++block) {
            const i64 first = part.begin + block * IN_BLOCK + lane;
            double x[OF_LANE];
    UNROLL for (int i = 0; i < OF_LANE; ++i)
                x[i] = first + i < part.end ? a.from[part.row * a.stride + first + i] : 0.0;
            sum = sum_by_halves(x, a.n);
            if (OF_LANE > 1 || lane == block) sums[OF_LANE > 1 ? block : 0] = sum;
        }
        if (a.each > 1) sum = sum_by_halves(sums, blocks_of(a.n));
        if (lane == 0) a.to[item] = sum;
    }
}

KERNEL(reduce_maxima, const ReduceArguments a) {
    const i64 items = parts_of(a), lane = GLOBAL_ID % LANES_OF_BLOCK;
    for (i64 item = GLOBAL_ID / LANES_OF_BLOCK; item < items; item += GLOBAL_SIZE / LANES_OF_BLOCK) {
        const Block part = part_of(item, a);
        double largest = -tl_infinity();
        UNROLL_SOME for (i64 i = part.begin + lane; i < part.end; i += LANES_OF_BLOCK) {
            const double x = a.from[part.row * a.stride + i];
            largest = x > largest ? x : largest;
        }
        largest = largest_of_lanes(largest);
        if (lane == 0) a.to[item] = largest;
    }
}

struct LevelArguments {
    i64 rows, n;
    const u8 *chosen;      // [rows]
    double *logs, *shares; // [particle]
};

// Rows that are chosen weigh the same from now on.
KERNEL(level_weights, const LevelArguments a) {
    for (i64 i = GLOBAL_ID; i < a.rows * a.n; i += GLOBAL_SIZE) {
        if (!a.chosen[i / a.n]) continue;
        a.logs[i] = 0.0;
        a.shares[i] = 1.0;
    }
}
