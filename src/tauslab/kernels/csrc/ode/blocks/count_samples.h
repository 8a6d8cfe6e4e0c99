// Samples of trajectories binned and counted where they are, in the memory of a block (dbn/count.cc
// counts those that were written).
//
// A block keeps bins in planes of WIDTH trajectories: the variables of even time points, of odd ones,
// and the parameters. A thread has the trajectories `column`, `column` + LANES and so on of a sample,
// ROWS of them, and reads no bin that it has not written. All lanes of a warp take part throughout.
#pragma once

#include "dbn/tables.h"
#include "ode/ode.h"

constexpr int LANES = 32;
constexpr bool COUNTS = BIN_PLANES > 0;

struct CountJob {
    Intervals variables;  // their cells of a time point behind those of the one before
    i64 n_parameters;
    Intervals parameters;
    i64 n_tables;  // with a cell for every entry; table d of a step begins at counts[first_cell[d]]
    const i64 *digits, *first_digit, *first_cell;
    u64 *counts;
    u8 *planes;  // [parameters + times * variables, stride], for other tables; may be null
    i64 stride;
};

struct BlockArguments {
    OdeJob job;
    i64 substeps;    // of a span
    CountJob count;  // all null where nothing is counted
};

// Takes the quantities of one trajectory at a sample.
struct BufferOut {
    Real *at;
    int pitch;
    DEVICE_MEMBER void put(int quantity, Real value) const { at[quantity * pitch] = value; }
};

// The bin of quantity q, counted in its cell, and in another if it is outside. Without `inside`
// there is no trajectory.
DEVICE u8 counted_bin(const Intervals &intervals, i64 q, u64 *cells, double x, bool inside) {
    const double *edge = intervals.edges + intervals.first[q];
    const i64 inner = intervals.first[q + 1] - intervals.first[q] - 2;
    u64 *own = cells + intervals.first[q] + 2 * q;
    const bool finite = x - x == 0;
    const i64 bin = interval_of(x, edge, inner);
    warp_aggregated_add(inside && finite ? own + bin : nullptr);
    u64 *out = x < edge[0] ? own + inner + 1 : x > edge[inner + 1] ? own + inner + 2 : nullptr;
    if (!finite) out = own + inner + 3;
    if (any_lane(inside && out)) warp_aggregated_add(inside ? out : nullptr);
    return inside && finite ? (u8)bin : NO_BIN;
}

// Bins of sample k of the trajectories from row `first` on; value q of the one in column j is
// values[q * pitch + j], and behind the last one whether it is missing.
template <int ROWS, int WIDTH>
DEVICE void bin_sample(const OdeJob &job, const CountJob &count, const Real *values, int pitch,
                       u8 *bins, i64 first, i64 k, int column) {
    u64 *cells =
        count.variables.cells + k * (count.variables.first[N_QUANTITIES] + 2 * N_QUANTITIES);
    u8 *own = bins + (k & 1) * N_QUANTITIES * WIDTH;
    for (int j = column; j < column + ROWS * LANES; j += LANES) {
        const i64 row = first + j;
        const bool inside = row < job.rows;
        const bool missing = values[N_QUANTITIES * pitch + j] != 0;
        u8 *to = count.planes && inside ? count.planes + row : nullptr;
        if (k == 0)
            for (i64 p = 0; p < count.n_parameters; ++p) {
                const double x = inside ? job.drawn[row * job.drawn_row + p * job.drawn_prior] : 0;
                const u8 bin = counted_bin(count.parameters, p, count.parameters.cells, x, inside);
                bins[(2 * N_QUANTITIES + p) * WIDTH + j] = bin;
                if (to) to[p * count.stride] = bin;
            }
        for (int q = 0; q < N_QUANTITIES; ++q) {
            const double x = missing ? tl_nan() : (double)values[q * pitch + j];
            const u8 bin = counted_bin(count.variables, q, cells, x, inside);
            own[q * WIDTH + j] = bin;
            if (to) to[(count.n_parameters + k * N_QUANTITIES + q) * count.stride] = bin;
        }
    }
}

// The step that leads to sample k, from the bins of that and of the one before.
template <int ROWS, int WIDTH>
DEVICE void count_step(const CountJob &count, const u8 *bins, i64 k, int column) {
    static_assert(ROWS <= 32);
    u64 *counts = count.counts + (k - 1) * count.first_cell[count.n_tables];
    for (i64 table = 0; table < count.n_tables; ++table) {
        u32 entry[ROWS] = {}, none = 0;
        for (i64 d = count.first_digit[table]; d < count.first_digit[table + 1]; ++d) {
            const i64 *digit = count.digits + 3 * d;
            const u8 *plane = Tables::plane(bins, digit, WIDTH, k & 1) + column;
            const u32 size = (u32)digit[2];
    UNROLL for (int i = 0; i < ROWS; ++i) {
                const u32 bin = plane[i * LANES];
                none |= (u32)(bin == NO_BIN) << i;
                entry[i] = entry[i] * size + bin;
            }
        }
        u64 *own = counts + count.first_cell[table];
        UNROLL for (int i = 0; i < ROWS; ++i)
            warp_aggregated_add(none >> i & 1 ? nullptr : own + entry[i]);
    }
}
