// Tau-leaping of second order (Anderson & Koyama 2012; steps after Cao, Gillespie & Petzold 2005, 2006; on
// GPUs Nobile et al. 2014). One thread runs one trajectory, and takes the next of the launch when it ends.
//
//     paper                     here
//     tau' (2006, eq. 33)       Plan::limit, `plan_leap` of the generated header; symbols in leaping/leaps.h
//     tau'', critical event     the waiting time for one of the critical reactions, with Plan::critical
//     tau                       the smaller of both, cut at the next sample
//     Poisson number k_j        `draw_firings`, for a channel instead of a reaction
//     10 / a_0, 100 SSA steps   WORTH_EVENTS, EXACT_EVENTS: exact events instead of a short leap
//
// A step is a leap of two halves, or one exact event. Poisson numbers have addresses of their own
// (random/poisson.h): every half of every attempt at a leap has a number. Exact events and waiting times
// of critical reactions take their bits one after the other from STREAM_TAU.
#include "leaping/draws.h"
#include "leaping/trajectory.h"
#include "leaping/leaps.h"
#include "model.h"
#include "random/poisson.h"
#include "math/math.h"
#include "device/prelude.h"
#include "ensemble/sampling.h"
#include "random/streams.h"
#include "device/work_stealing.h"

constexpr int LEAPS_AT_ONCE = 16;  // leaps between two choices of what a warp does next
constexpr int ENOUGH_LANES = 24;   // if fewer lanes leap, the warp chooses again

// The next step of a trajectory.
enum Phase : int { LEAPS = 0, EXACT = 1 };

// Leaps, at most to `t_next`, with the propensities in `cells`. Returns false if a leap would not pay; then
// only draws were used.
template <class Cells>
DEVICE bool leap(Trajectory &s, const Plan &plan, const Cells &cells, const PhiloxKeys &keys,
                 u64 seed, double t_next, Work &work) {
    double limit = plan.limit.time();
    double waiting = infinity(), target = 0;
    if (plan.critical > 0) {
        const Philox4 bits = next_bits(s, seed);
        waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / plan.critical;
        target = unit_half_open(bits.x2, bits.x3) * plan.critical;
    }
    // Volatile: in memory, as registers of a GPU are scarce (584 bytes of Ras/cAMP/PKA's 33 species and
    // 39 reactions spill, not 2022).
    volatile i32 before[N_SPECIES];
    volatile double first[N_CHANNELS];
    for (int i = 0; i < N_SPECIES; ++i) before[i] = s.x[i];
    for (int j = 0; j < N_CHANNELS; ++j) first[j] = cells[j];
    for (;;) {
        // The leap ends at its limit, at the critical event or at the sample, whichever is first.
        bool fires = waiting < limit, cut = false;
        double tau = fires ? waiting : limit;
        if (!(s.t + tau < t_next)) {
            fires = fires && s.t + tau == t_next;
            tau = t_next - s.t;
            cut = true;
        }
        const int chosen = fires ? choose_critical(s.x, s.c, target) : -1;
        const u32 attempt = s.attempts;
        s.attempts += HALVES;
        u64 fired = 0;
        int outcome = FITS;
    NO_UNROLL for (int half = 0; half < HALVES && outcome == FITS; ++half) {
            if (half > 0 && !second_half(s.x, before, s.c, first, cells)) {
                outcome = FELL_BELOW_ZERO;
                break;
            }
            const PhiloxSeries series = leap_series(keys, s.id, s.point, attempt + (u32)half);
            outcome = fire_half(s.x, cells, 0.5 * tau, half > 0 ? chosen : -1, series, keys, fired);
        }
        if (!(outcome & FELL_BELOW_ZERO)) {
            s.overflowed = outcome & TOO_LARGE;
            s.t = cut ? t_next : s.t + tau;
            work.firings += fired;
            ++work.leaps;
            return true;
        }
        for (int i = 0; i < N_SPECIES; ++i) s.x[i] = before[i];
        for (int j = 0; j < N_CHANNELS; ++j) cells[j] = first[j];
        limit *= 0.5;
        ++work.halved;
        if (!(limit * plan.a0 >= WORTH_EVENTS && s.attempts < LARGEST_LEAP)) return false;
    }
}

// A leap, or the end of the trajectory (its row is then -1). Returns what comes next.
template <class Cells>
DEVICE Phase step(Trajectory &s, const Cells &cells, const PhiloxKeys &keys, u64 seed,
                  const Recorder &out, const double *times, u64 max_steps,
                  const Tolerance &tolerance, Work &work) {
    const Counts state = {s.x};
    const Plan plan = plan_leap(s.x, s.c, cells, tolerance);
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
    const bool pays = plan.limit.time() * plan.a0 >= WORTH_EVENTS;
    return pays && leap(s, plan, cells, keys, seed, times[s.k], work) ? LEAPS : EXACT;
}

struct LeapArguments {
    EnsembleArguments launch;
    double epsilon;  // bound on the expected relative change of a propensity in a leap
    u32 *parked;     // trajectories that wait for their turn, see device/work_stealing.h
    i64 per_lane;    // trajectories of a lane, one after the other
};

// Ras/cAMP/PKA on an H200, 2^16 trajectories to t = 15: 0.87 s with 4 blocks a multiprocessor, 1.19 s with
// 3, which leaves more registers, 1.01 s with 5.
KERNEL_IN_BLOCKS(4, tau_leap, const LeapArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const PhiloxKeys &keys = *launch.keys;
    const u64 seed = seed_of(launch), max_steps = launch.max_steps;
    const double *const times = launch.times;
    const Recorder out = recorder_of(launch);
    const Tolerance tolerance = tolerance_of(arguments.epsilon);
    LANE_ARRAY(cells, SHARED_CELLS, N_REACTIONS);
    Trajectory s;
    Work work = {};
    WorkStealing<Trajectory> pool(arguments.parked, (int)arguments.per_lane);
    pool.fill(s, [&](Trajectory &fresh) { return begin(fresh, launch); });
    Looks looks = {};
    while (pool.next(s)) {
        // All lanes of a warp leave, or none: they wait for each other.
        if (looks.due() && any_lane(looks.leave(launch.control, work, pool.here ? s.t : -1.0))) break;
        if (pool.phase == EXACT) {
            if (pool.here) exact_events(s, cells, seed, out, times, max_steps, work);
            pool.next_phase = LEAPS;
            continue;
        }
        for (int i = 0; i < LEAPS_AT_ONCE; ++i) {
            if (pool.here && pool.next_phase == LEAPS) {
                pool.next_phase = step(s, cells, keys, seed, out, times, max_steps, tolerance, work);
                if (s.row < 0) pool.here = begin(s, launch);
            }
            if (lanes_where(pool.here && pool.next_phase == LEAPS) < ENOUGH_LANES) break;
        }
    }
    atomic_add(launch.work, work.firings);
    atomic_add(launch.work + 1, work.leaps);
    atomic_add(launch.work + 2, work.exact);
    atomic_add(launch.work + 3, work.halved);
}
