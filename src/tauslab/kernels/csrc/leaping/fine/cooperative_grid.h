// A cooperative grid: the blocks of threads that run one trajectory together. All blocks of a launch run
// at the same time, so they may wait for each other at barriers. A CPU thread is a grid by itself.
// Loops over independent items are divided among the threads. What one thread wrote, all others may read
// after `sync`. Floating-point sums have the canonical shape (device/butterfly.h), other sums are of
// integers, and a minimum does not depend on its order. So results do not depend on the size of a grid.
#pragma once

#include "model.h"
#include "team/team.h"

// Words of a barrier: arrivals; 128 bytes behind, the last barrier that was passed; times of parts of a step.
constexpr i64 BARRIER_WORDS = 32, GO_ON = 16;

// 32 neighbours in memory, as lanes.
struct Neighbours32 {
    const double *at;
    DEVICE_MEMBER double operator()(int lane) const { return at[lane]; }
#ifdef HAS_OCTETS
    DEVICE_MEMBER Octet octet(int lane) const { return load_octet(at + lane); }
#endif
};

#if TEAM_THREADS == 1

// A number for each lane. One thread holds all of them.
struct LaneValues {
    double at[LANES];
    DEVICE_MEMBER void set(int lane, double value) { at[lane] = value; }
    DEVICE_MEMBER double operator()(int lane) const { return at[lane]; }
#ifdef HAS_OCTETS
    DEVICE_MEMBER Octet octet(int lane) const { return load_octet(at + lane); }
#endif
};

DEVICE void lanes_sync() {}

// The sum over the threads of a warp.
DEVICE i64 lanes_whole_sum(i64 own) {
    return own;
}

struct OneThread {
    template <class Work>
    DEVICE_MEMBER void each(i64 begin, i64 end, Work work) const {
        for (i64 i = begin; i < end; ++i) work(i);
    }

    // `work(i)` for every i, each by 32 lanes.
    template <class Work>
    DEVICE_MEMBER void groups(i64 begin, i64 end, Work work) const {
        for (i64 i = begin; i < end; ++i) work(i);
    }

    DEVICE_MEMBER void sync() const {}
    DEVICE_MEMBER bool leader() const { return true; }
    DEVICE_MEMBER bool first_warp() const { return true; }
};

typedef OneThread BlockThreads;

struct CooperativeGrid : OneThread {
    i64 number;  // which of the launch's grids it is

    DEVICE_MEMBER CooperativeGrid(i64 thread, i64, u64 *) : number(thread) {}
    DEVICE_MEMBER bool first_block() const { return true; }

    // Waits for all threads; then one block calls `work(block)`, and all may continue.
    template <class Work>
    DEVICE_MEMBER void sync_then(Work work) {
        work(OneThread());
    }

    // `cell` becomes the least of itself and every thread's own.
    DEVICE_MEMBER void least(u64 *cell, double own) const {
        if (as_bits(own) < *cell) *cell = as_bits(own);
    }
};

#else

struct LaneValues {
    double own;
    DEVICE_MEMBER void set(int, double value) { own = value; }
    DEVICE_MEMBER double operator()(int) const { return own; }
};

DEVICE void lanes_sync() {
    LANES_BARRIER(LANES);
}

DEVICE i64 lanes_whole_sum(i64 own) {
    UNROLL for (int size = LANES / 2; size > 0; size /= 2) own += LANES_EXCHANGE(LANES, own, size);
    return own;
}

// The threads of one block.
struct BlockThreads {
    template <class Work>
    DEVICE_MEMBER void each(i64 begin, i64 end, Work work) const {
        for (i64 i = begin + THREAD_IN_BLOCK; i < end; i += BLOCK_SIZE) work(i);
    }

    template <class Work>
    DEVICE_MEMBER void groups(i64 begin, i64 end, Work work) const {
        for (i64 i = begin + THREAD_IN_BLOCK / LANES; i < end; i += BLOCK_SIZE / LANES) work(i);
    }

    DEVICE_MEMBER void sync() const { BLOCK_BARRIER(); }
    DEVICE_MEMBER bool leader() const { return THREAD_IN_BLOCK == 0; }
    DEVICE_MEMBER bool first_warp() const { return THREAD_IN_BLOCK < LANES; }
};

class CooperativeGrid {
  public:
    i64 number;

    DEVICE_MEMBER CooperativeGrid(i64, i64 blocks, u64 *barriers)
        : number(BLOCK_ID / blocks),
          blocks_(blocks),
          block_(BLOCK_ID % blocks),
          barrier_(barriers + number * BARRIER_WORDS),
          barriers_passed_(0) {}

    DEVICE_MEMBER bool first_block() const { return block_ == 0; }
    DEVICE_MEMBER bool leader() const { return block_ == 0 && THREAD_IN_BLOCK == 0; }

    template <class Work>
    DEVICE_MEMBER void each(i64 begin, i64 end, Work work) const {
        for (i64 i = begin + block_ * BLOCK_SIZE + THREAD_IN_BLOCK; i < end;
             i += blocks_ * BLOCK_SIZE)
            work(i);
    }

    // Neighbouring groups go to different blocks, so that few groups keep many multiprocessors busy.
    template <class Work>
    DEVICE_MEMBER void groups(i64 begin, i64 end, Work work) const {
        for (i64 i = begin + THREAD_IN_BLOCK / LANES * blocks_ + block_; i < end;
             i += blocks_ * (BLOCK_SIZE / LANES))
            work(i);
    }

    DEVICE_MEMBER void sync() {
        sync_then([](const BlockThreads &) {});
    }

    template <class Work>
    DEVICE_MEMBER void sync_then(Work work) {
        ++barriers_passed_;
        BLOCK_BARRIER();
        bool last = blocks_ == 1;
        if (!last) {
            bool own = false;
            if (THREAD_IN_BLOCK == 0) {
                threadfence();
                own = atomic_add(&barrier_[0], 1) + 1 == barriers_passed_ * (u64)blocks_;
                threadfence();
            }
            last = BLOCK_ANY(own);
        }
        if (last) {
            work(BlockThreads());
            BLOCK_BARRIER();
        }
        if (blocks_ > 1 && THREAD_IN_BLOCK == 0) {
            if (last) {
                threadfence();
                *(volatile u64 *)&barrier_[GO_ON] = barriers_passed_;
            } else {
                while (*(volatile u64 *)&barrier_[GO_ON] < barriers_passed_) wait_a_little();
                threadfence();
            }
        }
        BLOCK_BARRIER();
    }

    // For numbers that are not negative: their bits have the same order.
    DEVICE_MEMBER void least(u64 *cell, double own) const {
        UNROLL for (int size = LANES / 2; size > 0; size /= 2) {
            const double other = LANES_EXCHANGE(LANES, own, size);
            own = other < own ? other : own;
        }
        if (first_lane()) atomic_least(cell, as_bits(own));
    }

  private:
    i64 blocks_, block_;
    u64 *barrier_;
    u64 barriers_passed_;
};

#endif
