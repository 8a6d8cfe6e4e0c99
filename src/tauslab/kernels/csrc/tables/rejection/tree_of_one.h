// The tree of upper bounds of one thread, and its intervals; included by tables/rejection/bounds.h, which says
// more. Behind the children of a node are all partial sums of their butterfly.
#pragma once

#include "tables/arguments.h"
#include "tables/rejection/intervals.h"

constexpr i64 SHARED_STATE = 0;

DEVICE State state_of(double *values, i32 *counts, Whole *words, double *) {
    State s;
    s.v = {values};
    s.x = {counts};
    s.n = {nullptr, {words}};
    return s;
}

DEVICE FluctuationInterval interval_of(const State &s, i32 species) {
    const i64 at = 4 * (i64)species;
    const TeamArray<Whole> &words = s.n.rest;
    return {words[at], words[at + 1], words[at + 2], words[at + 3]};
}

DEVICE i32 high_of(const State &s, i32 species) {
    return s.n.rest[4 * (i64)species + 1];
}

DEVICE void store_interval(const State &s, i32 species, FluctuationInterval range) {
    const i64 at = 4 * (i64)species;
    const TeamArray<Whole> &words = s.n.rest;
    words[at] = range.low, words[at + 1] = range.high;
    words[at + 2] = range.first, words[at + 3] = range.width;
}

struct BoundTree {
    TeamArray<double> values;  // the root first, then the nodes of each level

    DEVICE_MEMBER BoundTree(const State &s, double *) : values(s.v) {}

    DEVICE_MEMBER double total() const { return values[LANES + 1]; }

    DEVICE_MEMBER i32 find(double &target) const {
        const u32 first = choose(0, target);
        if (first < ROOT_ITEMS) return (i32)first;
        u32 group = first - (u32)ROOT_ITEMS;
        UNROLL for (i32 level = ITEM_LEVELS - 1; level >= 0; --level)
            group = group * LANES + choose(((u32)ITEM_LEVEL[level] + group) * NODE_SIZE, target);
        return (i32)(ROOT_ITEMS + group);
    }

    DEVICE_MEMBER void clear() const {
        for (i64 i = 0; i < N_VALUES; ++i) values[i] = 0.0;
    }

    // Where the upper bound of an item is stored.
    DEVICE_MEMBER double &bound(u32 item) const {
        return item < ROOT_ITEMS ? values[item] : child(0, item - (u32)ROOT_ITEMS);
    }

    DEVICE_MEMBER void sum_all(const Tables &tables) const {
        for (i32 level = 0; level < ITEM_LEVELS; ++level)
            for (i32 node = 0; node < tables.at(AT_LEVEL_NODES, level); ++node)
                update(level, (u32)node);
        update(ITEM_LEVELS, 0);
    }

    // Stores the new bounds of readers `begin .. end - 1`, whose items are in order, and makes the sums above.
    template <class Make>
    DEVICE_MEMBER void renew(const Tables &tables, i32 begin, i32 end, Make make) const {
        for (i32 i = begin; i < end; ++i) {
            const NewBound one = make(i);
            bound((u32)one.item) = one.bound;
        }
        for (i32 level = 0; level <= ITEM_LEVELS; ++level)
            for (i32 i = begin, done = -1; i < end; ++i) {
                const u32 item = (u32)tables.quad(AT_READER, i).a;
                if (level < ITEM_LEVELS && item < ROOT_ITEMS) continue;
                const i32 node = level == ITEM_LEVELS
                                     ? 0
                                     : (i32)((item - (u32)ROOT_ITEMS) >> 5 * (level + 1));
                if (node != done) update(level, (u32)node);
                done = node;
            }
    }

  private:
    // Child number `index`, counted through the nodes of a level; behind the last level it is the root's.
    DEVICE_MEMBER double &child(i32 level, u32 index) const {
        if (level == ITEM_LEVELS) return values[ROOT_ITEMS + index];
        return values[((u32)ITEM_LEVEL[level] + index / LANES) * NODE_SIZE + index % LANES];
    }

    // Computes the partial sums of a node, and stores their total in its parent.
    DEVICE_MEMBER void update(i32 level, u32 node) const {
        const bool is_root = level == ITEM_LEVELS;
        const u32 begin = is_root ? 0 : ((u32)ITEM_LEVEL[level] + node) * NODE_SIZE;
        lanes_partial_sums(Neighbours{values, (i32)begin}, [&](int i, double sum) {
            values[begin + LANES + i] = sum;
            if (i == 1 && !is_root) child(level + 1, node) = sum;
        });
    }

    // Chooses a child of the node at `begin`, as Butterfly::choose does.
    DEVICE_MEMBER u32 choose(u32 begin, double &target) const {
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
