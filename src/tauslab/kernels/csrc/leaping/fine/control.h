// The state that a cooperative grid shares, and the choice of the next step, as in leaping/tau_leap.cc.
#pragma once

#include "ensemble/control.h"
#include "leaping/fine/network.h"
#include "random/poisson.h"
#include "ensemble/sampling.h"

constexpr double WORTH_EVENTS = 10.0;  // a leap pays if it spans this many firings
constexpr u64 LOOK_EVERY_STEPS = 4;    // between looks at the control words
constexpr u64 NO_LIMIT = 0x7ff0000000000000ull;

enum Next : i32 { SCAN, LEAP, EXACT, FINISH, QUIT };

// The shared state of a cooperative grid. One thread writes it while the others wait.
struct Control {
    u64 least;  // bits of the least limit that was found
    u64 id, steps, draws;
    i64 row, input, sampled, k;  // samples from `sampled` to `k` have become due
    double t, a0, limit, waiting, target, tau;
    u64 leaps, exact, halved;
    u32 point, attempts, attempt;
    i32 next, chosen, cut, fell, too_large, overflowed, ended;
};

struct FineTauArguments {
    EnsembleArguments launch;
    double epsilon;             // bound on the expected relative change of a propensity in a leap
    const i32 *whole_tables;    // of the network, addressed by the constants AT_... of model.h
    const double *real_tables;  // likewise
    // Of trajectories in flight, each of which has a cooperative grid:
    i32 *states;     // [grids, 2, N_SPECIES]: counts, and those that a leap would lead to
    double *values;  // [grids, N_VALUES]: propensities and their sums
    i64 *firings;    // [grids, N_REACTIONS]
    u64 *barriers;   // [grids, BARRIER_WORDS]
    u64 *controls;   // [grids, CONTROL_WORDS]: a `Control` each
    i64 blocks;      // of a grid
};

// ------------------------------------------------------- decisions, by all lanes of a warp alike

// The next trajectory of the launch.
DEVICE void begin(Control &s, const EnsembleArguments &launch) {
    i64 row = 0;
    if (first_lane()) row = take_row(launch.control, launch.rows);
    row = lanes_whole_sum(row);
    s.next = row < launch.rows ? SCAN : QUIT;
    if (s.next == QUIT) return;
    const Place place = place_in(launch, row);
    s.id = place.trajectory, s.point = place.point, s.input = place.input, s.row = row;
    s.least = NO_LIMIT, s.t = 0, s.k = s.sampled = 0, s.steps = s.draws = 0;
    s.attempts = 0, s.fell = s.too_large = s.overflowed = 0;
}

DEVICE Philox4 next_bits(Control &s, const EnsembleArguments &launch) {
    return draw(trajectory_stream(seed_of(launch), STREAM_TAU, s.id, s.point), s.draws++);
}

DEVICE i32 state_of(const Control &s, double a0, const EnsembleArguments &launch) {
    if (s.overflowed) return OVERFLOWED;
    if (!(a0 >= 0 && a0 < infinity())) return NOT_A_NUMBER;
    if (a0 == 0) return ABSORBED;
    return s.steps >= launch.max_steps || s.attempts >= LARGEST_LEAP ? STEP_LIMIT : DONE;
}

// Whether a trajectory shall be left unfinished; looks at the control words every few steps.
DEVICE bool leaves(const Control &s, const EnsembleArguments &launch) {
    if (s.steps % LOOK_EVERY_STEPS != LOOK_EVERY_STEPS - 1) return false;
    return lanes_whole_sum(first_lane() && must_leave(launch.control, LOOK_EVERY_STEPS, s.t)) != 0;
}

// An attempt at a leap: it ends at its limit, at the critical firing or at the sample, whichever is
// first.
DEVICE void aim(const Tables &tables, const Flight &flight, Control &s,
                const EnsembleArguments &launch) {
    const double t_next = launch.times[s.k];
    bool fires = s.waiting < s.limit;
    s.tau = fires ? s.waiting : s.limit, s.cut = 0;
    if (!(s.t + s.tau < t_next)) {
        fires = fires && s.t + s.tau == t_next;
        s.tau = t_next - s.t, s.cut = 1;
    }
    s.chosen = fires ? find(tables, flight, CRITICAL, s.target) : -1;
    s.attempt = s.attempts, s.attempts += HALVES;
    s.next = LEAP;
}

// After a scan.
DEVICE void decide(const Tables &tables, const Flight &flight, Control &s,
                   const EnsembleArguments &launch) {
    s.a0 = root(tables, flight, ALL);
    s.limit = from_bits(s.least), s.least = NO_LIMIT;
    s.ended = state_of(s, s.a0, launch), s.sampled = s.k;
    if (s.ended == DONE && leaves(s, launch)) s.ended = STEP_LIMIT;
    // The state at a sample is that after the last firing at or before it.
    if (s.ended <= ABSORBED || s.ended == STEP_LIMIT)
        while (s.k < launch.n_times && launch.times[s.k] <= s.t) ++s.k;
    if (s.k == launch.n_times) s.ended = DONE;
    s.next = FINISH;
    if (s.ended != DONE || s.k == launch.n_times) return;
    ++s.steps;
    s.next = EXACT;
    if (!(s.limit * s.a0 >= WORTH_EVENTS)) return;
    const double critical = root(tables, flight, CRITICAL);
    s.waiting = infinity(), s.target = 0;
    if (critical > 0) {
        const Philox4 bits = next_bits(s, launch);
        s.waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / critical;
        s.target = unit_half_open(bits.x2, bits.x3) * critical;
    }
    aim(tables, flight, s, launch);
}

// After the counts that an attempt would lead to.
DEVICE void judge(const Tables &tables, const Flight &flight, Control &s,
                  const EnsembleArguments &launch) {
    if (s.fell) {
        s.fell = s.too_large = 0, s.limit *= 0.5, ++s.halved;
        if (s.limit * s.a0 >= WORTH_EVENTS && s.attempts < LARGEST_LEAP)
            aim(tables, flight, s, launch);
        else
            s.next = EXACT;
        return;
    }
    s.overflowed = s.too_large, s.too_large = 0;
    s.t = s.cut ? launch.times[s.k] : s.t + s.tau;
    s.next = SCAN, ++s.leaps;
}
