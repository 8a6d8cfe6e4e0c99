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

// How a launch shares out its trajectories: `many` to a work item, which have neighbours if not 0.
struct Shares {
    i64 many, side_by_side;
};

DEVICE i64 lanes_of(const Shares &shares, i64 rows) {
    return (rows + shares.many - 1) / shares.many;
}

DEVICE Share share_of(i64 lane, i64 lanes, const Shares &shares, i64 rows) {
    if (shares.side_by_side) return {lane, lanes, rows};
    const i64 end = (lane + 1) * shares.many;
    return {lane * shares.many, 1, end < rows ? end : rows};
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

struct BinArguments {
    const void *values;  // [quantities, rows], doubles or floats
    i64 rows, quantities;
    Intervals intervals;
    Shares shares;
    u8 *bins;    // [quantities, stride]
    i64 stride;  // `rows` or more
};

// Bin b of a quantity holds edge b <= x < edge b + 1; the outer bins also what lies outside, which is
// counted besides.
template <typename Real>
DEVICE void bin_values(i64 id, i64 size, const BinArguments &a) {
    const Real *const values = (const Real *)a.values;
    const i64 rows = a.rows, stride = a.stride, lanes = lanes_of(a.shares, rows);
    u8 *const bins = a.bins;
    for (i64 item = id; item < a.quantities * lanes; item += size) {
        const i64 q = item / lanes;
        const Share share = share_of(item % lanes, lanes, a.shares, rows);
        const i64 *const first = a.intervals.first;
        const double *edge = a.intervals.edges + first[q];
        const i64 inner = first[q + 1] - first[q] - 2;  // edges between bins
        u64 *own = a.intervals.cells + first[q] + 2 * q;
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

KERNEL(bin_double, const BinArguments arguments) {
    bin_values<double>(GLOBAL_ID, GLOBAL_SIZE, arguments);
}

KERNEL(bin_single, const BinArguments arguments) {
    bin_values<float>(GLOBAL_ID, GLOBAL_SIZE, arguments);
}

struct CountDenseArguments {
    const u8 *bins;  // see dbn/tables.h for this and `turn`
    i64 stride, rows, turn;
    i64 n_tables;
    const i64 *digits, *first_digit;
    const i64 *first_cell;
    Shares shares;
    u64 *counts;  // of this step
};

// Tables with a cell for every entry: table d of this step begins at counts[first_cell[d]].
KERNEL(count_dense, const CountDenseArguments a) {
    const i64 rows = a.rows, lanes = lanes_of(a.shares, rows);
    for (i64 item = GLOBAL_ID; item < a.n_tables * lanes; item += GLOBAL_SIZE) {
        const i64 table = item / lanes;
        const Share share = share_of(item % lanes, lanes, a.shares, rows);
        u64 *own = a.counts + a.first_cell[table];
        Tally tally = {nullptr, 0};
        for (i64 row = share.first; row < share.end; row += share.apart) {
            const Tables at = {a.digits, a.bins, a.stride, a.turn, row};
            u64 entry = 0;
            if (at.append(entry, a.first_digit[table], a.first_digit[table + 1]))
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

struct TableMemory {
    u64 *high, *low, *counts;  // [capacity]
    i64 capacity;              // a power of 2
};

DEVICE Slots slots_of(const TableMemory &table, u64 *used) {
    return {table.high, table.low, table.counts, used, (u64)table.capacity - 1};
}

struct CountSparseArguments {
    const u8 *bins;  // see dbn/tables.h for this and `turn`
    i64 stride, rows, turn;
    const i64 *digits;
    i64 step, split, n_digits;
    Shares shares;
    TableMemory slots;
    u64 *used;  // [1]: slots that are taken
};

// One table. The high word of a key is the step with the digits up to `split` behind it, the low
// word the other digits.
KERNEL(count_sparse, const CountSparseArguments a) {
    const Slots slots = slots_of(a.slots, a.used);
    const i64 rows = a.rows, lanes = lanes_of(a.shares, rows);
    for (i64 lane = GLOBAL_ID; lane < lanes; lane += GLOBAL_SIZE) {
        const Share share = share_of(lane, lanes, a.shares, rows);
        Tally tally = {nullptr, 0};
        for (i64 row = share.first; row < share.end; row += share.apart) {
            const Tables at = {a.digits, a.bins, a.stride, a.turn, row};
            u64 key_high = (u64)a.step, key_low = 0;
            if (!at.append(key_high, 0, a.split) || !at.append(key_low, a.split, a.n_digits))
                continue;
            tally.add(slots.cell(key_high, key_low));
        }
        tally.flush();
    }
}

struct MoveArguments {
    TableMemory old, slots;
    u64 *used;  // [1]: of `slots`
};

// Puts the entries of a table into a larger, empty one.
KERNEL(move_entries, const MoveArguments a) {
    const Slots slots = slots_of(a.slots, a.used);
    const TableMemory &old = a.old;
    for (i64 slot = GLOBAL_ID; slot < old.capacity; slot += GLOBAL_SIZE)
        if (old.low[slot])
            atomic_add(slots.cell(old.high[slot] - 1, old.low[slot] - 1), old.counts[slot]);
}
