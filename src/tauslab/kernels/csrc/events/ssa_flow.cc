// Exact stochastic simulation of networks in which something moves between events: quantities with an equation of
// their own (rate rules), and rates that depend on the time. Such a network is a piecewise-deterministic
// Markov process (Davis 1984).
//
// The next reaction happens where the integral of the total propensity since the last one reaches a number
// with the exponential law. The integral is one more variable of the equations, which the pair 5(4) of
// Dormand & Prince (1980) integrates with adaptive steps: the only error. A step ends at the next stop
// or sample; where a trigger changes within it, it is made again up to the change.
//
// Draw number `jump` of the trajectory's stream gives that number and the choice of the reaction.
#include "events/state.h"

constexpr double FLOW_RELATIVE = 1e-7, FLOW_ABSOLUTE = 1e-9;  // errors of a step
constexpr double HAZARD_ERROR = 1e-7;                         // of the integral
constexpr int STAGES = 7;
constexpr int N_VALUES = N_FLOW + 1;  // the last is the integral

TABLE double STAGE_STATE[21] = {
    1.0 / 5,        3.0 / 40,        9.0 / 40,        44.0 / 45,    -56.0 / 15,    32.0 / 9,
    19372.0 / 6561, -25360.0 / 2187, 64448.0 / 6561,  -212.0 / 729, 9017.0 / 3168, -355.0 / 33,
    46732.0 / 5247, 49.0 / 176,      -5103.0 / 18656, 35.0 / 384,   0.0,           500.0 / 1113,
    125.0 / 192,    -2187.0 / 6784,  11.0 / 84};
TABLE double STAGE_TIME[STAGES] = {0, 1.0 / 5, 3.0 / 10, 4.0 / 5, 8.0 / 9, 1, 1};
TABLE double STAGE_ERROR[STAGES] = {71.0 / 57600,      0.0,        -71.0 / 16695, 71.0 / 1920,
                                    -17253.0 / 339200, 22.0 / 525, -1.0 / 40};

struct Flow {
    double d[STAGES][N_VALUES];  // rates at the stages
    double y[N_SPECIES + 1];     // the state that a step arrives at
    double integral;             // of the total propensity over it
};

// Rates of what flows, and the total propensity.
DEVICE_SHARED void flow_at(const double *x, const double *c, double *a, double *d) {
    flow_rates(x, c, d);
    all_propensities(x, c, a);
    double sum = 0;
    for (int j = 0; j < N_REACTIONS; ++j) sum += a[j];
    d[N_FLOW] = sum;
}

// A step of length h from state x at time t; stage 0 is known. The error, in units of what is allowed.
DEVICE_SHARED double try_step(Flow &flow, const double *x, const double *c, double t, double h,
                              double *a) {
    for (int i = 0; i <= N_SPECIES; ++i) flow.y[i] = x[i];
    NO_UNROLL for (int stage = 1; stage < STAGES; ++stage) {
        const int first = stage * (stage - 1) / 2;
        for (int i = 0; i < N_FLOW; ++i) {
            double sum = 0;
            for (int s = 0; s < stage; ++s) sum = FMA(STAGE_STATE[first + s], flow.d[s][i], sum);
            flow.y[FLOW[i]] = FMA(h, sum, x[FLOW[i]]);
        }
        flow.y[N_SPECIES] = stage < 5 ? FMA(STAGE_TIME[stage], h, t) : t + h;
        flow_at(flow.y, c, a, flow.d[stage]);
    }
    double worst = 0;
    for (int i = 0; i < N_VALUES; ++i) {
        double error = 0, sum = 0;
        for (int s = 0; s < STAGES; ++s) {
            error = FMA(STAGE_ERROR[s], flow.d[s][i], error);
            if (s < STAGES - 1) sum = FMA(STAGE_STATE[15 + s], flow.d[s][i], sum);
        }
        error = tl_abs(h * error);
        double allowed = HAZARD_ERROR;
        if (i < N_FLOW) {
            const double before = tl_abs(x[FLOW[i]]), after = tl_abs(flow.y[FLOW[i]]);
            allowed = FMA(FLOW_RELATIVE, tl_max(before, after), FLOW_ABSOLUTE);
        } else {
            flow.integral = h * sum;
        }
        const double scaled = error / allowed;
        if (!(scaled < 1e300)) return infinity();
        if (scaled > worst) worst = scaled;
    }
    return worst;
}

// The length of a step after which the integral is `wanted`, which is reached within `h`; the step is made.
DEVICE_SHARED double step_to_jump(Flow &flow, const double *x, const double *c, double t, double h,
                                  double wanted, double *a) {
    double low = 0, high = h;
    double length = flow.integral > 0 ? h * (wanted / flow.integral) : h;
    for (int turn = 0; turn < 40; ++turn) {
        if (!(length > low && length < high)) length = low + 0.5 * (high - low);
        if (!(length > low && length < high)) break;
        try_step(flow, x, c, t, length, a);
        const double left = wanted - flow.integral;
        if (tl_abs(left) <= 1e-3 * HAZARD_ERROR) return length;
        (left > 0 ? low : high) = length;
        length += left / flow.d[STAGES - 1][N_FLOW];
    }
    try_step(flow, x, c, t, high, a);
    return high;
}

DEVICE double just_before(double t) {
    return t > 0 ? from_bits(as_bits(t) - 1) : t;
}

