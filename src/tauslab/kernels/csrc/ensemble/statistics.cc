// Exact integer statistics over the sample buffer of a launch.
//
// A work item is one column (one quantity at one sample time) of a chunk of rows: neighbouring
// threads read neighbouring columns, and each item adds to the accumulators once per chunk.
// All accumulators are unsigned 64-bit integers: they are added modulo 2^64, or are the largest of
// their kind, so the order cannot matter.
//
// Every accumulator has a leading axis: the points of a sweep that the launch touches. Point q of
// them has the rows q * per_point - offset and up; the first and the last may be there in part.
#include "device/prelude.h"

constexpr i64 ROWS_PER_ITEM = 256;
constexpr u64 LOW_HALF = 0xffffffffull;

// The rows of a launch, and how many rows of its first point came before it.
struct LaunchRows {
    i64 rows, per_point, offset;
};

// The rows of a launch, cut into chunks that lie within a point.
struct Cut {
    i64 rows, per_point, offset, chunks, points;

    // The number of items over `columns` columns.
    DEVICE_MEMBER i64 items(i64 columns) const { return points * chunks * columns; }
};

DEVICE Cut cut_rows(const LaunchRows &launch) {
    const i64 rows = launch.rows, per_point = launch.per_point, offset = launch.offset;
    const i64 most = rows < per_point ? rows : per_point;
    return {rows, per_point, offset, (most + ROWS_PER_ITEM - 1) / ROWS_PER_ITEM,
            (offset + rows + per_point - 1) / per_point};
}

// The rows that one item adds up; `begin` may lie beyond `end`.
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

struct CountSumArguments {
    const i32 *counts;  // [rows, n_times, n_species]
    LaunchRows launch;
    i64 n_times, n_species;
    u64 *n;                       // [points, n_times]
    u64 *sum, *sq_low, *sq_high;  // [points, n_times, n_species]
    u64 *cube_low, *cube_middle, *cube_high;
};

// Sums of the 32-bit limbs of squares and of third powers, the lowest first: exact up to 2^32 trajectories, more than
// a launch has.
struct Limbs {
    u64 square[2], cube[3];
};

// Of one column, whatever its counts.
DEVICE Limbs limbs_of(const i32 *counts, i64 rows, i64 stride) {
    Limbs sums = {};
    NO_UNROLL for (i64 row = 0; row < rows; ++row) {
        const i32 count = counts[row * stride];
        const u64 x = count < 0 ? 0u : (u32)count, square = x * x;
        const u64 lower = (square & LOW_HALF) * x, upper = (square >> 32) * x + (lower >> 32);
        sums.square[0] += square & LOW_HALF;
        sums.square[1] += square >> 32;
        sums.cube[0] += lower & LOW_HALF;
        sums.cube[1] += upper & LOW_HALF;
        sums.cube[2] += upper >> 32;
    }
    return sums;
}

// Third powers of so small counts add up to less than 2^64 over the rows of an item.
constexpr int SMALL_BITS = 18;

// An item has COLUMNS_TOGETHER neighbouring columns.
KERNEL_IN_BLOCKS(10, count_statistics, const CountSumArguments a) {
    const i64 n_species = a.n_species, columns = a.n_times * n_species;
    const i64 groups = (columns + COLUMNS_TOGETHER - 1) / COLUMNS_TOGETHER;
    const Cut cut = cut_rows(a.launch);
    for (i64 item = GLOBAL_ID; item < cut.items(groups); item += GLOBAL_SIZE) {
        const Piece piece = piece_of(cut, item, groups);
        const i64 column = piece.column * COLUMNS_TOGETHER;
        const int here =
            columns - column < COLUMNS_TOGETHER ? (int)(columns - column) : COLUMNS_TOGETHER;
        u64 valid[COLUMNS_TOGETHER] = {}, total[COLUMNS_TOGETHER] = {};
        u64 square[COLUMNS_TOGETHER] = {}, cube[COLUMNS_TOGETHER] = {};
        u32 bits[COLUMNS_TOGETHER] = {};  // that any count has
        const auto add = [&](const i32 *counts, int count) {
            for (int i = 0; i < count; ++i) {
                const u32 x = counts[i] < 0 ? 0u : (u32)counts[i];
                const u64 twice = (u64)x * x;
                valid[i] += counts[i] >= 0;
                total[i] += x;
                square[i] += twice;
                cube[i] += twice * x;
                bits[i] |= x;
            }
        };
        const i32 *const from = a.counts + column;
        if (COLUMNS_TOGETHER == 1 || here == COLUMNS_TOGETHER)  // a number that is known: the compiler makes vector code
            for (i64 row = piece.begin; row < piece.end; ++row)
                add(from + row * columns, COLUMNS_TOGETHER);
        else
            for (i64 row = piece.begin; row < piece.end; ++row) add(from + row * columns, here);
        for (int i = 0; i < here; ++i) {
            const i64 cell = piece.point * columns + column + i;
            Limbs sums = {{square[i] & LOW_HALF, square[i] >> 32},
                          {cube[i] & LOW_HALF, cube[i] >> 32, 0}};
            if (bits[i] >> SMALL_BITS)
                sums = limbs_of(from + piece.begin * columns + i, piece.end - piece.begin, columns);
            if (cell % n_species == 0) atomic_add(a.n + cell / n_species, valid[i]);
            atomic_add(a.sum + cell, total[i]);
            atomic_add(a.sq_low + cell, sums.square[0]);
            atomic_add(a.sq_high + cell, sums.square[1]);
            atomic_add(a.cube_low + cell, sums.cube[0]);
            atomic_add(a.cube_middle + cell, sums.cube[1]);
            if (sums.cube[2]) atomic_add(a.cube_high + cell, sums.cube[2]);
        }
    }
}

