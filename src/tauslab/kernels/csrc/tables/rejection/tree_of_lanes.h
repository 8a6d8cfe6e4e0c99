// The tree of upper bounds of a team of threads, and what it knows of each species; included by
// tables/rejection/bounds.h, which says more.
//
// What is read and written most stands in shared memory, if there is room (SHARED_PARTS): first the root and four
// words of each species, which one load gets; then all nodes but those of the lowest level, which have all
// partial sums behind their children. Where there is no room for four words there are two (WORDS_OF_COUNT), and the
// ends of intervals stand in the device's memory.
//
// A node of the lowest level has four sums only, of every fourth child, and behind them its children, those of a
// sum side by side. A thread loads the four sums at once, then the eight children of one, and adds up what is between:
// sums that are stored would be loaded one after another, from the second cache where they have just been changed.
#pragma once

#include "tables/arguments.h"
#include "tables/rejection/intervals.h"

// Nodes of the lowest level; UPPER_NODES are above it, without the root.
constexpr i64 LOWEST_NODES = N_VALUES / NODE_SIZE - 1 - UPPER_NODES;
constexpr i64 ROOM_OF_SPECIES = (WORDS_OF_COUNT * N_PLACES + 3) / 4 * 2;  // doubles
constexpr i64 SHARED_STATE = (SHARED_PARTS > 0 ? NODE_SIZE + ROOM_OF_SPECIES : 0) +
                             (SHARED_PARTS > 1 ? NODE_SIZE * UPPER_NODES : 0);

DEVICE State state_of(double *values, i32 *, Whole *words, double *shared) {
    State s;
    s.v = {values};
    s.x = {SHARED_PARTS > 0 ? (i32 *)(shared + NODE_SIZE) : words};
    s.n = {nullptr, {words}};
    return s;
}

// The ends of a species' interval: behind its first two words, or apart from them.
DEVICE i32 *ends_of(const State &s, i32 species) {
    return WORDS_OF_COUNT == 4 ? s.x.base + (4 * (u32)species + 2)
                               : s.n.rest.base + 2 * (u32)species;
}

// What a team knows of a species: its count, by how many molecules the candidates of the team can change it
// at most, and its interval.
struct SpeciesWords {
    i32 count, possible;
    FluctuationInterval range;

    DEVICE_MEMBER SpeciesWords(const State &s, i32 species) {
        const i32 *const words = s.x.base + WORDS_OF_COUNT * (u32)species;
        if (WORDS_OF_COUNT == 4) {
            const IntQuad all = load_quad(words);
            count = all.a, possible = all.b;
            range = FluctuationInterval::between(all.c, all.d);
        } else {
            const IntPair two = load_pair(words), ends = load_pair(ends_of(s, species));
            count = two.a, possible = two.b;
            range = FluctuationInterval::between(ends.a, ends.b);
        }
    }
};

DEVICE i32 &possible_change(const State &s, i32 species) {
    return s.x.base[WORDS_OF_COUNT * (u32)species + 1];
}

DEVICE FluctuationInterval interval_of(const State &s, i32 species) {
    const IntPair ends = load_pair(ends_of(s, species));
    return FluctuationInterval::between(ends.a, ends.b);
}

DEVICE i32 high_of(const State &s, i32 species) {
    return ends_of(s, species)[1];
}

DEVICE void store_interval(const State &s, i32 species, FluctuationInterval range) {
    i32 *const ends = ends_of(s, species);
    ends[0] = range.low, ends[1] = range.high;
}

class BoundTree {
  public:
    DEVICE_MEMBER BoundTree(const State &s, double *shared)
        : root_{SHARED_PARTS > 0 ? shared : s.v.base},
          upper_{SHARED_PARTS > 1 ? shared + NODE_SIZE + ROOM_OF_SPECIES
                                  : s.v.base + NODE_SIZE * (1 + LOWEST_NODES)},
          lowest_{s.v.base + NODE_SIZE} {}

    DEVICE_MEMBER double total() const { return root_[LANES + 1]; }

