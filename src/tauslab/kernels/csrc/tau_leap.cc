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
#include "turns.h"

constexpr int EXACT_EVENTS = 100;      // after a leap that would not pay
constexpr double WORTH_EVENTS = 10.0;  // a leap pays if it spans this many events
constexpr bool GROUPED = N_CHANNELS > FEW_CHANNELS;
constexpr u32 GROUP = N_CHANNELS, PLACES = N_CHANNELS + 1;  // addresses of the group's draws
constexpr int WORDS = (N_CHANNELS + 63) / 64;
constexpr int LEAPS_AT_ONCE = 16;  // between two choices of what the lanes of a warp do
constexpr int ENOUGH_LANES = 24;   // that leap: with fewer, the warp chooses anew

struct Counts {
    i32 *x;
    DEVICE_MEMBER i32 operator[](int i) const { return x[i]; }
};

// Work of a kernel call, added to the launch's numbers at its end.
struct Work {
    u64 firings, leaps, exact, halved;
};

// A trajectory between two steps.
struct Trajectory {
    i32 x[N_SPECIES];
    u32 point;
    double c[N_CONSTANTS + 1];
    double t;
    u64 id, steps;
    u64 draws;   // of STREAM_TAU
    i64 row, k;  // where samples go, and the next of them
    u32 attempts;
    i32 overflowed;
};

// What a trajectory does next.
enum Phase : int { LEAPS = 0, EXACT = 1 };

DEVICE Philox4 next_bits(Trajectory &s, u64 seed) {
    return draw(trajectory_stream(seed, STREAM_TAU, s.id, s.point), s.draws++);
}

// Turns propensities into means, of which `drawn` tells those of channels that draw for themselves.
// Returns the sum of the others.
template <class Cells>
DEVICE double split_means(const Cells &cells, double tau, u64 *drawn) {
    double small = 0;
    for (int word = 0; word < WORDS; ++word) drawn[word] = 0;
    UNROLL for (int j = 0; j < N_CHANNELS; ++j) {
        const double mean = cells[j] * tau;
        const bool alone = GROUPED ? mean >= SMALL_MEAN : mean > 0;
        drawn[j / 64] |= (u64)alone << j % 64;
        cells[j] = alone || !GROUPED ? mean : small_cell(mean);
        if (GROUPED && !alone) small += cells[j];
    }
    return small;
}

// Turns means into numbers of firings; false if a mean is beyond what can be drawn.
template <class Cells>
DEVICE bool draw_firings(const Cells &cells, const PhiloxSeries &series, const PhiloxKeys &keys,
                         const u64 *drawn) {
    bool possible = true;
    for (int word = 0; word < WORDS; ++word) {
        u64 left = drawn[word];
        u32 attempt = 0;
        while (left) {  // a lane goes on when its own attempt succeeds
            const int j = word * 64 + lowest_bit(left);
            const double mean = cells[j];
            i64 number = 0;
            bool found = true;
            if (mean > POISSON_LARGEST_MEAN)
                possible = false;
            else
                found = poisson_attempt(mean, LeapBits{series, keys, (u32)j}, attempt, number);
            ++attempt;
            if (found) cells[j] = cell_of(number), left &= left - 1, attempt = 0;
        }
    }
    return possible;
}

// Turns the other means into numbers of firings; `small` is their sum. False if it is too large.
template <class Cells>
DEVICE bool draw_group(const Cells &cells, const PhiloxSeries &series, const PhiloxKeys &keys,
                       double small, const u64 *drawn) {
    i64 number = small > 0 ? poisson(small, LeapBits{series, keys, GROUP}) : 0;
    if (number > MOST_PICKS) return false;
    const LeapBits bits = {series, keys, PLACES};
    for (u32 pair = 0; number > 0; number -= PICKS) {
        double targets[PICKS];  // below the sum, or never reached
        UNROLL for (int i = 0; i < PICKS; i += 2, ++pair) {
            const Philox4 words = bits(pair);
            const double first = unit_half_open(words.x0, words.x1) * small;
            const double second = unit_half_open(words.x2, words.x3) * small;
            targets[i] = i < number ? first : -1.0;
            targets[i + 1] = i + 1 < number ? second : -1.0;
        }
        double sum = 0;
        int above = number < PICKS ? (int)number : PICKS;
        for (int j = 0; above > 0; ++j) {
            if (drawn[j / 64] >> j % 64 & 1) continue;
            const u64 cell = as_bits(cells[j]);
            sum += small_cell(cells[j]);
            int still = 0;
            UNROLL for (int i = 0; i < PICKS; ++i) still += sum <= targets[i];
            if (still < above) cells[j] = from_bits(cell + (u64)(above - still));
            above = still;
        }
    }
    for (int j = 0; j < N_CHANNELS; ++j)
        if (!(drawn[j / 64] >> j % 64 & 1))
            cells[j] = from_bits(as_bits(cells[j]) & FIRINGS_OF_SMALL);
    return true;
}

