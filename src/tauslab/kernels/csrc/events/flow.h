// What moves between events: steps of an adaptive method, the time of the next reaction and that of a change of a
// trigger within a step.
//
// The next reaction happens where the integral of the total propensity since the last one reaches a number
// with the exponential law. The integral is one more variable of the equations, which the pair 5(4) of
// Dormand & Prince (1980) integrates with adaptive steps: the only error. A step ends at the next stop
// or sample; where a trigger changes within it, it is made again up to the change.
#pragma once

#include "events/state.h"
#include "math/dormand_prince.h"
#include "math/step_changes.h"

constexpr double FLOW_RELATIVE = 1e-7, FLOW_ABSOLUTE = 1e-9;  // errors of a step
constexpr double HAZARD_ERROR = 1e-7;                         // of the integral
constexpr int N_VALUES = N_FLOW + 1;                          // the last is the integral

struct Flow {
    double still;                // the propensities that do not change between jumps, together
    double d[STAGES][N_VALUES];  // rates at the stages
    double y[N_SPECIES + 1];     // the state that a step arrives at
    double integral;             // of the total propensity over it
};

// Rates of what flows, and the total propensity.
DEVICE_SHARED void flow_at(const double *x, const double *c, double *a, double still, double *d) {
    flow_rates(x, c, d);
    d[N_FLOW] = total_propensity(x, c, a, still);
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
        flow_at(flow.y, c, a, flow.still, flow.d[stage]);
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
            // An amount that falls below 0 by more than its error needs a shorter step.
            if (HAS_BOUNDED && IS_BOUNDED[i] && flow.y[FLOW[i]] < -FLOW_ABSOLUTE) return infinity();
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
template <class Inputs>
DEVICE_SHARED bool holds_otherwise(const EventQueue &queue, Flow &flow, const Inputs &inputs,
                                   double t) {
    flow.y[N_SPECIES] = t;
    const double *const y = flow.y;
    return triggers_changed(queue, y, inputs, t);
}

// The shortest part of a step after which a trigger has changed; the step is made.
template <class Inputs>
DEVICE_SHARED double step_to_change(Flow &flow, const EventQueue &queue, const double *x,
                                    const double *c, const Inputs &inputs, double t, double h,
                                    double *a) {
    double low = 0, high = h;
    const double least = 1e-13 * tl_max(t, h);
    while (high - low > least) {
        const double middle = low + 0.5 * (high - low);
        if (!(middle > low && middle < high)) break;
        try_step(flow, x, c, t, middle, a);
        (holds_otherwise(queue, flow, inputs, t + middle) ? high : low) = middle;
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

constexpr int LOOKS_IN_A_STEP = 4;  // at triggers, the last at its end

// What flows at part s of a step of length h from state x, by the cubic Hermite polynomial of the step.
DEVICE_SHARED void state_within(const Flow &flow, const double *x, double t, double h, double s,
                                double *z) {
    const double r = 1.0 - s;
    const double at_x = FMA(2.0, s, 1.0) * r * r, at_y = s * s * FMA(-2.0, s, 3.0);
    const double at_d = h * s * r * r, at_e = -h * s * s * r;
    for (int i = 0; i < N_SPECIES; ++i) z[i] = x[i];
    for (int i = 0; i < N_FLOW; ++i) {
        const int v = FLOW[i];
        const double values = FMA(at_x, x[v], at_y * flow.y[v]);
        z[v] = values + FMA(at_d, flow.d[0][i], at_e * flow.d[STAGES - 1][i]);
    }
    z[N_SPECIES] = FMA(s, h, t);
}

// Finds a trigger that changes within the step and changes back before its end: looks at points inside the step, on
// its cubic polynomial. Returns the part of the step at which the change is first seen; 1 if there is none.
template <class Inputs>
DEVICE_SHARED double pulse_within(const Flow &flow, const EventQueue &queue, const double *x,
                                  const Inputs &inputs, double t, double h, bool changed_at_end) {
    double z[N_SPECIES + 1];
    double first = 1.0;
    for (int look = 1; look < LOOKS_IN_A_STEP; ++look) {
        const double s = (double)look / LOOKS_IN_A_STEP;
        state_within(flow, x, t, h, s, z);
        const double *const seen = z;
        const bool changed = triggers_changed(queue, seen, inputs, z[N_SPECIES]);
        if (first < 1.0 && !changed) return first;
        if (first == 1.0 && changed) first = s;
    }
    return changed_at_end ? 1.0 : first;
}

// Whether laws change within a step from x and no stage need have seen it: two relations of what flows change in
// turn, or one does in the middle and not at the end.
DEVICE_SHARED bool passes_over(Flow &flow, const double *x, const double *c, double t, double h) {
    if (N_RELATIONS == 0 || !(t + SHORT * h > t)) return false;
    double before[N_RELATIONS + 1], between[N_RELATIONS + 1], after[N_RELATIONS + 1];
    double middle[N_SPECIES + 1];
    state_within(flow, x, t, h, 0.5, middle);
    flow.y[N_SPECIES] = t + h;
    flow_relations(x, c, before);
    flow_relations(middle, c, between);
    flow_relations(flow.y, c, after);
    double first = 1, last = 0;  // changes, in parts of the step
    for (int k = 0; k < N_RELATIONS; ++k) {
        const bool changes = (before[k] < 0) != (after[k] < 0);
        if (!changes && (before[k] < 0) != (between[k] < 0)) return true;
        if (!changes) continue;
        const double at = before[k] / (before[k] - after[k]);
        first = tl_min(first, at), last = tl_max(last, at);
    }
    return last - first > TOGETHER;
}

// How a step went.
struct FlowStep {
    bool taken;      // false: a shorter one is to be tried
    bool reacts;     // a reaction happens at its end
    bool looks;      // triggers are to be looked at
    bool not_known;  // propensities are no numbers, no step is short enough, or a compartment has vanished
};

// A step of the method that is accepted: its length, and whether it ends at the limit.
struct Attempt {
    bool accepted, last, not_known;
    double h;
};

// Tries a step from state x at time t, to `limit` at most. `step` is the length that errors suggest, 0 for a guess.
DEVICE_SHARED Attempt attempt_flow(Flow &flow, const double *x, const double *c, double *a,
                                   double t, double limit, double &step) {
    const Attempt again = {false, false, false, 0}, failed = {false, false, true, 0};
    flow_at(x, c, a, flow.still, flow.d[0]);
    if (!(flow.d[0][N_FLOW] >= 0 && flow.d[0][N_FLOW] < infinity())) return failed;
    for (int i = 0; HAS_BOUNDED && i < N_FLOW; ++i)  // a law that goes on where nothing is left
        if (IS_BOUNDED[i] && x[FLOW[i]] <= 0 && flow.d[0][i] < 0) return failed;
    if (!(step > 0)) step = 0.01 * (limit - t);
    const bool last = !(step < 0.999999 * (limit - t));
    const double h = last ? limit - t : step;
    const double error = try_step(flow, x, c, t, h, a);
    if (!(error <= 1.0)) {
        step = h * next_factor(error);
        return t + 0.01 * step > t ? again : failed;
    }
    if (passes_over(flow, x, c, t, h)) {
        step = 0.5 * h;
        return again;
    }
    const double wanted = h * next_factor(error);
    if (!last || wanted > step) step = wanted;
    return {true, last, false, h};
}

// A step from state x at time t, to the next stop or to `sample` at most. `step` is that of `attempt_flow`; `left` is
// what the integral of the total propensity has to grow by until the next reaction. Laws read constants c,
// triggers `inputs`: constants, and random numbers where there are any.
template <class Inputs>
DEVICE_SHARED FlowStep flow_step(Flow &flow, const EventQueue &queue, double *x, const double *c,
                                 const Inputs &inputs, double *a, double &t, double stop,
                                 double sample, double &step, double &left) {
    const double limit = stop < sample ? stop : sample;
    const Attempt made = attempt_flow(flow, x, c, a, t, limit, step);
    if (!made.accepted) return {false, false, false, made.not_known};
    double h = made.h;
    bool jumps = flow.integral >= left, ends = made.last;
    if (jumps) h = step_to_jump(flow, x, c, t, h, left, a), ends = false;
    bool looks = holds_otherwise(queue, flow, inputs, ends ? limit : t + h);
    if (MOVES_TRIGGERS &&
        may_change_within(x, flow.y, flow.d[0], flow.d[STAGES - 1], t, h, c)) {
        const double part = pulse_within(flow, queue, x, inputs, t, h, looks);
        // The method decides whether what the polynomial saw is there.
        NO_UNROLL for (int turn = part < 1.0 ? 0 : 2; turn < 2; ++turn) {
            const double length = turn == 0 ? part * h : h;
            try_step(flow, x, c, t, length, a);
            if (turn == 0 && holds_otherwise(queue, flow, inputs, t + length)) {
                h = length, jumps = ends = false, looks = true;
                break;
            }
        }
    }
    if (looks && !(ends && !holds_otherwise(queue, flow, inputs, just_before(limit)))) {
        const double shorter = step_to_change(flow, queue, x, c, inputs, t, h, a);
        if (shorter < h) h = shorter, jumps = ends = false;
    }
    for (int i = 0; i < N_FLOW; ++i) {
        const bool below = HAS_BOUNDED && IS_BOUNDED[i] && flow.y[FLOW[i]] < 0;
        x[FLOW[i]] = below ? 0.0 : flow.y[FLOW[i]];
    }
    if (!has_sizes(x)) return {false, false, false, true};
    left -= flow.integral;
    t = ends ? limit : t + h;
    x[N_SPECIES] = t;
    return {true, jumps, looks || !(t < stop), false};
}
