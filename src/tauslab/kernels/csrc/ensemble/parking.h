// Trajectories that lanes of a GPU hand to each other when a launch has no more to begin. Trajectories differ
// in length, so a block keeps fewer and fewer of them, and its registers until the last has ended. When some
// of its lanes have ended, the others park theirs, and the block ends; lanes of other blocks go on
// with them as soon as their own end. Numbers do not depend on which lane runs a trajectory, or when.
//
// What is parked is a queue. One word counts those that came, those that were taken, and the lanes that have
// left the launch, so that each step is one addition, and all lanes agree on the order of all steps:
//
//   - A lane that has no trajectory takes the next of the queue. If there is none, it leaves, unless the
//     addition that says so finds that one has come.
//   - A lane that parks leaves with the same addition. If it was the last one, it takes one back.
//   - Two lanes may see one trajectory in the queue. The one that comes later has taken the number of one
//     that has not come, and who parks under that number keeps its trajectory.
//
// So while something is parked there is a lane that has not left, and that will look: nothing is left behind.
#pragma once

#include "ensemble/control.h"
#include "model.h"

// A block ends when one lane in PARK_ENDED has. A lane parks nothing that has fewer firings than PARK_EVENTS
// to come, and nothing when one lane in PARK_LEAST is left: the launch ends soon, and free blocks are of no
// use to it. It parks nothing either while one waits for each PARK_WAITING lanes that run: where lengths differ in
// the same way in all blocks, all would end at once, and few lanes were left for what they had.
constexpr i64 PARK_ENDED = 4, PARK_EVENTS = 1024, PARK_LEAST = 16, PARK_WAITING = 8;

// What a trajectory is made of at a moment between two events.
struct Parked {
    i64 row;
    u64 number;  // of its next draw
    double t;
    i32 k;      // samples so far
    i32 piece;  // ensemble/pieces.h
    i32 x[N_SPECIES];
};

// Words of 32 bits. The host gives so many for each (kernels/exact/ssa.py).
constexpr int PARKED_WORDS = (9 + N_SPECIES) / 2 * 2;
static_assert(sizeof(Parked) == 4 * PARKED_WORDS);

// Parts of the word: taken, came, and lanes that have left. A launch has fewer than 2^19 lanes, or no queue.
constexpr u64 ONE_TAKEN = 1, ONE_CAME = 1ull << 21, ONE_LEFT = 1ull << 42;
constexpr u32 QUEUE_MASK = (1u << 21) - 1;

struct Parking {
    u64 *word;
    Parked *queue;  // [2 * lanes]; null: nobody parks
    u8 *ready;      // [2 * lanes]: 1 when it is written
    u32 *spare;     // lanes of the block that may end before it is sparse

    static DEVICE_MEMBER u32 taken(u64 seen) { return (u32)seen & QUEUE_MASK; }
    static DEVICE_MEMBER u32 came(u64 seen) { return (u32)(seen >> 21) & QUEUE_MASK; }
    static DEVICE_MEMBER i64 left(u64 seen) { return (i64)(seen >> 42); }

    // One lane of each block calls it.
    DEVICE_MEMBER void begin() const {
        *spare = queue ? (u32)(BLOCK_THREADS / PARK_ENDED) : 0x7fffffffu;
    }

    // Whether the block should end, as far as it knows.
    DEVICE_MEMBER bool sparse() const { return (i32)read_in_block(spare) <= 0; }

    // Whether a lane has parked its trajectory, and what it does then.
    enum Outcome { KEPT, PARKED_AND_LEFT, PARKED_AND_LAST };

    DEVICE_MEMBER Outcome park(const Parked &state, i64 lanes) const {
        const u64 seen = read_now(word);
        const i64 running = lanes - left(seen), waiting = (i64)came(seen) - (i64)taken(seen);
        if (running <= lanes / PARK_LEAST || came(seen) >= lanes) return KEPT;
        if (waiting * PARK_WAITING >= running) return KEPT;
        const u64 found = atomic_add(word, ONE_CAME + ONE_LEFT);
        if (taken(found) > came(found)) {
            atomic_add(word, 0 - ONE_LEFT);
            return KEPT;
        }
        volatile Parked &place = queue[came(found)];
        place.row = state.row, place.number = state.number, place.t = state.t, place.k = state.k;
        UNROLL for (int i = 0; i < N_SPECIES; ++i) place.x[i] = state.x[i];
        threadfence();
        ((volatile u8 *)ready)[came(found)] = 1;
        if (left(found) + 1 < lanes) {
            add_in_block(spare, 0xffffffffu);
            return PARKED_AND_LEFT;
        }
        atomic_add(word, 0 - ONE_LEFT);
        return PARKED_AND_LAST;
    }

    // A lane that has no trajectory takes one. False: nothing is parked, and the lane has left.
    DEVICE_MEMBER bool take(Parked &state) const {
        if (!queue) return false;
        u64 seen = read_now(word);
        for (;;) {
            if (came(seen) > taken(seen)) {
                seen = atomic_add(word, ONE_TAKEN);
                if (came(seen) > taken(seen)) break;
                seen += ONE_TAKEN;
            } else {
                seen = atomic_add(word, ONE_LEFT);
                if (came(seen) <= taken(seen)) {
                    add_in_block(spare, 0xffffffffu);
                    return false;
                }
                atomic_add(word, 0 - ONE_LEFT);
            }
        }
        while (read_now(ready + taken(seen)) == 0) wait_a_little();
        threadfence();
        const volatile Parked &place = queue[taken(seen)];
        state.row = place.row, state.number = place.number, state.t = place.t, state.k = place.k;
        UNROLL for (int i = 0; i < N_SPECIES; ++i) state.x[i] = place.x[i];
        return true;
    }
};
