// Final states of exact trajectories of one sample time, with the bits of ensemble/ssa.cc.
//
// Which reactions fire does not depend on when they fire, and no time is recorded. So waiting times are found in single
// precision, by the logarithm and the reciprocal of the hardware, and added as whole units of the span from 0 to the
// sample. Only which firing is the last must be right. Where a bound of all errors leaves that open, or where anything
// but a firing happens, the row is listed: `ssa` then runs it from its start.
//
//     waiting time W / a0, in units     error
//     W = -log(u)                       ABSOLUTE: u cut to 24 bits (2^-23), logarithm near 1 (2^-22 log 2), and LEAST,
//                                       which is added so that W is above 0
//     W, products, 1 / a0               RELATIVE: 2^-22 of the logarithm, 2^-23 of the reciprocal, 2^-24 of each
//                                       product and constant, ROUNDINGS 2^-24 of a0; of doubles in `ssa` far less
//     whole units                       1 for each firing
//
// Errors of the logarithm and the reciprocal: PTX ISA, lg2.approx and rcp.approx. Errors of W add up to ABSOLUTE times
// the sum of all 1 / a0, which each lane keeps.
//
// Rates of mass action are found in single precision too (`Singles`), and with them which reaction fires, unless the
// random number is so near the edge of a reaction's share of a0 that errors could decide: then doubles do, as in `ssa`.
#include "ensemble/control.h"
#include "model.h"
#include "math/math.h"
#include "ensemble/sampling.h"
#include "ensemble/stepping.h"

// Roundings of propensities and their sums in single precision: of a constant, at most three products and all sums.
constexpr int ROUNDINGS = N_REACTIONS + 4;
constexpr bool IN_SINGLE = MASS_ACTION && ROUNDINGS <= 20;

constexpr u32 SPAN = 15u << 28;    // units from the start to the sample
constexpr u32 CLOSE = SPAN >> 18;  // errors of a row that is not listed are smaller
constexpr float LEAST = 0.75f * 0x1p-22f;
constexpr float ABSOLUTE = 1.3f * 0x1p-22f + LEAST;
constexpr float RELATIVE = (IN_SINGLE ? 2.75f + 0.25f * ROUNDINGS : 3.0f) * 0x1p-22f;
constexpr float NO_TIME = 0x1p-100f;  // in place of 1 / a0 before the first firing
constexpr float LOG_2 = 0x1.62e43p-1f;
constexpr double SHORTEST = 0x1p-60, LONGEST = 0x1p60;  // spans
// High words of total propensities whose reciprocals are normal numbers of single precision.
constexpr u32 SMALLEST_SINGLE = (1023 - 60) << 20, LARGEST_SINGLE = (1023 + 60) << 20;

constexpr int WEIGHT = N_REACTIONS + 2 * N_CONSTANTS;
constexpr int RESIDENT_BLOCKS = WEIGHT + 2 * N_LAWS < 8 ? 10
                                : WEIGHT <= 16          ? 7
                                : WEIGHT <= 28          ? 4
                                : WEIGHT <= 44          ? 3
                                                        : 0;
static_assert(FIRES_ALL && !IS_THINNED && N_OBSERVABLES == 0);

DEVICE float not_a_single() {
    return (float)not_a_number();
}

// A count or a rate of single precision, as laws compute with it.
struct Single {
    float value;
    Single() = default;
    DEVICE_MEMBER Single(float number) : value(number) {}
    DEVICE_MEMBER Single(double number) : value((float)number) {}
    DEVICE_MEMBER Single(i32 number) : value((float)number) {}
};
DEVICE Single quantity(Single count) {
    return count;
}
DEVICE Single operator*(Single a, Single b) {
    return a.value * b.value;
}
DEVICE Single operator+(Single a, Single b) {
    return a.value + b.value;
}
DEVICE Single operator-(Single a, Single b) {
    return a.value - b.value;
}
DEVICE bool operator<=(Single a, Single b) {
    return a.value <= b.value;
}
DEVICE Single plus(Single count, Single change) {
    return count + change;
}

// Counts and propensities of a trajectory, and where the next reaction is looked for.
struct Doubles {
    i32 x[N_SPECIES];
    double c[N_CONSTANTS + N_LITERALS + 1];
    double a[N_REACTIONS], cumulative[N_REACTIONS];
    double unit, target;  // `unit` in [1, 2)

