// Conditional probability tables of a dynamic Bayesian network, counted from trajectories.
//
// First every value becomes the number of its interval, its bin. Then every node's table gets one
// count for each trajectory, in the entry that the bins of its parents before a step and its own
// bin after the step name. Counts are whole numbers: no order of adding can change them.
//
// Bins lie in planes of `stride` trajectories (dbn/tables.h): the variables of even time points, of
// odd ones, and the parameters, which have one bin for the whole trajectory; or, where an ODE kernel
// has binned (ode/blocks/count_samples.h), the parameters and then the variables of each time point. Values of a
// quantity lie side by side.
#include "dbn/tables.h"

// Trajectories of a work item: `first`, `first` + `apart` and so on, `many` of them. On a CPU they
// are neighbours; on a GPU neighbouring threads take neighbouring trajectories.
struct Share {
    i64 first, apart, end;
};

DEVICE Share share_of(i64 lane, i64 lanes, i64 many, i64 rows, bool side_by_side) {
    if (side_by_side) return {lane, lanes, rows};
    const i64 end = (lane + 1) * many;
    return {lane * many, 1, end < rows ? end : rows};
}

// Counts that go to the same cell one after the other are added at once: many trajectories agree.
struct Tally {
    u64 *cell;
    u64 count;

    DEVICE_MEMBER void add(u64 *to) {
        if (to != cell) {
            flush();
            cell = to;
        }
        ++count;
    }
    DEVICE_MEMBER void flush() {
        if (count) atomic_add(cell, count);
        count = 0;
    }
};

// Intervals of quantity q: edges[first_edge[q]] .. edges[first_edge[q + 1] - 1]. Bin b holds
// edge b <= x < edge b + 1; the outer bins also what lies outside, which is counted besides.
// Cells of q, from first_edge[q] + 2 q on: its bins, then below, above, not finite.
template <typename Real>
DEVICE void bin_values(i64 id, i64 size, const Real *values, i64 stride, i64 rows, i64 quantities,
                       const double *edges, const i64 *first_edge, i64 many, i64 side_by_side,
                       u8 *bins, u64 *cells) {
    const i64 lanes = (rows + many - 1) / many;
    for (i64 item = id; item < quantities * lanes; item += size) {
        const i64 q = item / lanes;
        const Share share = share_of(item % lanes, lanes, many, rows, side_by_side != 0);
        const double *edge = edges + first_edge[q];
        const i64 inner = first_edge[q + 1] - first_edge[q] - 2;  // edges between bins
        u64 *own = cells + first_edge[q] + 2 * q;
        Tally in = {nullptr, 0}, out = {nullptr, 0};
        for (i64 row = share.first; row < share.end; row += share.apart) {
            const double x = (double)values[q * rows + row];
            if (!(x - x == 0)) {
                bins[q * stride + row] = NO_BIN;
                out.add(own + inner + 3);
                continue;
            }
            const i64 bin = interval_of(x, edge, inner);
            bins[q * stride + row] = (u8)bin;
            in.add(own + bin);
            if (x < edge[0]) out.add(own + inner + 1);
            if (x > edge[inner + 1]) out.add(own + inner + 2);
        }
        in.flush();
        out.flush();
    }
}

KERNEL(bin_double, const double *values, i64 stride, i64 rows, i64 quantities, const double *edges,
       const i64 *first_edge, i64 many, i64 side_by_side, u8 *bins, u64 *cells) {
    bin_values(GLOBAL_ID, GLOBAL_SIZE, values, stride, rows, quantities, edges, first_edge, many,
               side_by_side, bins, cells);
}

KERNEL(bin_single, const float *values, i64 stride, i64 rows, i64 quantities, const double *edges,
       const i64 *first_edge, i64 many, i64 side_by_side, u8 *bins, u64 *cells) {
    bin_values(GLOBAL_ID, GLOBAL_SIZE, values, stride, rows, quantities, edges, first_edge, many,
               side_by_side, bins, cells);
}

