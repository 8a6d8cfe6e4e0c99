// Exact stochastic simulation of networks with events: the direct method (Gillespie 1977), which stops at the
// times at which events happen. Between two stops all propensities are constant, so a waiting time
// that a stop cuts short is drawn anew: the exponential distribution has no memory.
//
// The state is doubles: counts, which stay whole numbers, then quantities that events set to any value,
// and last the time. Draw number `step` of the trajectory's stream gives a waiting time and a choice;
// a step that a stop cuts short uses it up.
//
// Where rates follow the time, propensities are upper bounds in a piece of the run (ensemble/pieces.h), whose end is a
// stop, and a reaction is accepted by its propensity at the time (Lewis and Shedler 1979).
#include "ensemble/pieces.h"
#include "events/trajectory.h"

enum Stop { AT_NO_STOP = 0, AT_REACTION = 1, AT_TIME = 2 };

KERNEL_IN_BLOCKS(6, ssa_events, const EventArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    double x[N_SPECIES + 1] = {}, c[N_CONSTANTS + 1] = {};
    EventQueue queue;
    Draws numbers = {};
    EventTrajectory s(launch, arguments.waiting + THREAD_OFFSET(2 * DELAY_QUEUE), x, c, queue,
                      numbers);
    double a[N_REACTIONS + 1] = {}, cumulative[N_REACTIONS + 1] = {};
    PhiloxSeries series = {};
    StepDraws draws;
    u64 fired = 0, step = 0;
    Stop at = AT_NO_STOP;
    [[maybe_unused]] const double *tree = nullptr;
    [[maybe_unused]] i32 piece = 1;
    const auto total = [&] {
        all_propensities(s.x, s.c, a);
        add_up(0, a, cumulative);
        return total_of(cumulative);
    };
    const auto find_stop = [&] {
        s.find_stop();
        if constexpr (IS_THINNED) s.stop = tl_min(s.stop, s.c[PIECE_AT]);
    };

    for (;;) {
        if (s.over()) {
            const bool more = s.next([&](const Place &place) {
                series = draw_series(s.keys, STREAM_SSA, place.trajectory, place.point, 0);
                step = 0, at = AT_TIME;
                tree = launch.constants + place.input * launch.constants_stride + PIECE_AT;
                piece = 1;
            });
            if (!more) break;
            if (s.over()) continue;
        }
        if (at != AT_NO_STOP) {
            const u64 earlier = s.executed;
            if (!s.look(at == AT_TIME)) continue;
            if (at == AT_TIME || s.executed != earlier) total();
            if constexpr (IS_THINNED)
                while (s.t >= s.c[PIECE_AT]) next_piece(tree, piece, s.t, s.c, total);
            find_stop();
            at = AT_NO_STOP;
        }

        // When the next reaction happens, or before it the next stop.
        double a0 = total_of(cumulative);
        if constexpr (IS_THINNED) {
            if (a0 > s.c[LIMIT_AT]) {
                a0 = refined(tree, piece, s.t, a0, s.c, total);
                find_stop();
            }
        }
        if (!(a0 >= 0 && a0 < infinity())) {
            s.ended = NOT_A_NUMBER;
            continue;
        }
        const u32 next = (u32)step % DRAWS_AHEAD;
        if (next == 0) {
            if ((u32)step == 0 && step > 0) {
                const Place place = place_in(launch, s.row);
                series = draw_series(s.keys, STREAM_SSA, place.trajectory, place.point, step);
            }
            draw_ahead(series, s.keys, (u32)step, draws);
        }
        const double t_event = a0 > 0 ? s.t + draws.waiting[next] / a0 : infinity();
        const double t_next = t_event < s.stop ? t_event : s.stop;
        s.record_until(t_next);
        if (s.sampled()) {
            s.ended = t_next < infinity() || IS_THINNED ? DONE : ABSORBED;
            continue;
        }
        if (step >= launch.max_steps) {
            s.ended = STEP_LIMIT;
            continue;
        }
        if (step % LOOK_EVERY == LOOK_EVERY - 1 && must_leave(launch.control, LOOK_EVERY, s.t))
            break;
        ++step;

        s.x[N_SPECIES] = s.t = t_next;
        if (!(t_event < s.stop)) {
            at = AT_TIME;
            continue;
        }
        const double target = scaled_half_open(draws.unit[next], a0);
        const int reaction = reaction_at(target, cumulative);
        if constexpr (IS_THINNED) {
            const double before = reaction > 0 ? cumulative[reaction - 1] : 0.0;
            const double now = propensity_now(reaction, s.x, s.c, a[reaction]);
            if (!(now >= 0 && now <= a[reaction] * BOUND_HOLDS)) s.ended = NOT_A_NUMBER;
            if (!(target - before < now)) continue;
        }
        if (!s.begin_late(reaction)) continue;
        const Fired found = fire(reaction, s.x, s.c, a);
        ++fired;
        if (found.overflow) {
            s.ended = OVERFLOWED;
            continue;
        }
        add_up(found.from, a, cumulative);
        at = found.watched ? AT_REACTION : AT_NO_STOP;
    }
    atomic_add(launch.work, fired);
}
