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
// has 32 children, and behind them the partial sums of their canonical butterfly. So every thread
// descends by itself, and a new upper bound changes five sums of each node above it.
#pragma once

#include "math/basic.h"
#include "tables/propensities.h"
#include "team/team.h"

constexpr u32 NODE_SIZE = 2 * LANES;

// Which interval a species has: a wide one, one of width 0, or one without ends where nothing reads it.
enum IntervalKind : i32 { WIDE = 0, EXACT = 1, UNREAD = 2 };
constexpr i32 MOST_COUNT = 2147483647;
// A smaller count has an interval of width 0.
constexpr i32 LEAST_WIDE = 8;
// A count is near an end of its interval if 32 changes by one molecule can reach it. The margin is at
// most an eighth of the interval.
constexpr i32 MARGIN = 32, PARTS = 8;

// The interval of a count, and its inner part `first .. first + width`, which is not near the ends.
struct FluctuationInterval {
    i32 low, high, first, width;

    DEVICE_MEMBER bool contains_well_inside(i32 count) const {
        return (u32)count - (u32)first <= (u32)width;
    }
    // How far the count may fall and rise; negative if it has left the interval. A count beyond
    // 2147483647 has wrapped around.
    DEVICE_MEMBER i32 down(i32 count) const { return (i32)((u32)count - (u32)low); }
    DEVICE_MEMBER i32 up(i32 count) const { return (i32)((u32)high - (u32)count); }
    DEVICE_MEMBER bool contains(i32 count) const { return down(count) >= 0 && up(count) >= 0; }
};

struct Bounds {
    Tables tables;
    State s;
    TeamArray<double> root;  // may stand in shared memory

    DEVICE_MEMBER FluctuationInterval range(i32 species) const {
#if TEAM_THREADS == 1
        const i64 at = 4 * (i64)species;
        const TeamArray<Whole> &words = s.n.rest;
        return {words[at], words[at + 1], words[at + 2], words[at + 3]};
#else
        const IntQuad words = load_quad(&s.n.rest[4 * (i64)species]);
        return {words.a, words.b, words.c, words.d};
#endif
    }

    // The sum of all upper bounds.
    DEVICE_MEMBER double total() const { return root[LANES + 1]; }

    // Finds the item in whose upper bound `target` falls; `target` becomes what is left in it.
    DEVICE_MEMBER i32 find(double &target) const {
        const u32 first = choose(root, 0, target);
        if (first < ROOT_ITEMS) return (i32)first;
        u32 group = first - (u32)ROOT_ITEMS;
        UNROLL for (i32 level = ITEM_LEVELS - 1; level >= 0; --level)
            group = group * LANES +
                    choose(s.v, ((u32)ITEM_LEVEL[level] + group) * NODE_SIZE, target);
        return (i32)(ROOT_ITEMS + group);
    }

    // Makes all intervals and all upper bounds.
    DEVICE_MEMBER void make() const {
        team_each(0, N_PLACES, [&](i64 i) { make_interval((i32)i); });
        team_each(0, NODE_SIZE, [&](i64 i) { root[i] = 0.0; });
        team_each(0, N_VALUES, [&](i64 i) { s.v[i] = 0.0; });
        team_sync();
        team_each(0, N_ITEMS, [&](i64 item) { stored_bound((u32)item) = upper_bound((i32)item); });
        team_sync();
        NO_UNROLL for (i32 level = 0; level < ITEM_LEVELS; ++level) {
            const i32 nodes = tables.at(AT_LEVEL_NODES, level);
            team_groups(0, nodes, [&](i64 node) { update(level, (u32)node); });
            team_sync();
        }
        team_groups(0, 1, [&](i64) { update(ITEM_LEVELS, 0); });
        team_sync();
    }

    // Gives a species a new interval, its items new upper bounds, and the nodes above new sums.
    DEVICE_MEMBER void renew(i32 species) const {
        if (team_leader()) make_interval(species);
        team_sync();
        const i32 begin = tables.at(AT_READ_ROW, species);
        const i32 end = tables.at(AT_READ_ROW, species + 1);
        team_each(begin, end, [&](i64 i) {
            const i32 item = tables.at(AT_READ, i);
            stored_bound((u32)item) = upper_bound(item);
        });
        team_sync();
#if TEAM_THREADS == 1
        for (i32 level = 0; level <= ITEM_LEVELS; ++level)
            for (i32 i = begin, done = -1; i < end; ++i) {
                const u32 item = (u32)tables.at(AT_READ, i);
                if (level < ITEM_LEVELS && item < ROOT_ITEMS) continue;
                const i32 node = level == ITEM_LEVELS
                                     ? 0
                                     : (i32)((item - (u32)ROOT_ITEMS) >> 5 * (level + 1));
                if (node != done) update(level, (u32)node);  // items are in order
                done = node;
            }
#else
        NO_UNROLL for (i32 first = begin; first < end; first += TEAM_THREADS) {
            const i32 i = first + team_rank();
            const u32 item = i < end ? (u32)tables.at(AT_READ, i) : N_ITEMS;
            u32 index = item - (u32)ROOT_ITEMS;
            NO_UNROLL for (i32 level = 0; level < ITEM_LEVELS; ++level, index /= LANES)
                update_ancestors(level, index, item >= ROOT_ITEMS && item < N_ITEMS);
            update_root(item < ROOT_ITEMS ? item : (u32)ROOT_ITEMS + index, item < N_ITEMS);
        }
#endif
    }

