// Exact stochastic simulation, direct method (Gillespie 1977), for networks too large to unroll:
// the network is read from tables. Selector `tree`: propensities are the leaves of a sum tree with
// 32 branches, each node the canonical sum of its children, rebuilt along the changed paths, so
// sums cannot drift. One thread runs one trajectory.
//
// Random numbers as in ssa.cc: draw `step`, words 0 and 1 the waiting time, 2 and 3 the reaction.
#include "canonical.h"
#include "laws.h"
#include "model.h"
#include "portable_math.h"
#include "prelude.h"
#include "sampling.h"
#include "streams.h"

constexpr int GENERAL_LAW = -1;
constexpr int LITERAL_CONSTANT = -2;
constexpr int MOST_LEVELS = 6;  // 32^6 reactions

struct Pairs {  // compressed rows of (index, value)
    const i32 *offset, *index, *value;
};

struct Tables {
    const i32 *source;
    const double *literal;
    Pairs orders, changes, needs;
    const i32 *reader_offset, *reader;
};

typedef ThreadArray<i32> State;

// Level 0 holds the propensities; the last level is the root alone.
struct Tree {
    ThreadArray<double> node;
    i64 begin[MOST_LEVELS + 1];
    int levels;

    DEVICE_MEMBER ThreadArray<double> level(int depth) const {
        return {&node[begin[depth]], node.stride};
    }

    // Sums on the way from the group of 32 that holds `leaf` to the root.
    DEVICE_MEMBER void rebuild(i64 leaf) const {
        for (int depth = 0; depth < levels; ++depth) {
            const i64 parent = leaf / LANES;
            level(depth + 1)[parent] = butterfly_sum(level(depth), parent * LANES);
            leaf = parent;
        }
    }

    DEVICE_MEMBER double total() const { return node[begin[levels]]; }

    DEVICE_MEMBER i64 find(double target) const {
        i64 chosen = 0;
        for (int depth = levels - 1; depth >= 0; --depth)
            chosen = chosen * LANES + first_above(level(depth), chosen * LANES, target);
        return chosen;
    }
};

DEVICE double propensity(const Tables &tables, i64 j, const State &x, const double *c) {
    const i32 source = tables.source[j];
    if (source == GENERAL_LAW) return general_propensity((int)j, x, c);
    for (i32 i = tables.needs.offset[j]; i < tables.needs.offset[j + 1]; ++i)
        if (x[tables.needs.index[i]] < tables.needs.value[i]) return 0.0;
    const double constant = source == LITERAL_CONSTANT ? tables.literal[j] : c[source];
    const i32 begin = tables.orders.offset[j], end = tables.orders.offset[j + 1];
    if (begin == end) return constant;
    double product = 1.0;
    for (i32 i = begin; i < end; ++i) {
        const double count = (double)x[tables.orders.index[i]];
        for (i32 taken = 0; taken < tables.orders.value[i]; ++taken)
            product = product * (count - (double)taken);
    }
    return constant * product;
}

DEVICE void start(const Tables &tables, const Tree &tree, const State &x, const double *c) {
    const i64 leaves = tree.begin[1] - tree.begin[0];
    for (i64 j = 0; j < leaves; ++j)
        tree.node[j] = j < N_REACTIONS ? propensity(tables, j, x, c) : 0.0;
    for (int depth = 0; depth < tree.levels; ++depth) {
        const i64 children = tree.begin[depth + 1] - tree.begin[depth];
        const i64 end = depth + 1 < tree.levels ? tree.begin[depth + 2] - tree.begin[depth + 1] : 1;
        for (i64 parent = 0; parent < end; ++parent)
            tree.level(depth + 1)[parent] =
                parent * LANES < children ? butterfly_sum(tree.level(depth), parent * LANES) : 0.0;
    }
}