// A leap towards `t_next` at most. False, with nothing changed but the draws, if it would not pay.
// `cells` holds the propensities to leap with.
template <class Cells>
DEVICE bool leap(Trajectory &s, const Plan &plan, const Cells &cells, const PhiloxKeys &keys,
                 u64 seed, double t_next, double epsilon, Work &work) {
    double limit = plan.limit();
    double waiting = infinity(), target = 0;
    if (plan.critical > 0) {
        const Philox4 bits = next_bits(s, seed);
        waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / plan.critical;
        target = unit_half_open(bits.x2, bits.x3) * plan.critical;
    }
    for (;;) {
        const PhiloxSeries series = leap_series(keys, s.id, s.point, s.attempts++);
        // The leap ends at its limit, at the critical event or at the sample, whichever is first.
        bool fires = waiting < limit, cut = false;
        double tau = fires ? waiting : limit;
        if (!(s.t + tau < t_next)) {
            fires = fires && s.t + tau == t_next;
            tau = t_next - s.t;
            cut = true;
        }
        u64 drawn[WORDS];
        const double small = split_means(cells, tau, drawn);
        bool possible = !GROUPED || draw_group(cells, series, keys, small, drawn);
        possible &= draw_firings(cells, series, keys, drawn);
        if (fires) {
            double &cell = cells[choose_critical(s.x, s.c, target)];
            cell = cell_of(number_of(cell) + 1);
        }
        const int outcome = apply_firings(s.x, cells, 1);
        if (outcome & FELL_BELOW_ZERO) {
            apply_firings(s.x, cells, -1);
            limit *= 0.5;
            ++work.halved;
            if (!(limit * plan.a0 >= WORTH_EVENTS && s.attempts <= LARGEST_LEAP)) return false;
            plan_leap(s.x, s.c, cells, epsilon);
            continue;
        }
        s.overflowed = (outcome & TOO_LARGE) || !possible;
        for (int j = 0; j < N_CHANNELS; ++j) work.firings += (u64)number_of(cells[j]);
        s.t = cut ? t_next : s.t + tau;
        ++work.leaps;
        return true;
    }
}

DEVICE u8 state_of(const Trajectory &s, double a0, u64 max_steps) {
    if (s.overflowed) return OVERFLOWED;
    if (!(a0 >= 0 && a0 < infinity())) return NOT_A_NUMBER;
    if (a0 == 0) return ABSORBED;
    return s.steps >= max_steps || s.attempts > LARGEST_LEAP ? STEP_LIMIT : DONE;
}

// What ends the trajectory is seen before the next leap.
template <class Cells>
DEVICE void exact_events(Trajectory &s, const Cells &cells, u64 seed, const Recorder &out,
                         const double *times, u64 max_steps, Work &work) {
    Exact exact;
    const Counts state = {s.x};
    start_exact(s.x, s.c, exact, cells);
    for (int i = 0; i < EXACT_EVENTS; ++i) {
        const double a0 = exact.total();
        if (state_of(s, a0, max_steps) != DONE) return;
        const Philox4 bits = next_bits(s, seed);
        const double t = s.t + tl_exponential(unit_open_low(bits.x0, bits.x1)) / a0;
        if (!(t <= times[s.k])) {
            for (; s.k < out.n_times && times[s.k] < t; ++s.k)
                record_sample(out, s.row, s.k, state, s.c);
            if (s.k == out.n_times) return;
        }
        const double target = unit_half_open(bits.x2, bits.x3) * a0;
        s.overflowed = fire_exact(target, s.x, s.c, exact, cells) < 0;
        s.t = t;
        ++s.steps, ++work.exact, ++work.firings;
    }
}

// The end of a trajectory, after the samples that it reached.
DEVICE void finish(Trajectory &s, const Recorder &out, u8 ended) {
    const bool valid = ended <= ABSORBED;
    const Counts state = {s.x};
    for (; valid && s.k < out.n_times; ++s.k) record_sample(out, s.row, s.k, state, s.c);
    if (!valid) record_missing(out, s.row, s.k);
    record_end(out, s.row, ended, valid, state);
    s.row = -1;
}

