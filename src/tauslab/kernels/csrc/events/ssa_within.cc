// Exact stochastic simulation of networks of jumps and equations, where nothing but jumps happens between samples:
// that of ssa_flow.cc, with many jumps within a step of the equations (events/jumps_within.h). Threads of a warp make
// their steps together, and wait for that until each has made the jumps within its own.
#include "events/trajectory.h"
#include "events/jumps_within.h"

KERNEL(ssa_within, const EventArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    double x[N_SPECIES + 1] = {}, c[N_CONSTANTS + 1] = {};
    EventQueue queue;
    Draws numbers = {};
    EventTrajectory s(launch, arguments.waiting, x, c, queue, numbers);
    double a[N_REACTIONS + 1] = {}, cumulative[N_REACTIONS + 1] = {};
    double moving[N_MOVING + 1] = {};
    OpenStep open = {};
    PhiloxSeries series = {};
    u64 fired = 0, jump = 0, steps = 0, told = 0;
    double step = 0, left = 0, unit = 1;
    bool fresh = false, draws = false;

    for (;;) {
        if (s.over()) {
            const bool more = s.next([&](const Place &place) {
                series = draw_series(s.keys, STREAM_SSA, place.trajectory, place.point, 0);
                jump = 0, steps = told = 0, step = 0, fresh = draws = true;
            });
            if (!more) break;
            if (s.over()) continue;
        }
        if (fresh) {
            all_propensities(s.x, s.c, a);
            add_up_still(open, 0, a, cumulative);
            open.length = 0, fresh = false;
        }
        if (!s.record_reached()) continue;
        if (steps >= launch.max_steps) {
            s.ended = STEP_LIMIT;
            continue;
        }
        if (steps - told >= LOOK_EVERY) {
            const u64 more = steps - told;
            told = steps;
            if (must_leave(launch.control, more, s.t)) break;
        }
        if (!(open.length > 0)) {
            ++steps;
            const double limit = launch.times[s.k];
            const Attempt made = attempt_flow(open.flow, s.x, s.c, moving, s.t, limit, step);
            if (made.not_known) s.ended = NOT_A_NUMBER;
            if (made.accepted) open_step(open, s.x, s.t, limit, made);
        }
        while (open.length > 0 && steps < launch.max_steps && steps - told < LOOK_EVERY) {
            if (draws) {
                if ((u32)jump == 0 && jump > 0) {
                    const Place place = place_in(launch, s.row);
                    series = draw_series(s.keys, STREAM_SSA, place.trajectory, place.point, jump);
                }
                const Philox4 bits = philox_draw(series, s.keys, (u32)jump);
                left = tl_exponential(unit_open_low(bits.x0, bits.x1));
                unit = unit_one_to_two(bits.x2, bits.x3);
                ++jump, draws = false;
            }
            ++steps;
            const Reach reach = go_on(open, s.x, s.c, moving, s.t, left);
            if (reach == AT_NO_NUMBER) s.ended = NOT_A_NUMBER;
            if (reach == BETWEEN) continue;
            if (reach != AT_JUMP) break;

            const double target = scaled_half_open(unit, open.hazard);
            const int reaction = reaction_now(target, cumulative, moving);
            const Fired found = fire(reaction, s.x, s.c, a);
            ++fired;
            draws = true;
            if (found.overflow) {
                s.ended = OVERFLOWED;
                break;
            }
            add_up_still(open, found.from, a, cumulative);
            after_jump(open, reaction, s.x, s.c, moving);
        }
    }
    atomic_add(launch.work, fired);
}
