// Decisions of a team, one for each of several items. VOTERS threads take part: all threads that exchange
// numbers, or the one thread of a team. Every warp of a larger team holds the same vote.
#pragma once

#include "team/team.h"

#if TEAM_THREADS == 1

constexpr int VOTERS = 1;

DEVICE int own_vote() {
    return 0;
}

DEVICE u32 votes(bool vote) {
    return vote;
}

template <class T>
DEVICE T of_voter(const T &value, int) {
    return value;
}

// Whether the thread is one of the team's first VOTERS.
DEVICE bool is_first_vote() {
    return true;
}

#else

constexpr int VOTERS = TEAM_LANES;

DEVICE int own_vote() {
    return own_lane();
}

DEVICE u32 votes(bool vote) {
    return LANES_BALLOT(TEAM_LANES, vote);
}

template <class T>
DEVICE T of_voter(const T &value, int voter) {
    return LANES_READ(TEAM_LANES, value, voter);
}

DEVICE bool is_first_vote() {
    return team_rank() < TEAM_LANES;
}

#endif
