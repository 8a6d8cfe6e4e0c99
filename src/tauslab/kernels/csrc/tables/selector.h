// The selector of a network in tables, and what of a trajectory's state is in shared memory.
#pragma once

#include "tables/sum_search.h"

// How many doubles of shared memory the first parts of a team's state take: sums, counts, whole numbers.
constexpr i64 ROOM_OF_COUNTS = (N_COUNTS + 1) / 2;
constexpr i64 ROOM_OF_WHOLE = (SHARED_WHOLE * (i64)sizeof(Whole) + 7) / 8;
constexpr i64 SHARED_DOUBLES = (SHARED_PARTS > 0 ? N_VALUES : 0) +
                               (SHARED_PARTS > 1 ? ROOM_OF_COUNTS : 0) + ROOM_OF_WHOLE +
                               FAST_VALUES;

// The sums from FAST_PLACE on: in what a team's shared memory has last, or among the others.
DEVICE TeamArray<double> top_of(const State &s, double *shared) {
    return {FAST_VALUES > 0 ? shared + (SHARED_DOUBLES - FAST_VALUES) - FAST_PLACE : s.v.base};
}

typedef SumSearch Selector;
