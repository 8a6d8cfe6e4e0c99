// What kernels share that run exact trajectories one firing at a time: draws, inputs and pauses.
#pragma once

#include "ensemble/control.h"
#include "math/math.h"
#include "random/streams.h"

struct Counts {
    i32 *x;
    DEVICE_MEMBER i32 operator[](int i) const { return x[i]; }
};

// The numbers that the next DRAWS_AHEAD steps use. A CPU makes many at a time, in loops that its
// compiler turns into vector code: one by one, random bits and logarithm are half of a step's time.
struct StepDraws {
    double waiting[DRAWS_AHEAD];  // times to the next firing for a total propensity of 1
    double unit[DRAWS_AHEAD];     // in [1, 2), for the choice of the reaction
};

// Draws `step` and up. Two loops, because compilers vectorise each but not both as one.
DEVICE void draw_ahead(const PhiloxSeries &series, const PhiloxKeys &keys, u32 step,
                       StepDraws &draws) {
    for (u32 i = 0; i < DRAWS_AHEAD; ++i) {
        const Philox4 bits = philox_draw(series, keys, step + i);
        draws.waiting[i] = unit_open_low(bits.x0, bits.x1);
        draws.unit[i] = unit_one_to_two(bits.x2, bits.x3);
    }
    for (u32 i = 0; i < DRAWS_AHEAD; ++i) draws.waiting[i] = tl_exponential(draws.waiting[i]);
}

// Where a draw is read in the innermost loop: with numbers from registers, a table from the block's memory.
DEVICE void read_draw(const Philox4 &bits, StepDraws &draws, const LogSeries &logs,
                      const LogEntry *entries) {
    draws.waiting[0] = tl_exponential(unit_open_low(bits.x0, bits.x1), logs, entries);
    draws.unit[0] = unit_one_to_two(bits.x2, bits.x3);
}

template <int N, class T>
DEVICE void load([[maybe_unused]] T *to, [[maybe_unused]] const T *from) {
    UNROLL for (int i = 0; i < N; ++i) to[i] = from[i];
}

// The loop counts with the low half of the draw's number. It pauses at the value returned here, to
// look at the control words: at the last of every LOOK_EVERY draws, which is also the last before the
// high half grows, or at the draw that `max_steps` forbids.
DEVICE u32 next_pause(u64 step, u64 max_steps) {
    const u64 look = step | (LOOK_EVERY - 1);
    return (u32)(max_steps < look ? max_steps : look);
}

// Total propensities that the loop divides by without a test. High words of 2^-900 and 2^900.
constexpr u32 SMALLEST_USUAL = (1023 - 900) << 20, LARGEST_USUAL = (1023 + 900) << 20;

// A rate that is above its bound by more than rounding makes ends the trajectory: else events would be lost unseen.
constexpr double BOUND_HOLDS = 1 + 0x1p-30;

// What is left of a waiting time, of a total propensity of 1, after `span` with propensity a0. Not 0, and not below what
// `quotient` takes.
DEVICE double rest_of_waiting(double waiting, double a0, double span) {
    const double rest = waiting - a0 * span;
    return rest > 0x1p-60 ? rest : 0x1p-60;
}
