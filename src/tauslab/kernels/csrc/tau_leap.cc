// Explicit tau-leaping (Cao, Gillespie & Petzold 2005, 2006; on GPUs Nobile et al. 2014): one thread
// runs one trajectory and takes the next of the launch when it ends.
//
// A step is a leap or one exact event. Poisson numbers have addresses of their own (poisson.h): every
// attempt at a leap is numbered. Exact events and waiting times of critical reactions take their
// bits one after the other from STREAM_TAU.
#include "leaps.h"
#include "model.h"
#include "poisson.h"
#include "portable_math.h"
#include "prelude.h"
#include "sampling.h"
#include "streams.h"

constexpr int EXACT_EVENTS = 100;         // after a leap that would not pay
constexpr int EXACT_EVENTS_AT_ONCE = 20;  // what a leap costs: lanes that leap wait for these
constexpr double WORTH_EVENTS = 10.0;     // a leap pays if it spans this many events

struct Counts {
    i32 *x;
    DEVICE_MEMBER i32 operator[](int i) const { return x[i]; }
};

// Draws of a trajectory, one after the other.
struct Sequence {
    TrajectoryStream stream;
    u64 next;
    DEVICE_MEMBER Philox4 take() { return draw(stream, next++); }
};

// The critical reaction that fires: those have a propensity, but none to leap with.
DEVICE int choose_critical(const double *a, const double *leaping, double target) {
    double sum = 0;
    int chosen = -1;
    for (int j = 0; j < N_REACTIONS; ++j) {
        const double critical = a[j] - leaping[j];
        if (critical > 0 && (chosen < 0 || sum <= target)) chosen = j;
        sum += critical;
    }
    return chosen;
}

// Work of a kernel call, added to the launch's numbers at its end.
struct Work {
    u64 firings, leaps, exact, halved;
};

struct Trajectory {
    i32 x[N_SPECIES];
    double c[N_CONSTANTS + 1];
    double a[N_REACTIONS];
    double cumulative[N_REACTIONS];
    Sequence bits;
    u64 id;
    u32 point;
    double t;
    u64 steps;
    u32 attempts;
    int exact_left;
    bool overflowed;
};

// A leap towards `t_next` at most. False, with nothing changed but the draws, if it would not pay.
DEVICE bool leap(Trajectory &s, const PhiloxKeys &keys, double t_next, double epsilon, Work &work) {
    double leaping[N_REACTIONS];
    i64 firings[N_REACTIONS];
    i32 after[N_SPECIES];
    const double a0 = s.cumulative[N_REACTIONS - 1];
    leave_critical_out(s.x, s.a, leaping);
    double limit = leap_limit(s.x, s.c, s.a, leaping, epsilon);
    if (limit * a0 < WORTH_EVENTS) return false;
    double critical_sum = 0;
    for (int j = 0; j < N_REACTIONS; ++j) critical_sum += s.a[j] - leaping[j];
    double waiting = infinity(), target = 0;
    if (critical_sum > 0) {
        const Philox4 bits = s.bits.take();
        waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / critical_sum;
        target = unit_half_open(bits.x2, bits.x3) * critical_sum;
    }
    while (limit * a0 >= WORTH_EVENTS && s.attempts <= LARGEST_LEAP) {
        const PhiloxSeries series = leap_series(keys, s.id, s.point, s.attempts++);
        // The leap ends at its limit, at the critical event or at the sample, whichever is first.
        bool fires = waiting < limit, cut = false;
        double tau = fires ? waiting : limit;
        if (!(s.t + tau < t_next)) {
            fires = fires && s.t + tau == t_next;
            tau = t_next - s.t;
            cut = true;
        }
        bool possible = true;
        u32 attempt = 0;
        for (int j = 0; j < N_REACTIONS;) {  // a lane goes on when its own attempt succeeds
            const double mean = leaping[j] * tau;
            i64 number = 0;
            bool found = true;
            if (mean > POISSON_LARGEST_MEAN)
                possible = false;
            else if (mean > 0)
                found = poisson_attempt(mean, LeapBits{series, keys, (u32)j}, attempt, number);
            ++attempt;
            if (found) firings[j] = number, ++j, attempt = 0;
        }
        if (fires) firings[choose_critical(s.a, leaping, target)] += 1;
        const int outcome = apply_firings(s.x, firings, after);
        if (outcome & FELL_BELOW_ZERO) {
            limit *= 0.5;
            ++work.halved;
            continue;
        }
        s.overflowed = (outcome & TOO_LARGE) || !possible;
        for (int i = 0; i < N_SPECIES; ++i) s.x[i] = after[i];
        for (int j = 0; j < N_REACTIONS; ++j) work.firings += (u64)firings[j];
        s.t = cut ? t_next : s.t + tau;
        all_propensities(s.x, s.c, s.a, s.cumulative);
        ++work.leaps;
        return true;
    }
    return false;
}