// Returns a negative number if a count passed 2147483647.
DEVICE i32 fire(const Tables &tables, const Tree &tree, i64 reaction, const State &x,
                const double *c) {
    i32 signs = 0;
    const i32 begin = tables.changes.offset[reaction], end = tables.changes.offset[reaction + 1];
    for (i32 i = begin; i < end; ++i) {
        i32 &count = x[tables.changes.index[i]];
        count = plus(count, tables.changes.value[i]);
        signs |= count;
    }
    for (i32 i = begin; i < end; ++i) {
        const i32 species = tables.changes.index[i];
        i64 group = -1;
        for (i32 k = tables.reader_offset[species]; k < tables.reader_offset[species + 1]; ++k) {
            const i64 j = tables.reader[k];
            if (group >= 0 && j / LANES != group) tree.rebuild(group * LANES);
            group = j / LANES;
            tree.node[j] = propensity(tables, j, x, c);
        }
        if (group >= 0) tree.rebuild(group * LANES);
    }
    return signs;
}

KERNEL(ssa_table, u64 seed, i64 per_point, i64 first, i64 rows, const double *times, i64 n_times,
       const i32 *initial, i64 initial_stride, const double *constants, i64 constants_stride,
       u64 max_steps, u64 *next_row, i32 *counts, double *observables, i32 *final_counts,
       u8 *status, u64 *events, const i32 *source, const double *literal, const i32 *order_offset,
       const i32 *order_index, const i32 *order_value, const i32 *change_offset,
       const i32 *change_index, const i32 *change_value, const i32 *need_offset,
       const i32 *need_index, const i32 *need_value, const i32 *reader_offset, const i32 *reader,
       i32 *all_counts, double *all_nodes, i64 nodes) {
    const Recorder out = {counts, observables, final_counts, status, n_times};
    const Tables tables = {source,
                           literal,
                           {order_offset, order_index, order_value},
                           {change_offset, change_index, change_value},
                           {need_offset, need_index, need_value},
                           reader_offset,
                           reader};
    const State x = {all_counts + THREAD_OFFSET(N_SPECIES), THREAD_STRIDE};
    Tree tree = {{all_nodes + THREAD_OFFSET(nodes), THREAD_STRIDE}, {}, 0};
    for (i64 size = N_REACTIONS > 0 ? N_REACTIONS : 1; size > 1 || tree.levels == 0;
         ++tree.levels) {
        const i64 groups = (size + LANES - 1) / LANES;
        tree.begin[tree.levels + 1] = tree.begin[tree.levels] + groups * LANES;
        size = groups;
    }
    double c[N_CONSTANTS + 1];
    u64 fired = 0;

    for (;;) {
        const i64 row = (i64)atomic_add(next_row, 1);
        if (row >= rows) break;
        const Place place = place_of(first, row, per_point);
        for (i64 i = 0; i < N_SPECIES; ++i) x[i] = initial[place.input * initial_stride + i];
        for (int i = 0; i < N_CONSTANTS; ++i) c[i] = constants[place.input * constants_stride + i];
        const TrajectoryStream stream =
            trajectory_stream(seed, STREAM_SSA, place.trajectory, place.point);
        start(tables, tree, x, c);
        i64 k = 0;
        u64 step = 0;
        double t = 0;
        u8 ended = DONE;
        while (k < n_times) {
            const Philox4 bits = draw(stream, step);
            const double a0 = tree.total();
            double t_event = infinity();
            if (a0 > 0 && a0 < infinity())
                t_event = t + tl_exponential(unit_open_low(bits.x0, bits.x1)) / a0;
            else
                ended = a0 == 0 ? ABSORBED : NOT_A_NUMBER;
            if (ended == NOT_A_NUMBER) break;
            for (; k < n_times && times[k] < t_event; ++k) record_sample(out, row, k, x, c);
            if (k == n_times) break;
            if (step >= max_steps) {
                ended = STEP_LIMIT;
                break;
            }
            const i64 reaction = tree.find(unit_half_open(bits.x2, bits.x3) * a0);
            t = t_event;
            ++step;
            if (fire(tables, tree, reaction, x, c) < 0) {
                ended = OVERFLOWED;
                break;
            }
        }
        const bool valid = ended <= ABSORBED;
        if (!valid) record_missing(out, row, k);
        record_end(out, row, ended, valid, x);
        fired += step;
    }
    atomic_add(events, fired);
}