// Whether a trigger changes by the state that a step arrives at, at time `t`.
template <class Constants>
DEVICE_SHARED bool holds_otherwise(const EventQueue &queue, Flow &flow, const Constants &c,
                                   double t) {
    flow.y[N_SPECIES] = t;
    const double *const y = flow.y;
    return triggers_changed(queue, y, c, t);
}

// The shortest part of a step after which a trigger has changed; the step is made.
template <class Constants>
DEVICE_SHARED double step_to_change(Flow &flow, const EventQueue &queue, const double *x,
                                    const Constants &c, double t, double h, double *a) {
    double low = 0, high = h;
    const double least = 1e-13 * tl_max(t, h);
    while (high - low > least) {
        const double middle = low + 0.5 * (high - low);
        if (!(middle > low && middle < high)) break;
        try_step(flow, x, c, t, middle, a);
        (holds_otherwise(queue, flow, c, t + middle) ? high : low) = middle;
    }
    try_step(flow, x, c, t, high, a);
    return high;
}

// The factor for the next step after an error in units of what is allowed.
DEVICE double next_factor(double error) {
    if (!(error < 1e300)) return 0.1;
    if (error < 1e-5) return 5.0;
    const double factor = 0.9 * tl_exp(-0.2 * tl_log(error));
    return tl_min(5.0, tl_max(0.1, factor));
}

KERNEL(ssa_flow, const EnsembleArguments launch) {
    const Recorder out = recorder_of(launch);
    const i64 n_times = launch.n_times, rows = launch.rows;
    const double *const times = launch.times;
    const AssignState assign = {};
    double x[N_SPECIES + 1] = {};
    double c[N_CONSTANTS + 1] = {};
    double a[N_REACTIONS + 1] = {};
    double cumulative[N_REACTIONS + 1] = {};
    EventQueue queue;
    Draws numbers = {};
    const auto inputs = formula_constants(c, numbers);
    Flow flow = {};
    PhiloxSeries series = {}, tie_series = {};
    const PhiloxKeys keys = *launch.keys;
    i64 row = -1, k = 0;
    u64 fired = 0, jump = 0, steps = 0, executed = 0;
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
            }
            row = take_row(launch.control, rows);
            if (row >= rows) break;
            const Place place = place_in(launch, row);
            series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, 0);
            tie_series = draw_series(keys, STREAM_EVENTS, place.trajectory, place.point, 0);
            load_start(launch, place, x, c);
            start_draws(numbers, keys, place);
            start_queue(queue);
            k = 0, jump = 0, steps = 0, t = 0, step = 0, ended = RUNNING, looks = draws = true;
            t = take_up(launch, row, x, queue);
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
            const u64 earlier = executed;
            const u8 found = settle(queue, x, inputs, t, tie_series, keys, assign, executed);
            if (found != EVENTS_DONE) {
                ended = found;
                continue;
            }
            if (halts(launch, x)) {
                ended = HALTED;
                continue;
            }
            stop = tl_min(next_switch(x, inputs, t), first_execution(queue));
            if (executed != earlier) step = 0;
            looks = false;
        }

        // Samples whose time has come.
        for (; k < n_times && times[k] <= t; ++k) {
            x[N_SPECIES] = times[k];
            record_sample(out, row, k, x, c);
        }
        x[N_SPECIES] = t;
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

        // A step to the next stop or sample at most; the first is a guess that errors shorten.
        flow_at(x, c, a, flow.d[0]);
        if (!(flow.d[0][N_FLOW] >= 0 && flow.d[0][N_FLOW] < infinity())) {
            ended = NOT_A_NUMBER;
            continue;
        }
        const double limit = stop < times[k] ? stop : times[k];
        if (!(step > 0)) step = 0.01 * (limit - t);
        const bool last = !(step < 0.999999 * (limit - t));
        double h = last ? limit - t : step;
        const double error = try_step(flow, x, c, t, h, a);
        if (!(error <= 1.0)) {
            step = h * next_factor(error);
            if (!(t + 0.01 * step > t)) ended = NOT_A_NUMBER;
            continue;
        }
        const double wanted = h * next_factor(error);
        if (!last || wanted > step) step = wanted;

        bool jumps = flow.integral >= left, ends = last;
        if (jumps) h = step_to_jump(flow, x, c, t, h, left, a), ends = false;
        const double arrival = ends ? limit : t + h;
        looks = holds_otherwise(queue, flow, inputs, arrival);
        if (looks && !(ends && !holds_otherwise(queue, flow, inputs, just_before(limit)))) {
            const double shorter = step_to_change(flow, queue, x, inputs, t, h, a);
            if (shorter < h) h = shorter, jumps = ends = false;
        }
        for (int i = 0; i < N_FLOW; ++i) x[FLOW[i]] = flow.y[FLOW[i]];
        left -= flow.integral;
        t = ends ? limit : t + h;
        x[N_SPECIES] = t;
        if (!(t < stop)) looks = true;
        if (!jumps) continue;

        // The reaction is the first whose cumulative propensity exceeds the target.
        all_propensities(x, c, a);
        add_up(0, a, cumulative);
        const double a0 = N_REACTIONS > 0 ? cumulative[N_REACTIONS > 0 ? N_REACTIONS - 1 : 0] : 0.0;
        const double target = scaled_half_open(unit, a0);
        int reaction = 0;
        for (int j = 0; j < N_REACTIONS - 1; ++j) reaction += cumulative[j] <= target;
        const Fired found = fire(reaction, x, c, a);
        ++fired;
        draws = true;
        if (found.overflow) ended = OVERFLOWED;
        if (found.watched) looks = true;
    }
    atomic_add(launch.work, fired);
}
