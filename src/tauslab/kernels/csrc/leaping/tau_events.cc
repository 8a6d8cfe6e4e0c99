// Tau-leaping of networks with events. Leaps are those of leaping/event_leap.h: they end at the times at which
// events happen, as far as these are known, and are so short near the threshold of a trigger that it is
// reached by exact events (leaping/crossing.h). Triggers are looked at after each leap, after each exact event
// that can change them, and at stops.
//
// Where leaps do not pay, exact events are taken as in events/ssa_events.cc, or as in events/ssa_flow.cc where something
// moves between events.
#include "leaping/leaps.h"
#include "leaping/crossing.h"
#include "events/trajectory.h"
#include "events/flow.h"
#include "leaping/event_leap.h"

KERNEL(tau_events, const EventLeapArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Tolerance tolerance = tolerance_of(arguments.epsilon);
    double x[N_SPECIES + 1] = {}, c[N_CONSTANTS + 1] = {};
    EventQueue queue;
    Draws numbers = {};
    EventTrajectory s(launch, nullptr, x, c, queue, numbers);
    LANE_ARRAY(cells, SHARED_CELLS, N_REACTIONS);
    double a[N_REACTIONS + 1] = {}, cumulative[N_REACTIONS + 1] = {};
    Flow flow = {};
    LeapSource source = {};
    Work work = {};
    Looks control = {};
    u64 steps = 0;
    NextJump jump;
    double reach = 0, step = 0;
    int exact = 0;  // events, or steps, to come before the next leap
    bool looks = false;

    for (;;) {
        if (s.over()) {
            const bool more = s.next([&](const Place &place) {
                source.start(place);
                steps = 0, exact = 0, reach = step = 0, looks = true;
            });
            if (!more) break;
            if (s.over()) continue;
        }
        if (control.due() && control.leave(launch.control, work, s.t)) break;
        if (looks) {
            const u64 earlier = s.executed;
            const bool at_stop = !(s.t < s.stop);
            if (!s.look(false)) continue;
            if (at_stop || s.executed != earlier) exact = 0;
            if (s.executed != earlier) reach = step = 0;
            s.find_stop();
            looks = false;
        }
        if (!s.record_reached()) continue;
        if (steps >= launch.max_steps || source.attempts >= LARGEST_LEAP) {
            s.ended = STEP_LIMIT;
            continue;
        }
        ++steps;
        if (exact == 0) {
            const Plan plan = plan_leap(s.x, s.c, cells, tolerance);
            if (!(plan.a0 >= 0 && plan.a0 < infinity())) {
                s.ended = NOT_A_NUMBER;
                continue;
            }
            const LeapEnd leapt =
                leap(s.x, s.c, plan, cells, s.t, tl_min(s.stop, launch.times[s.k]), reach, source,
                     s.keys, tolerance, work);
            if (leapt.taken) {
                s.t = leapt.t;
                step = 0, looks = true;
                if (leapt.overflow)
                    s.ended = OVERFLOWED;
                else if (!has_sizes(s.x))
                    s.ended = NOT_A_NUMBER;
                continue;
            }
            exact = EXACT_EVENTS;
            jump.due = true;
            if constexpr (!MOVES) {
                all_propensities(s.x, s.c, a);
                add_up(0, a, cumulative);
            }
        }
        if constexpr (MOVES) {
            if (jump.due) jump.take(source.next(s.keys));
            const FlowStep made = flow_step(flow, s.queue, s.x, s.c, s.inputs(), a, s.t, s.stop,
                                            launch.times[s.k], step, jump.left);
            if (made.not_known) s.ended = NOT_A_NUMBER;
            if (!made.taken) continue;
            looks = made.looks;
            --exact;
            if (!made.reacts) continue;
            all_propensities(s.x, s.c, a);
            add_up(0, a, cumulative);
        } else {
            // When the next reaction happens, or before it the next stop.
            const double a0 = cumulative[N_REACTIONS - 1];
            if (!(a0 >= 0 && a0 < infinity())) {
                s.ended = NOT_A_NUMBER;
                continue;
            }
            double t_next = s.stop;
            bool fires = false;
            if (a0 > 0) {
                jump.take(source.next(s.keys));
                const double waiting = jump.left / a0;
                fires = s.t + waiting < s.stop;
                if (fires) t_next = s.t + waiting;
            }
            s.record_until(t_next);
            if (s.sampled()) {
                s.ended = t_next < infinity() ? DONE : ABSORBED;
                continue;
            }
            s.x[N_SPECIES] = s.t = t_next;
            --exact;
            looks = !fires;
            if (!fires) continue;
        }
        // The reaction is the first whose cumulative propensity exceeds the target.
        const double target = scaled_half_open(jump.unit, cumulative[N_REACTIONS - 1]);
        const int reaction = reaction_at(target, cumulative);
        const Fired found = fire(reaction, s.x, s.c, a);
        ++work.firings, ++work.exact;
        jump.due = true;
        if (found.overflow) {
            s.ended = OVERFLOWED;
            continue;
        }
        if constexpr (!MOVES) add_up(found.from, a, cumulative);
        if (found.watched) looks = true;
    }
    add_work(launch.work, work);
}
