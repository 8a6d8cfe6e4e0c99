// Jumps within a step of a flow. Where nothing but its error limits the length of a step, many jumps may happen before
// its end: those that do not change the rates of what flows leave the step as it is.
//
// Between jumps, what flows follows the dense output of the step, of order 4; the next jump happens where the integral
// of the total propensity along it reaches its number. What a jump adds to an amount that flows is added to the dense
// output from there on, and so is what that changes, by Euler's method: the rates with all that was added minus those
// without. The step ends at a jump after which these could change an amount over a step by more than its tolerance.
#pragma once

#include "events/flow.h"

constexpr double INNER = 0.17267316464601143;  // of Lobatto's points: (1 - sqrt(3 / 7)) / 2
constexpr double CLOSE = 1e-5;  // of the integral to its number: a step of Newton's leaves 1e-10

struct OpenStep {
    Flow flow;
    double dense[N_FLOW + 1][5];  // coefficients of what flows
    double added[N_FLOW + 1];     // by jumps within the step, and how fast that grows
    double grows[N_FLOW + 1];
    double begin, length, done;  // length 0: none is open; `done` of it is over
    double limit;                // where it ends, if it ends there
    double since;                // when the last jump that added something happened
    double hazard, slope;        // the total propensity now; how fast it grew before the last jump
    bool known;                  // whether the method saw the total propensity of the rest of it
};

// The amount at part s of the step, without jumps in it.
DEVICE double dense_at(const OpenStep &open, int i, double s) {
    const double *const a = open.dense[i], r = 1.0 - s;
    return FMA(s, FMA(r, FMA(s, FMA(r, a[4], a[3]), a[2]), a[1]), a[0]);
}

// The state when `done` of the step is over.
DEVICE_SHARED void state_at(const OpenStep &open, double done, double *x) {
    const double s = done / open.length, later = done - open.since;
    for (int i = 0; i < N_FLOW; ++i) {
        const double added = FMA(later, open.grows[i], open.added[i]);
        const double value = dense_at(open, i, s) + added;
        x[FLOW[i]] = HAS_BOUNDED && IS_BOUNDED[i] && value < 0 ? 0.0 : value;
    }
    x[N_SPECIES] = open.begin + done;
}

DEVICE double hazard_at(const OpenStep &open, double done, double *x, const double *c,
                        double *moving) {
    state_at(open, done, x);
    return total_propensity(x, c, moving, open.flow.still);
}

// Opens the step that was made from state x at time t.
DEVICE_SHARED void open_step(OpenStep &open, const double *x, double t, double limit,
                             const Attempt &made) {
    const Flow &flow = open.flow;
    const double h = made.h;
    for (int i = 0; i < N_FLOW; ++i) {
        const double from = x[FLOW[i]], change = flow.y[FLOW[i]] - from;
        const double bend = FMA(h, flow.d[0][i], -change);
        double last = DENSE[0] * flow.d[0][i];
        for (int s = 2; s < STAGES; ++s) last = FMA(DENSE[s], flow.d[s][i], last);
        double *const a = open.dense[i];
        a[0] = from, a[1] = change, a[2] = bend;
        a[3] = FMA(-h, flow.d[STAGES - 1][i], change - bend), a[4] = h * last;
        open.added[i] = open.grows[i] = 0;
    }
    open.begin = t, open.length = h, open.done = open.since = 0;
    open.limit = made.last ? limit : t + h;
    open.hazard = flow.d[0][N_FLOW];
    open.slope = (flow.d[STAGES - 1][N_FLOW] - open.hazard) / h;
    open.known = true;
}

// Goes on to where the integral from now on is `left`, or as far as a rule is good for it, to the end of the step at
// most; returns the integral, which is `left` at a jump.
//
// Where the total propensity is nearly linear in time, as between jumps that follow each other fast, the error of the
// trapezoidal rule follows from how the slope differs from that before. Otherwise it is Simpson's rule, over the
// longest part, by halves, over which that agrees with the rule of Lobatto with five points, whose distances have no
// common measure: a periodic propensity deceives both less often. From there a step of Newton's ends at the jump, or
// several do where one leaves too much.
DEVICE double go_to_jump(OpenStep &open, double left, double *x, const double *c, double *moving) {
    const double rest = open.length - open.done, begin = open.hazard, from = open.done;
    const double guess = left / begin;
    double part = left / FMA(0.5 * guess, open.slope, begin);
    if (!(part > 0 && part < rest)) part = rest;
    double end = hazard_at(open, from + part, x, c, moving);
    double integral = 0.5 * part * (begin + end), middle = 0;
    double slope = (end - begin) / part;
    const double bend = part * part * tl_abs(slope - open.slope);
    // The slope before the first jump is that from end to end: it says nothing of what is between.
    const bool linear = from > 0 && (POLYNOMIAL_MOVING || open.known) && bend <= HAZARD_ERROR;
    for (int turn = 0; !linear && turn < 60; ++turn) {
        middle = hazard_at(open, FMA(0.5, part, from), x, c, moving);
        const double second = hazard_at(open, FMA(INNER, part, from), x, c, moving);
        const double fourth = hazard_at(open, FMA(1.0 - INNER, part, from), x, c, moving);
        const double sum = begin + end, inner = FMA(64.0, middle, 49.0 * (second + fourth));
        const double lobatto = FMA(9.0, sum, inner);
        integral = part * FMA(4.0, middle, sum) * (1.0 / 6);
        slope = 2.0 * (end - middle) / part;
        if (!(tl_abs(part * lobatto * (1.0 / 180) - integral) > HAZARD_ERROR)) break;
        part *= 0.5, end = middle;
    }
    open.slope = slope;
    double missing = left - integral;
    const double more = missing / end;
    const bool close =
        tl_abs(missing) <= CLOSE && 0.5 * more * more * tl_abs(slope) <= HAZARD_ERROR;
    const bool jumps = !(missing > 0) || (close && part + more < rest);
    if (jumps && close && part + more > 0) {
        part += more;
    } else if (jumps) {
        double low = 0, high = part;
        for (int turn = 0; turn < 40 && tl_abs(missing) > 1e-3 * HAZARD_ERROR; ++turn) {
            (missing > 0 ? low : high) = part;
            const double next = part + missing / end, before = end, was = part;
            const bool inside = next > low && next < high;
            part = inside ? next : low + 0.5 * (high - low);
            if (!(part > low && part < high)) break;
            end = hazard_at(open, from + part, x, c, moving);
            const double error = tl_abs((end - before) * (part - was));
            if (inside && tl_abs(missing) <= CLOSE && error <= HAZARD_ERROR) break;
            middle = hazard_at(open, FMA(0.5, part, from), x, c, moving);
            missing = left - part * (begin + FMA(4.0, middle, end)) * (1.0 / 6);
        }
    }
    open.done = !jumps && part == rest ? open.length : from + part;
    open.hazard = hazard_at(open, open.done, x, c, moving);
    return jumps ? left : integral;
}

