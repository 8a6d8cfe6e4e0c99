// A network laid out for leaps that many threads take together: reactions are the leaves of a sum
// tree, in the order of their reactants; species have rows of the reactions that change them, so
// that a thread gathers what happens to a species and no two write to one count.
#pragma once

#include "leaping/fine/cooperative_grid.h"
#include "ensemble/rate_laws.h"
#include "leaping/leaps.h"
#include "tables/network_tables.h"
#include "math/math.h"

// Instead of the first reactant's number: the reaction has rows of its own. It has a general rate law, more
// than two molecules, or takes a species that is no reactant.
constexpr i32 NO_REACTANT = -1, OTHER_REACTION = -2;

// The state of a trajectory.
struct Flight {
    i32 *x;        // counts
    i32 *next;     // counts after a leap, or after its first half
    double *v;     // sum trees: propensities, negative for critical reactions, and sums
    i64 *firings;  // firings of a leap, by reaction
    const double *c;
};

// Counts with one molecule more of a species.
struct OneMore {
    const i32 *x;
    i32 species;
    DEVICE_MEMBER i32 operator[](i64 i) const { return x[i] + (i == species); }
};

DEVICE double rate_of(const Tables &tables, i64 leaf, const double *c) {
    if (N_CONSTANTS == 0) return tables.real[AT_RATE + leaf];
    return constant_of(tables.at(AT_SOURCE, leaf), tables.real[AT_RATE + leaf], c);
}

// ------------------------------------------------------------------------------- propensities

template <class Counts>
DEVICE double other_propensity(const Tables &tables, i64 leaf, const Counts &x, const double *c) {
    const i32 other = tables.at(AT_FEW, leaf);
    const i32 law = tables.at(AT_OTHER_LAW, other);
    if (law >= 0) return general_propensity(law, x, c, tables);
    for (i32 i = tables.at(AT_NEED_ROW, other); i < tables.at(AT_NEED_ROW, other + 1); ++i)
        if (x[tables.at(AT_NEED_SPECIES, i)] < tables.at(AT_NEED_COUNT, i)) return 0.0;
    double product = 1.0;
    for (i32 i = tables.at(AT_ORDER_ROW, other); i < tables.at(AT_ORDER_ROW, other + 1); ++i) {
        const double count = (double)x[tables.at(AT_ORDER_SPECIES, i)];
        for (i32 taken = 0; taken < tables.at(AT_ORDER_COUNT, i); ++taken)
            product = product * (count - (double)taken);
    }
    return not_negative(rate_of(tables, leaf, c) * product);
}

// The propensity in a state, with a minus, also before a zero, if the reaction is critical there.
DEVICE double scanned(const Tables &tables, i64 leaf, const i32 *x, const double *c) {
    const i32 first = tables.at(AT_FIRST, leaf), few = tables.at(AT_FEW, leaf);
    double propensity;
    bool critical = false;
    if (first == OTHER_REACTION) {
        propensity = other_propensity(tables, leaf, x, c);
        for (i32 i = tables.at(AT_TAKE_ROW, few); i < tables.at(AT_TAKE_ROW, few + 1); ++i)
            critical |= x[tables.at(AT_TAKE_SPECIES, i)] < tables.at(AT_TAKE_FEW, i);
    } else {
        double product = 1.0;
        if (first != NO_REACTANT) {
            const i32 second = tables.at(AT_SECOND, leaf), count = x[first];
            critical = count < (few & 0xffff);
            product = (double)count;
            if (second >= 0) {
                const i32 partner = second == first ? count - 1 : x[second];
                critical |= partner < few >> 16;
                product = product * (double)partner;
            }
        }
        propensity = not_negative(rate_of(tables, leaf, c) * product);
    }
    return critical ? -magnitude(propensity) : magnitude(propensity);
}

DEVICE double leaping(double v) {
    return v > 0 ? v : 0.0;
}

DEVICE bool is_critical(double v) {
    return as_bits(v) >> 63;
}

DEVICE double critical_part(double v) {
    return v < 0 ? -v : 0.0;
}

// --------------------------------------------------------------------------------- sum trees

// Leaves as lanes; trees of all propensities and of the critical ones share them.
enum Tree : i64 { ALL = 0, CRITICAL = 1 };

struct Leaves {
    const double *at;
    Tree tree;
    DEVICE_MEMBER double operator()(int lane) const {
        return tree == ALL ? magnitude(at[lane]) : critical_part(at[lane]);
    }
#ifdef HAS_OCTETS
    DEVICE_MEMBER Octet octet(int lane) const {
        double values[8];
        for (int i = 0; i < 8; ++i) values[i] = (*this)(lane + i);
        return load_octet(values);
    }
#endif
};

// Nodes of a level from 1, leaves being level 0, to LEVELS, where there is one.
DEVICE double *level(const Tables &tables, const Flight &s, i32 depth, Tree tree) {
    return s.v + tables.at(AT_LEVEL, depth) + tree * N_SUMS;
}

DEVICE double root(const Tables &tables, const Flight &s, Tree tree) {
    return *level(tables, s, LEVELS, tree);
}

DEVICE void sum_node(const Tables &tables, const Flight &s, i32 depth, i64 node, Tree tree) {
    double sum;
    if (depth == 1)
        sum = lanes_sum(Leaves{s.v + node * LANES, tree});
    else
        sum = lanes_sum(Neighbours32{level(tables, s, depth - 1, tree) + node * LANES});
    if (first_lane()) level(tables, s, depth, tree)[node] = sum;
}

// All nodes of a level of both trees.
template <class Threads>
DEVICE void sum_level(const Tables &tables, const Flight &s, i32 depth, const Threads &threads) {
    const i64 nodes = tables.at(AT_NODES, depth);
    threads.groups(0, 2 * nodes, [&](i64 i) {
        sum_node(tables, s, depth, i < nodes ? i : i - nodes, i < nodes ? ALL : CRITICAL);
    });
}

// Finds the leaf into which `target`, from 0 to the root's sum, falls. Every warp finds the same leaf.
DEVICE i32 find(const Tables &tables, const Flight &s, Tree tree, double target) {
    i64 node = 0;
    for (i32 depth = LEVELS - 1; depth > 0; --depth)
        node =
            node * LANES +
            lanes_choose(LANES, Neighbours32{level(tables, s, depth, tree) + node * LANES}, target);
    return (i32)(node * LANES + lanes_choose(LANES, Leaves{s.v + node * LANES, tree}, target));
}

// Propensities, which reactions are critical, and sums of 32 neighbours.
DEVICE void scan(const Tables &tables, const Flight &s, const CooperativeGrid &grid) {
    grid.groups(0, tables.at(AT_NODES, 1), [&](i64 node) {
        LaneValues all, critical;
        lanes_each([&](int lane) {
            const i64 leaf = node * LANES + lane;
            const double v = leaf < N_REACTIONS ? scanned(tables, leaf, s.x, s.c) : 0.0;
            s.v[leaf] = v;
            all.set(lane, magnitude(v));
            critical.set(lane, critical_part(v));
        });
        const double sum = lanes_sum(all), part = lanes_sum(critical);
        if (first_lane()) {
            level(tables, s, 1, ALL)[node] = sum;
            level(tables, s, 1, CRITICAL)[node] = part;
        }
    });
}
