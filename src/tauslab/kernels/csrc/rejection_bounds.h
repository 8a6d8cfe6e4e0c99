// Bounds of propensities that hold while counts stay in intervals, and the tree they are drawn from
// (Thanh, Priami & Zunino, J. Chem. Phys. 141, 134116, 2014).
//
// Every species has an interval round the count it had when the interval was made. A propensity of
// mass action never falls when a count rises, so its value at the upper ends is its bound until a
// count leaves its interval: then the species gets a new one, and what reads it new bounds.
//
// An interval has width 0 where counts are small, so that it is left at every change, and for
// species of which a law or a reaction that needs many molecules makes a propensity
// (`kernels/rejection.py`). So a bound is zero if and only if the propensity is.
//
// Items are the reactions, the most frequent ones first. The first ones stand in the root itself,
// whose last child is then the tree of the others: a frequent reaction is found with one look.
// A node has 32 children and, behind them, the partial sums of their canonical butterfly, so that
// every thread walks down by itself.
#pragma once

#include "portable_basic.h"
#include "propensities.h"
#include "team.h"

constexpr i64 NODE_SIZE = 2 * LANES;
// Items that stand in the root; with more items it has one child less.
constexpr i64 ROOT_ITEMS = N_ITEMS <= LANES ? N_ITEMS : LANES - 1;

// Intervals of species: of none that is read, there is nothing to bound.
enum Interval : i32 { WIDE = 0, EXACT = 1, UNREAD = 2 };
constexpr i32 MOST_COUNT = 2147483647;
// Of a count that comes so near to an end of its interval within a batch, 32 changes by one might
// reach it; at most this part of the interval.
constexpr i32 MARGIN = 32, PARTS = 8;

// An interval, as a count lies in it: how far it may fall and rise.
struct Slack {
    i32 down, up;

    // Nearer to an end there should be a new interval.
    DEVICE_MEMBER i32 margin() const {
        const i32 part = (i32)(((u32)down + (u32)up) / PARTS);
        return part < MARGIN ? part : MARGIN;
    }
};

struct Bounds {
    const Tables &tables;
    const State &s;
    TeamArray<double> root;  // may stand in fast memory

    DEVICE_MEMBER i32 &low(i64 species) const { return s.n.rest[species]; }
    DEVICE_MEMBER i32 &high(i64 species) const { return s.n.rest[N_PLACES + species]; }
    DEVICE_MEMBER Slack slack(i64 species) const {
        const u32 count = (u32)s.x[species];  // one beyond 2147483647 has wrapped
        return {(i32)(count - (u32)low(species)), (i32)((u32)high(species) - count)};
    }

    // Whether a count is neither outside its interval nor near an end of it.
    DEVICE_MEMBER bool is_inside(i64 species) const {
        const u32 first = (u32)s.n.rest[2 * N_PLACES + species];
        return (u32)s.x[species] - first <= (u32)s.n.rest[3 * N_PLACES + species];
    }

    // Of all bounds.
    DEVICE_MEMBER double total() const { return root[LANES + 1]; }

    // The item in whose bound `target`, below the total, falls; `target` is then what is left.
    DEVICE_MEMBER i32 find(double &target) const {
        const i32 first = choose(root, 0, target);
        if (N_ITEMS <= LANES || first < ROOT_ITEMS) return first;
        i32 group = 0;
        UNROLL for (i32 level = ITEM_LEVELS - 1; level >= 0; --level)
            group = group * LANES + choose(s.v, (ITEM_LEVEL[level] + group) * NODE_SIZE, target);
        return (i32)ROOT_ITEMS + group;
    }

    // Intervals round all counts, and all bounds.
    DEVICE_MEMBER void make() const {
        team_each(0, N_PLACES, [&](i64 i) { enclose((i32)i); });
        team_each(0, NODE_SIZE, [&](i64 i) { root[i] = 0.0; });
        team_each(0, N_VALUES, [&](i64 i) { s.v[i] = 0.0; });
        team_sync();
        team_each(0, N_ITEMS, [&](i64 item) { place(item) = bound(item); });
        team_sync();
        UNROLL for (i32 level = 0; level < ITEM_LEVELS; ++level) {
            const i64 first = ITEM_LEVEL[level];
            const i64 end = level + 1 < ITEM_LEVELS ? ITEM_LEVEL[level + 1] : N_NODES;
            team_groups(first, end, [&](i64 node) { update(node); });
            team_sync();
        }
        team_groups(0, 1, [&](i64) { update_root(); });
        team_sync();
    }

