// The random numbers of a team's next steps, made many at a time: the lanes of a warp make one each,
// and a CPU makes them in loops that its compiler turns into vector code. A thread of a GPU that
// runs a trajectory alone makes one at a time, since registers are worth more to it.
#pragma once

#include "math/math.h"
#include "random/streams.h"
#include "team/team.h"

#if TEAM_THREADS == 1

constexpr u32 DRAWS_OF_TEAM = DRAWS_AHEAD;
constexpr u32 OWN_STREAM = IS_PILOT ? STREAM_PILOT : STREAM_SSA;

class TeamDraws {
  public:
    // Draws `step` and up; `step` is a multiple of DRAWS_OF_TEAM.
    DEVICE_MEMBER void make(const PhiloxKeys &keys, const Place &place, u64 step) {
        const PhiloxSeries series =
            draw_series(keys, OWN_STREAM, place.trajectory, place.point, step);
        for (u32 i = 0; i < DRAWS_OF_TEAM; ++i) {
            const Philox4 bits = philox_draw(series, keys, (u32)step + i);
            waiting_[i] = unit_open_low(bits.x0, bits.x1);
            unit_[i] = unit_half_open(bits.x2, bits.x3);
        }
        for (u32 i = 0; i < DRAWS_OF_TEAM; ++i) waiting_[i] = tl_exponential(waiting_[i]);
    }

    // Time to the firing of `step` for a total propensity of 1.
    DEVICE_MEMBER double waiting(u64 step) const { return waiting_[step % DRAWS_OF_TEAM]; }

    // In [0, 1), for the choice of the reaction.
    DEVICE_MEMBER double unit(u64 step) const { return unit_[step % DRAWS_OF_TEAM]; }

  private:
    double waiting_[DRAWS_OF_TEAM], unit_[DRAWS_OF_TEAM];
};

#else

constexpr u32 DRAWS_OF_TEAM = TEAM_LANES;
constexpr u32 OWN_STREAM = IS_PILOT ? STREAM_PILOT : STREAM_SSA;

class TeamDraws {
  public:
    DEVICE_MEMBER void make(const PhiloxKeys &keys, const Place &place, u64 step) {
        const PhiloxSeries series =
            draw_series(keys, OWN_STREAM, place.trajectory, place.point, step);
        const Philox4 bits = philox_draw(series, keys, (u32)step + (u32)own_lane());
        waiting_ = tl_exponential(unit_open_low(bits.x0, bits.x1));
        unit_ = unit_half_open(bits.x2, bits.x3);
    }

    DEVICE_MEMBER double waiting(u64 step) const {
        return LANES_READ(TEAM_LANES, waiting_, (int)(step % DRAWS_OF_TEAM));
    }

    DEVICE_MEMBER double unit(u64 step) const {
        return LANES_READ(TEAM_LANES, unit_, (int)(step % DRAWS_OF_TEAM));
    }

  private:
    double waiting_, unit_;
};

#endif