// The last: propensities are no numbers, or a compartment has vanished.
enum Reach { AT_END = 0, AT_JUMP = 1, BETWEEN = 2, AT_NO_NUMBER = 3 };

// Goes from state x at time t to the next jump or to the end of the step, or a part of the way.
DEVICE_SHARED Reach go_on(OpenStep &open, double *x, const double *c, double *moving, double &t,
                          double &left) {
    double integral = open.flow.integral;
    if (open.done == 0 && integral < left) {  // the method knows the integral of a whole step
        open.done = open.length;
        open.hazard = hazard_at(open, open.length, x, c, moving);
    } else {
        integral = go_to_jump(open, left, x, c, moving);
    }
    if (!(open.hazard >= 0 && open.hazard < infinity() && has_sizes(x))) return AT_NO_NUMBER;
    const bool jumps = !(integral < left);
    const bool ends = !jumps && !(open.done < open.length);
    left -= integral;
    t = ends ? open.limit : tl_min(open.begin + open.done, open.limit);
    x[N_SPECIES] = t;
    if (ends) open.length = 0;
    return ends ? AT_END : jumps ? AT_JUMP : BETWEEN;
}

// The reaction that happens: one of those whose propensities are `cumulative`, or one that reads what flows.
DEVICE_SHARED int reaction_now(double target, const double *cumulative, const double *moving) {
    const double still = total_of(cumulative);
    if (target < still) return reaction_at(target, cumulative);
    target -= still;
    int reaction = -1;
    for (int k = 0; k < N_MOVING; ++k) {
        if (!(moving[k] > 0)) continue;
        reaction = MOVING[k];
        if (target < moving[k]) break;
        target -= moving[k];
    }
    // Rounding: nothing that flows has a propensity.
    return reaction < 0 ? reaction_at(0.5 * still, cumulative) : reaction;
}

// Adds up propensities of all that reads nothing that flows, from reaction `first` on.
DEVICE void add_up_still(OpenStep &open, int first, double *a, double *cumulative) {
    without_moving(a);
    add_up(first, a, cumulative);
    open.flow.still = total_of(cumulative);
}

// A jump has happened at state x: whether the step goes on beyond it.
DEVICE_SHARED void after_jump(OpenStep &open, int reaction, const double *x, const double *c,
                              double *moving) {
    open.hazard = total_propensity(x, c, moving, open.flow.still);
    if (CHANGES_MOVING[reaction]) open.known = false;
    if (!TOUCHES_FLOW[reaction]) return;
    double alone[N_FLOW + 1], now[N_FLOW + 1];
    double *const y = open.flow.y;  // the state without what jumps within the step added
    const double s = open.done / open.length;
    for (int i = 0; i < N_FLOW; ++i) y[FLOW[i]] = dense_at(open, i, s);
    y[N_SPECIES] = x[N_SPECIES];
    flow_rates(y, c, alone);
    flow_rates(x, c, now);
    bool goes_on = true;
    for (int i = 0; i < N_FLOW; ++i) {
        const double added = open.added[i] = x[FLOW[i]] - y[FLOW[i]];
        const double grows = open.grows[i] = now[i] - alone[i];
        const double allowed = FMA(FLOW_RELATIVE, tl_abs(x[FLOW[i]]), FLOW_ABSOLUTE);
        if (!(open.length * tl_abs(grows) <= allowed)) goes_on = false;
        // An amount that would fall below 0 needs a step of its own.
        const double end = open.dense[i][0] + open.dense[i][1] + added;
        if (HAS_BOUNDED && IS_BOUNDED[i] && added < 0 && end < 0) goes_on = false;
    }
    open.since = open.done;
    if (!goes_on) open.length = 0;
}
