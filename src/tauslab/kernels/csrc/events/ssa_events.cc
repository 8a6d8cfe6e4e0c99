// Exact stochastic simulation of networks with events: the direct method (Gillespie 1977), which stops at the
// times at which events happen. Between two stops all propensities are constant, so a waiting time
// that a stop cuts short is drawn anew: the exponential distribution has no memory.
//
// The state is doubles: counts, which stay whole numbers, then quantities that events set to any value,
// and last the time. Draw number `step` of the trajectory's stream gives a waiting time and a choice;
// a step that a stop cuts short uses it up.
#include "ensemble/stepping.h"
#include "events/completions.h"
#include "events/jumps.h"
#include "events/state.h"

enum Stop { AT_NO_STOP = 0, AT_REACTION = 1, AT_TIME = 2 };

KERNEL(ssa_events, const EventArguments arguments) {
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
    PhiloxSeries series = {}, tie_series = {};
    StepDraws draws;
    const PhiloxKeys keys = *launch.keys;
    i64 row = -1, k = 0;
    u64 fired = 0, step = 0, executed = 0, completed = 0;
    double t = 0, stop = 0;
    u8 ended = RUNNING;
    Stop at = AT_NO_STOP;

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
            k = 0, step = 0, t = 0, ended = RUNNING, at = AT_TIME;
            t = take_up(launch, row, x, queue);
            take_up_completions(launch, row, delayed);
            if (!launch.kept && !set_drawn(x, inputs, assign)) {
                ended = NOT_A_NUMBER;
                continue;
            }
        }

        if (at != AT_NO_STOP) {
            const u64 earlier = executed;
            if (HAS_DELAYS && at == AT_TIME && !complete_reactions(delayed, x, t, completed)) {
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
            if (at == AT_TIME || executed != earlier) {
                all_propensities(x, c, a);
                add_up(0, a, cumulative);
            }
            stop = tl_min(next_switch(x, inputs, t), first_execution(queue));
            stop = tl_min(stop, delayed.first());
            at = AT_NO_STOP;
        }

        // When the next reaction happens, or before it the next stop.
        const double a0 = N_REACTIONS > 0 ? cumulative[N_REACTIONS > 0 ? N_REACTIONS - 1 : 0] : 0.0;
        if (!(a0 >= 0 && a0 < infinity())) {
            ended = NOT_A_NUMBER;
            continue;
        }
        const u32 next = (u32)step % DRAWS_AHEAD;
        if (next == 0) {
            if ((u32)step == 0 && step > 0) {
                const Place place = place_in(launch, row);
                series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, step);
            }
            draw_ahead(series, keys, (u32)step, draws);
        }
        const double t_event = a0 > 0 ? t + draws.waiting[next] / a0 : infinity();
        const double t_next = t_event < stop ? t_event : stop;

        // Samples before it.
        if (k < n_times && times[k] < t_next) {
            for (; k < n_times && times[k] < t_next; ++k) {
                x[N_SPECIES] = times[k];
                record_sample(out, row, k, x, c);
            }
            x[N_SPECIES] = t;
        }
        if (k == n_times) {
            ended = t_next < infinity() ? DONE : ABSORBED;
            continue;
        }
        if (step >= launch.max_steps) {
            ended = STEP_LIMIT;
            continue;
        }
        if (step % LOOK_EVERY == LOOK_EVERY - 1 && must_leave(launch.control, LOOK_EVERY, t)) break;
        ++step;

        t = t_next;
        x[N_SPECIES] = t;
        if (!(t_event < stop)) {
            at = AT_TIME;
            continue;
        }
        const double target = scaled_half_open(draws.unit[next], a0);
        int reaction = 0;
        for (int j = 0; j < N_REACTIONS - 1; ++j) reaction += cumulative[j] <= target;
        if (HAS_DELAYS && IS_DELAYED[reaction]) {
            for (int end = reaction; end >= 0 && ended == RUNNING; end = NEXT_COMPLETION[end])
                ended = begin_delayed(delayed, end, t, completion_delay(end, x, inputs));
            if (ended != RUNNING) continue;
            stop = tl_min(stop, delayed.first());
        }
        const Fired found = fire(reaction, x, c, a);
        ++fired;
        if (found.overflow) {
            ended = OVERFLOWED;
            continue;
        }
        add_up(found.from, a, cumulative);
        at = found.watched ? AT_REACTION : AT_NO_STOP;
    }
    atomic_add(launch.work, fired);
}
