// Tau-leaping that checks a leap after it was made (Anderson 2008; leaping/known_firings.h has the paper's
// symbols). A leap in which a propensity may have changed too much is undone and halved. The firings that it
// has shown are kept for the next attempt. docs/developers/leaps.md has the condition and says why this has no bias.
//
// Every half of an attempt at a leap has a number, as in leaping/tau_leap.cc. A channel's binomial number has
// an address of its own (random/binomial.h). Exact firings and waiting times take their bits one after the
// other from STREAM_TAU.
#include "leaping/known_firings.h"
#include "leaping/draws.h"
#include "leaping/trajectory.h"
#include "model.h"

// The first attempt is this part of the limit. At the whole limit the mean or one standard deviation reaches
// the bound, so half of all leaps would be rejected.
constexpr double FIRST_TRY = 0.5;

// A firing that ends a leap.
struct Event {
    double waiting;
    int channel;  // -1: there is none
    Firing firing;
};

// The first firing among the channels that wait for their next firing.
DEVICE Event first_event(Trajectory &s, const Ahead &ahead, const PhiloxKeys &keys) {
    const Row rates = ahead.propensities();
    Event first = {infinity(), -1, {0, 0}};
    double others = 0;  // total propensity of channels without segments
    for (int j = 0; j < N_CHANNELS; ++j) {
        if (!(rates[j] < 0)) continue;
        if (ahead.segments(j) == 0) {
            others -= rates[j];
            continue;
        }
        const Philox4 bits = next_bits(s, keys);
        const Firing firing = ahead.next(j, unit_open_low(bits.x0, bits.x1));
        const double waiting = firing.internal / -rates[j];
        if (waiting < first.waiting) first = {waiting, j, firing};
    }
    if (!(others > 0)) return first;
    const Philox4 bits = next_bits(s, keys);
    const double waiting = tl_exponential(unit_open_low(bits.x0, bits.x1)) / others;
    if (!(waiting < first.waiting)) return first;
    const double target = unit_half_open(bits.x2, bits.x3) * others;
    double sum = 0;
    int chosen = -1;
    for (int j = 0; j < N_CHANNELS; ++j)
        if (rates[j] < 0 && ahead.segments(j) == 0) choose(j, -rates[j], target, sum, chosen);
    return {waiting, chosen, {waiting * -rates[chosen], 0}};
}

// The propensities to leap with are those in `cells`; of the other channels firings are waited for.
template <class Cells>
DEVICE void sort_channels(Trajectory &s, const Plan &plan, const Cells &cells, const Ahead &ahead) {
    const Row rates = ahead.propensities();
    if (plan.critical > 0) channel_propensities(s.x, s.c, rates);
    for (int j = 0; j < N_CHANNELS; ++j)
        rates[j] = plan.critical > 0 && !(cells[j] > 0) ? -rates[j] : cells[j];
}

// A stretch of time: how long, whether it ends at a sample, whether with a firing.
struct Stretch {
    double tau;
    bool cut, fires;
};

// To the limit, to the firing or to the sample, whichever is first.
DEVICE Stretch stretch_to(double t, double limit, double waiting, double t_next) {
    const bool fires = waiting < limit;
    const double tau = fires ? waiting : limit;
    if (t + tau < t_next) return {tau, false, fires};
    return {t_next - t, true, fires && t + tau == t_next};
}

// Internal times of channels that are waited for pass; that of the firing's channel to that firing.
DEVICE void pass_waiting(Ahead &ahead, const Event &event, const Stretch &stretch) {
    const Row rates = ahead.propensities();
    for (int j = 0; j < N_CHANNELS; ++j) {
        if (!(rates[j] < 0) || ahead.segments(j) == 0) continue;
        if (stretch.fires && j == event.channel)
            ahead.reach(j, event.firing);
        else
            ahead.pass(j, -rates[j] * stretch.tau);
    }
}