struct HistogramArguments {
    const i32 *counts;  // [rows, n_times, n_species]
    LaunchRows launch;
    i64 n_times, n_species;
    i64 species;          // which of them
    const double *edges;  // [bins + 1]
    i64 bins;
    u64 *cells;  // [points, n_times, bins + 2]
};

// Cells of one species: below the first edge, the bins, above the last. Bin b holds
// edges[b] <= x < edges[b + 1].
KERNEL(count_histogram, const HistogramArguments a) {
    const i64 n_times = a.n_times, bins = a.bins;
    const double *const edges = a.edges;
    const Cut cut = cut_rows(a.launch);
    const double low = edges[0], high = edges[bins];
    const double scale = (double)bins / (high - low);
    const bool has_scale = scale < 0x1p1023;  // bins may be narrower than its reciprocal
    for (i64 item = GLOBAL_ID; item < cut.items(n_times); item += GLOBAL_SIZE) {
        const Piece piece = piece_of(cut, item, n_times);
        u64 *row_cells = a.cells + (piece.point * n_times + piece.column) * (bins + 2);
        for (i64 row = piece.begin; row < piece.end; ++row) {
            const i32 count = a.counts[(row * n_times + piece.column) * a.n_species + a.species];
            if (count < 0) continue;
            const double x = (double)count;
            i64 cell = 0;
            if (x >= high) {
                cell = bins + 1;
            } else if (x >= low) {
                // A guess by division, put right by the edges themselves.
                i64 bin = has_scale ? (i64)((x - low) * scale) : 0;
                bin = bin < bins ? bin : bins - 1;
                while (bin > 0 && x < edges[bin]) --bin;
                while (bin < bins - 1 && x >= edges[bin + 1]) ++bin;
                cell = bin + 1;
            }
            atomic_add(row_cells + cell, 1);
        }
    }
}

// Real quantities are added as integers, exactly in a window that the largest of them places.
//
// Bits are numbered from 2^-1074, the lowest that a double can have, and cut into places of 23. A
// number is a sum of digits, one for each place that it touches; digits of a place add up to less
// than 2^63 over 2^40 numbers. Kept are the place of the highest bit of the largest number and the
// three below it (a double touches four at most), of the squares the seven that end where the
// largest square can. Nothing is carried from one place to the next, so what a number adds to a
// place is a function of that number alone, and any order of adding and merging gives the same.
// After Demmel and Nguyen (2015), IEEE Trans. Comput. 64, 2060.
constexpr i32 DIGIT_BITS = 23, SUM_DIGITS = 4, SQUARE_DIGITS = 7;
constexpr i32 BITS = 2098;  // that doubles have, from 2^-1074 to 2^1023
constexpr u64 DIGIT = (1ull << DIGIT_BITS) - 1, FRACTION = (1ull << 52) - 1;
constexpr u64 NOT_FINITE = 0x7ffull << 52, SIGN = 1ull << 63;

// A finite number's size is whole * 2^place, in units of the lowest bit; whole < 2^53.
struct Size {
    u64 whole;
    i32 place;
};

// Computed from the bits of a finite number without its sign.
DEVICE Size size_of(u64 bits) {
    const i32 field = (i32)(bits >> 52);
    return {(bits & FRACTION) | (field ? FRACTION + 1 : 0), field ? field - 1 : 0};
}

// Three words; digits are cut from them.
struct Wide {
    u64 w0, w1, w2;

    DEVICE_MEMBER u64 digit(i32 k) const {
        const i32 first = k * DIGIT_BITS, bit = first % 64;
        const u64 word = first < 64 ? w0 : first < 128 ? w1 : w2;
        const u64 next = first < 64 ? w1 : w2;
        return (bit > 64 - DIGIT_BITS ? word >> bit | next << (64 - bit) : word >> bit) & DIGIT;
    }
};

