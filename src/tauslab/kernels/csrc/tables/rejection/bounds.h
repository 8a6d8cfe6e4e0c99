// Upper bounds of propensities, and the tree from which candidates are drawn (Thanh, Priami & Zunino
// 2014; tables/rejection/rejection.h has the paper's symbols).
//
// Every species has a fluctuation interval around the count that it had when the interval was made. A
// propensity of mass action never falls when a count rises. So its value at the upper ends is an upper
// bound until a count leaves its interval. Then the species gets a new interval, and every item that
// reads the species gets a new upper bound.
//
// The interval of a small count has width 0, so the count leaves it at every change. The same holds for
// a species that a general rate law reads, or a reaction that needs many molecules of it
// (`kernels/exact/rejection.py`). So an upper bound is zero if and only if the propensity is zero.
//
// Items are the reactions, the most frequent ones first. The first items are children of the root; its
// other children are trees of the remaining items. So a frequent reaction is found in one node. A node
// has 32 children, and the canonical butterfly of their upper bounds is searched: by every thread alone.
// tables/rejection/tree_of_one.h and tree_of_lanes.h say what of it is stored, by one thread and by a team.
#pragma once

#include "tables/arguments.h"
#include "tables/rejection/intervals.h"

#if TEAM_THREADS == 1
#include "tables/rejection/tree_of_one.h"
#else
#include "tables/rejection/tree_of_lanes.h"
#endif

struct Bounds {
    Tables tables;
    State s;
    BoundTree tree;

    DEVICE_MEMBER FluctuationInterval range(i32 species) const { return interval_of(s, species); }

    // The sum of all upper bounds.
    DEVICE_MEMBER double total() const { return tree.total(); }

    // Finds the item in whose upper bound `target` falls; `target` becomes what is left in it.
    DEVICE_MEMBER i32 find(double &target) const { return tree.find(target); }

    // Makes all intervals and all upper bounds.
    DEVICE_MEMBER void make() const {
        team_each(0, N_PLACES, [&](i64 i) {
            store_interval(s, (i32)i,
                           FluctuationInterval::around(s.x[i], tables.quad(AT_READERS, i).a));
        });
        tree.clear();
        team_sync();
        team_each(0, N_ITEMS, [&](i64 item) { tree.bound((u32)item) = upper_bound((i32)item); });
        team_sync();
        tree.sum_all(tables);
    }

    // Gives a species a new interval, its items new upper bounds, and the nodes above new sums.
    DEVICE_MEMBER void renew(i32 species) const {
        const IntQuad readers = tables.quad(AT_READERS, species);
        const FluctuationInterval own = FluctuationInterval::around(s.x[species], readers.a);
        if (team_leader()) store_interval(s, species, own);
        team_sync();
        tree.renew(tables, readers.b, readers.c,
                   [&](i32 i) { return bound_for_reader(i, own.high); });
    }

  private:
    // The upper bound of an item, from its record as reader `i` of a species whose interval ends at `own`. It
    // has the bits of `upper_bound`.
    DEVICE_MEMBER NewBound bound_for_reader(i32 i, i32 own) const {
        const IntQuad reader = tables.quad(AT_READER, i);
        if (reader.d == LONGER) return {reader.a, upper_bound(reader.a)};
        const double constant = constant_of(reader.b, tables.real[AT_READER_RATE + (u32)i], s.c);
        const double first = (double)own;
        const double second = reader.d == 2 ? (double)high_of(s, reader.c) : first - 1.0;
        return {reader.a, constant * (reader.d == 1 ? first : first * second)};
    }

    DEVICE_MEMBER double upper_bound(i32 item) const {
        const struct {
            const Bounds &all;
#ifdef HAS_EVENTS
            DEVICE_MEMBER double operator[](i64 i) const {
                return i < N_GIVEN ? (double)high_of(all.s, (i32)i)
                                   : Quantities{all.s, all.tables}[i];
            }
#else
            DEVICE_MEMBER i32 operator[](i64 species) const { return high_of(all.s, (i32)species); }
#endif
        } highs = {*this};
        return propensity(tables, tables.at(AT_ITEM, item), highs, s.c);
    }
};

#ifdef HAS_EVENTS
DEVICE_SELDOM void make_again(Bounds bounds) {
    bounds.make();
}
#endif

DEVICE_SELDOM void renew_interval(Bounds bounds, i32 species) {
    bounds.renew(species);
}

// The propensity of an item that is not simple.
DEVICE_SELDOM double propensity_of_item(Tables tables, i32 item, State s) {
    return propensity(tables, tables.at(AT_ITEM, item), quantities_of(tables, s), s.c);
}