// Leaves in `cells` how often channels fire in half of a leap, by `rates`. False if that cannot be
// drawn.
template <class Cells>
DEVICE bool draw_half(Ahead &ahead, const Row &rates, const Cells &cells, double time,
                      const PhiloxSeries &series, const PhiloxKeys &keys) {
    const Row known = ahead.known();
    for (int j = 0; j < N_CHANNELS; ++j) {
        const double rate = rates[j];
        double extent = rate > 0 ? rate * time : 0.0;
        i64 number = 0;
        if (extent > 0 && ahead.segments(j) > 0)
            number = ahead.take(j, extent, LeapBits{series, keys, SPLITS + (u32)j});
        known[j] = cell_of(number);
        cells[j] = extent;
    }
    Drawn drawn;
    const double small = split_means(cells, 1.0, drawn);
    u64 fired = 0;  // those that count are not all drawn now
    bool possible = !GROUPED || draw_group(cells, series, keys, small, drawn, fired);
    possible &= draw_firings(cells, series, keys, drawn, fired);
    for (int j = 0; j < N_CHANNELS; ++j) {
        const i64 number = number_of(cells[j]) + number_of(known[j]);
        cells[j] = cell_of(number);
        possible &= number <= BINOMIAL_MOST_TRIALS;
    }
    return possible;
}

// Leaves the rates of the second half, which begins with the state that the firings of the first lead
// to. False if there is no such state.
template <class Cells>
DEVICE bool second_rates(Trajectory &s, Ahead &ahead, const Cells &cells) {
    const Row rates = ahead.propensities(), later = ahead.later();
    i32 x[N_SPECIES];
    for (int i = 0; i < N_SPECIES; ++i) x[i] = s.x[i];
    if (apply_firings(x, cells) != FITS || !second_half(x, s.x, s.c, rates, later)) return false;
    for (int j = 0; j < N_CHANNELS; ++j)
        if (rates[j] < 0) later[j] = 0.0;  // a firing is waited for
    return true;
}

// Keeps the firings in `cells` that a rejected leap of `halves` halves has shown.
template <class Cells>
DEVICE void put_back(Ahead &ahead, const Cells &cells, const Event &event, const Stretch &stretch,
                     int halves) {
    const Row rates = ahead.propensities(), later = ahead.later(), earlier = ahead.earlier();
    const double half = 0.5 * stretch.tau;
    for (int j = 0; j < N_CHANNELS; ++j) {
        if (stretch.fires && j == event.channel) {
            ahead.put(j, 0.0, 1);
            ahead.put(j, event.firing.internal, 0);
            continue;
        }
        if (rates[j] < 0) {
            ahead.put(j, -rates[j] * stretch.tau, 0);
            continue;
        }
        const i64 first = number_of(halves > 1 ? earlier[j] : cells[j]);
        if (halves > 1 && later[j] > 0) ahead.put(j, later[j] * half, number_of(cells[j]) - first);
        if (rates[j] > 0) ahead.put(j, rates[j] * half, first);
    }
}

// A leap towards `t_next` at most. False, with nothing changed but what is known, if it would not
// pay. `cells` holds the propensities to leap with.
template <class Cells>
DEVICE bool leap(Trajectory &s, const Plan &plan, Ahead &ahead, const Cells &cells,
                 const PhiloxKeys &keys, double t_next, const Tolerance &tolerance, Work &work) {
    sort_channels(s, plan, cells, ahead);
    const Row earlier = ahead.earlier();
    for (double limit = FIRST_TRY * plan.limit.time();;) {
        if (!(limit * plan.a0 >= WORTH_EVENTS && s.attempts < LARGEST_LEAP && ahead.has_room()))
            return false;
        const u32 attempt = s.attempts;
        s.attempts += HALVES;
        const Event event = first_event(s, ahead, keys);
        const Stretch stretch = stretch_to(s.t, limit, event.waiting, t_next);
        int halves = 0;
        bool possible = true, holds = true;
        while (halves < HALVES && holds) {
            const PhiloxSeries series = leap_series(keys, s.id, s.point, attempt + (u32)halves);
            const Row rates = halves > 0 ? ahead.later() : ahead.propensities();
            possible &= draw_half(ahead, rates, cells, 0.5 * stretch.tau, series, keys);
            for (int j = 0; j < N_CHANNELS; ++j)
                if (halves == 0)
                    earlier[j] = cells[j];
                else
                    cells[j] = cell_of(number_of(cells[j]) + number_of(earlier[j]));
            holds = ++halves == HALVES || second_rates(s, ahead, cells);
        }
        pass_waiting(ahead, event, stretch);
        // The firing comes after the leap, in which it changes nothing.
        holds = holds && leap_holds(s.x, s.c, cells, tolerance);
        if (holds) {
            if (stretch.fires) cells[event.channel] = cell_of(1);
            volatile i32 before[N_SPECIES];
            for (int i = 0; i < N_SPECIES; ++i) before[i] = s.x[i];
            const int outcome = apply_firings(s.x, cells);
            s.overflowed = outcome & TOO_LARGE;
            holds = !(outcome & FELL_BELOW_ZERO);
            for (int i = 0; i < N_SPECIES && !holds; ++i) s.x[i] = before[i];
        }
        s.overflowed |= !possible;
        if (holds || s.overflowed) {
            for (int j = 0; j < N_CHANNELS; ++j) work.firings += (u64)number_of(cells[j]);
            s.t = stretch.cut ? t_next : s.t + stretch.tau;
            ++work.leaps;
            return true;
        }
        put_back(ahead, cells, event, stretch, halves);
        ++work.rejected;
        limit = 0.5 * stretch.tau;
    }
}