    DEVICE_MEMBER void make(const Literals &literals) {
        UNROLL for (int i = 0; i < N_LITERALS; ++i) c[N_CONSTANTS + i] = literals.of[i];
    }
    DEVICE_MEMBER double total() const { return cumulative[N_REACTIONS - 1]; }
    DEVICE_MEMBER i32 operator[](int i) const { return x[i]; }

    // Counts from which the first reaction leads to the start: no sum is below a target that is no number.
    // Returns whether there is room for LOOK_EVERY firings.
    DEVICE_MEMBER bool begin(const i32 *counts, const double *constants) {
        load<N_SPECIES>(x, counts);
        load<N_CONSTANTS>(c, constants);
        check_constants(c);
        const bool room = events_before_overflow(x) > LOOK_EVERY;
        before_first(x);
        target = not_a_number();
        return room;
    }
    // False if single precision leaves open which reaction fires.
    DEVICE_MEMBER bool aim(float) {
        target = scaled_half_open(unit, total());
        return true;
    }
    DEVICE_MEMBER void aim_exactly(const double *) {}
    DEVICE_MEMBER void fire_at(const Philox4 &next) {
        fire(target, x, c, a, cumulative);
        unit = unit_one_to_two(next.x2, next.x3);
    }
};

// The same in single precision. Counts below 2^24 are exact in it.
struct Singles {
    static constexpr i32 MOST = (1 << 24) - (i32)LOOK_EVERY * MOST_GROWTH;
    static constexpr double LEAST_RATE = 0x1p-40, MOST_RATE = 0x1p40;  // of constants above 0
    static constexpr float EDGE = (2 * ROUNDINGS + 6) * 0x1p-24f;
    Single x[N_SPECIES], c[N_CONSTANTS + N_LITERALS + 1];
    Single a[N_REACTIONS], cumulative[N_REACTIONS];  // after `aim`: a sum over a0, less `unit` - 1
    Word unit[2];

    DEVICE_MEMBER void make(const Literals &literals) {
        UNROLL for (int i = 0; i < N_LITERALS; ++i) c[N_CONSTANTS + i] = literals.of[i];
    }
    DEVICE_MEMBER float total() const { return cumulative[N_REACTIONS - 1].value; }
    DEVICE_MEMBER i32 operator[](int i) const { return (i32)x[i].value; }

    DEVICE_MEMBER bool begin(const i32 *counts, const double *constants) {
        bool room = true;
        i32 before[N_SPECIES];
        UNROLL for (int i = 0; i < N_SPECIES; ++i) {
            before[i] = counts[i];
            room &= before[i] >= 0 && before[i] <= MOST;
        }
        before_first(before);
        UNROLL for (int i = 0; i < N_SPECIES; ++i) x[i] = before[i];
        UNROLL for (int i = 0; i < N_CONSTANTS; ++i) {
            const double rate = constants[i];
            room &= rate == 0 || (rate >= LEAST_RATE && rate <= MOST_RATE);
            c[i] = rate;
        }
        UNROLL for (int j = 0; j < N_REACTIONS; ++j) cumulative[j] = not_a_single();
        return room;
    }
    DEVICE_MEMBER bool aim(float each) {
        const float below = 1.0f - single_of(0x3f800000u + ((u32)unit[0] >> 9));
        float nearest = 1.0f;
        UNROLL for (int j = 0; j < N_REACTIONS - 1; ++j) {
            cumulative[j] = FMA_SINGLE(cumulative[j].value, each, below);
            const float off = ABS_SINGLE(cumulative[j].value);
            nearest = off < nearest ? off : nearest;
        }
        return nearest > EDGE;
    }
    DEVICE_MEMBER void aim_exactly(const double *constants) {
        i32 counts[N_SPECIES];
        double rates[N_CONSTANTS + N_LITERALS + 1], own[N_REACTIONS], sums[N_REACTIONS];
        UNROLL for (int i = 0; i < N_SPECIES; ++i) counts[i] = (i32)x[i].value;
        load<N_CONSTANTS>(rates, constants);
        UNROLL for (int i = 0; i < N_LITERALS; ++i) rates[N_CONSTANTS + i] = LITERALS.of[i];
        all_propensities(counts, rates, own, sums);
        const double target =
            scaled_half_open(unit_one_to_two(unit[0], unit[1]), sums[N_REACTIONS - 1]);
        UNROLL for (int j = 0; j < N_REACTIONS; ++j)
            cumulative[j] = sums[j] <= target ? -1.0f : 1.0f;
    }
    DEVICE_MEMBER void fire_at(const Philox4 &next) {
        fire_together(Single(0.0f), x, c, a, cumulative);
        unit[0] = next.x2, unit[1] = next.x3;
    }
};

