// Exact integer statistics over the sample buffer of a launch.
//
// A work item is one column (one quantity at one sample time) of a chunk of rows: neighbouring
// threads read neighbouring columns, and each item adds to the accumulators once per chunk.
// All accumulators are unsigned 64-bit and wrap, so the order of adding cannot matter.
#include "prelude.h"

constexpr i64 ROWS_PER_ITEM = 256;
constexpr u64 LOW_HALF = 0xffffffffull;

// counts [rows, n_times, n_species]; n [n_times]; sum, sq_low, sq_high [n_times, n_species].
// sq_low and sq_high add the halves of x * x: exact up to 2^32 trajectories.
KERNEL(count_statistics, const i32 *counts, i64 rows, i64 n_times, i64 n_species, u64 *n, u64 *sum,
       u64 *sq_low, u64 *sq_high) {
    const i64 columns = n_times * n_species;
    const i64 chunks = (rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM;
    for (i64 item = GLOBAL_ID; item < chunks * columns; item += GLOBAL_SIZE) {
        const i64 column = item % columns;
        const i64 begin = item / columns * ROWS_PER_ITEM;
        const i64 end = begin + ROWS_PER_ITEM < rows ? begin + ROWS_PER_ITEM : rows;
        u64 valid = 0, total = 0, low = 0, high = 0;
        for (i64 row = begin; row < end; ++row) {
            const i32 x = counts[row * columns + column];
            if (x < 0) continue;
            const u64 square = (u64)x * (u64)x;
            valid += 1;
            total += (u64)x;
            low += square & LOW_HALF;
            high += square >> 32;
        }
        if (column % n_species == 0) atomic_add(n + column / n_species, valid);
        atomic_add(sum + column, total);
        atomic_add(sq_low + column, low);
        atomic_add(sq_high + column, high);
    }
}

// Cells [n_times, bins + 2] of one species: below the first edge, the bins, above the last.
// Bin b holds edges[b] <= x < edges[b + 1].
KERNEL(count_histogram, const i32 *counts, i64 rows, i64 n_times, i64 n_species, i64 species,
       const double *edges, i64 bins, u64 *cells) {
    const i64 chunks = (rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM;
    const double low = edges[0], high = edges[bins];
    const double scale = (double)bins / (high - low);
    for (i64 item = GLOBAL_ID; item < chunks * n_times; item += GLOBAL_SIZE) {
        const i64 k = item % n_times;
        const i64 begin = item / n_times * ROWS_PER_ITEM;
        const i64 end = begin + ROWS_PER_ITEM < rows ? begin + ROWS_PER_ITEM : rows;
        for (i64 row = begin; row < end; ++row) {
            const i32 count = counts[(row * n_times + k) * n_species + species];
            if (count < 0) continue;
            const double x = (double)count;
            i64 cell = 0;
            if (x >= high) {
                cell = bins + 1;
            } else if (x >= low) {
                // A guess by division, put right by the edges themselves.
                i64 bin = (i64)((x - low) * scale);
                bin = bin < bins ? bin : bins - 1;
                while (bin > 0 && x < edges[bin]) --bin;
                while (bin < bins - 1 && x >= edges[bin + 1]) ++bin;
                cell = bin + 1;
            }
            atomic_add(cells + k * (bins + 2) + cell, 1);
        }
    }
}

// Real quantities enter as whole numbers v = round(y * scale), |v| < 2^47; others are not counted.
// values [rows, columns], columns = n_times * n_observables; scales [n_observables].
KERNEL(real_statistics, const double *values, i64 rows, i64 columns, i64 n_observables,
       const double *scales, u64 *n, u64 *sum_low, u64 *sum_high, u64 *sq0, u64 *sq1, u64 *sq2) {
    constexpr double LIMIT = 140737488355328.0;   // 2^47
    constexpr double ROUND = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to whole numbers
    const i64 chunks = (rows + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM;
    for (i64 item = GLOBAL_ID; item < chunks * columns; item += GLOBAL_SIZE) {
        const i64 column = item % columns;
        const double scale = scales[column % n_observables];
        const i64 begin = item / columns * ROWS_PER_ITEM;
        const i64 end = begin + ROWS_PER_ITEM < rows ? begin + ROWS_PER_ITEM : rows;
        u64 valid = 0, low = 0, high = 0, s0 = 0, s1 = 0, s2 = 0;
        for (i64 row = begin; row < end; ++row) {
            const double scaled = values[row * columns + column] * scale;
            if (!(scaled > -LIMIT && scaled < LIMIT)) continue;
            const i64 v = (i64)((scaled + ROUND) - ROUND);
            const u64 size = (u64)(v < 0 ? -v : v);
            // |v| = p * 2^32 + q, so v * v = p * p * 2^64 + 2 p q * 2^32 + q * q.
            const u64 p = size >> 32, q = size & LOW_HALF;
            const u64 qq = q * q, pq = 2 * p * q + (qq >> 32);
            valid += 1;
            low += (u64)v & LOW_HALF;
            high += (u64)(v >> 32);
            s0 += qq & LOW_HALF;
            s1 += pq & LOW_HALF;
            s2 += p * p + (pq >> 32);
        }
        atomic_add(n + column, valid);
        atomic_add(sum_low + column, low);
        atomic_add(sum_high + column, high);
        atomic_add(sq0 + column, s0);
        atomic_add(sq1 + column, s1);
        atomic_add(sq2 + column, s2);
    }
}
