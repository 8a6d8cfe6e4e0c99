// Networks whose reactions are jumps, equations, or channels of the chemical Langevin equation, each by its mark or
// by counts and rates of the moment: leaping/langevin_step.h has a step of what flows.
//
// A reaction without a mark flows while each species that it changes has `many` molecules and it is expected to fire
// OFTEN times in a step, which jumps cut; it is a jump again below half of either. Where nothing flows this is
// looked at after every EXACT_EVENTS jumps. A channel that becomes a jump completes its last
// firing or takes it back, at random and right on average: so counts are whole where nothing flows, and
// what is conserved stays so.
//
// The next jump happens where the integral of the propensities of all jumps reaches an exponential number. They are
// constant where nothing flows, and this is exact; else Simpson's rule integrates them over a step, which is cut where
// the propensities at its start expect the jump. It happens at the end of that step, a little too early or too late: the
// difference between the integral and its target is carried over to the next jump, so that no jump is lost. It is kept as a
// time, for the reactions that are jumps before and after it.
//
// Random numbers of a trajectory come one after another from STREAM_LANGEVIN.
#include "events/trajectory.h"
#include "leaping/langevin_step.h"

constexpr double OFTEN = 10;  // firings of a channel in a step
constexpr int EXACT_EVENTS = 64;
constexpr double NEARLY = 0.9;     // of the number is reached: the jump that is expected is there
constexpr double ROUNDING = 1e-6;  // of a count

struct LangevinArguments {
    EnsembleArguments launch;
    double epsilon, many;
};

struct LangevinSource {
    PhiloxSeries series;
    u64 trajectory, draws;
    u32 point;

    DEVICE_MEMBER void start(const Place &place) {
        trajectory = place.trajectory, point = place.point, draws = 0;
    }
    DEVICE_MEMBER Philox4 next(const PhiloxKeys &keys) {
        if ((u32)draws == 0) series = draw_series(keys, STREAM_LANGEVIN, trajectory, point, draws);
        return philox_draw(series, keys, (u32)draws++);
    }
};

// Whether each species that reaction j changes has at least so many molecules.
DEVICE_SHARED bool has_many(const double *x, int j, double many) {
    bool found = true;
    for (int e = FIRST_CHANGE[j]; e < FIRST_CHANGE[j + 1]; ++e)
        found = found && x[CHANGED[e]] >= many;
    return found;
}

// Changes counts by part of a firing, unless one would fall below zero.
DEVICE_SHARED bool add_part(double *x, int j, double part) {
    for (int e = FIRST_CHANGE[j]; e < FIRST_CHANGE[j + 1]; ++e)
        if (FMA(CHANGE[e], part, x[CHANGED[e]]) < -ROUNDING) return false;
    for (int e = FIRST_CHANGE[j]; e < FIRST_CHANGE[j + 1]; ++e)
        x[CHANGED[e]] = FMA(CHANGE[e], part, x[CHANGED[e]]);
    return true;
}

// Completes the firing of which a channel has done a part, or takes it back: `unit` is a uniform number.
DEVICE_SHARED void finish_firing(double *x, int j, double part, double unit) {
    const double forth = 1.0 - part, back = -part;
    if (!add_part(x, j, unit < part ? forth : back)) add_part(x, j, unit < part ? back : forth);
}

// Counts that no channel moves are whole, but for rounding.
DEVICE_SHARED void make_whole(double *x, const bool *flows) {
    bool moved[N_SPECIES + 1] = {};
    for (int j = 0; j < N_REACTIONS; ++j)
        for (int e = FIRST_CHANGE[j]; flows[j] && e < FIRST_CHANGE[j + 1]; ++e)
            moved[CHANGED[e]] = true;
    for (int i = 0; i < N_SPECIES; ++i) {
        const double whole = whole_amount(x[i]);
        if (!moved[i] && magnitude(x[i] - whole) < ROUNDING) x[i] = whole;
    }
}

