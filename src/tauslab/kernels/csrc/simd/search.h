// Which reaction fires on each lane of all vectors, by a search, and how it changes counts, by tables. For networks
// with many reactions; ensemble/ssa_lanes.cc has another way for few.
#pragma once

#include "simd/lanes.h"

// In how many steps between random bits propensities are computed: with few registers few, and other instructions
// between them would only move values to memory.
constexpr int PROPENSITY_PARTS = 6;
#if defined(ON_AVX512)
constexpr int SEARCH_STEPS = 6;
#else
constexpr int SEARCH_STEPS = 2;
#endif

template <class Part>
DEVICE void for_parts_of(int step, const Part &part) {
    constexpr int EACH = PROPENSITY_PARTS / SEARCH_STEPS;
    if (step < SEARCH_STEPS) UNROLL for (int i = 0; i < EACH; ++i) part(step * EACH + i);
}

// What tables have two bits for: whether a count falls (3), grows (1) or stays (0), by a number of molecules. Such bits
// are the highest of a double that is -2, 2 or 0.
constexpr int FIELDS_OF_WORD = 32;

#if defined(VPERMB_HIGHEST)
constexpr bool BY_BYTES = N_REACTIONS <= 64;  // an instruction reads any entries of 64 bytes
#else
constexpr bool BY_BYTES = false;
#endif
// The place of a reaction's number in a word of 64 bits.
constexpr int NUMBER_AT = BY_BYTES ? 56 : 0;

// The same bits by fields.
struct alignas(64) ChangeBytes {
    unsigned char of[BY_BYTES ? N_FIELDS : 1][64];
};

DEVICE ChangeBytes change_bytes() {
    ChangeBytes bytes = {};
    for (int i = 0; BY_BYTES && i < N_FIELDS; ++i)
        for (int j = 0; j < N_REACTIONS; ++j) {
            const u64 word = CHANGE_WORDS[i / FIELDS_OF_WORD][j];
            bytes.of[i][j] = (unsigned char)((word >> 2 * (i % FIELDS_OF_WORD)) << 6);
        }
    return bytes;
}

static const ChangeBytes CHANGE_BYTES = change_bytes();

// How the reactions of a vector's lanes change counts.
struct Changes {
    Words number, words[N_CHANGE_WORDS];

    DEVICE_MEMBER explicit Changes(Words reaction) : number(reaction) {
        if (BY_BYTES) return;
        UNROLL for (int i = 0; i < N_CHANGE_WORDS; ++i) words[i] =
            table_entries(CHANGE_WORDS[i], reaction);
    }

    // -2, 2 or 0 on each lane.
    DEVICE_MEMBER Real twice(int field) const {
#if defined(VPERMB_HIGHEST)
        if (BY_BYTES) return (Real)VPERMB_HIGHEST(number, CHANGE_BYTES.of[field]);
#endif
        const int shift = 62 - 2 * (field % FIELDS_OF_WORD);
        return from_bits(words[field / FIELDS_OF_WORD] << shift & 3ull << 62);
    }
};

#if defined(ON_AVX512)
// How many of COUNT ascending numbers are not above the target, added to `number` in units of 1 << NUMBER_AT. Each
// comparison halves what is left, on each lane of all vectors.
template <int COUNT>
struct Halves {
    static DEVICE_MEMBER void search(const Real (*of)[VECTORS], const Real *target, Words *number) {
        constexpr int MIDDLE = COUNT / 2;
        Real half[MIDDLE > 0 ? MIDDLE : 1][VECTORS];
        UNROLL for (int v = 0; v < VECTORS; ++v) {
            const Mask passed = of[MIDDLE][v] <= target[v];
            constexpr u64 FIRST = COUNT - MIDDLE;
            UNROLL for (int i = 0; i < MIDDLE; ++i) half[i][v] =
                passed ? of[FIRST + i][v] : of[i][v];
            number[v] = passed ? number[v] + (FIRST << NUMBER_AT) : number[v];
        }
        Halves<MIDDLE>::search(half, target, number);
    }
};
template <>
struct Halves<0> {
    static DEVICE_MEMBER void search(const Real (*)[VECTORS], const Real *, Words *) {}
};

// The same, of all cumulative propensities from FIRST on but the last. Those before are passed. They lie in memory, in
// blocks with a number between two of them; the last block may begin within the one before.
template <int FIRST, class Running>
DEVICE void count_passed(const Running *run, const Real *target, Words *number) {
    constexpr int END = N_REACTIONS - 1, BLOCK = END - FIRST < 7 ? END - FIRST : 7;
    Real block[BLOCK > 0 ? BLOCK : 1][VECTORS];
    UNROLL for (int v = 0; v < VECTORS; ++v) {
        UNROLL for (int i = 0; i < BLOCK; ++i) block[i][v] = run[v].cumulative[FIRST + i];
        number[v] = on_lanes((u64)FIRST << NUMBER_AT);
    }
    UNROLL for (int between = FIRST + BLOCK; between < END; between += BLOCK + 1) {
        const int first = between + 1 + BLOCK <= END ? between + 1 : END - BLOCK;
        UNROLL for (int v = 0; v < VECTORS; ++v) {
            const Mask passed = run[v].cumulative[between] <= target[v];
            number[v] = passed ? on_lanes((u64)first << NUMBER_AT) : number[v];
            UNROLL for (int i = 0; i < BLOCK; ++i) block[i][v] =
                passed ? run[v].cumulative[first + i] : block[i][v];
        }
    }
    Halves<BLOCK>::search(block, target, number);
}
#else
// The same without a choice, which takes several instructions here: all are counted, two by two.
template <int FIRST, class Running>
DEVICE void count_passed(const Running *run, const Real *target, Words *number) {
    Words half[VECTORS][2] = {};
    UNROLL for (int i = FIRST; i < N_REACTIONS - 1; ++i)
        UNROLL for (int v = 0; v < VECTORS; ++v)
            half[v][i % 2] += one_where(run[v].cumulative[i] <= target[v]);
    UNROLL for (int v = 0; v < VECTORS; ++v) number[v] = half[v][0] + half[v][1] + (u64)FIRST;
}
#endif

// The reactions are the first whose cumulative propensity exceeds the target. True if all lanes fire one of the last
// reactions, which leave many propensities as they are.
template <class Running>
DEVICE bool fire_by_search(const Real *target, Running *run) {
    bool last = TAIL_FIRST > 0;
    if constexpr (TAIL_FIRST > 0)
        UNROLL for (int v = 0; v < VECTORS; ++v) last &=
            bits_of(run[v].cumulative[TAIL_FIRST - 1] <= target[v]) == ALL_LANES;
    Words number[VECTORS];
    if (last) {
        count_passed<TAIL_FIRST>(run, target, number);
        UNROLL for (int v = 0; v < VECTORS; ++v) change_last(Changes(number[v]), run[v].x);
    } else {
        count_passed<0>(run, target, number);
        UNROLL for (int v = 0; v < VECTORS; ++v) change_counts(Changes(number[v]), run[v].x);
    }
    read_again();
    return last;
}
