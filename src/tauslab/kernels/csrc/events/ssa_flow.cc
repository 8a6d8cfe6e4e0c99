// Exact stochastic simulation of networks in which something moves between events: quantities with an equation of
// their own (rate rules), and rates that depend on the time. Such a network is a piecewise-deterministic
// Markov process (Davis 1984); events/flow.h has its steps.
//
// Draw number `jump` of the trajectory's stream gives the integral of the total propensity until the next
// reaction, and the choice of that reaction.
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
    PhiloxSeries series = {};
    u64 fired = 0, jump = 0, steps = 0;
    double step = 0, left = 0, unit = 1;
    bool looks = false, draws = false;

    for (;;) {
        if (s.over()) {
            const bool more = s.next([&](const Place &place) {
                series = draw_series(s.keys, STREAM_SSA, place.trajectory, place.point, 0);
                jump = 0, steps = 0, step = 0, looks = draws = true;
            });
            if (!more) break;
            if (s.over()) continue;
        }
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
                                        launch.times[s.k], step, left);
        if (made.not_known) s.ended = NOT_A_NUMBER;
        if (!made.taken) continue;
        looks = made.looks;
        if (!made.reacts) continue;

        // The reaction is the first whose cumulative propensity exceeds the target.
        all_propensities(s.x, s.c, a);
        add_up(0, a, cumulative);
        const double target = scaled_half_open(unit, total_of(cumulative));
        const int reaction = reaction_at(target, cumulative);
        if (!s.begin_late(reaction)) continue;
        looks = looks || !(s.t < s.stop);
        const Fired found = fire(reaction, s.x, s.c, a);
        ++fired;
        draws = true;
        if (found.overflow) s.ended = OVERFLOWED;
        if (found.watched) looks = true;
    }
    atomic_add(launch.work, fired);
}
