// A block has `per_lane` times as many trajectories as lanes, of which `width` of each warp take part, in slots. A lane holds one of them; the others are
// parked in memory [word, slot] and stand in a queue of the phase that each is in, 0 or 1. The queues are in shared
// memory, for all warps of the block: of two warps one may take all that are in one phase, the other the rest.
#pragma once

#include "device/prelude.h"

constexpr int WARP = 32;
// The host has so many trajectories for a lane at most (MOST_PER_LANE).
constexpr int QUEUE = 4 * THREADS_PER_BLOCK;
static_assert((QUEUE & (QUEUE - 1)) == 0);

constexpr u32 IDLE =
    1000;  // nanoseconds in which a warp with nothing to do leaves its scheduler to others

// Shared by the warps of a block. Who holds the lock reads and writes it.
struct Queues {
    i32 lock;
    u32 begin[2], end[2];
    i32 alive;  // trajectories that have not ended; none where the warps are to leave
    unsigned short slots[2][QUEUE];
};

template <class State>
struct WorkStealing {
    static constexpr int WORDS = sizeof(State) / 4;
    static_assert(WORDS <= PARKED_WORDS, "the host gives a slot this much memory");

    bool here = false;
    int phase = 0, next_phase = 0;
    volatile Queues *queues;
    u32 *memory;
    int per_lane, width, slots, thread, lane, mine = -1, waited = 0;

    DEVICE_MEMBER WorkStealing(u32 *all, int turns, int lanes)
        : per_lane(turns), width(lanes), slots(turns * THREADS_PER_BLOCK) {
        BLOCK_SHARED Queues shared;
        queues = &shared;
        thread = (int)THREAD_IN_BLOCK, lane = thread % WARP;
        memory = all + BLOCK_ID * slots * PARKED_WORDS;
    }

    DEVICE_MEMBER void park(const State &s, int slot) const {
        u32 words[WORDS];
        memcpy(words, &s, sizeof s);
        UNROLL for (int i = 0; i < WORDS; ++i) memory[i * slots + slot] = words[i];
    }

    DEVICE_MEMBER void take(State &s, int slot) const {
        u32 words[WORDS];
        UNROLL for (int i = 0; i < WORDS; ++i) words[i] = memory[i * slots + slot];
        memcpy(&s, words, sizeof s);
    }

    // Parked states are written before others may find them, and the queues before the lock is open.
    DEVICE_MEMBER void enter() const {
        fence_in_block();
        LANES_BARRIER(WARP);
        if (lane == 0)
            while (atomic_compare_exchange((i32 *)&queues->lock, 0, 1) != 0) wait_a_little();
        LANES_BARRIER(WARP);
        fence_in_block();
    }

    DEVICE_MEMBER void leave() const {
        fence_in_block();
        LANES_BARRIER(WARP);
        if (lane == 0) queues->lock = 0;
        LANES_BARRIER(WARP);
    }

    // Puts the slots of the lanes in `mask` into a queue. Within the lock.
    DEVICE_MEMBER void push(u32 mask, int to, int slot) const {
        const u32 end = queues->end[to];
        if (mask >> lane & 1)
            queues->slots[to][(end + before(mask)) % QUEUE] = (unsigned short)slot;
        LANES_BARRIER(WARP);
        if (lane == 0) queues->end[to] = end + (u32)popc(mask);
    }

    DEVICE_MEMBER int before(u32 mask) const { return popc(mask & ((1u << lane) - 1)); }

    template <class Begin>
    DEVICE_MEMBER void fill(State &s, const Begin &begin) {
        if (thread == 0) {
            queues->lock = 0, queues->alive = 0;
            for (int i = 0; i < 2; ++i) queues->begin[i] = queues->end[i] = 0;
        }
        BLOCK_BARRIER();
        for (int i = 0; i < per_lane; ++i) {
            const bool there = lane < width && begin(s);
            const int slot = i * THREADS_PER_BLOCK + thread;
            if (there) park(s, slot);
            const u32 mask = LANES_BALLOT(WARP, there);
            enter();
            push(mask, 0, slot);
            if (lane == 0) queues->alive = queues->alive + popc(mask);
            leave();
        }
        BLOCK_BARRIER();
    }

    // The warp is not to go on: no other waits for what it holds.
    DEVICE_MEMBER void stop() const {
        enter();
        if (lane == 0) queues->alive = -(1 << 30);
        leave();
    }

    // The phase with most trajectories, until those of the other have waited long enough. False if there are none.
    DEVICE_MEMBER bool choose() {
        int count[2];
        for (int i = 0; i < 2; ++i) {
            const int parked = (int)(queues->end[i] - queues->begin[i]);
            count[i] = LANES_READ(WARP, parked, 0) + lanes_where(here && next_phase == i);
        }
        const int most = count[1] > count[0], other = 1 - most;
        waited += count[other];
        phase = waited >= count[most] && count[other] > 0 ? other : most;
        if (phase == other) waited = 0;
        return count[most] > 0;
    }

    DEVICE_MEMBER bool next(State &s) {
        const u32 ended = LANES_BALLOT(WARP, mine >= 0 && !here);
        if (!here) mine = -1;
        if (ended) {
            enter();
            if (lane == 0) queues->alive = queues->alive - popc(ended);
            leave();
        }
        do {
            while (!choose()) {
                // Others may hold trajectories that change their phase.
                if (LANES_READ(WARP, (i32)queues->alive, 0) <= 0) return false;
                wait_a_little(IDLE);
            }
            const bool gives = here && next_phase != phase;
            if (gives) park(s, mine);
            const u32 given = LANES_BALLOT(WARP, gives);
            enter();
            if (given) push(given, 1 - phase, mine);
            if (gives) mine = -1;
            const u32 free = LANES_BALLOT(WARP, mine < 0 && lane < width);
            const u32 begin = queues->begin[phase];
            const int found = (int)(queues->end[phase] - begin);
            const bool takes = (free >> lane & 1) && before(free) < found;
            if (takes) mine = (int)queues->slots[phase][(begin + (u32)before(free)) % QUEUE];
            LANES_BARRIER(WARP);
            const int taken = popc(free) < found ? popc(free) : found;
            if (lane == 0) queues->begin[phase] = begin + (u32)taken;
            leave();
            if (takes) take(s, mine);
            here = mine >= 0;
            next_phase = phase;
        } while (!any_lane(here));
        return true;
    }
};
