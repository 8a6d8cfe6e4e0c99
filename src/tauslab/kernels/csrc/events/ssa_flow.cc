// Exact stochastic simulation of networks in which something moves between events: quantities with an equation of
// their own (rate rules), and rates that depend on the time. Such a network is a piecewise-deterministic
// Markov process (Davis 1984); events/flow.h has its steps.
//
// Draw number `jump` of the trajectory's stream gives the integral of the total propensity until the next
// reaction, and the choice of that reaction.
#include "events/completions.h"
#include "events/jumps.h"
#include "events/flow.h"

KERNEL(ssa_flow, const EventArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const i64 n_times = launch.n_times, rows = launch.rows;
    const double *const times = launch.times;
    const AssignState assign = {};
    double x[N_SPECIES + 1] = {};
    double c[N_CONSTANTS + 1] = {};
    double a[N_REACTIONS + 1] = {};
    double cumulative[N_REACTIONS + 1] = {};
    EventQueue queue;
    Completions delayed = {arguments.waiting + THREAD_OFFSET(2 * DELAY_QUEUE), 0, 0};
    Draws numbers = {};
    const auto inputs = formula_constants(c, numbers);
    Flow flow = {};
    PhiloxSeries series = {}, tie_series = {};
    const PhiloxKeys keys = *launch.keys;
    i64 row = -1, k = 0;
    u64 fired = 0, jump = 0, steps = 0, executed = 0, completed = 0;
    double t = 0, stop = 0, step = 0, left = 0, unit = 1;
    u8 ended = RUNNING;
    bool looks = false, draws = false;

    for (;;) {
        if (row < 0 || ended != RUNNING) {
            // The end of the trajectory, and the start of the next.
            if (row >= 0) {
                const bool valid = ended <= ABSORBED || ended == HALTED;
                if (!valid) record_missing(out, row, k);
                record_end(out, row, ended, valid, x);
                keep(launch, row, ended <= ABSORBED ? times[n_times - 1] : t, x, queue);
                keep_completions(launch, row, delayed);
            }
            row = take_row(launch.control, rows);
            if (row >= rows) break;
            const Place place = place_in(launch, row);
            series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, 0);
            tie_series = draw_series(keys, STREAM_EVENTS, place.trajectory, place.point, 0);
            load_start(launch, place, x, c);
            start_draws(numbers, keys, place);
            start_queue(queue);
            start_completions(delayed);
            k = 0, jump = 0, steps = 0, t = 0, step = 0, ended = RUNNING, looks = draws = true;
            t = take_up(launch, row, x, queue);
            take_up_completions(launch, row, delayed);
            if (!launch.kept && !set_drawn(x, inputs, assign)) {
                ended = NOT_A_NUMBER;
                continue;
            }
        }
        if (draws) {
            if ((u32)jump == 0 && jump > 0) {
                const Place place = place_in(launch, row);
                series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, jump);
            }
            const Philox4 bits = philox_draw(series, keys, (u32)jump);
            left = tl_exponential(unit_open_low(bits.x0, bits.x1));
            unit = unit_one_to_two(bits.x2, bits.x3);
            ++jump, draws = false;
        }
        if (looks) {
            const u64 earlier = executed, before = completed;
            if (HAS_DELAYS && !complete_reactions(delayed, x, t, completed)) {
                ended = OVERFLOWED;
                continue;
            }
            const Jumps jumps(x);
            const u8 found = settle(queue, x, inputs, t, tie_series, keys, assign, executed);
            if (found != EVENTS_DONE) {
                ended = found;
                continue;
            }
            if (N_JUMPS > 0) ended = jumps.begin(delayed, x, inputs, t);
            if (N_JUMPS > 0 && ended != RUNNING) continue;
            if (halts(launch, x)) {
                ended = HALTED;
                continue;
            }
            stop = tl_min(next_switch(x, inputs, t), first_execution(queue));
            stop = tl_min(stop, delayed.first());
            if (executed != earlier || completed != before) step = 0;
            looks = false;
        }

        k = record_reached(out, row, k, times, t, x, c);
        if (k == n_times) {
            ended = DONE;
            continue;
        }
        if (steps >= launch.max_steps) {
            ended = STEP_LIMIT;
            continue;
        }
        ++steps;
        if (steps % LOOK_EVERY == 0 && must_leave(launch.control, LOOK_EVERY, t)) break;

        const FlowStep made =
            flow_step(flow, queue, x, c, inputs, a, t, stop, times[k], step, left);
        if (made.not_known) ended = NOT_A_NUMBER;
        if (!made.taken) continue;
        looks = made.looks;
        if (!made.reacts) continue;

        // The reaction is the first whose cumulative propensity exceeds the target.
        all_propensities(x, c, a);
        add_up(0, a, cumulative);
        const double a0 = N_REACTIONS > 0 ? cumulative[N_REACTIONS > 0 ? N_REACTIONS - 1 : 0] : 0.0;
        const double target = scaled_half_open(unit, a0);
        int reaction = 0;
        for (int j = 0; j < N_REACTIONS - 1; ++j) reaction += cumulative[j] <= target;
        if (HAS_DELAYS && IS_DELAYED[reaction]) {
            for (int end = reaction; end >= 0 && ended == RUNNING; end = NEXT_COMPLETION[end])
                ended = begin_delayed(delayed, end, t, completion_delay(end, x, inputs));
            if (ended != RUNNING) continue;
            stop = tl_min(stop, delayed.first());
            looks = looks || !(t < stop);
        }
        const Fired found = fire(reaction, x, c, a);
        ++fired;
        draws = true;
        if (found.overflow) ended = OVERFLOWED;
        if (found.watched) looks = true;
    }
    atomic_add(launch.work, fired);
}