// The rows of a launch and where they start from.
struct Rows {
    i64 per_point, first, rows;
    const i32 *initial;
    i64 initial_stride;
    const double *constants;
    i64 constants_stride;
    u64 *next;
};

// Takes the next row; false if there is none.
DEVICE bool begin(Trajectory &s, const Rows &from) {
    const i64 row = (i64)atomic_add(from.next, 1);
    if (row >= from.rows) return false;
    const Place place = place_of(from.first, row, from.per_point);
    for (int i = 0; i < N_SPECIES; ++i)
        s.x[i] = from.initial[place.input * from.initial_stride + i];
    for (int i = 0; i < N_CONSTANTS; ++i)
        s.c[i] = from.constants[place.input * from.constants_stride + i];
    check_constants(s.c);
    s.id = place.trajectory, s.point = place.point, s.row = row;
    s.k = 0, s.t = 0, s.steps = 0, s.draws = 0, s.attempts = 0, s.overflowed = 0;
    return true;
}

// A leap, or the end of the trajectory (its row is then -1). Returns what comes next.
template <class Cells>
DEVICE Phase step(Trajectory &s, const Cells &cells, const PhiloxKeys &keys, u64 seed,
                  const Recorder &out, const double *times, u64 max_steps, double epsilon,
                  Work &work) {
    const Counts state = {s.x};
    const Plan plan = plan_leap(s.x, s.c, cells, epsilon);
    const u8 ended = state_of(s, plan.a0, max_steps);
    // The state at a sample is that after the last event at or before it.
    if (ended <= ABSORBED || ended == STEP_LIMIT)
        for (; s.k < out.n_times && times[s.k] <= s.t; ++s.k)
            record_sample(out, s.row, s.k, state, s.c);
    if (ended != DONE || s.k == out.n_times) {
        finish(s, out, s.k == out.n_times ? (u8)DONE : ended);
        return LEAPS;
    }
    ++s.steps;
    const bool pays = plan.limit() * plan.a0 >= WORTH_EVENTS;
    return pays && leap(s, plan, cells, keys, seed, times[s.k], epsilon, work) ? LEAPS : EXACT;
}

// Ras/cAMP/PKA on an H200, 2^16 trajectories to t = 15: 0.87 s with 4 blocks a processor, 1.19 s with
// 3, which leaves more registers, 1.01 s with 5.
KERNEL_IN_BLOCKS(4, tau_leap, const PhiloxKeys *round_keys, i64 per_point, i64 first, i64 rows,
                 const double *times, i64 n_times, const i32 *initial, i64 initial_stride,
                 const double *constants, i64 constants_stride, u64 max_steps, u64 *next_row,
                 i32 *counts, double *observables, i32 *final_counts, u8 *status, u64 *events,
                 double epsilon, u32 *parked, i64 per_lane) {
    const PhiloxKeys &keys = *round_keys;
    const u64 seed = (u64)keys.k1[0] << 32 | keys.k0[0];
    const Recorder out = {counts, observables, final_counts, status, n_times};
    const Rows from = {per_point,      first,     rows,             initial,
                       initial_stride, constants, constants_stride, next_row};
    LANE_ARRAY(cells, SHARED_CELLS, N_REACTIONS);
    Trajectory s;
    Work work = {0, 0, 0, 0};
    Turns<Trajectory> turns(parked, (int)per_lane);
    turns.fill(s, [&](Trajectory &fresh) { return begin(fresh, from); });
    while (turns.next(s)) {
        if (turns.phase == EXACT) {
            if (turns.here) exact_events(s, cells, seed, out, times, max_steps, work);
            turns.next_phase = LEAPS;
            continue;
        }
        for (int i = 0; i < LEAPS_AT_ONCE; ++i) {
            if (turns.here && turns.next_phase == LEAPS) {
                turns.next_phase =
                    step(s, cells, keys, seed, out, times, max_steps, epsilon, work);
                if (s.row < 0) turns.here = begin(s, from);
            }
            if (lanes_where(turns.here && turns.next_phase == LEAPS) < ENOUGH_LANES) break;
        }
    }
    atomic_add(events, work.firings);
    atomic_add(events + 1, work.leaps);
    atomic_add(events + 2, work.exact);
    atomic_add(events + 3, work.halved);
}
