// A team of threads that exchange numbers; included by team/team.h, which says more.
#pragma once

#include "device/butterfly.h"
#include "model.h"

// With 8 blocks a thread has 64 registers, so that a multiprocessor has room for 32 warps.
#define TEAM_KERNEL(name, ...) KERNEL_IN_BLOCKS(TEAM_BLOCKS, name, __VA_ARGS__)

// Threads that exchange numbers, and how many of 32 lanes each of them has.
constexpr int TEAM_LANES = TEAM_THREADS < LANES ? TEAM_THREADS : LANES;
constexpr int EACH = LANES / TEAM_LANES;
constexpr int TEAM_WARPS = TEAM_THREADS / TEAM_LANES;
constexpr int TEAM_NEAR = TEAM_LANES;

#ifdef HAS_TEAM_BALLOT
#define TEAM_BALLOT(condition) ballot_of_team<TEAM_LANES>(condition)
#else
#define TEAM_BALLOT(condition) LANES_BALLOT(TEAM_LANES, condition)
#endif

DEVICE int team_rank() {
    return (int)(THREAD_IN_BLOCK % TEAM_THREADS);
}

DEVICE int own_lane() {
    return (int)(THREAD_IN_BLOCK % TEAM_LANES);
}

DEVICE void team_sync() {
    if (TEAM_WARPS == 1)
        LANES_BARRIER(TEAM_LANES);
    else
        BLOCK_BARRIER();
}

DEVICE bool team_leader() {
    return team_rank() == 0;
}

// The leader's value.
DEVICE i64 team_same(i64 value) {
    if (TEAM_WARPS == 1) return LANES_READ(TEAM_LANES, value, 0);
    BLOCK_SHARED i64 shared;
    BLOCK_BARRIER();
    if (team_leader()) shared = value;
    BLOCK_BARRIER();
    return shared;
}

// Every thread of the team has to get here.
DEVICE bool team_any(bool condition) {
    if (TEAM_WARPS == 1) return TEAM_BALLOT(condition) != 0;
    return BLOCK_ANY(condition);
}

template <class Work>
DEVICE void team_each(i64 begin, i64 end, Work work) {
    NO_UNROLL for (u32 i = (u32)(begin + team_rank()); i < (u32)end; i += TEAM_THREADS) work(i);
}

// Four at a time, so that their loads overlap.
template <class Make, class Store>
DEVICE void team_make(i64 count, Make make, Store store) {
    constexpr int BATCH = 4;
    NO_UNROLL for (u32 first = (u32)team_rank(); first < (u32)count;
                   first += BATCH * TEAM_THREADS) {
        double value[BATCH];
        UNROLL for (int i = 0; i < BATCH; ++i) {
            const u32 at = first + i * TEAM_THREADS;
            value[i] = make(at < (u32)count ? at : first);
        }
        UNROLL for (int i = 0; i < BATCH; ++i)
            if (first + i * TEAM_THREADS < (u32)count) store(first + i * TEAM_THREADS, value[i]);
    }
}

// Likewise.
template <class Number, class Entry, class Numbers>
DEVICE void team_add(i64 begin, i64 end, Entry entry, i32 by, const Numbers &numbers) {
    constexpr int BATCH = 4;
    NO_UNROLL for (u32 first = (u32)(begin + team_rank()); first < (u32)end;
                   first += BATCH * TEAM_THREADS) {
        IntPair one[BATCH];
        Number number[BATCH];
        UNROLL for (int i = 0; i < BATCH; ++i) {
            const u32 at = first + i * TEAM_THREADS;
            one[i] = entry(at < (u32)end ? at : first);
        }
        UNROLL for (int i = 0; i < BATCH; ++i) number[i] = numbers[one[i].a];
        UNROLL for (int i = 0; i < BATCH; ++i)
            if (first + i * TEAM_THREADS < (u32)end) numbers[one[i].a] = number[i] + (Number)by * one[i].b;
    }
}

template <class Work>
DEVICE void team_groups(i64 begin, i64 end, Work work) {
    NO_UNROLL for (u32 i = (u32)(begin + team_rank() / TEAM_LANES); i < (u32)end; i += TEAM_WARPS)
        work(i);
}

// Each lane is done by the thread that also has it in a sum.
template <class Work>
DEVICE void lanes_each(Work work) {
    UNROLL for (int i = 0; i < EACH; ++i) work(own_lane() + i * TEAM_LANES);
}

DEVICE bool first_lane() {
    return own_lane() == 0;
}