// One exact firing, or the time to the sample, while something is known of firings to come.
template <class Cells>
DEVICE void known_event(Trajectory &s, Ahead &ahead, const Cells &cells, const PhiloxKeys &keys,
                        double t_next, Work &work) {
    const Row rates = ahead.propensities();
    channel_propensities(s.x, s.c, rates);
    for (int j = 0; j < N_CHANNELS; ++j) rates[j] = -rates[j], cells[j] = cell_of(0);
    const Event event = first_event(s, ahead, keys);
    const Stretch stretch = stretch_to(s.t, infinity(), event.waiting, t_next);
    pass_waiting(ahead, event, stretch);
    s.t = stretch.cut ? t_next : s.t + stretch.tau;
    if (!stretch.fires) return;
    cells[event.channel] = cell_of(1);
    s.overflowed = apply_firings(s.x, cells) != FITS;
    ++work.exact, ++work.firings;
}

// A leap, firings, or the end of the trajectory (its row is then -1).
template <class Cells>
DEVICE void step(Trajectory &s, Ahead &ahead, const Cells &cells, const PhiloxKeys &keys,
                 const Recorder &out, const double *times, u64 max_steps,
                 const Tolerance &tolerance, Work &work) {
    const Plan plan = plan_leap(s.x, s.c, cells, tolerance);
    if (!goes_on(s, plan.a0, out, times, max_steps)) return;
    if (leap(s, plan, ahead, cells, keys, times[s.k], tolerance, work)) return;
    if (ahead.channels > 0)
        known_event(s, ahead, cells, keys, times[s.k], work);
    else
        exact_events(s, cells, keys, out, times, max_steps, work);
}

struct CheckedLeapArguments {
    EnsembleArguments launch;
    double epsilon;  // bound on the relative change of a propensity in a leap
    double *memory;  // firings to come that are known, of each lane; see leaping/known_firings.h
};

KERNEL_IN_BLOCKS(4, tau_leap_checked, const CheckedLeapArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const PhiloxKeys &keys = *launch.keys;
    const u64 max_steps = launch.max_steps;
    const double *const times = launch.times;
    const Recorder out = recorder_of(launch);
    const Tolerance tolerance = checked_tolerance_of(arguments.epsilon);
    LANE_ARRAY(cells, SHARED_CELLS, N_REACTIONS);
    Ahead ahead = {arguments.memory + THREAD_OFFSET(Ahead::LENGTH)};
    Trajectory s;
    Work work = {};
    bool here = begin(s, launch);
    ahead.clear();
    Looks looks = {};
    while (here) {
        if (looks.due() && looks.leave(launch.control, work, s.t)) break;
        step(s, ahead, cells, keys, out, times, max_steps, tolerance, work);
        if (s.row >= 0) continue;
        here = begin(s, launch);
        ahead.clear();
    }
    add_work(launch.work, work);
}
