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
//     Delta t_k          left[j] / a[j]; the least is `least`
//
// The point of a sweep is not in the address of a draw, and where `one_trajectory` is set, nor is the
// row: then all rows of the run are one trajectory with different inputs.
#include "coupled/paths.h"

struct CommonArguments {
    EnsembleArguments launch;
    i64 one_trajectory;
};

// A reaction's firings have 32 bits in the address of a draw, so no trajectory has more.
constexpr u64 MOST_FIRINGS = 0xfffffffeull;

// Internal time from firing `number` of a reaction, or from 0, to the next.
DEVICE double next_internal(const TrajectoryStream &stream, u32 reaction, u32 number) {
    const Philox4 bits = draw(stream, (u64)reaction << 32 | number);
    return tl_exponential(unit_open_low(bits.x0, bits.x1));
}

struct CommonPath {
    const CommonArguments &arguments;
    const Recorder out;
    i32 *const x;
    double *const c, *const a, *const left, *const ahead;
    u32 *const firings;  // the number of the last draw of each
    i32 signs = 0;
    int reaction = 0;  // that fires next
    double least = 0;
    TrajectoryStream stream = {};

    DEVICE_MEMBER void draw_from(const Place &, u64) const {}

    // All processes at 0: one copy of the draw's text, and arrays indexed by known numbers alone.
    DEVICE_MEMBER void start_processes() {
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

    DEVICE_MEMBER void begin(const Place &place) {
        const EnsembleArguments &launch = arguments.launch;
        const u64 trajectory = arguments.one_trajectory ? (u64)launch.before : place.trajectory;
        stream = trajectory_stream(seed_of(launch), STREAM_COMMON, trajectory, 0);
        load<N_SPECIES>(x, launch.initial + place.input * launch.initial_stride);
        load<N_CONSTANTS>(c, launch.constants + place.input * launch.constants_stride);
        check_constants(c);
        every_propensity(x, c, a);
        start_processes();
    }

    // The reaction that is first, and when. A propensity that is no number makes the sum none.
    DEVICE_MEMBER double prepare(u32) {
        double sum = 0;
        least = infinity(), reaction = 0;
        UNROLL for (int j = 0; j < N_REACTIONS; ++j) {
            const double own = a[j] > 0 ? left[j] / a[j] : infinity();
            reaction = own < least ? j : reaction;
            least = own < least ? own : least;
            sum += a[j];
        }
        return least < infinity() ? sum : sum * 0.0;
    }
    DEVICE_MEMBER double waiting(bool) const { return least; }

    // All processes run on; that of the reaction fires.
    DEVICE_MEMBER void fire(double waiting, double) {
        u32 number = 0;
        UNROLL for (int j = 0; j < N_REACTIONS; ++j) {
            const double rest = left[j] - a[j] * waiting;
            left[j] = j == reaction ? ahead[j] : rest > 0 ? rest : 0;
            firings[j] += j == reaction;
            number = j == reaction ? firings[j] : number;
        }
        const double fresh = next_internal(stream, (u32)reaction, number);
        UNROLL for (int j = 0; j < N_REACTIONS; ++j) ahead[j] = j == reaction ? fresh : ahead[j];
        signs = fire_number(reaction, x, c, a);
    }

    DEVICE_MEMBER void sample(i64 row, i64 k, double) const { record_sample(out, row, k, Counts{x}, c); }
    DEVICE_MEMBER void end(i64 row, i64 k, u8 ended, bool valid) const {
        if (!valid) record_missing(out, row, k);
        record_end(out, row, ended, valid, Counts{x});
    }
};

KERNEL(common_paths, const CommonArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    i32 x[N_SPECIES] = {};
    double c[N_CONSTANTS + 1] = {}, a[N_REACTIONS] = {};
    double left[N_REACTIONS] = {}, ahead[N_REACTIONS] = {};
    u32 firings[N_REACTIONS] = {};
    CommonPath path = {arguments, recorder_of(launch), x, c, a, left, ahead, firings};
    run_paths(launch, launch.max_steps < MOST_FIRINGS ? launch.max_steps : MOST_FIRINGS, path);
}
