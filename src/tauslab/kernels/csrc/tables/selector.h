// The selector of a network in tables, and what of a trajectory's state is in shared memory. Selectors `tree` and `pdm`
// search the sums of the forest with one number, so draw `step` decides firing `step`: words 0 and 1 the waiting time,
// 2 and 3 the reaction.
#pragma once

#include "tables/firing.h"
#include "team/team_draws.h"

struct SumSearch {
    struct Draws {
        TeamDraws ahead;
        Kept kept;
    };

    // The firing of `step`.
    class Event {
      public:
        DEVICE_MEMBER Event(const PhiloxKeys &keys, const Place &place, u64 step, Draws &draws,
                            const State &s)
            : draws_(made(keys, place, step, draws)),
              kept_(draws.kept),
              s_(s),
              step_(step),
              below_{s.top, V_ROOT},
              root_(below_),
              reaction_(0) {}

        DEVICE_MEMBER double total() const { return root_.total(); }

        // Looks for the reaction as well, so that nothing waits for the division; what comes next
        // first asks for a time.
        DEVICE_MEMBER double waiting(const Tables &tables) {
            const double usual = draws_.waiting(step_), sum = total();
            const bool is_usual = sum > 0x1p-900 && sum < 0x1p900;
            const double time = quotient(usual, is_usual ? sum : 1.0);
            reaction_ = find(tables, root_, draws_.unit(step_) * sum, s_, kept_);
            return is_usual ? time : usual / sum;
        }

        DEVICE_MEMBER i32 reaction(const Tables &) const { return reaction_; }

      private:
        // Made before the root, whose numbers would be in the way.
        DEVICE_MEMBER static const TeamDraws &made(const PhiloxKeys &keys, const Place &place,
                                                   u64 step, Draws &draws) {
            if (step % DRAWS_OF_TEAM == 0) draws.ahead.make(keys, place, step);
            return draws.ahead;
        }

        const TeamDraws &draws_;
        Kept &kept_;
        const State &s_;
        u64 step_;
        Neighbours below_;
        Root root_;
        i32 reaction_;
    };

    // Before the first firing, and after propensities were computed otherwise than by `fire` with the same draws.
    DEVICE_MEMBER static void forget(Draws &draws) { draws.kept.forget(); }

    // Changes counts and sums; false if a count passed 2147483647.
    DEVICE_MEMBER static bool fire(const Tables &tables, i32 reaction, const State &s,
                                   Draws &draws) {
        return ::fire(tables, reaction, s, draws.kept);
    }
};

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