// When the next event happens, and which it is; nothing is changed but the draws.
struct Exact {
    double t, target;
};

DEVICE Exact next_event(Trajectory &s) {
    const double a0 = s.cumulative[N_REACTIONS - 1];
    const Philox4 bits = s.bits.take();
    const double waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / a0;
    return {s.t + waiting, unit_half_open(bits.x2, bits.x3) * a0};
}

DEVICE u8 state_of(const Trajectory &s, u64 max_steps) {
    const double a0 = s.cumulative[N_REACTIONS - 1];
    if (s.overflowed) return OVERFLOWED;
    if (!(a0 >= 0 && a0 < infinity())) return NOT_A_NUMBER;
    if (a0 == 0) return ABSORBED;
    return s.steps >= max_steps || s.attempts > LARGEST_LEAP ? STEP_LIMIT : DONE;
}

// A chain of 20 species on an H200: 0.050 s with 4 blocks a processor, 0.066 s with the 2 that fit
// without local memory for registers, 0.059 s with 6.
KERNEL_IN_BLOCKS(4, tau_leap, const PhiloxKeys *round_keys, i64 per_point, i64 first, i64 rows,
                 const double *times, i64 n_times, const i32 *initial, i64 initial_stride,
                 const double *constants, i64 constants_stride, u64 max_steps, u64 *next_row,
                 i32 *counts, double *observables, i32 *final_counts, u8 *status, u64 *events,
                 double epsilon) {
    const PhiloxKeys &keys = *round_keys;
    const u64 seed = (u64)keys.k1[0] << 32 | keys.k0[0];
    const Recorder out = {counts, observables, final_counts, status, n_times};
    Trajectory s = {};
    const Counts state = {s.x};
    Work work = {0, 0, 0, 0};
    i64 row = -1, k = 0;
    for (;;) {
        if (row < 0) {
            row = (i64)atomic_add(next_row, 1);
            if (row >= rows) break;
            const Place place = place_of(first, row, per_point);
            for (int i = 0; i < N_SPECIES; ++i) s.x[i] = initial[place.input * initial_stride + i];
            for (int i = 0; i < N_CONSTANTS; ++i)
                s.c[i] = constants[place.input * constants_stride + i];
            check_constants(s.c);
            all_propensities(s.x, s.c, s.a, s.cumulative);
            s.id = place.trajectory, s.point = place.point;
            s.bits = {trajectory_stream(seed, STREAM_TAU, s.id, s.point), 0};
            s.t = 0, s.steps = 0, s.attempts = 0, s.exact_left = 0, s.overflowed = false;
            k = 0;
        }

        // The state at a sample is that after the last event at or before it.
        const u8 ended = state_of(s, max_steps);
        const bool valid = ended <= ABSORBED;
        const double reached = ended == ABSORBED ? infinity() : s.t;
        if (valid)
            for (; k < n_times && times[k] <= reached; ++k) record_sample(out, row, k, state, s.c);
        if (!valid || k == n_times) {
            if (!valid) record_missing(out, row, k);
            record_end(out, row, ended, valid, state);
            row = -1;
            continue;
        }

        if (s.exact_left == 0) {
            ++s.steps;
            if (leap(s, keys, times[k], epsilon, work)) continue;
            s.exact_left = EXACT_EVENTS;
        }
        for (int i = 0; i < EXACT_EVENTS_AT_ONCE && s.exact_left > 0; ++i, --s.exact_left) {
            const Exact event = next_event(s);
            // What ends the trajectory after the last event is seen at the head of the loop.
            if (!(event.t <= times[k])) {
                for (; k < n_times && times[k] < event.t; ++k)
                    record_sample(out, row, k, state, s.c);
                if (k == n_times) break;
            }
            s.overflowed = fire(event.target, s.x, s.c, s.a, s.cumulative) < 0;
            s.t = event.t;
            ++s.steps, ++work.exact, ++work.firings;
            if (state_of(s, max_steps) != DONE) break;
        }
    }
    atomic_add(events, work.firings);
    atomic_add(events + 1, work.leaps);
    atomic_add(events + 2, work.exact);
    atomic_add(events + 3, work.halved);
}
