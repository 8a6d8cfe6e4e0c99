// Exact trajectories with their scores: derivatives of the logarithm of a path's probability by
// parameters, of which derivatives of means are made without a step. Plyasunov and Arkin (2007),
// J. Comput. Phys. 221, 724; the change of measure is Girsanov's.
//
//     Plyasunov and Arkin 2007                           here
//     X                                                  x[i]
//     a_j, a_0                                           a[j], a0
//     sum over firings of d log a_j / dc, less            score[p], and `rates` of the integral
//     the integral of d a_0 / dc
//     E[f(X(t)) s(t)]                                    `record_products`
//
// Trajectories are those of ensemble/ssa.cc, draw by draw. From f a given number is subtracted, which
// changes no mean, since that of a score is 0, and lessens the variance.
#include "coupled/paths.h"

struct ScoreArguments {
    // `observables` is [rows, n_times, N_COLUMNS]: derivatives, their squares, outputs.
    EnsembleArguments launch;
    const double *centres;  // [n_times, N_OBSERVABLES]: what is subtracted from outputs
};

constexpr int N_PRODUCTS = N_PARAMETERS * N_OBSERVABLES;
constexpr int N_COLUMNS = 2 * N_PRODUCTS + N_OBSERVABLES;

struct ScorePath {
    const ScoreArguments &arguments;
    PathDraws &draws;
    i32 signs = 0;
    i32 x[N_SPECIES] = {};
    double c[N_CONSTANTS + 1] = {}, a[N_REACTIONS] = {}, cumulative[N_REACTIONS] = {};
    double score[N_PARAMETERS] = {}, rates[N_PARAMETERS] = {};

    DEVICE_MEMBER double total() const { return cumulative[N_REACTIONS - 1]; }

    DEVICE_MEMBER void draw_from(const Place &place, u64 number) {
        draws.series = draw_series(draws.keys, STREAM_SSA, place.trajectory, place.point, number);
    }

    DEVICE_MEMBER void begin(const Place &place) {
        const EnsembleArguments &launch = arguments.launch;
        draw_from(place, 0);
        load<N_SPECIES>(x, launch.initial + place.input * launch.initial_stride);
        load<N_CONSTANTS>(c, launch.constants + place.input * launch.constants_stride);
        check_constants(c);
        all_propensities(x, c, a, cumulative);
        score_rates(x, c, a, rates);
        for (int p = 0; p < N_PARAMETERS; ++p) score[p] = 0;
    }

    // No number where a rate of a score is none.
    DEVICE_MEMBER double prepare(u32 step) {
        draws.prepare(step);
        double sum = total();
        for (int p = 0; p < N_PARAMETERS; ++p) sum += rates[p] - rates[p];
        return sum;
    }
    DEVICE_MEMBER double waiting(bool usual) const { return draws.waiting(total(), usual); }

    DEVICE_MEMBER void fire(double, double elapsed) {
        const double target = draws.target(total());
        for (int p = 0; p < N_PARAMETERS; ++p) score[p] -= rates[p] * elapsed;
        score_event(first_above<N_REACTIONS>(cumulative, target), x, c, a, score);
        signs = ::fire(target, x, c, a, cumulative);
        score_rates(x, c, a, rates);
    }

    DEVICE_MEMBER void sample(i64 row, i64 k, double later) const {
        double *const cell =
            arguments.launch.observables + (row * arguments.launch.n_times + k) * N_COLUMNS;
        double *const outputs = cell + 2 * N_PRODUCTS;
        record_observables(x, c, outputs);
        for (int p = 0; p < N_PARAMETERS; ++p) {
            const double reached = score[p] - rates[p] * later;
            for (int o = 0; o < N_OBSERVABLES; ++o)
                cell[p * N_OBSERVABLES + o] =
                    (outputs[o] - arguments.centres[k * N_OBSERVABLES + o]) * reached;
        }
        add_output_slopes(x, c, cell);
        for (int i = 0; i < N_PRODUCTS; ++i) cell[N_PRODUCTS + i] = cell[i] * cell[i];
    }
    DEVICE_MEMBER void end(i64 row, i64 k, u8 ended, bool) const {
        end_samples(arguments.launch, row, k, N_COLUMNS, ended);
    }
};

KERNEL(score_paths, const ScoreArguments arguments) {
    PathDraws draws = {*arguments.launch.keys, {}, {}, 0};
    ScorePath path = {arguments, draws};
    run_paths(arguments.launch, arguments.launch.max_steps, path);
}