// Every thread descends the tree as if the choice fell on one of its lanes. At each level it has the sum of its
// own half, and from the way up its neighbour's. The thread that never turns away from its own half has the
// choice. WIDTH is a power of two: a sum with a lane beyond it is a sum with zero. Threads beyond WIDTH repeat
// what one of the first WIDTH does, so all have the total.
template <class Value, int WIDTH = LANES>
class LaneSums {
  public:
    DEVICE_MEMBER LaneSums() {}

    DEVICE_MEMBER explicit LaneSums(const Value &value) {
        load(value);
        add_up();
    }

    DEVICE_MEMBER void load(const Value &value) {
        UNROLL for (int i = 0; i < EACH; ++i) {
            const int lane = (own_lane() + i * TEAM_LANES) % WIDTH;
            held_[EACH + i] = i * TEAM_LANES < WIDTH ? value(lane) : 0.0;
        }
    }

    // The value of a lane, if the thread has it.
    DEVICE_MEMBER void replace(int lane, double value) {
        UNROLL for (int i = 0; i < EACH; ++i)
            if (lane == own_lane() + i * TEAM_LANES) held_[EACH + i] = value;
    }

    DEVICE_MEMBER void add_up() {
        UNROLL for (int size = EACH / 2; size > 0; size /= 2)
            UNROLL for (int i = 0; i < size; ++i) held_[size + i] =
                held_[2 * size + i] + held_[3 * size + i];
        double sum = held_[1];
        UNROLL for (int level = 0; level < LEVELS; ++level) {
            const int size = TEAM_LANES / 2 >> level;
            mine_[level] = sum;
            if (size >= WIDTH) continue;
            other_[level] = LANES_EXCHANGE(TEAM_LANES, sum, size);
            sum += other_[level];
        }
        total_ = sum;
    }

    DEVICE_MEMBER double total() const { return total_; }

    DEVICE_MEMBER int choose(double &target) const {
        bool here = true;  // of threads with the same lane the first is found
        double left_over = target;
        UNROLL for (int level = LEVELS - 1; level >= 0; --level) {
            if (TEAM_LANES / 2 >> level >= WIDTH) continue;
            const bool is_right = (own_lane() & (TEAM_LANES / 2 >> level)) != 0;
            const double left = is_right ? other_[level] : mine_[level];
            const double right = is_right ? mine_[level] : other_[level];
            const bool go_right = turn(left, right, left_over);
            here = here && go_right == is_right;
        }
        int own = 0;  // of the lanes of this thread
        UNROLL for (int size = 1; size < EACH; size *= 2) {
            double left = held_[2 * size], right = held_[3 * size];
            UNROLL for (int i = 1; i < size; ++i) {
                left = own == i ? held_[2 * size + i] : left;
                right = own == i ? held_[3 * size + i] : right;
            }
            own += turn(left, right, left_over) ? size : 0;
        }
        const int lane = FIRST_SET(TEAM_BALLOT(here));
        target = LANES_READ(TEAM_LANES, left_over, lane);
        return lane + (EACH > 1 ? LANES_READ(TEAM_LANES, own, lane) * TEAM_LANES : 0);
    }

  private:
    static constexpr int LEVELS = TEAM_LANES == 32 ? 5 : TEAM_LANES == 16 ? 4 : 3;

    DEVICE_MEMBER static bool turn(double left, double right, double &target) {
        const bool go_right = target >= left && right > 0;
        target -= go_right ? left : 0.0;
        return go_right;
    }

    double held_[2 * EACH];  // partial sums of the thread's own lanes, as in a Butterfly
    double mine_[LEVELS], other_[LEVELS], total_;
};

template <class Value>
DEVICE double lanes_sum(const Value &value) {
    return LaneSums<Value>(value).total();
}

// Sums over the lanes of COUNT items, with the bits of LaneSums: `sum` has of each item the sum of the thread's own
// lanes. A thread gets the total of item number `own_item`. With each exchange a thread gives half of its items away.
template <int COUNT>
DEVICE int own_item() {
    return own_lane() / (TEAM_LANES / COUNT);
}

template <int COUNT>
DEVICE bool is_first_of_item() {
    return own_lane() % (TEAM_LANES / COUNT) == 0;
}

template <int COUNT, int DISTANCE = TEAM_LANES / 2>
DEVICE double lanes_totals(double *sum) {
    constexpr int HALF = COUNT / 2;
    const bool upper = (own_lane() & DISTANCE) != 0;
    if constexpr (HALF > 0) {
        UNROLL for (int i = 0; i < HALF; ++i) {
            const double given = upper ? sum[i] : sum[i + HALF];
            const double kept = upper ? sum[i + HALF] : sum[i];
            sum[i] = kept + LANES_EXCHANGE(TEAM_LANES, given, DISTANCE);
        }
    } else {
        sum[0] += LANES_EXCHANGE(TEAM_LANES, sum[0], DISTANCE);
    }
    if constexpr (DISTANCE > 1) return lanes_totals<(HALF > 0 ? HALF : 1), DISTANCE / 2>(sum);
    return sum[0];
}

