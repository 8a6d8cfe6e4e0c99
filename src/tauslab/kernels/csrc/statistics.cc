// Exact integer statistics over the sample buffer of a launch.
//
// A work item is one column (one quantity at one sample time) of a chunk of rows: neighbouring
// threads read neighbouring columns, and each item adds to the accumulators once per chunk.
// All accumulators are unsigned 64-bit and wrap, so the order of adding cannot matter.
//
// Every accumulator has a leading axis: the points of a sweep that the launch touches. Point q of
// them has the rows q * per_point - offset and up; the first and the last may be there in part.
#include "prelude.h"

constexpr i64 ROWS_PER_ITEM = 256;
constexpr u64 LOW_HALF = 0xffffffffull;

// The rows of a launch, cut into chunks that lie within a point.
struct Cut {
    i64 rows, per_point, offset, chunks, points;

    // Of all items over `columns` columns.
    DEVICE_MEMBER i64 items(i64 columns) const { return points * chunks * columns; }
};

DEVICE Cut cut_rows(i64 rows, i64 per_point, i64 offset) {
    const i64 most = rows < per_point ? rows : per_point;
    return {rows, per_point, offset, (most + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM,
            (offset + rows + per_point - 1) / per_point};
}

// What one item adds up; `begin` may lie beyond `end`.
struct Piece {
    i64 column, point, begin, end;
};

DEVICE Piece piece_of(const Cut &cut, i64 item, i64 columns) {
    const i64 chunk = item / columns, point = chunk / cut.chunks;
    const i64 from = point * cut.per_point - cut.offset;
    const i64 begin = (from > 0 ? from : 0) + chunk % cut.chunks * ROWS_PER_ITEM;
    const i64 stop = from + cut.per_point < cut.rows ? from + cut.per_point : cut.rows;
    return {item % columns, point, begin,
            begin + ROWS_PER_ITEM < stop ? begin + ROWS_PER_ITEM : stop};
}

// counts [rows, n_times, n_species]; n [points, n_times]; sum, sq_low, sq_high
// [points, n_times, n_species].
// sq_low and sq_high add the halves of x * x: exact up to 2^32 trajectories.
KERNEL(count_statistics, const i32 *counts, i64 rows, i64 per_point, i64 offset, i64 n_times,
       i64 n_species, u64 *n, u64 *sum, u64 *sq_low, u64 *sq_high) {
    const i64 columns = n_times * n_species;
    const Cut cut = cut_rows(rows, per_point, offset);
    for (i64 item = GLOBAL_ID; item < cut.items(columns); item += GLOBAL_SIZE) {
        const Piece piece = piece_of(cut, item, columns);
        u64 valid = 0, total = 0, low = 0, high = 0;
        for (i64 row = piece.begin; row < piece.end; ++row) {
            const i32 x = counts[row * columns + piece.column];
            if (x < 0) continue;
            const u64 square = (u64)x * (u64)x;
            valid += 1;
            total += (u64)x;
            low += square & LOW_HALF;
            high += square >> 32;
        }
        const i64 cell = piece.point * columns + piece.column;
        if (cell % n_species == 0) atomic_add(n + cell / n_species, valid);
        atomic_add(sum + cell, total);
        atomic_add(sq_low + cell, low);
        atomic_add(sq_high + cell, high);
    }
}

// Cells [points, n_times, bins + 2] of one species: below the first edge, the bins, above the last.
// Bin b holds edges[b] <= x < edges[b + 1].
KERNEL(count_histogram, const i32 *counts, i64 rows, i64 per_point, i64 offset, i64 n_times,
       i64 n_species, i64 species, const double *edges, i64 bins, u64 *cells) {
    const Cut cut = cut_rows(rows, per_point, offset);
    const double low = edges[0], high = edges[bins];
    const double scale = (double)bins / (high - low);
    for (i64 item = GLOBAL_ID; item < cut.items(n_times); item += GLOBAL_SIZE) {
        const Piece piece = piece_of(cut, item, n_times);
        u64 *row_cells = cells + (piece.point * n_times + piece.column) * (bins + 2);
        for (i64 row = piece.begin; row < piece.end; ++row) {
            const i32 count = counts[(row * n_times + piece.column) * n_species + species];
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
            atomic_add(row_cells + cell, 1);
        }
    }
}

// Real quantities enter as whole numbers v = round(y * scale), |v| < 2^47; others are not counted.
// values [rows, columns], columns = n_times * n_observables; scales [n_observables]; accumulators
// [points, columns].
KERNEL(real_statistics, const double *values, i64 rows, i64 per_point, i64 offset, i64 columns,
       i64 n_observables, const double *scales, u64 *n, u64 *sum_low, u64 *sum_high, u64 *sq0,
       u64 *sq1, u64 *sq2) {
    constexpr double LIMIT = 140737488355328.0;   // 2^47
    constexpr double ROUND = 6755399441055744.0;  // 1.5 * 2^52: adding it rounds to whole numbers
    const Cut cut = cut_rows(rows, per_point, offset);
    for (i64 item = GLOBAL_ID; item < cut.items(columns); item += GLOBAL_SIZE) {
        const Piece piece = piece_of(cut, item, columns);
        const double scale = scales[piece.column % n_observables];
        u64 valid = 0, low = 0, high = 0, s0 = 0, s1 = 0, s2 = 0;
        for (i64 row = piece.begin; row < piece.end; ++row) {
            const double scaled = values[row * columns + piece.column] * scale;
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
        const i64 cell = piece.point * columns + piece.column;
        atomic_add(n + cell, valid);
        atomic_add(sum_low + cell, low);
        atomic_add(sum_high + cell, high);
        atomic_add(sq0 + cell, s0);
        atomic_add(sq1 + cell, s1);
        atomic_add(sq2 + cell, s2);
    }
}
