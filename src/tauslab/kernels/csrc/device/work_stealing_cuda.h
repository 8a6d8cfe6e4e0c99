// A warp has `per_lane` times `width` trajectories in slots. A lane holds one of them; the others are
// parked in memory [word, slot] with the phase that each is in, 0 or 1.
#pragma once

#include "device/prelude.h"

constexpr int WARP = 32;
constexpr u32 WHOLE_WARP = 0xffffffffu;
// Instead of a phase: the slot is empty, or held by a lane.
constexpr u32 SLOT_EMPTY = 2, SLOT_HELD = 3;

// Position of set bit number `rank`, which there is.
DEVICE int nth_bit(u32 mask, int rank) {
    int position = 0;
    UNROLL for (int width = 16; width > 0; width /= 2) {
        const int below = __popc(mask >> position & ((1u << width) - 1));
        if (rank >= below) rank -= below, position += width;
    }
    return position;
}

template <class State>
struct WorkStealing {
    static constexpr int WORDS = sizeof(State) / 4;
    static_assert(WORDS < PARKED_WORDS, "the host gives a slot this much memory");

    bool here = false;
    int phase = 0, next_phase = 0;
    u32 *memory;
    int per_lane, width, slots, lane, mine = -1, waited = 0;

    DEVICE_MEMBER WorkStealing(u32 *all, int turns, int lanes)
        : per_lane(turns), width(lanes), slots(turns * WARP) {
        lane = (int)(threadIdx.x % WARP);
        memory = all + GLOBAL_ID / WARP * slots * PARKED_WORDS;
    }

    DEVICE_MEMBER u32 &state_of_slot(int slot) const { return memory[WORDS * slots + slot]; }

    DEVICE_MEMBER void park(const State &s, int slot, u32 state) const {
        u32 words[WORDS];
        memcpy(words, &s, sizeof s);
        UNROLL for (int i = 0; i < WORDS; ++i) memory[i * slots + slot] = words[i];
        state_of_slot(slot) = state;
    }

    DEVICE_MEMBER void take(State &s, int slot) {
        u32 words[WORDS];
        UNROLL for (int i = 0; i < WORDS; ++i) words[i] = memory[i * slots + slot];
        memcpy(&s, words, sizeof s);
        state_of_slot(slot) = SLOT_HELD;
    }

    template <class Begin>
    DEVICE_MEMBER void fill(State &s, const Begin &begin) {
        for (int i = 0; i < per_lane; ++i) {
            const bool there = lane < width && begin(s);
            park(s, i * WARP + lane, there ? 0 : SLOT_EMPTY);
        }
    }

    // Parked trajectories in a phase.
    DEVICE_MEMBER int parked(u32 in_phase) const {
        int count = 0;
        for (int i = 0; i < per_lane; ++i)
            count += __popc(__ballot_sync(WHOLE_WARP, state_of_slot(i * WARP + lane) == in_phase));
        return count;
    }

    // The phase with most trajectories, until those of the other have waited long enough.
    DEVICE_MEMBER bool choose() {
        int count[2];
        for (int i = 0; i < 2; ++i)
            count[i] = parked((u32)i) + lanes_where(here && next_phase == i);
        if (count[0] + count[1] == 0) return false;
        const int most = count[1] > count[0], other = 1 - most;
        waited += count[other];
        phase = waited >= count[most] && count[other] > 0 ? other : most;
        if (phase == other) waited = 0;
        return true;
    }

    DEVICE_MEMBER bool next(State &s) {
        __syncwarp();
        if (!choose()) return false;
        if (mine >= 0 && !(here && next_phase == phase)) {
            if (here)
                park(s, mine, (u32)next_phase);
            else
                state_of_slot(mine) = SLOT_EMPTY;
            mine = -1;
        }
        __syncwarp();
        int rank = __popc(__ballot_sync(WHOLE_WARP, mine < 0) & ((1u << lane) - 1)), slot = -1;
        for (int i = 0; i < per_lane; ++i) {
            const u32 mask =
                __ballot_sync(WHOLE_WARP, state_of_slot(i * WARP + lane) == (u32)phase);
            const int found = __popc(mask);
            if (mine < 0 && slot < 0 && rank < found)
                slot = i * WARP + nth_bit(mask, rank);
            rank -= found;
        }
        __syncwarp();
        if (slot >= 0) take(s, mine = slot);
        here = mine >= 0;
        next_phase = phase;
        return true;
    }
};