template <class Value, class Store>
DEVICE void lanes_partial_sums(const Value &value, Store store) {
    double held[2 * EACH];
    UNROLL for (int i = 0; i < EACH; ++i) held[EACH + i] = value(own_lane() + i * TEAM_LANES);
    UNROLL for (int size = EACH / 2; size > 0; size /= 2)
        UNROLL for (int i = 0; i < size; ++i) {
            held[size + i] = held[2 * size + i] + held[3 * size + i];
            store(size * TEAM_LANES + own_lane() + i * TEAM_LANES, held[size + i]);
        }
    double sum = held[1];
    UNROLL for (int size = TEAM_LANES / 2; size > 0; size /= 2) {
        sum += LANES_EXCHANGE(TEAM_LANES, sum, size);
        if (own_lane() < size) store(size + own_lane(), sum);
    }
}

// The first of `width` lanes; others are zero.
template <class Value>
struct FirstLanes {
    const Value &value;
    int width;
    DEVICE_MEMBER double operator()(int lane) const { return lane < width ? value(lane) : 0.0; }
};

template <class Value>
DEVICE int lanes_choose(int width, const Value &value, double &target) {
    const FirstLanes<Value> first = {value, width};
    if (width <= 8) return LaneSums<FirstLanes<Value>, 8>(first).choose(target);
    return LaneSums<FirstLanes<Value>>(first).choose(target);
}

// A thread adds up neighbouring lanes: whole numbers may be added in any order.
template <class Value, class Number>
DEVICE int lanes_find(int count, Value value, Number &rank) {
    Number held[EACH], sum = 0;
    UNROLL for (int i = 0; i < EACH; ++i) {
        const int lane = own_lane() * EACH + i;
        sum += held[i] = lane < count ? value(lane) : 0;
    }
    const Number own = sum;
    UNROLL for (int distance = 1; distance < TEAM_LANES; distance *= 2) {
        const Number before = LANES_READ(TEAM_LANES, sum, own_lane() - distance);
        sum += own_lane() >= distance ? before : 0;
    }
    const u32 above = TEAM_BALLOT(sum > rank);
    if (above == 0) {
        rank -= LANES_READ(TEAM_LANES, sum, TEAM_LANES - 1);
        return count;
    }
    Number left = rank - (sum - own);
    int found = own_lane() * EACH;
    UNROLL for (int i = 0, passed = 1; i < EACH - 1; ++i) {
        passed = passed && left >= held[i];
        left -= passed ? held[i] : 0;
        found += passed;
    }
    const int lane = FIRST_SET(above);
    rank = LANES_READ(TEAM_LANES, left, lane);
    return EACH > 1 ? LANES_READ(TEAM_LANES, found, lane) : lane;
}

template <class Item, class Store>
DEVICE void team_sums(i64 begin, i64 end, Item item, Store store) {
    i32 first = (i32)begin;
    const i32 last = (i32)end;
    NO_UNROLL for (int batch = 0; first < last; ++batch) {
        const auto head = item(first);
        const int exponent = head.exponent();
        const bool turn = batch % TEAM_WARPS == team_rank() / TEAM_LANES;
        if (EACH > 1 && 1 << exponent > TEAM_LANES) {  // one item alone
            if (turn) {
                const auto lanes = head.lanes();
                const FirstLanes<decltype(lanes)> width = {lanes, 1 << exponent};
                const double sum = LaneSums<FirstLanes<decltype(lanes)>>(width).total();
                if (first_lane()) store(head, sum);
            }
            ++first;
            continue;
        }
        const i32 i = first + (own_lane() >> exponent);
        first += TEAM_LANES >> exponent;
        if (!turn) continue;
        const int lane = own_lane() & ((1 << exponent) - 1);
        const auto one = i < last ? item(i) : head;
        double sum = i < last && lane < 1 << one.exponent() ? one.lanes()(lane) : 0.0;
        if (exponent <= 3) {  // most are, and a turn of a loop costs as much as an exchange
            UNROLL for (int size = 4; size > 0; size /= 2) {
                const double other = LANES_EXCHANGE(TEAM_LANES, sum, size);
                sum += size < 1 << exponent ? other : 0.0;
            }
        } else {
            NO_UNROLL for (int size = 1 << exponent >> 1; size > 0; size /= 2)
                sum += LANES_EXCHANGE(TEAM_LANES, sum, size);
        }
        if (i < last && lane == 0) store(one, sum);
    }
}