// Tables with a cell for every entry: table d of this step begins at counts[first_cell[d]].
KERNEL(count_dense, const u8 *bins, i64 stride, i64 rows, i64 turn, i64 tables, const i64 *digits,
       const i64 *first_digit, const i64 *first_cell, i64 many, i64 side_by_side, u64 *counts) {
    const i64 lanes = (rows + many - 1) / many;
    for (i64 item = GLOBAL_ID; item < tables * lanes; item += GLOBAL_SIZE) {
        const i64 table = item / lanes;
        const Share share = share_of(item % lanes, lanes, many, rows, side_by_side != 0);
        u64 *own = counts + first_cell[table];
        Tally tally = {nullptr, 0};
        for (i64 row = share.first; row < share.end; row += share.apart) {
            const Tables at = {digits, bins, stride, turn, row};
            u64 entry = 0;
            if (at.append(entry, first_digit[table], first_digit[table + 1]))
                tally.add(own + entry);
        }
        tally.flush();
    }
}

DEVICE u64 mixed_bits(u64 x) {  // the finaliser of SplitMix64
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ x >> 27) * 0x94D049BB133111EBull;
    return x ^ x >> 31;
}

// A table of the entries that occur, by linear probing; the host sees to it that there are always
// free slots. A key has two words, each stored with 1 added, so that 0 is free. A slot is taken by
// its low word first. A thread that finds its low word there tries to put the high word. The first
// thread decides which key the slot has; threads with another key go on to the next slot. So no thread
// waits, and no key is in two slots.
struct Slots {
    u64 *high, *low, *counts, *used;
    u64 mask;

    // The word that is in the cell, after putting `word` there if it was free.
    DEVICE_MEMBER u64 put(u64 *cell, u64 word, u64 *taken) const {
        const u64 there = *(volatile u64 *)cell;
        if (there != 0) return there;
        const u64 before = atomic_compare_exchange(cell, (u64)0, word);
        if (before != 0) return before;
        if (taken) atomic_add(taken, 1);
        return word;
    }

    DEVICE_MEMBER u64 *cell(u64 key_high, u64 key_low) const {
        const u64 from = mixed_bits(mixed_bits(key_high + 0x9E3779B97F4A7C15ull) + key_low);
        for (u64 slot = from & mask;; slot = (slot + 1) & mask) {
            if (put(low + slot, key_low + 1, nullptr) != key_low + 1) continue;
            if (put(high + slot, key_high + 1, used) == key_high + 1) return counts + slot;
        }
    }
};

// One table. The high word of a key is the step with the digits up to `split` behind it, the low
// word the other digits.
KERNEL(count_sparse, const u8 *bins, i64 stride, i64 rows, i64 turn, i64 step, const i64 *digits,
       i64 split, i64 n_digits, i64 many, i64 side_by_side, u64 *high, u64 *low, u64 *counts,
       u64 *used, i64 capacity) {
    const Slots slots = {high, low, counts, used, (u64)capacity - 1};
    const i64 lanes = (rows + many - 1) / many;
    for (i64 lane = GLOBAL_ID; lane < lanes; lane += GLOBAL_SIZE) {
        const Share share = share_of(lane, lanes, many, rows, side_by_side != 0);
        Tally tally = {nullptr, 0};
        for (i64 row = share.first; row < share.end; row += share.apart) {
            const Tables at = {digits, bins, stride, turn, row};
            u64 key_high = (u64)step, key_low = 0;
            if (!at.append(key_high, 0, split) || !at.append(key_low, split, n_digits)) continue;
            tally.add(slots.cell(key_high, key_low));
        }
        tally.flush();
    }
}

// Puts the entries of a table into a larger, empty one.
KERNEL(move_entries, const u64 *old_high, const u64 *old_low, const u64 *old_counts,
       i64 old_capacity, u64 *high, u64 *low, u64 *counts, u64 *used, i64 capacity) {
    const Slots slots = {high, low, counts, used, (u64)capacity - 1};
    for (i64 slot = GLOBAL_ID; slot < old_capacity; slot += GLOBAL_SIZE)
        if (old_low[slot])
            atomic_add(slots.cell(old_high[slot] - 1, old_low[slot] - 1), old_counts[slot]);
}
