// Exact stochastic simulation of networks in which something moves between events: quantities with an equation of
// their own (rate rules), and rates that depend on the time. Such a network is a piecewise-deterministic
// Markov process (Davis 1984); events/flow.h has its steps.
#include "events/trajectory.h"
#include "events/flow.h"

KERNEL(ssa_flow, const EventArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    double x[N_SPECIES + 1] = {}, c[N_CONSTANTS + 1] = {};
    EventQueue queue;
    Draws numbers = {};
    EventTrajectory s(launch, arguments.waiting + THREAD_OFFSET(2 * DELAY_QUEUE), x, c, queue,
                      numbers);
    double a[N_REACTIONS + 1] = {}, cumulative[N_REACTIONS + 1] = {};
    Flow flow = {};
    CountedJump jump;
    u64 fired = 0, steps = 0;
    double step = 0;
    bool looks = false;

    for (;;) {
        if (s.over()) {
            const bool more = s.next([&](const Place &place) {
                jump.start(s.keys, place);
                steps = 0, step = 0, looks = true;
            });
            if (!more) break;
            if (s.over()) continue;
        }
        jump.draw(s);
        if (looks) {
            const u64 earlier = s.executed, before = s.completed;
            if (!s.look(true)) continue;
            s.find_stop();
            if (s.executed != earlier || s.completed != before) step = 0;
            looks = false;
        }

        if (!s.record_reached()) continue;
        if (steps >= launch.max_steps) {
            s.ended = STEP_LIMIT;
            continue;
        }
        ++steps;
        if (steps % LOOK_EVERY == 0 && must_leave(launch.control, LOOK_EVERY, s.t)) break;

        const FlowStep made = flow_step(flow, s.queue, s.x, s.c, s.inputs(), a, s.t, s.stop,
                                        launch.times[s.k], step, jump.left);
        if (made.not_known) s.ended = NOT_A_NUMBER;
        if (!made.taken) continue;
        looks = made.looks;
        if (!made.reacts) continue;

        // The reaction is the first whose cumulative propensity exceeds the target.
        all_propensities(s.x, s.c, a);
        add_up(0, a, cumulative);
        const double target = scaled_half_open(jump.unit, total_of(cumulative));
        const int reaction = reaction_at(target, cumulative);
        if (!s.begin_late(reaction)) continue;
        looks = looks || !(s.t < s.stop);
        const Fired found = fire(reaction, s.x, s.c, a);
        ++fired;
        jump.due = true;
        if (found.overflow) s.ended = OVERFLOWED;
        if (found.watched) looks = true;
    }
    atomic_add(launch.work, fired);
}
