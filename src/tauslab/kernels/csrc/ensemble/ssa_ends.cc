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
//     W, products, 1 / a0               RELATIVE: 2^-22 of the logarithm, 2^-23 of the reciprocal, 2^-24 of a0 and
//                                       of each product and constant; of doubles in `ssa` far less
//     whole units                       1 for each firing
//
// Errors of the logarithm and the reciprocal: PTX ISA, lg2.approx and rcp.approx. Errors of W add up to ABSOLUTE times
// the sum of all 1 / a0, which each lane keeps.
#include "ensemble/control.h"
#include "model.h"
#include "math/math.h"
#include "ensemble/sampling.h"
#include "ensemble/stepping.h"

constexpr u32 SPAN = 15u << 28;    // units from the start to the sample
constexpr u32 CLOSE = SPAN >> 18;  // errors of a row that is not listed are smaller
constexpr float LEAST = 0.75f * 0x1p-22f;
constexpr float ABSOLUTE = 1.3f * 0x1p-22f + LEAST, RELATIVE = 3.0f * 0x1p-22f;
constexpr float NO_TIME = 0x1p-100f;  // in place of 1 / a0 before the first firing
constexpr float LOG_2 = 0x1.62e43p-1f;
constexpr double SHORTEST = 0x1p-60, LONGEST = 0x1p60;  // spans
// High words of total propensities whose reciprocals are normal numbers of single precision.
constexpr u32 SMALLEST_SINGLE = (1023 - 60) << 20, LARGEST_SINGLE = (1023 + 60) << 20;

// Rows of a launch, in eighths, that lanes own from the start. The others are taken from a counter, and even out what
// lanes have still to do: a million additions to it take 1.1 ms of an H200, as long as 250 firings of each row.
constexpr i64 OWN_EIGHTHS = 6;

constexpr int WEIGHT = N_REACTIONS + 2 * N_CONSTANTS;
constexpr int RESIDENT_BLOCKS = WEIGHT + 2 * N_LAWS < 8 ? 10
                                : WEIGHT <= 16          ? 7
                                : WEIGHT <= 28          ? 4
                                : WEIGHT <= 44          ? 3
                                                        : 0;
static_assert(FIRES_ALL && !IS_THINNED && N_OBSERVABLES == 0);

struct EndsArguments {
    EnsembleArguments launch;
    u64 *listed;  // how many rows are listed; 0 at the start
    u32 *list;    // [rows]
};

KERNEL_IN_BLOCKS(RESIDENT_BLOCKS, ssa_ends, const EndsArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const PhiloxKeys keys = *launch.keys;
    const Literals literals = in_registers(LITERALS);
    const double span = launch.times[0];
    const bool usual_span = span > SHORTEST && span < LONGEST;
    const float units = (float)((double)SPAN / (usual_span ? span : 1.0));  // of a time of 1
    const float of_logarithm = -LOG_2 * units, least = LEAST * units;
    i32 x[N_SPECIES] = {};
    double c[N_CONSTANTS + N_LITERALS + 1] = {};
    double a[N_REACTIONS] = {};
    double cumulative[N_REACTIONS] = {};
    UNROLL for (int i = 0; i < N_LITERALS; ++i) c[N_CONSTANTS + i] = literals.of[i];
    PhiloxSeries series = {};
    float waiting = 0;  // of a total propensity of 1, in units
    double unit = 0;    // in [1, 2), for the choice of the reaction
    u32 row = 0xffffffffu, step = 0, left = 0;
    float each = 0, sum = 0;  // 1 / a0, and its sum over firings
    u64 fired = 0;
    const i64 owned = launch.rows / GLOBAL_SIZE * OWN_EIGHTHS / 8 * GLOBAL_SIZE;
    i64 own = GLOBAL_ID;

    // Ends the row, or lists it, where its next firing comes after `passed` units.
    const auto end = [&](double a0, u32 passed) {
        const u32 high = high_word(a0);
        const bool none = a0 == 0, usual = high - SMALLEST_SINGLE < LARGEST_SINGLE - SMALLEST_SINGLE;
        const float all = sum + (none ? 0.0f : each);
        const float errors = all * (ABSOLUTE * units) + (RELATIVE * SPAN + (float)step + 4);
        const bool sure =
            usual_span && step < LOOK_EVERY && step < launch.max_steps && errors < (float)CLOSE;
        const bool after = usual && passed > left + CLOSE + (u32)(sure ? errors : 0);
        if (sure && (none || after)) {
            record_end(out, row, none ? ABSORBED : DONE, true, Counts{x});
            fired += step;
        } else {
            arguments.list[atomic_add(arguments.listed, 1)] = row;
        }
    };

    for (;;) {
        const double a0 = cumulative[N_REACTIONS - 1];
        // If a0 is not above 0, or no number, no time or the longest time passes; `end` then lists or ends the row.
        each = ABOUT_RECIPROCAL((float)a0);
        u32 passed = WHOLE_OF_SINGLE(waiting * each);
        double target = scaled_half_open(unit, a0);
        if (!LIKELY((passed < left) & (step != LOOK_EVERY))) {
            if (row != 0xffffffffu) end(a0, passed);
            const i64 next =
                own < owned ? own : owned + take_row(launch.control, launch.rows - owned);
            own += GLOBAL_SIZE;
            if (next >= launch.rows) break;
            row = (u32)next;
            const Place place = place_in(launch, row);
            series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, 0);
            load<N_SPECIES>(x, launch.initial + place.input * launch.initial_stride);
            load<N_CONSTANTS>(c, launch.constants + place.input * launch.constants_stride);
            check_constants(c);
            const bool room = events_before_overflow(x) > LOOK_EVERY;
            // The first reaction leads to this state: no sum is below a target that is no number.
            before_first(x);
            target = not_a_number();
            // Without room a sum that is no number lists the row after its first firing.
            each = room ? NO_TIME : (float)not_a_number();
            sum = 0, passed = 0, step = 0xffffffffu, left = room ? SPAN - CLOSE : 0;
        }
        GO_ON_TOGETHER(step);
        // The reciprocal of an a0 beyond single precision is 0: the row is listed, as its sum is no number.
        left -= passed, sum += each > 0.0f ? each : (float)not_a_number(), ++step;
        const Philox4 bits = philox_draw(series, keys, step);
        const float log_2 = ABOUT_LOG2(single_of(unit_open_low(bits.x0, bits.x1)));
        waiting = FMA_SINGLE(of_logarithm, log_2, least);
        unit = unit_one_to_two(bits.x2, bits.x3);
        fire(target, x, c, a, cumulative);
    }
    atomic_add(launch.work, fired);
}
