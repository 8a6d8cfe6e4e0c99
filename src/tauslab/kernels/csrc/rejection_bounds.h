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

// Kinds of propensities beyond those of `Law`, in an item's record.
constexpr i32 MANY_CHANGES = 5;

// Intervals of species: of none that is read, there is nothing to bound.
enum Interval : i32 { WIDE = 0, EXACT = 1, UNREAD = 2 };
constexpr i32 MOST_COUNT = 2147483647;

struct Bounds {
    const Tables &tables;
    const State &s;

    DEVICE_MEMBER i32 &low(i64 species) const { return s.x[R_LOW + species]; }
    DEVICE_MEMBER i32 &high(i64 species) const { return s.x[R_HIGH + species]; }

    // Of all bounds.
    DEVICE_MEMBER double total() const { return s.v[LANES + 1]; }

    // The item in whose bound `target`, below the total, falls; `target` is then what is left.
    DEVICE_MEMBER i32 find(double &target) const {
        const i32 first = choose(0, target);
        if (N_ITEMS <= LANES || first < ROOT_ITEMS) return first;
        i32 group = 0;
        UNROLL for (i32 level = ITEM_LEVELS - 1; level >= 0; --level)
            group = group * LANES + choose(ITEM_LEVEL[level] + group, target);
        return (i32)ROOT_ITEMS + group;
    }

    // Intervals round all counts, and all bounds.
    DEVICE_MEMBER void make() const {
        team_each(0, N_SPECIES, [&](i64 i) { enclose((i32)i); });
        team_each(0, N_VALUES, [&](i64 i) { s.v[i] = 0.0; });
        team_sync();
        team_each(0, N_ITEMS, [&](i64 item) { s.v[place(item)] = bound(item); });
        team_sync();
        UNROLL for (i32 level = 0; level < ITEM_LEVELS; ++level) {
            const i64 first = ITEM_LEVEL[level];
            const i64 end = level + 1 < ITEM_LEVELS ? ITEM_LEVEL[level + 1] : N_NODES;
            team_groups(first, end, [&](i64 node) { update(node); });
            team_sync();
        }
        team_groups(0, 1, [&](i64 node) { update(node); });
        team_sync();
    }

    // A new interval for a species, and what that changes; returns how many bounds it made.
    DEVICE_MEMBER i32 renew(i32 species) const {
        if (team_leader()) enclose(species);
        team_sync();
        const i64 row = (i64)species * (ITEM_LEVELS + 2);
        const i32 begin = tables.at(AT_READ_ROW, row), end = tables.at(AT_READ_ROW, row + 1);
        team_each(begin, end, [&](i64 i) {
            const i32 item = tables.at(AT_READ, i);
            s.v[place(item)] = bound(item);
        });
        team_sync();
        for (i32 level = 0; level <= ITEM_LEVELS; ++level) {
            const i32 first = tables.at(AT_READ_ROW, row + 1 + level);
            const i32 last = tables.at(AT_READ_ROW, row + 2 + level);
            if (first == last) continue;
            team_groups(first, last, [&](i64 i) { update(tables.at(AT_READ, i)); });
            team_sync();
        }
        return end - begin;
    }

  private:
    // Where the bound of an item stands.
    DEVICE_MEMBER static i64 place(i64 item) {
        if (item < ROOT_ITEMS) return item;
        const i64 other = item - ROOT_ITEMS;
        return (ITEM_LEVEL[0] + other / LANES) * NODE_SIZE + other % LANES;
    }

    // Where the sum of a node stands, as a child.
    DEVICE_MEMBER static i64 parent(i64 node) {
        i64 begin = ITEM_LEVEL[0];
        UNROLL for (i32 level = 1; level < ITEM_LEVELS; ++level) {
            const i64 above = ITEM_LEVEL[level];
            if (node < above)
                return (above + (node - begin) / LANES) * NODE_SIZE + (node - begin) % LANES;
            begin = above;
        }
        return ROOT_ITEMS;
    }

    DEVICE_MEMBER double bound(i64 item) const {
        const State above = {{&s.x[R_HIGH], s.x.stride}, s.n, s.v, s.c};
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
        low(species) = kind == UNREAD ? 0 : count - width;
        high(species) = kind == UNREAD || plus(count, width) < 0 ? MOST_COUNT : count + width;
    }

    // Partial sums of a node, and the sum of all in its parent.
    DEVICE_MEMBER void update(i64 node) const {
        lanes_partial_sums(Neighbours{s.v, (i32)(node * NODE_SIZE)}, [&](int i, double sum) {
            s.v[node * NODE_SIZE + LANES + i] = sum;
            if (i == 1 && node > 0) s.v[parent(node)] = sum;
        });
    }

    // A child, as Butterfly::choose does it.
    DEVICE_MEMBER i32 choose(i64 node, double &target) const {
        const i64 children = node * NODE_SIZE, sums = children + LANES;
        int lane = 0;
        UNROLL for (int size = 1; size < LANES; size *= 2) {
            const bool last = 2 * size == LANES;
            const double left = s.v[last ? children + lane : sums + 2 * size + lane];
            const double right = s.v[last ? children + lane + size : sums + 3 * size + lane];
            const bool go_right = (target >= left) & (right > 0);
            target -= go_right ? left : 0.0;
            lane += go_right ? size : 0;
        }
        return lane;
    }
};