    DEVICE_MEMBER i32 find(double &target) const {
        const u32 first = choose(&root_[0], target);
        if (first < ROOT_ITEMS) return (i32)first;
        u32 group = first - (u32)ROOT_ITEMS;
        UNROLL for (i32 level = ITEM_LEVELS - 1; level > 0; --level)
            group = group * LANES + choose(upper_node(level, group), target);
        if (ITEM_LEVELS > 0)
            group = group * LANES + choose_lowest(lowest_node(group), target);
        return (i32)(ROOT_ITEMS + group);
    }

    DEVICE_MEMBER void clear() const {
        team_each(0, NODE_SIZE, [&](i64 i) { root_[i] = 0.0; });
        team_each(0, LOWEST_SIZE * LOWEST_NODES, [&](i64 i) { lowest_[i] = 0.0; });
        team_each(0, NODE_SIZE * UPPER_NODES, [&](i64 i) { upper_[i] = 0.0; });
    }

    // Where the upper bound of an item is stored.
    DEVICE_MEMBER double &bound(u32 item) const {
        if (item < ROOT_ITEMS) return root_[item];
        const u32 index = item - (u32)ROOT_ITEMS;
        return *(eight_of(lowest_node(index / LANES), index) + index % LANES / SUMS);
    }

    DEVICE_MEMBER void sum_all(const Tables &tables) const {
        if (ITEM_LEVELS > 0) {
            team_each(0, tables.at(AT_LEVEL_NODES, 0), [&](i64 node) {
                double *const at = lowest_node((u32)node);
                UNROLL for (u32 i = 0; i < SUMS; ++i) at[i] = Eight(eight_of(at, i)).total();
                child(1, (u32)node) = total_of(at);
            });
            team_sync();
        }
        NO_UNROLL for (i32 level = 1; level < ITEM_LEVELS; ++level) {
            team_groups(0, tables.at(AT_LEVEL_NODES, level), [&](i64 node) {
                sum_node(upper_node(level, (u32)node), &child(level + 1, (u32)node));
            });
            team_sync();
        }
        sum_root();
    }

    // Stores the new bounds of readers `begin .. end - 1`, whose items are in order, and makes the sums above.
    template <class Make>
    DEVICE_MEMBER void renew(const Tables &, i32 begin, i32 end, Make make) const {
        NO_UNROLL for (i32 first = begin; first < end; first += TEAM_THREADS) {
            const i32 i = first + team_rank();
            u32 item = N_ITEMS;
            if (i < end) {
                const NewBound one = make(i);
                item = (u32)one.item;
                bound(item) = one.bound;
            }
            if (ITEM_LEVELS > 0) sum_above(item - (u32)ROOT_ITEMS, item >= ROOT_ITEMS && item < N_ITEMS);
        }
        team_sync();
        sum_root();
    }

  private:
    // Sums of a node of the lowest level, and its size.
    static constexpr u32 SUMS = 4, LOWEST_SIZE = SUMS + LANES;

    // Every fourth child of a node: in the butterfly, lanes i and i + 16 of the node are 4 apart here.
    class Eight {
      public:
        DEVICE_MEMBER explicit Eight(const double *from) {
            UNROLL for (int i = 0; i < 8; i += 2) {
                const RealPair two = load_pair(from + i);
                child_[i] = two.a, child_[i + 1] = two.b;
            }
            UNROLL for (int i = 0; i < 4; ++i) sum_[i] = child_[i] + child_[i + 4];
        }

        DEVICE_MEMBER double total() const {
            return (sum_[0] + sum_[2]) + (sum_[1] + sum_[3]);
        }

        // As Butterfly::choose does; the number of the child among the eight.
        DEVICE_MEMBER u32 choose(double &target) const {
            const bool odd = goes_right(sum_[0] + sum_[2], sum_[1] + sum_[3], target);
            const double low = odd ? sum_[1] : sum_[0], high = odd ? sum_[3] : sum_[2];
            const bool upper = goes_right(low, high, target);
            const double first = odd ? upper ? child_[3] : child_[1] : upper ? child_[2] : child_[0];
            const double second = odd ? upper ? child_[7] : child_[5] : upper ? child_[6] : child_[4];
            const bool last = goes_right(first, second, target);
            return (odd ? 1 : 0) + (upper ? 2 : 0) + (last ? 4 : 0);
        }

      private:
        double child_[8], sum_[4];
    };

