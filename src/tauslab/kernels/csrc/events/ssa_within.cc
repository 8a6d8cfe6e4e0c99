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
    CountedJump jump;
    u64 fired = 0, steps = 0, reported = 0;
    double step = 0;
    bool fresh = false;

    for (;;) {
        if (s.over()) {
            const bool more = s.next([&](const Place &place) {
                jump.start(s.keys, place);
                steps = reported = 0, step = 0, fresh = true;
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
        if (steps - reported >= LOOK_EVERY) {
            const u64 more = steps - reported;
            reported = steps;
            if (must_leave(launch.control, more, s.t)) break;
        }
        if (!(open.length > 0)) {
            ++steps;
            const double limit = launch.times[s.k];
            const Attempt made = attempt_flow(open.flow, s.x, s.c, moving, s.t, limit, step);
            if (made.not_known) s.ended = NOT_A_NUMBER;
            if (made.accepted) open_step(open, s.x, s.t, limit, made);
        }
        while (open.length > 0 && steps < launch.max_steps && steps - reported < LOOK_EVERY) {
            jump.draw(s);
            ++steps;
            const Reach reach = go_on(open, s.x, s.c, moving, s.t, jump.left);
            if (reach == AT_NO_NUMBER) s.ended = NOT_A_NUMBER;
            if (reach == BETWEEN) continue;
            if (reach != AT_JUMP) break;

            const double target = scaled_half_open(jump.unit, open.hazard);
            const int reaction = reaction_now(target, cumulative, moving);
            const Fired found = fire(reaction, s.x, s.c, a);
            ++fired;
            jump.due = true;
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