    // A new interval for a species, and what that changes; returns how many bounds it made.
    DEVICE_MEMBER i32 renew(i32 species) const {
        if (team_leader()) enclose(species);
        team_sync();
        const i64 row = (i64)species * (ITEM_LEVELS + 1);
        const i32 begin = tables.at(AT_READ_ROW, row), end = tables.at(AT_READ_ROW, row + 1);
        team_each(begin, end, [&](i64 i) {
            const i32 item = tables.at(AT_READ, i);
            place(item) = bound(item);
        });
        team_sync();
        for (i32 level = 0; level < ITEM_LEVELS; ++level) {
            const i32 first = tables.at(AT_READ_ROW, row + 1 + level);
            const i32 last = tables.at(AT_READ_ROW, row + 2 + level);
            if (first == last) break;  // nor are there nodes above
            team_groups(first, last, [&](i64 i) { update(tables.at(AT_READ, i)); });
            team_sync();
        }
        team_groups(0, 1, [&](i64) { update_root(); });
        team_sync();
        return end - begin;
    }

  private:
    // The bound of an item.
    DEVICE_MEMBER double &place(i64 item) const {
        if (item < ROOT_ITEMS) return root[item];
        const i64 other = item - ROOT_ITEMS;
        return s.v[(ITEM_LEVEL[0] + other / LANES) * NODE_SIZE + other % LANES];
    }

    // The sum of a node, as a child.
    DEVICE_MEMBER double &sum_of(i64 node) const {
        i64 begin = ITEM_LEVEL[0];
        UNROLL for (i32 level = 1; level < ITEM_LEVELS; ++level) {
            const i64 above = ITEM_LEVEL[level];
            if (node < above)
                return s.v[(above + (node - begin) / LANES) * NODE_SIZE + (node - begin) % LANES];
            begin = above;
        }
        return root[ROOT_ITEMS];
    }

    DEVICE_MEMBER double bound(i64 item) const {
        const State above = {{&high(0)}, s.n, s.v, s.c};
        return propensity(tables, tables.at(AT_ITEM, item), above);
    }

    // The width is about a quarter of the count's two thirds power: the rarer a count leaves its
    // interval, the more candidates are rejected, and a count that walks at random takes the square
    // of the width in events to leave.
    DEVICE_MEMBER void enclose(i32 species) const {
        const i32 count = s.x[species];
        const i32 bits = 32 - leading_zeros((u32)count);
        const i32 kind = tables.at(AT_INTERVAL, species);
        const i32 width = kind == EXACT ? 0 : count >> (2 + bits / 3);
        low(species) = kind == UNREAD ? -MARGIN : count - width;
        high(species) = kind == UNREAD || plus(count, width) < 0 ? MOST_COUNT : count + width;
        const i32 margin = slack(species).margin();
        s.n.rest[2 * N_PLACES + species] = low(species) + margin;
        s.n.rest[3 * N_PLACES + species] =
            (i32)((u32)high(species) - (u32)low(species) - 2 * (u32)margin);
    }

    // Partial sums of a node, and the sum of all in its parent.
    DEVICE_MEMBER void update(i64 node) const {
        lanes_partial_sums(Neighbours{s.v, (i32)(node * NODE_SIZE)}, [&](int i, double sum) {
            s.v[node * NODE_SIZE + LANES + i] = sum;
            if (i == 1) sum_of(node) = sum;
        });
    }

    DEVICE_MEMBER void update_root() const {
        lanes_partial_sums(Neighbours{root, 0},
                           [&](int i, double sum) { root[LANES + i] = sum; });
    }

    // A child, as Butterfly::choose does it.
    DEVICE_MEMBER static i32 choose(const TeamArray<double> &values, i64 children, double &target) {
        const i64 sums = children + LANES;
        int lane = 0;
        UNROLL for (int size = 1; size < LANES; size *= 2) {
            const bool last = 2 * size == LANES;
            const double left = values[last ? children + lane : sums + 2 * size + lane];
            const double right = values[last ? children + lane + size : sums + 3 * size + lane];
            const bool go_right = (target >= left) & (right > 0);
            target -= go_right ? left : 0.0;
            lane += go_right ? size : 0;
        }
        return lane;
    }
};
