// Trajectories that lanes of a GPU hand to each other when a launch has no more to begin. Trajectories differ
// in length, so a block keeps fewer and fewer of them, and its registers until the last has ended. When at
// most some of its lanes still have one, these park theirs and the block ends; lanes of other blocks go on
// with them as soon as their own end. Numbers do not depend on which lane runs a trajectory, or when.
//
// What is parked is a stack. Each lane parks once at most, in memory of its own, and ends then: so a place
// is never used again, and one word says all. The last lane that has a trajectory does not park it, and one
// that ends takes what is parked: nothing is left behind.
#pragma once

#include "ensemble/control.h"
#include "model.h"
#include "device/prelude.h"

#ifndef PARK_PART
#define PARK_PART 8
#define PARK_FLOOR 16
#endif

#ifndef PARK_PART
#define PARK_PART 8
#define PARK_FLOOR 16
#endif

// What a trajectory is made of at a moment between two events.
struct Parked {
    i64 row;
    u64 number;  // of its next draw
    double t;
    i32 k;       // samples so far
    u32 before;  // 1 + the lane that parked before this one; 0: none did
    i32 x[N_SPECIES];
};

// Words of 32 bits for each lane. The host gives them (kernels/exact/ssa.py).
constexpr int PARKED_WORDS = (9 + N_SPECIES) / 2 * 2;
static_assert(sizeof(Parked) == 4 * PARKED_WORDS);

struct Parking {
    u64 *word;        // lanes that have ended << 32 | 1 + the lane that parked last; 0: nothing is parked
    Parked *parked;   // [lanes]; null: nobody parks
    u32 *spare;       // lanes of the block that may end before it is sparse

    // One lane of each block calls it.
    DEVICE_MEMBER void begin() const {
        *spare = parked ? (u32)(BLOCK_THREADS - BLOCK_THREADS * PARK_PART / 16) : 0x7fffffffu;
    }

    // Whether the block should end, as far as it knows.
    DEVICE_MEMBER bool sparse() const {
        return (i32)read_in_block(spare) <= 0;
    }

    // The lane's trajectory waits for another lane, which there is. False: it does not.
    DEVICE_MEMBER bool park(const Parked &state) const {
        const i64 lane = GLOBAL_ID, lanes = GLOBAL_SIZE;
        volatile Parked &place = parked[lane];
        u64 seen = read_now(word);
        i64 least = lanes / PARK_FLOOR;
        while (lanes - (i64)(seen >> 32) > least + 1) {
            place.row = state.row, place.number = state.number, place.t = state.t, place.k = state.k;
            UNROLL for (int i = 0; i < N_SPECIES; ++i) place.x[i] = state.x[i];
            place.before = (u32)seen;
            threadfence();
            const u64 now = ((seen >> 32) + 1) << 32 | (u64)(lane + 1);
            const u64 found = atomic_compare_exchange(word, seen, now);
            if (found == seen) {
                add_in_block(spare, 0xffffffffu);
                return true;
            }
            seen = found;
        }
        return false;
    }

    // A lane that has none takes a trajectory. False: nothing is parked, and the lane has ended.
    DEVICE_MEMBER bool take(Parked &state) const {
        if (!parked) return false;
        u64 seen = read_now(word);
        for (;;) {
            const u32 last = (u32)seen;
            u64 now = seen + (1ull << 32);
            if (last) now = (seen >> 32) << 32 | ((const volatile Parked *)parked)[last - 1].before;
            const u64 found = atomic_compare_exchange(word, seen, now);
            if (found != seen) {
                seen = found;
                continue;
            }
            if (!last) break;
            threadfence();
            const volatile Parked &place = parked[last - 1];
            state.row = place.row, state.number = place.number, state.t = place.t, state.k = place.k;
            UNROLL for (int i = 0; i < N_SPECIES; ++i) state.x[i] = place.x[i];
            return true;
        }
        add_in_block(spare, 0xffffffffu);
        return false;
    }
};
