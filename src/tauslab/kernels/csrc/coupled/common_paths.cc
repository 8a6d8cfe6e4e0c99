// Exact trajectories by the random time change: every reaction has a Poisson process of its own, with
// draws of its own, which runs as fast as the integral of its propensity grows. Trajectories with
// the same draws and other constants or initial counts share all these processes, the common
// reaction path of Rathinam, Sheppard and Khammash (2010), J. Chem. Phys. 132, 034103. They are
// simulated by the modified next reaction method of Anderson (2007), J. Chem. Phys. 127, 214107.
//
//     Anderson 2007      here
//     X                  x[i]
//     a_k                a[j]
//     P_k - T_k          left[j]: internal time until the process of reaction j fires next; what it
//                        will be afterwards, ahead[j], is made before it is needed
//     Delta t_k          left[j] / a[j]; the least is `wait`
//
// The point of a sweep is not in the address of a draw, and where `one_trajectory` is set, nor is the
// row: then all rows of the run are one trajectory with different inputs.
#include "coupled/arguments.h"
#include "ensemble/control.h"
#include "model.h"
#include "math/math.h"
#include "device/prelude.h"
#include "ensemble/sampling.h"
#include "ensemble/stepping.h"
#include "random/streams.h"

struct CommonArguments {
    EnsembleArguments launch;
    i64 one_trajectory;
};

// A reaction's firings have 32 bits in the address of a draw, so no trajectory has more events.
constexpr u64 MOST_FIRINGS = 0xfffffffeull;

DEVICE u64 trajectory_in(const CommonArguments &arguments, i64 row) {
    const Place place = place_in(arguments.launch, row);
    return arguments.one_trajectory ? (u64)arguments.launch.before : place.trajectory;
}

// Internal time from firing `number` of a reaction, or from 0, to the next.
DEVICE double next_internal(const TrajectoryStream &stream, u32 reaction, u32 number) {
    const Philox4 bits = draw(stream, (u64)reaction << 32 | number);
    return tl_exponential(unit_open_low(bits.x0, bits.x1));
}

// All processes at 0: one copy of the draw's text, and arrays indexed by known numbers alone.
DEVICE void start_processes(const TrajectoryStream &stream, double *left, double *ahead,
                            u32 *firings) {
    NO_UNROLL for (int i = 0; i < 2 * N_REACTIONS; ++i) {
        const u32 number = i >= N_REACTIONS, reaction = (u32)i - number * N_REACTIONS;
        const double own = next_internal(stream, reaction, number);
        UNROLL for (int j = 0; j < N_REACTIONS; ++j) {
            left[j] = j == i ? own : left[j];
            ahead[j] = j + N_REACTIONS == i ? own : ahead[j];
            firings[j] = 1;
        }
    }
}

KERNEL(common_paths, const CommonArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const i64 n_times = launch.n_times, rows = launch.rows;
    const double *const times = launch.times;
    const u64 most = launch.max_steps < MOST_FIRINGS ? launch.max_steps : MOST_FIRINGS;
    i32 x[N_SPECIES] = {};
    double c[N_CONSTANTS + 1] = {};
    double a[N_REACTIONS] = {}, left[N_REACTIONS] = {}, ahead[N_REACTIONS] = {};
    u32 firings[N_REACTIONS] = {};  // the number of the last draw of each
    const Counts state = {x};
    TrajectoryStream stream = {};
    i64 row = -1, k = 0;
    u64 fired = 0, step = 0;
    double t = 0;
    i32 signs = 0;  // negative after an overflow
    bool running = false;

    for (;;) {
        if (!running) {
            row = take_row(launch.control, rows);
            if (row >= rows) break;
            const Place place = place_in(launch, row);
            stream =
                trajectory_stream(seed_of(launch), STREAM_COMMON, trajectory_in(arguments, row), 0);
            load<N_SPECIES>(x, launch.initial + place.input * launch.initial_stride);
            load<N_CONSTANTS>(c, launch.constants + place.input * launch.constants_stride);
            check_constants(c);
            every_propensity(x, c, a);
            start_processes(stream, left, ahead, firings);
            k = 0, step = 0, t = 0, signs = 0, running = true;
        }

        // The reaction that is first, and when. A propensity that is no number makes the sum none.
        double wait = infinity(), sum = 0;
        int reaction = 0;
        UNROLL for (int j = 0; j < N_REACTIONS; ++j) {
            const double own = a[j] > 0 ? left[j] / a[j] : infinity();
            reaction = own < wait ? j : reaction;
            wait = own < wait ? own : wait;
            sum += a[j];
        }
        u8 ended = DONE;
        if (signs < 0)
            ended = OVERFLOWED;
        else if (!(sum >= 0 && sum < infinity()))
            ended = NOT_A_NUMBER;
        else if (wait == infinity())
            ended = ABSORBED;
        bool valid = ended <= ABSORBED;
        const double t_event = t + wait;

        // Samples before the event.
        if (valid)
            for (; k < n_times && times[k] < t_event; ++k) record_sample(out, row, k, state, c);
        if (valid && k < n_times && step >= most) ended = STEP_LIMIT, valid = false;
        if (!valid || k == n_times) {
            if (!valid) record_missing(out, row, k);
            record_end(out, row, ended, valid, state);
            fired += step;
            running = false;
            continue;
        }
        if (step % LOOK_EVERY == LOOK_EVERY - 1 && must_leave(launch.control, LOOK_EVERY, t)) break;

        // All processes run on; that of the reaction fires.
        u32 number = 0;
        UNROLL for (int j = 0; j < N_REACTIONS; ++j) {
            const double rest = left[j] - a[j] * wait;
            left[j] = j == reaction ? ahead[j] : rest > 0 ? rest : 0;
            firings[j] += j == reaction;
            number = j == reaction ? firings[j] : number;
        }
        const double fresh = next_internal(stream, (u32)reaction, number);
        UNROLL for (int j = 0; j < N_REACTIONS; ++j) ahead[j] = j == reaction ? fresh : ahead[j];
        signs = fire_number(reaction, x, c, a);
        t = t_event;
        ++step;
    }
    atomic_add(launch.work, fired);
}

struct DifferenceArguments {
    const double *sides;  // [points, 2, per_point, columns]: outputs at all times
    i64 points, per_point, n_times, n_outputs;
    double *pairs;  // [points, per_point, n_times, PAIR_COLUMNS, n_outputs]: coupled/arguments.h
};

// Columns of pairs, of trajectories that ran one by one.
KERNEL(side_differences, const DifferenceArguments a) {
    const i64 columns = a.n_times * a.n_outputs, block = a.per_point * columns;
    for (i64 item = GLOBAL_ID; item < a.points * block; item += GLOBAL_SIZE) {
        const i64 point = item / block, within = item % block;
        const double first = a.sides[2 * point * block + within];
        const double second = a.sides[(2 * point + 1) * block + within];
        double *const cell =
            a.pairs + item / a.n_outputs * PAIR_COLUMNS * a.n_outputs + item % a.n_outputs;
        record_difference(cell, a.n_outputs, first, second);
    }
}
