// Of candidates those with the smallest keys of each species, where few of each are wanted: keys are
// bounded from round to round, and what is within the bounds is listed. Of equal keys all are.
#include "lattice/candidate.h"

struct FirstArguments {
    const Candidate *candidates;
    const u64 *count;  // of all, also of those that `room` has no place for
    u64 room;
    const u8 *wanted;  // [kinds]: of each particle, 0: none
    u64 *bounds;       // [rounds, kinds], zeros at first: the smallest keys, their bits inverted
    i64 kinds, round;
    Candidate *first;  // [room]: those within the bounds, in any order
    u64 *found;        // [2]: how many these are, 0 at first; and how many of all
};

DEVICE u64 candidates_of(const FirstArguments &a) {
    return *a.count < a.room ? *a.count : a.room;
}

// The next smallest key of each species of which more are wanted than there are bounds.
KERNEL(first_bounds, const FirstArguments a) {
    u64 *const bounds = a.bounds + a.round * a.kinds;
    for (u64 i = (u64)GLOBAL_ID; i < candidates_of(a); i += (u64)GLOBAL_SIZE) {
        const u32 particle = a.candidates[i].particle;
        const u64 inverted = ~a.candidates[i].key;
        if (a.round >= a.wanted[particle]) continue;
        if (a.round > 0 && inverted >= bounds[particle - a.kinds]) continue;
        atomic_largest(bounds + particle, inverted);
    }
}

KERNEL(first_list, const FirstArguments a) {
    if (GLOBAL_ID == 0) a.found[1] = *a.count;
    for (u64 i = (u64)GLOBAL_ID; i < candidates_of(a); i += (u64)GLOBAL_SIZE) {
        const Candidate one = a.candidates[i];
        if (~one.key < a.bounds[(a.wanted[one.particle] - 1) * a.kinds + one.particle]) continue;
        a.first[atomic_add(a.found, 1)] = one;
    }
}
