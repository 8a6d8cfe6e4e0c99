// Tau-leaping of networks with events. Leaps are those of leaping/event_leap.h: they end at the times at which
// events happen, as far as these are known, and are so short near the threshold of a trigger that it is
// reached by exact events (leaping/crossing.h). Triggers are looked at after each leap, after each exact event
// that can change them, and at stops.
//
// Where leaps do not pay, exact events are taken as in events/ssa_events.cc.
#include "leaping/event_leap.h"

enum Stop { AT_NO_STOP = 0, AT_CHANGE = 1, AT_TIME = 2 };

KERNEL(tau_events, const EventLeapArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const PhiloxKeys &keys = *launch.keys;
    const Recorder out = recorder_of(launch);
    const Tolerance tolerance = tolerance_of(arguments.epsilon);
    const i64 n_times = launch.n_times;
    const double *const times = launch.times;
    const AssignState assign = {};
    LANE_ARRAY(cells, SHARED_CELLS, N_REACTIONS);
    double x[N_SPECIES + 1] = {};
    double c[N_CONSTANTS + 1] = {};
    double a[N_REACTIONS + 1] = {};
    double cumulative[N_REACTIONS + 1] = {};
    EventQueue queue;
    Draws numbers = {};
    const auto inputs = formula_constants(c, numbers);
    LeapSource source = {};
    PhiloxSeries tie_series = {};
    Work work = {};
    Looks looks = {};
    i64 row = -1, k = 0;
    u64 steps = 0, executed = 0;
    double t = 0, stop = 0, reach = 0;
    int exact = 0;  // events to come before the next leap
    u8 ended = RUNNING;
    Stop at = AT_NO_STOP;

    for (;;) {
        if (row < 0 || ended != RUNNING) {
            // The end of the trajectory, and the start of the next.
            if (row >= 0) {
                const bool valid = ended <= ABSORBED;
                if (!valid) record_missing(out, row, k);
                record_end(out, row, ended, valid, x);
                keep(launch, row, valid ? times[n_times - 1] : t, x, queue);
            }
            row = take_row(launch.control, launch.rows);
            if (row >= launch.rows) break;
            const Place place = place_in(launch, row);
            source.start(place);
            tie_series = draw_series(keys, STREAM_EVENTS, place.trajectory, place.point, 0);
            load_start(launch, place, x, c);
            start_draws(numbers, keys, place);
            start_queue(queue);
            k = 0, steps = 0, t = 0, exact = 0, ended = RUNNING, at = AT_TIME;
            t = take_up(launch, row, x, queue);
            if (!launch.kept && !set_drawn(x, inputs, assign)) {
                ended = NOT_A_NUMBER;
                continue;
            }
        }
        if (looks.due() && looks.leave(launch.control, work, t)) break;

        if (at != AT_NO_STOP) {
            const u64 earlier = executed;
            const u8 found = settle(queue, x, inputs, t, tie_series, keys, assign, executed);
            if (found != EVENTS_DONE) {
                ended = found;
                continue;
            }
            if (at == AT_TIME || executed != earlier) exact = 0;
            stop = tl_min(next_switch(x, inputs, t), first_execution(queue));
            at = AT_NO_STOP;
        }

        k = record_reached(out, row, k, times, t, x, c);
        if (k == n_times) {
            ended = DONE;
            continue;
        }
        if (steps >= launch.max_steps || source.attempts >= LARGEST_LEAP) {
            ended = STEP_LIMIT;
            continue;
        }
        ++steps;

        if (exact == 0) {
            const Plan plan = plan_leap(x, c, cells, tolerance);
            if (!(plan.a0 >= 0 && plan.a0 < infinity())) {
                ended = NOT_A_NUMBER;
                continue;
            }
            const LeapEnd leapt = leap(x, c, plan, cells, t, tl_min(stop, times[k]), reach, source,
                                       keys, tolerance, work);
            if (leapt.taken) {
                t = leapt.t;
                at = t < stop ? AT_CHANGE : AT_TIME;
                if (leapt.overflow) ended = OVERFLOWED;
                continue;
            }
            exact = EXACT_EVENTS;
            all_propensities(x, c, a);
            add_up(0, a, cumulative);
        }

        // When the next reaction happens, or before it the next stop.
        const double a0 = cumulative[N_REACTIONS - 1];
        if (!(a0 >= 0 && a0 < infinity())) {
            ended = NOT_A_NUMBER;
            continue;
        }
        double t_next = stop, target = 0;
        bool fires = false;
        if (a0 > 0) {
            const Philox4 bits = source.next(keys);
            const double waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / a0;
            target = scaled_half_open(unit_one_to_two(bits.x2, bits.x3), a0);
            fires = t + waiting < stop;
            if (fires) t_next = t + waiting;
        }
        for (; k < n_times && times[k] < t_next; ++k) {
            x[N_SPECIES] = times[k];
            record_sample(out, row, k, x, c);
        }
        x[N_SPECIES] = t;
        if (k == n_times) {
            ended = t_next < infinity() ? DONE : ABSORBED;
            continue;
        }
        t = t_next;
        x[N_SPECIES] = t;
        --exact;
        if (!fires) {
            at = AT_TIME;
            continue;
        }
        int reaction = 0;
        for (int j = 0; j < N_REACTIONS - 1; ++j) reaction += cumulative[j] <= target;
        const Fired found = fire(reaction, x, c, a);
        ++work.firings, ++work.exact;
        if (found.overflow) {
            ended = OVERFLOWED;
            continue;
        }
        add_up(found.from, a, cumulative);
        if (found.watched) at = AT_CHANGE;
    }
    add_work(launch.work, work);
}
