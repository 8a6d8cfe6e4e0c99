// A trajectory with events: its state, how it begins and ends, and what is done at a stop. Kernels of exact simulation
// and of leaps add what happens between two stops.
#pragma once

#include "events/completions.h"
#include "events/state.h"

struct EventTrajectory {
    const EnsembleArguments &launch;
    const Recorder out;
    const PhiloxKeys keys;
    // Arrays of the kernel: were they members, all others were in local memory with them.
    double *const x, *const c;
    EventQueue &queue;
    Draws &numbers;
    Completions delayed;
    PhiloxSeries ties = {};
    i64 row = -1, k = 0;
    u64 executed = 0, completed = 0;
    double t = 0, stop = 0;
    u8 ended = RUNNING;

    DEVICE_MEMBER EventTrajectory(const EnsembleArguments &launch, u64 *waiting, double *x,
                                  double *c, EventQueue &queue, Draws &numbers)
        : launch(launch),
          out(recorder_of(launch)),
          keys(*launch.keys),
          x(x),
          c(c),
          queue(queue),
          numbers(numbers),
          delayed{waiting, 0, 0} {}

    DEVICE_MEMBER auto inputs() { return formula_constants(c, numbers); }
    DEVICE_MEMBER bool over() const { return row < 0 || ended != RUNNING; }
    DEVICE_MEMBER bool sampled() const { return k == launch.n_times; }

    // Records the end of the trajectory and starts the next; false where there is none. `begin` takes its place.
    template <class Begin>
    DEVICE_MEMBER bool next(const Begin &begin) {
        if (row >= 0) {
            const bool valid = ended <= ABSORBED || ended == HALTED;
            if (!valid) record_missing(out, row, k);
            record_end(out, row, ended, valid, x);
            record_final_amounts(launch, row, valid, x, c);
            keep(launch, row, ended <= ABSORBED ? launch.times[launch.n_times - 1] : t, x, queue);
            keep_completions(launch, row, delayed);
        }
        row = take_row(launch.control, launch.rows);
        if (row >= launch.rows) return false;
        const Place place = place_in(launch, row);
        ties = draw_series(keys, STREAM_EVENTS, place.trajectory, place.point, 0);
        load_start(launch, place, x, c);
        start_draws(numbers, *launch.keys, place);  // which notes where they are
        start_queue(queue);
        start_completions(delayed);
        k = 0, ended = RUNNING;
        t = take_up(launch, row, x, queue);
        take_up_completions(launch, row, delayed);
        begin(place);
        if (!launch.kept && !set_drawn(x, inputs(), AssignState{})) ended = NOT_A_NUMBER;
        return true;
    }

    // Completes what is due (`due`), looks at triggers and executes events; false where the trajectory ends by it.
    DEVICE_MEMBER bool look(bool due) {
        if (HAS_DELAYS && due && !complete_reactions(delayed, x, t, completed)) {
            ended = OVERFLOWED;
            return false;
        }
        const Jumps jumps(x);
        const u8 found = settle(queue, x, inputs(), t, ties, keys, AssignState{}, executed);
        if (found != EVENTS_DONE)
            ended = found;
        else if (N_JUMPS > 0)
            ended = jumps.begin(delayed, x, inputs(), t);
        if (ended == RUNNING && halts(launch, x)) ended = HALTED;
        return ended == RUNNING;
    }

    DEVICE_MEMBER void find_stop() {
        stop = tl_min(next_switch(x, inputs(), t), first_execution(queue));
        stop = tl_min(stop, delayed.first());
    }

    // Begins what completes later; false where the trajectory ends by it.
    DEVICE_MEMBER bool begin_late(int reaction) {
        if (!HAS_DELAYS || !IS_DELAYED[reaction]) return true;
        for (int end = reaction; end >= 0 && ended == RUNNING; end = NEXT_COMPLETION[end])
            ended = begin_delayed(delayed, end, t, completion_delay(end, x, inputs()));
        if (ended == RUNNING) stop = tl_min(stop, delayed.first());
        return ended == RUNNING;
    }

    // Records samples whose time comes before `t_next`, when the state changes. Formulas of samples may read the
    // time, which stands behind the counts.
    DEVICE_MEMBER void record_until(double t_next) {
        if (sampled() || !(launch.times[k] < t_next)) return;
        for (; !sampled() && launch.times[k] < t_next; ++k) record();
        x[N_SPECIES] = t;
    }

    // Records samples whose time has come; false where these were the last.
    DEVICE_MEMBER bool record_reached() {
        for (; !sampled() && launch.times[k] <= t; ++k) record();
        x[N_SPECIES] = t;
        if (sampled()) ended = DONE;
        return !sampled();
    }

    DEVICE_MEMBER void record() {
        x[N_SPECIES] = launch.times[k];
        record_sample(out, row, k, x, c);
    }
};

// The next jump of an exact path happens when the integral of the total propensity reaches a limit.
struct NextJump {
    double left = 0, unit = 1;  // of the integral; a number of 1 to 2 that chooses the reaction
    bool due = false;           // the numbers of the last jump are used up

    DEVICE_MEMBER void take(const Philox4 &bits) {
        left = tl_exponential(unit_open_low(bits.x0, bits.x1));
        unit = unit_one_to_two(bits.x2, bits.x3);
        due = false;
    }
};

// The same from draw number `number` of the trajectory's stream.
struct CountedJump : NextJump {
    PhiloxSeries series = {};
    u64 number = 0;

    DEVICE_MEMBER void start(const PhiloxKeys &keys, const Place &place) {
        series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, 0);
        number = 0, due = true;
    }

    DEVICE_MEMBER void draw(const EventTrajectory &s) {
        if (!due) return;
        if ((u32)number == 0 && number > 0) {
            const Place place = place_in(s.launch, s.row);
            series = draw_series(s.keys, STREAM_SSA, place.trajectory, place.point, number);
        }
        take(philox_draw(series, s.keys, (u32)number));
        ++number;
    }
};