KERNEL(langevin, const LangevinArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Tolerance tolerance = tolerance_of(arguments.epsilon);
    double x[N_SPECIES + 1] = {}, c[N_CONSTANTS + 1] = {};
    EventQueue queue;
    Draws numbers = {};
    EventTrajectory s(launch, nullptr, x, c, queue, numbers);
    double a[N_REACTIONS + 1] = {}, middle[N_REACTIONS + 1] = {};
    double firings[N_REACTIONS + 1] = {}, second[N_REACTIONS + 1] = {};
    double done[N_REACTIONS + 1] = {};  // the part of a firing that a chosen channel has begun
    bool flows[N_REACTIONS + 1] = {}, counts[N_REACTIONS + 1] = {};
    LangevinSource source = {};
    u64 steps = 0, made = 0;
    double left = 0, unit = 1;
    double rest = 0;  // time by which the jump before came too early
    int exact = 0;    // jumps to come before anything may flow
    double longest = infinity();
    bool draws = false, known = true, any = false;

    for (;;) {
        if (s.over()) {
            const bool more = s.next([&](const Place &place) {
                source.start(place);
                steps = 0, exact = 0, rest = 0, draws = true;
                for (int j = 0; j < N_REACTIONS; ++j)
                    flows[j] = KIND[j] == FLOW_ALONE || KIND[j] == NOISY, done[j] = 0;
                known = rates_at(s.x, s.c, a);
            });
            if (!more) break;
            if (s.over()) continue;
        }
        if (!s.record_reached()) continue;
        if (!known || steps >= launch.max_steps) {
            s.ended = known ? STEP_LIMIT : NOT_A_NUMBER;
            continue;
        }
        ++steps, ++made;
        if (steps % LOOK_EVERY == 0 && must_leave(launch.control, LOOK_EVERY, s.t)) break;
        if (draws) {
            const Philox4 bits = source.next(s.keys);
            left = tl_exponential(unit_open_low(bits.x0, bits.x1));
            unit = unit_one_to_two(bits.x2, bits.x3);
            draws = false;
        }

        if (exact == 0) {
            // How long a step may be, and what flows in it.
            double cuts = 0;
            for (int j = 0; j < N_REACTIONS; ++j) {
                const bool may = KIND[j] == CHOSEN && has_many(s.x, j, 0.5 * arguments.many);
                counts[j] = flows[j] || may;
                if (!counts[j]) cuts += a[j];
            }
            longest = longest_step(s.x, a, counts, tolerance);
            const double reach = cuts * longest > 1 ? 1 / cuts : longest;
            bool stopped = false;
            double stay = 0;  // propensities of what was a jump and is one
            any = false;
            for (int j = 0; j < N_REACTIONS; ++j) {
                const bool flowed = flows[j];
                if (KIND[j] == CHOSEN) {
                    const double part = flows[j] ? 0.5 : 1.0;
                    const bool now =
                        has_many(s.x, j, part * arguments.many) && a[j] * reach >= part * OFTEN;
                    if (flows[j] && !now) {
                        const Philox4 bits = source.next(s.keys);
                        finish_firing(s.x, j, done[j], unit_half_open(bits.x0, bits.x1));
                        done[j] = 0, stopped = true;
                    }
                    flows[j] = now;
                }
                any = any || flows[j];
                stay += flowed || flows[j] ? 0.0 : a[j];
            }
            left = FMA(rest, stay, left), rest = 0;
            if (stopped) {
                make_whole(s.x, flows);
                known = rates_at(s.x, s.c, a);
                continue;  // with the rates of what is there now
            }
            exact = any ? 0 : EXACT_EVENTS;
        }
        double jumps = 0;
        for (int j = 0; j < N_REACTIONS; ++j) jumps += flows[j] ? 0.0 : a[j];
        const double sample = launch.times[s.k];
        double h = any ? tl_min(longest, sample - s.t) : sample - s.t;
        bool ends = !(h < 0.999999 * (sample - s.t)), reacts = false;
        if (jumps > 0 && left / jumps < h)
            h = larger(left, 0.0) / jumps, ends = false, reacts = true;
        if (ends) h = sample - s.t;

        double integral = h * jumps;
        if (any) {
            for (int j = 0; j < N_REACTIONS; ++j) {
                if (!flows[j]) continue;
                const double mean = 0.5 * h * a[j];
                firings[j] = mean, second[j] = 0;
                if (KIND[j] == FLOW_ALONE) continue;
                const TwoNormals normal = two_normals(source.next(s.keys));
                firings[j] = FMA(SQRT(mean), normal.first, mean), second[j] = normal.second;
            }
            add_firings(s.x, flows, firings);
            known = rates_at(s.x, s.c, middle);
            double inside = 0, after = 0;
            for (int j = 0; j < N_REACTIONS; ++j) {
                if (!flows[j]) {
                    inside += middle[j];
                    continue;
                }
                done[j] += firings[j];
                const double mean = 0.5 * h * larger(FMA(2.0, middle[j], -a[j]), 0.0);
                firings[j] = FMA(SQRT(mean), second[j], mean);
            }
            add_firings(s.x, flows, firings);
            known = rates_at(s.x, s.c, a) && known;
            for (int j = 0; j < N_REACTIONS; ++j) {
                if (!flows[j]) {
                    after += a[j];
                    continue;
                }
                done[j] += firings[j];
                done[j] -= tl_floor(done[j]);
            }
            integral = h * (FMA(4.0, inside, jumps) + after) / 6.0;
        }
        s.t = ends ? sample : s.t + h;
        s.x[N_SPECIES] = s.t;
        const double enough = reacts ? (1.0 - NEARLY) * left : 0.0;
        left -= integral;
        if (!known || (any ? left > enough : !reacts && left > 0)) continue;

        // The jump is the first whose cumulative propensity exceeds the target.
        double total = 0, sum = 0;
        int reaction = -1;
        for (int j = 0; j < N_REACTIONS; ++j) total += flows[j] ? 0.0 : a[j];
        const double target = scaled_half_open(unit, total);
        for (int j = 0; j < N_REACTIONS; ++j) {
            if (flows[j] || !(a[j] > 0) || (reaction >= 0 && sum > target)) continue;
            reaction = j, sum += a[j];
        }
        draws = true;
        if (reaction < 0) continue;
        add_part(s.x, reaction, 1.0);
        exact -= exact > 0;
        known = rates_at(s.x, s.c, a);
        rest = any ? left / total : 0.0;
    }
    atomic_add(launch.work, made);
}