  private:
    // Where the upper bound of an item is stored.
    DEVICE_MEMBER double &stored_bound(u32 item) const {
        return item < ROOT_ITEMS ? root[item] : child(0, item - (u32)ROOT_ITEMS);
    }

    // Child number `index`, counted through the nodes of a level; behind the last level it is the root's.
    DEVICE_MEMBER double &child(i32 level, u32 index) const {
        if (level == ITEM_LEVELS) return root[ROOT_ITEMS + index];
        return s.v[((u32)ITEM_LEVEL[level] + index / LANES) * NODE_SIZE + index % LANES];
    }

    DEVICE_MEMBER double upper_bound(i32 item) const {
        const struct {
            const Bounds &all;
#ifdef HAS_EVENTS
            DEVICE_MEMBER double operator[](i64 i) const {
                return i < N_GIVEN ? (double)all.s.n.rest[4 * i + 1]
                                   : Quantities{all.s, all.tables}[i];
            }
#else
            DEVICE_MEMBER i32 operator[](i64 species) const {
                return all.s.n.rest[4 * species + 1];
            }
#endif
        } highs = {*this};
        return propensity(tables, tables.at(AT_ITEM, item), highs, s.c);
    }

    // A wider interval is left less often, and causes more rejected candidates. A count that walks at
    // random leaves an interval after about the square of the width in events. So the width is about
    // the count to the power of two thirds.
    DEVICE_MEMBER void make_interval(i32 species) const {
        const i32 count = s.x[species], kind = tables.at(AT_INTERVAL, species);
        const i32 bits = 32 - leading_zeros((u32)count);
        const i32 wide = count >> (1 + bits / 3);
        const bool narrow = kind == EXACT || count < LEAST_WIDE || plus(count, wide) < 0;
        const i32 width = narrow ? 0 : wide;
        FluctuationInterval range;
        range.low = kind == UNREAD ? 0 : count - width;
        range.high = kind == UNREAD ? MOST_COUNT : count + width;
        const i32 whole = range.high - range.low, part = kind == UNREAD ? 0 : whole / PARTS;
        const i32 margin = part < MARGIN ? part : MARGIN;
        range.first = range.low + margin;
        range.width = whole - 2 * margin;
        const i64 at = 4 * (i64)species;
        const TeamArray<Whole> &words = s.n.rest;
        words[at] = range.low, words[at + 1] = range.high;
        words[at + 2] = range.first, words[at + 3] = range.width;
    }

    // Computes the partial sums of a node, and stores their total in its parent.
    DEVICE_MEMBER void update(i32 level, u32 node) const {
        const bool is_root = level == ITEM_LEVELS;
        const u32 begin = is_root ? 0 : ((u32)ITEM_LEVEL[level] + node) * NODE_SIZE;
        const TeamArray<double> &values = is_root ? root : s.v;
        lanes_partial_sums(Neighbours{values, (i32)begin}, [&](int i, double sum) {
            values[begin + LANES + i] = sum;
            if (i == 1 && !is_root) child(level + 1, node) = sum;
        });
    }

#if TEAM_THREADS > 1
    // Adds up the sums of a level above child number `index`, if the thread `is` given one. Threads have
    // different children, which may share sums.
    DEVICE_MEMBER void update_ancestors(i32 level, u32 index, bool is) const {
        double *node = &s.v[((u32)ITEM_LEVEL[level] + (is ? index / LANES : 0)) * NODE_SIZE];
        const double sum = update_path(node, index % LANES, is);
        if (is) child(level + 1, index / LANES) = sum;
        team_sync();
    }

    DEVICE_MEMBER void update_root(u32 index, bool is) const {
        update_path(&root[0], is ? index : 0, is);
    }

    DEVICE_MEMBER static double update_path(double *node, u32 index, bool is) {
        double sum = 0;
        UNROLL for (u32 size = LANES / 2; size > 0; size /= 2) {
            const u32 at = index % size;
            const double *two = node + (size == LANES / 2 ? 0 : LANES + 2 * size) + at;
            if (is) node[LANES + size + at] = sum = two[0] + two[size];
            team_sync();
        }
        return sum;
    }
#endif

    // Chooses a child of the node at `begin`, as Butterfly::choose does.
    DEVICE_MEMBER static u32 choose(const TeamArray<double> &values, u32 begin, double &target) {
        u32 lane = 0;
        UNROLL for (u32 size = 1; size < LANES; size *= 2) {
            const u32 at = begin + (2 * size == LANES ? 0 : LANES + 2 * size) + lane;
            const double left = values[at], right = values[at + size];
            const bool go_right = (target >= left) & (right > 0);
            target -= go_right ? left : 0.0;
            lane += go_right ? size : 0;
        }
        return lane;
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
