// Two exact trajectories of one network with different constants or initial counts, which share as
// many firings as they can: the split coupling of Anderson (2012), SIAM J. Numer. Anal. 50, 2237.
// A pair differs little, and so does the difference of its two outputs: its variance, and that of
// a finite difference made of it, is small.
//
//     Anderson 2012                            here
//     Z^(theta+h), Z^theta                     x, y
//     lambda_k of each                         a[k], b[k]
//     Y_(k,1): min of both, both fire          `fire_pair` where the rest of the target is below
//                                              the lesser propensity
//     Y_(k,2), Y_(k,3): what each has above    the rest; one of them is 0, so reaction k of the
//     the min, one fires                       pair has the propensity max(a[k], b[k])
//
// Each side alone has the probability distribution of an exact trajectory. The pair is simulated by the direct method:
// draw number `step` of the pair's stream gives the waiting time and the choice.
#include "coupled/paths.h"

struct PairArguments {
    // Inputs have a row per point, which is a parameter: the counts, or constants, of the first side
    // and behind them those of the second. `observables` is [rows, n_times, 4, N_OBSERVABLES]:
    // first side less second, first, second, and the first of these squared: see record_difference.
    EnsembleArguments launch;
    const u32 *points;  // [points of the launch]: the point in the address of its draws
};

struct PairPath {
    const PairArguments &arguments;
    PathDraws &draws;
    i32 signs = 0;
    i32 x[N_SPECIES] = {}, y[N_SPECIES] = {};
    double c[N_CONSTANTS + 1] = {}, d[N_CONSTANTS + 1] = {};
    double a[N_REACTIONS] = {}, b[N_REACTIONS] = {}, cumulative[N_REACTIONS] = {};

    DEVICE_MEMBER CoupledPair pair() { return {x, y, c, d, a, b, cumulative}; }
    DEVICE_MEMBER double total() const { return cumulative[N_REACTIONS - 1]; }

    DEVICE_MEMBER void draw_from(const Place &place, u64 number) {
        draws.series = draw_series(draws.keys, STREAM_COUPLED, place.trajectory,
                                   arguments.points[place.point], number);
    }

    DEVICE_MEMBER void begin(const Place &place) {
        const EnsembleArguments &launch = arguments.launch;
        draw_from(place, 0);
        const i32 *const initial = launch.initial + place.input * launch.initial_stride;
        const double *const constants = launch.constants + place.input * launch.constants_stride;
        load<N_SPECIES>(x, initial);
        load<N_SPECIES>(y, initial + N_SPECIES);
        load<N_CONSTANTS>(c, constants);
        load<N_CONSTANTS>(d, constants + N_CONSTANTS);
        check_constants(c);
        check_constants(d);
        pair_propensities(pair());
    }

    DEVICE_MEMBER double prepare(u32 step) {
        draws.prepare(step);
        return total();
    }
    DEVICE_MEMBER double waiting(bool usual) const { return draws.waiting(total(), usual); }

    // The reaction is the first whose cumulative propensity exceeds the target.
    DEVICE_MEMBER void fire(double, double) { signs = fire_pair(draws.target(total()), pair()); }

    // Outputs of both sides, their difference and its square.
    DEVICE_MEMBER void sample(i64 row, i64 k, double) const {
        const EnsembleArguments &launch = arguments.launch;
        double *const cell =
            launch.observables + (row * launch.n_times + k) * PAIR_COLUMNS * N_OBSERVABLES;
        record_observables(x, c, cell + N_OBSERVABLES);
        record_observables(y, d, cell + 2 * N_OBSERVABLES);
        for (int i = 0; i < N_OBSERVABLES; ++i)
            record_difference(cell + i, N_OBSERVABLES, cell[N_OBSERVABLES + i],
                              cell[2 * N_OBSERVABLES + i]);
    }
    DEVICE_MEMBER void end(i64 row, i64 k, u8 ended, bool) const {
        end_samples(arguments.launch, row, k, PAIR_COLUMNS * N_OBSERVABLES, ended);
    }
};

KERNEL(coupled_pairs, const PairArguments arguments) {
    PathDraws draws = {*arguments.launch.keys, {}, {}, 0};
    PairPath path = {arguments, draws};
    run_paths(arguments.launch, arguments.launch.max_steps, path);
}
