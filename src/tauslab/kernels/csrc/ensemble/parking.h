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

// What a trajectory is made of at a moment between two events.
struct Parked {
    i64 row;
    u64 number;  // of its next draw
    double t;
    i32 k;  // samples so far
    i32 x[N_SPECIES];
};

// Words of a lane in memory: the state, and which lane parked before. The host gives a lane so many.
constexpr int PARKED_WORDS = 9 + N_SPECIES;
static_assert(sizeof(Parked) < 4 * PARKED_WORDS);

struct Parking {
    u64 *word;     // lanes that have ended << 32 | 1 + the lane that parked last; 0: nothing is parked
    u32 *memory;   // [lanes, PARKED_WORDS]; null: nobody parks
    u32 *working;  // lanes of the block that have a trajectory

    // One lane of each block calls it.
    DEVICE_MEMBER void begin() const { *working = memory ? (u32)BLOCK_THREADS : 0xffffffffu; }

    DEVICE_MEMBER u32 *place_of_lane(i64 number) const { return memory + number * PARKED_WORDS; }

    // Whether the block should end, as far as it knows.
    DEVICE_MEMBER bool sparse() const {
        return *(const volatile u32 *)working <= (u32)BLOCK_THREADS * PARK_PART / 16;
    }

    // The lane's trajectory waits for another lane. False: it does not, since hardly any lane would come.
    DEVICE_MEMBER bool park(const Parked &state) const {
        u32 words[PARKED_WORDS] = {};
        memcpy(words, &state, sizeof state);
        const i64 lane = GLOBAL_ID, lanes = GLOBAL_SIZE;
        u32 *const place = place_of_lane(lane);
        u64 seen = read_now(word);
        if (lanes - (i64)(seen >> 32) <= lanes / PARK_FLOOR + 1) return false;
        UNROLL for (int i = 0; i < PARKED_WORDS - 1; ++i) place[i] = words[i];
        for (;;) {
            place[PARKED_WORDS - 1] = (u32)seen;
            threadfence();
            const u64 now = ((seen >> 32) + 1) << 32 | (u64)(lane + 1);
            const u64 found = atomic_compare_exchange(word, seen, now);
            if (found == seen) break;
            seen = found;
            if (lanes - (i64)(seen >> 32) <= 1) return false;
        }
        add_in_block(working, 0xffffffffu);
        return true;
    }

    // A lane that has none takes a trajectory. False: nothing is parked, and the lane has ended.
    DEVICE_MEMBER bool take(Parked &state) const {
        if (!memory) return false;
        u64 seen = read_now(word);
        for (;;) {
            const u32 top = (u32)seen;
            u64 now = seen + (1ull << 32);
            const volatile u32 *place = memory;
            if (top) {
                place = place_of_lane((i64)top - 1);
                now = (seen >> 32) << 32 | place[PARKED_WORDS - 1];
            }
            const u64 found = atomic_compare_exchange(word, seen, now);
            if (found != seen) {
                seen = found;
                continue;
            }
            if (!top) break;
            threadfence();
            u32 words[PARKED_WORDS] = {};
            UNROLL for (int i = 0; i < PARKED_WORDS - 1; ++i) words[i] = place[i];
            memcpy(&state, words, sizeof state);
            return true;
        }
        add_in_block(working, 0xffffffffu);
        return false;
    }
};