// high * 2^64 + low moved up by `shift` bits, or down where that is negative: what falls below the
// lowest bit is lost. Its bits above 192 are zeros.
DEVICE Wide moved(u64 high, u64 low, i32 shift) {
    if (LIKELY(shift > 0 && shift < 64))
        return {low << shift, high << shift | low >> (64 - shift), high >> (64 - shift)};
    if (shift >= 64) {  // at most 115, of numbers below 2^-1022, which are short
        shift -= 64;
        return {0, low << shift, shift ? high << shift | low >> (64 - shift) : high};
    }
    const u32 down = (u32)-shift;
    if (down >= 128) return {0, 0, 0};
    if (down >= 64) return {high >> (down - 64), 0, 0};
    return {down ? low >> down | high << (64 - down) : low, high >> down, 0};
}

struct RealRangeArguments {
    const double *values;  // [rows, columns]
    LaunchRows launch;
    i64 columns;  // n_times * n_observables
    u64 *top;     // [points, columns]: 1 + the place of the highest bit
    u64 *low;     // [points, columns]: 2098 - the lowest bit
};

// The bits of all that is finite and not zero.
KERNEL(real_ranges, const RealRangeArguments a) {
    const i64 columns = a.columns;
    const Cut cut = cut_rows(a.launch);
    for (i64 item = GLOBAL_ID; item < cut.items(columns); item += GLOBAL_SIZE) {
        const Piece piece = piece_of(cut, item, columns);
        u64 largest = 0;
        i32 lowest = BITS;
        for (i64 row = piece.begin; row < piece.end; ++row) {
            const u64 bits = as_bits(a.values[row * columns + piece.column]) & ~SIGN;
            if (bits >= NOT_FINITE || !bits) continue;
            largest = bits > largest ? bits : largest;
            const Size size = size_of(bits);
            const i32 bit = size.place + lowest_bit(size.whole);
            lowest = bit < lowest ? bit : lowest;
        }
        if (!largest) continue;
        const Size size = size_of(largest);
        i32 place = (size.place + 52) / DIGIT_BITS;
        // The highest bit of a number below 2^-1022 may be any of its 52.
        while (place > 0 && size.place == 0 && !(size.whole >> place * DIGIT_BITS)) --place;
        const i64 cell = piece.point * columns + piece.column;
        atomic_largest(a.top + cell, (u64)place + 1);
        atomic_largest(a.low + cell, (u64)(BITS - lowest));
    }
}

struct RealSumArguments {
    const double *values;  // [rows, columns]
    LaunchRows launch;
    i64 columns;        // n_times * n_observables
    const u64 *top;     // [points, columns]: of `real_ranges`
    u64 *n, *infinite;  // [points, columns]: how many values are finite, and infinite
    u64 *sum;           // [points, columns, SUM_DIGITS], two's complement
    u64 *squares;       // [points, columns, SQUARE_DIGITS]
};

// The sums in the windows that `top` tells.
KERNEL(real_statistics, const RealSumArguments a) {
    const i64 columns = a.columns;
    const Cut cut = cut_rows(a.launch);
    for (i64 item = GLOBAL_ID; item < cut.items(columns); item += GLOBAL_SIZE) {
        const Piece piece = piece_of(cut, item, columns);
        const i64 cell = piece.point * columns + piece.column;
        // The lowest bits of the two windows.
        const i32 base = DIGIT_BITS * ((i32)a.top[cell] - SUM_DIGITS);
        const i32 square_base = 2 * base + DIGIT_BITS;
        u64 finite = 0, endless = 0, sums[SUM_DIGITS] = {}, squared[SQUARE_DIGITS] = {};
        for (i64 row = piece.begin; row < piece.end; ++row) {
            const u64 signed_bits = as_bits(a.values[row * columns + piece.column]);
            const u64 bits = signed_bits & ~SIGN, minus = signed_bits & SIGN ? ~0ull : 0;
            if (bits >= NOT_FINITE) {
                endless += bits == NOT_FINITE;
                continue;
            }
            finite += 1;
            if (!bits) continue;
            const Size size = size_of(bits);
            const Wide number = moved(0, size.whole, size.place - base);
    UNROLL
            for (i32 k = 0; k < SUM_DIGITS; ++k) sums[k] += (number.digit(k) ^ minus) - minus;
            // whole = high * 2^32 + low, and its square high^2 * 2^64 + 2 high low * 2^32 + low^2.
            const u64 high = size.whole >> 32, low = size.whole & LOW_HALF;
            const u64 ll = low * low, hl = 2 * high * low + (ll >> 32);
            const Wide square = moved(high * high + (hl >> 32), hl << 32 | (ll & LOW_HALF),
                                      2 * size.place - square_base);
            UNROLL
            for (i32 k = 0; k < SQUARE_DIGITS; ++k) squared[k] += square.digit(k);
        }
        atomic_add(a.n + cell, finite);
        if (endless) atomic_add(a.infinite + cell, endless);
        UNROLL
        for (i32 k = 0; k < SUM_DIGITS; ++k) atomic_add(a.sum + cell * SUM_DIGITS + k, sums[k]);
        UNROLL
        for (i32 k = 0; k < SQUARE_DIGITS; ++k)
            atomic_add(a.squares + cell * SQUARE_DIGITS + k, squared[k]);
    }
}