template <bool SINGLE>
struct WalkerOf {
    typedef Doubles type;
};
template <>
struct WalkerOf<true> {
    typedef Singles type;
};
using Walker = WalkerOf<IN_SINGLE>::type;

struct EndsArguments {
    EnsembleArguments launch;
    u64 *listed;  // how many rows are listed; 0 at the start
    u32 *list;    // [rows]
};

KERNEL_IN_BLOCKS(RESIDENT_BLOCKS, ssa_ends, const EndsArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const PhiloxKeys keys = *launch.keys;
    const double span = launch.times[0];
    const bool usual_span = span > SHORTEST && span < LONGEST;
    const float units = (float)((double)SPAN / (usual_span ? span : 1.0));  // of a time of 1
    const float of_logarithm = -LOG_2 * units, least = LEAST * units;
    Walker walker = {};
    walker.make(in_registers(LITERALS));
    PhiloxSeries series = {};
    float waiting = 0;  // of a total propensity of 1, in units
    u32 row = 0xffffffffu, step = 0, left = 0;
    float each = 0, sum = 0;  // 1 / a0, and its sum over firings
    u64 fired = 0;

    // Ends the row, or lists it, where its next firing comes after `passed` units.
    const auto end = [&](u32 passed) {
        const double a0 = walker.total();
        const u32 high = high_word(a0);
        const bool none = a0 == 0, usual = high - SMALLEST_SINGLE < LARGEST_SINGLE - SMALLEST_SINGLE;
        const float all = sum + (none ? 0.0f : each);
        const float errors = all * (ABSOLUTE * units) + (RELATIVE * SPAN + (float)step + 4);
        const bool sure =
            usual_span && step < LOOK_EVERY && step < launch.max_steps && errors < (float)CLOSE;
        const bool after = usual && passed > left + CLOSE + (u32)(sure ? errors : 0);
        if (sure && (none || after)) {
            record_end(out, row, none ? ABSORBED : DONE, true, walker);
            fired += step;
        } else {
            arguments.list[atomic_add(arguments.listed, 1)] = row;
        }
    };

    for (;;) {
        // If a0 is not above 0, or no number, no time or the longest time passes; `end` then lists or ends the row.
        each = ABOUT_RECIPROCAL((float)walker.total());
        u32 passed = WHOLE_OF_SINGLE(waiting * each);
        const bool aimed = walker.aim(each);
        const bool fires = (passed < left) & (step != LOOK_EVERY);
        if (!LIKELY(fires & aimed)) {
            if (IN_SINGLE && fires) {
                const Place place = place_in(launch, row);
                walker.aim_exactly(launch.constants + place.input * launch.constants_stride);
            } else {
                if (row != 0xffffffffu) end(passed);
                const i64 next = take_row(launch.control, launch.rows);
                if (next >= launch.rows) break;
                row = (u32)next;
                const Place place = place_in(launch, row);
                series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, 0);
                const bool room = walker.begin(launch.initial + place.input * launch.initial_stride,
                                               launch.constants + place.input * launch.constants_stride);
                // Without room a sum that is no number lists the row after its first firing.
                each = room ? NO_TIME : not_a_single();
                sum = 0, passed = 0, step = 0xffffffffu, left = room ? SPAN - CLOSE : 0;
            }
        }
        GO_ON_TOGETHER(step);
        // The reciprocal of an a0 beyond single precision is 0: the row is listed, as its sum is no number.
        left -= passed, sum += IN_SINGLE || each > 0.0f ? each : not_a_single(), ++step;
        const Philox4 bits = philox_draw(series, keys, step);
        const float log_2 = ABOUT_LOG2(single_of(unit_open_low(bits.x0, bits.x1)));
        waiting = FMA_SINGLE(of_logarithm, log_2, least);
        walker.fire_at(bits);
    }
    atomic_add(launch.work, fired);
}
