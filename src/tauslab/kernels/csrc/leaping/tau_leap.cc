// Tau-leaping of second order (Anderson & Koyama 2012; steps after Cao, Gillespie & Petzold 2005, 2006; on
// GPUs Nobile et al. 2014). One thread runs one trajectory, and takes the next of the launch when it ends.
//
//     paper                     here
//     tau' (2006, eq. 33)       Plan::limit, `plan_leap` of the generated header; symbols in leaping/leaps.h
//     tau'', critical firing    the waiting time for one of the critical reactions, with Plan::critical
//     tau                       the smaller of both, cut at the next sample
//     Poisson number k_j        `draw_firings`, for a channel instead of a reaction
//     10 / a_0, 100 SSA steps   WORTH_EVENTS, EXACT_EVENTS: exact firings instead of a short leap
//
// A step is a leap of two halves, or one exact event. Poisson numbers have addresses of their own
// (random/poisson.h): every half of every attempt at a leap has a number. Exact firings and waiting times
// of critical reactions take their bits one after the other from STREAM_TAU.
#include "leaping/step.h"
#include "model.h"
#include "device/work_stealing.h"

constexpr int LEAPS_AT_ONCE = 16;  // leaps between two choices of what a warp does next

struct LeapArguments {
    EnsembleArguments launch;
    double epsilon;  // bound on the expected relative change of a propensity in a leap
    u64 seed;        // again: numbers in a launch's arguments take neither registers nor loads
    u32 *parked;     // trajectories that wait for their turn, see device/work_stealing.h
    i64 per_lane;    // trajectories of a lane, one after the other
    i64 width;       // lanes of a warp that begin trajectories
};

// Ras/cAMP/PKA on an H200, 2^16 trajectories to t = 15: 0.87 s with 4 blocks a multiprocessor, 1.19 s with
// 3, which leaves more registers, 1.01 s with 5.
KERNEL_IN_BLOCKS(4, tau_leap, const LeapArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const PhiloxKeys keys = philox_keys(arguments.seed);
    const u64 max_steps = launch.max_steps;
    const double *const times = launch.times;
    const Recorder out = recorder_of(launch);
    const Tolerance tolerance = tolerance_of(arguments.epsilon);
    LANE_ARRAY(cells, SHARED_CELLS, N_REACTIONS);
    Trajectory s;
    Work work = {};
    WorkStealing<Trajectory> pool(arguments.parked, (int)arguments.per_lane, (int)arguments.width);
    pool.fill(s, [&](Trajectory &fresh) { return begin(fresh, launch); });
    Looks looks = {};
    while (pool.next(s)) {
        // All lanes of a warp leave, or none: they wait for each other.
        if (looks.due() && any_lane(looks.leave(launch.control, work, pool.here ? s.t : -1.0)))
            break;
        if (pool.phase == EXACT) {
            if (pool.here) exact_events(s, cells, keys, out, times, max_steps, work);
            pool.next_phase = LEAPS;
            continue;
        }
        // If a quarter of the lanes leaps no more, the warp chooses again.
        const int enough = (3 * lanes_where(pool.here) + 3) / 4;
        for (int i = 0; i < LEAPS_AT_ONCE; ++i) {
            if (pool.here && pool.next_phase == LEAPS) {
                pool.next_phase = step(s, cells, keys, out, times, max_steps, tolerance, work);
                if (s.row < 0) pool.here = begin(s, launch);
            }
            if (lanes_where(pool.here && pool.next_phase == LEAPS) < enough) break;
        }
    }
    pool.stop();
    add_work(launch.work, work);
}
