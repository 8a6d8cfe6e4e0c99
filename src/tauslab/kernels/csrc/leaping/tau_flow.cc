// Tau-leaping of networks in which something moves between events: quantities with an equation of their own (rate
// rules), and rates that depend on the time. Leaps are those of leaping/event_leap.h; where they do not pay,
// exact events are taken as in events/ssa_flow.cc.
#include "leaping/event_leap.h"
#include "events/flow.h"

KERNEL(tau_flow, const EventLeapArguments arguments) {
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
    Flow flow = {};
    LeapSource source = {};
    PhiloxSeries tie_series = {};
    Work work = {};
    Looks control = {};
    i64 row = -1, k = 0;
    u64 steps = 0, executed = 0;
    double t = 0, stop = 0, reach = 0, step = 0, left = 0, unit = 1;
    int exact = 0;  // events, or steps, to come before the next leap
    u8 ended = RUNNING;
    bool looks = false, draws = false;

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
            k = 0, steps = 0, t = 0, exact = 0, ended = RUNNING, looks = true;
            reach = step = 0;
            t = take_up(launch, row, x, queue);
            if (!launch.kept && !set_drawn(x, inputs, assign)) {
                ended = NOT_A_NUMBER;
                continue;
            }
        }
        if (control.due() && control.leave(launch.control, work, t)) break;

        if (looks) {
            const u64 earlier = executed;
            const u8 found = settle(queue, x, inputs, t, tie_series, keys, assign, executed);
            if (found != EVENTS_DONE) {
                ended = found;
                continue;
            }
            if (!(t < stop) || executed != earlier) exact = 0;
            stop = tl_min(next_switch(x, inputs, t), first_execution(queue));
            if (executed != earlier) reach = step = 0;
            looks = false;
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
                step = 0, looks = true;
                if (leapt.overflow) ended = OVERFLOWED;
                continue;
            }
            exact = EXACT_EVENTS;
            draws = true;
        }
        if (draws) {
            const Philox4 bits = source.next(keys);
            left = tl_exponential(unit_open_low(bits.x0, bits.x1));
            unit = unit_one_to_two(bits.x2, bits.x3);
            draws = false;
        }

        const FlowStep made =
            flow_step(flow, queue, x, c, inputs, a, t, stop, times[k], step, left);
        if (made.not_known) ended = NOT_A_NUMBER;
        if (!made.taken) continue;
        looks = made.looks;
        --exact;
        if (!made.reacts) continue;

        // The reaction is the first whose cumulative propensity exceeds the target.
        all_propensities(x, c, a);
        add_up(0, a, cumulative);
        const double target = scaled_half_open(unit, cumulative[N_REACTIONS - 1]);
        int reaction = 0;
        for (int j = 0; j < N_REACTIONS - 1; ++j) reaction += cumulative[j] <= target;
        const Fired found = fire(reaction, x, c, a);
        ++work.firings, ++work.exact;
        draws = true;
        if (found.overflow) ended = OVERFLOWED;
        if (found.watched) looks = true;
    }
    add_work(launch.work, work);
}