    // Where the eight children are that `lane` of a node is one of.
    DEVICE_MEMBER static double *eight_of(double *node, u32 lane) {
        return node + SUMS + lane % SUMS * (LANES / SUMS);
    }

    DEVICE_MEMBER static double total_of(const double *node) {
        const RealPair low = load_pair(node), high = load_pair(node + 2);
        return (low.a + high.a) + (low.b + high.b);
    }

    DEVICE_MEMBER static u32 choose_lowest(double *node, double &target) {
        const RealPair low = load_pair(node), high = load_pair(node + 2);
        const bool odd = goes_right(low.a + high.a, low.b + high.b, target);
        const double left = odd ? low.b : low.a, right = odd ? high.b : high.a;
        const u32 sum = (odd ? 1 : 0) + (goes_right(left, right, target) ? 2 : 0);
        return sum + SUMS * Eight(eight_of(node, sum)).choose(target);
    }

    DEVICE_MEMBER static bool goes_right(double left, double right, double &target) {
        const bool right_half = (target >= left) & (right > 0);
        target -= right_half ? left : 0.0;
        return right_half;
    }

    DEVICE_MEMBER double *lowest_node(u32 node) const { return &lowest_[node * LOWEST_SIZE]; }

    DEVICE_MEMBER double *upper_node(i32 level, u32 node) const {
        return &upper_[((u32)(ITEM_LEVEL[level] - 1 - LOWEST_NODES) + node) * NODE_SIZE];
    }

    // Child number `index`, counted through the nodes of a level above the lowest; behind the last level it
    // is the root's.
    DEVICE_MEMBER double &child(i32 level, u32 index) const {
        if (level == ITEM_LEVELS) return root_[ROOT_ITEMS + index];
        return upper_node(level, index / LANES)[index % LANES];
    }

    // Chooses a child of a node that has its sums.
    DEVICE_MEMBER static u32 choose(const double *node, double &target) {
        u32 lane = 0;
        UNROLL for (u32 size = 1; size < LANES; size *= 2) {
            const double *left = node + (2 * size == LANES ? 0 : LANES + 2 * size) + lane;
            lane += goes_right(left[0], left[size], target) ? size : 0;
        }
        return lane;
    }

    // Makes the partial sums of a node by all threads, and stores the total in its parent as well, if it has one.
    DEVICE_MEMBER static void sum_node(double *node, double *parent) {
        const TeamArray<double> values = {node};
        lanes_partial_sums(Neighbours{values, 0}, [&](int i, double sum) {
            node[LANES + i] = sum;
            if (parent && i == 1) *parent = sum;
        });
    }

    DEVICE_MEMBER void sum_root() const {
        team_groups(0, 1, [&](i64) { sum_node(&root_[0], nullptr); });
        team_sync();
    }

    // Makes the sums above item number `index` of those below the root, if the thread `is` given one, but not
    // those of the root. Threads have different items, in order. The first of those that share a node sums it.
    DEVICE_MEMBER void sum_above(u32 index, bool is) const {
        const u32 lane = index % LANES;
        index /= LANES;
        const u32 before = LANES_READ(TEAM_LANES, index, own_lane() - 1);
        const bool first = is && (own_lane() == 0 || before != index);
        double *const node = lowest_node(is ? index : 0);
        team_sync();
        if (is) node[lane % SUMS] = Eight(eight_of(node, lane)).total();
        team_sync();
        if (first) child(1, index) = total_of(node);
        team_sync();
        NO_UNROLL for (i32 level = 1; level < ITEM_LEVELS; ++level, index /= LANES)
            sum_path(level, first ? index : 0, first);
    }

    // Adds up the sums of a level above child number `index`, which other threads may share.
    DEVICE_MEMBER void sum_path(i32 level, u32 index, bool is) const {
        double *const node = upper_node(level, index / LANES);
        double sum = 0;
        UNROLL for (u32 size = LANES / 2; size > 0; size /= 2) {
            const u32 at = index % size;
            const double *two = node + (size == LANES / 2 ? 0 : LANES + 2 * size) + at;
            if (is) node[LANES + size + at] = sum = two[0] + two[size];
            team_sync();
        }
        if (is) child(level + 1, index / LANES) = sum;
        team_sync();
    }

    TeamArray<double> root_, upper_, lowest_;
};
