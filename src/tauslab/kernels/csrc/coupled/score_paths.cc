// Exact trajectories with their scores: derivatives of the logarithm of a path's probability by
// parameters, of which derivatives of means are made without a step. Plyasunov and Arkin (2007),
// J. Comput. Phys. 221, 724; the change of measure is Girsanov's.
//
//     Plyasunov and Arkin 2007                           here
//     X                                                  x[i]
//     a_j, a_0                                           a[j], a0
//     sum over events of d log a_j / dc, less            score[p], and `rates` of the integral
//     the integral of d a_0 / dc
//     E[f(X(t)) s(t)]                                    `record_products`
//
// Trajectories are those of ensemble/ssa.cc, draw by draw. From f a given number is subtracted, which
// changes no mean, since that of a score is 0, and lessens the variance.
#include "ensemble/control.h"
#include "model.h"
#include "math/math.h"
#include "device/prelude.h"
#include "ensemble/sampling.h"
#include "ensemble/stepping.h"
#include "random/streams.h"

struct ScoreArguments {
    // `observables` is [rows, n_times, N_COLUMNS]: derivatives, their squares, outputs.
    EnsembleArguments launch;
    const double *centres;  // [n_times, N_OBSERVABLES]: what is subtracted from outputs
};

constexpr int N_PRODUCTS = N_PARAMETERS * N_OBSERVABLES;
constexpr int N_COLUMNS = 2 * N_PRODUCTS + N_OBSERVABLES;

// Samples at time `k`, for the scores at that time.
DEVICE void record_products(const ScoreArguments &arguments, i64 row, i64 k, const i32 *x,
                            const double *c, const double *score) {
    double *const cell =
        arguments.launch.observables + (row * arguments.launch.n_times + k) * N_COLUMNS;
    double *const outputs = cell + 2 * N_PRODUCTS;
    record_observables(x, c, outputs);
    for (int p = 0; p < N_PARAMETERS; ++p)
        for (int o = 0; o < N_OBSERVABLES; ++o)
            cell[p * N_OBSERVABLES + o] =
                (outputs[o] - arguments.centres[k * N_OBSERVABLES + o]) * score[p];
    add_output_slopes(x, c, cell);
    for (int i = 0; i < N_PRODUCTS; ++i) cell[N_PRODUCTS + i] = cell[i] * cell[i];
}

KERNEL(score_paths, const ScoreArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const i64 n_times = launch.n_times, rows = launch.rows;
    const double *const times = launch.times;
    i32 x[N_SPECIES] = {};
    double c[N_CONSTANTS + 1] = {};
    double a[N_REACTIONS] = {}, cumulative[N_REACTIONS] = {};
    double score[N_PARAMETERS] = {}, rates[N_PARAMETERS] = {}, reached[N_PARAMETERS] = {};
    PhiloxSeries series = {};
    StepDraws draws;
    const PhiloxKeys keys = *launch.keys;
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
            series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, 0);
            load<N_SPECIES>(x, launch.initial + place.input * launch.initial_stride);
            load<N_CONSTANTS>(c, launch.constants + place.input * launch.constants_stride);
            check_constants(c);
            all_propensities(x, c, a, cumulative);
            score_rates(x, c, a, rates);
            for (int p = 0; p < N_PARAMETERS; ++p) score[p] = 0;
            k = 0, step = 0, t = 0, signs = 0, running = true;
        }

        const u32 next = (u32)step % DRAWS_AHEAD;
        if (next == 0) {
            if ((u32)step == 0 && step > 0) {
                const Place place = place_in(launch, row);
                series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, step);
            }
            draw_ahead(series, keys, (u32)step, draws);
        }
        const double a0 = cumulative[N_REACTIONS - 1];
        double sum = a0;  // no number where a rate of a score is none
        for (int p = 0; p < N_PARAMETERS; ++p) sum += rates[p] - rates[p];
        u8 ended = DONE;
        if (signs < 0)
            ended = OVERFLOWED;
        else if (!(sum >= 0 && sum < infinity()))
            ended = NOT_A_NUMBER;
        else if (a0 == 0)
            ended = ABSORBED;
        bool valid = ended <= ABSORBED;
        const double t_event = a0 > 0 ? t + draws.waiting[next] / a0 : infinity();

        // Samples before the event.
        if (valid)
            for (; k < n_times && times[k] < t_event; ++k) {
                for (int p = 0; p < N_PARAMETERS; ++p)
                    reached[p] = score[p] - rates[p] * (times[k] - t);
                record_products(arguments, row, k, x, c, reached);
            }
        if (valid && k < n_times && step >= launch.max_steps) ended = STEP_LIMIT, valid = false;
        if (!valid || k == n_times) {
            for (i64 i = k * N_COLUMNS; i < n_times * N_COLUMNS; ++i)
                launch.observables[row * n_times * N_COLUMNS + i] = not_a_number();
            launch.status[row] = ended;
            fired += step;
            running = false;
            continue;
        }
        if (step % LOOK_EVERY == LOOK_EVERY - 1 && must_leave(launch.control, LOOK_EVERY, t)) break;

        const double target = scaled_half_open(draws.unit[next], a0);
        for (int p = 0; p < N_PARAMETERS; ++p) score[p] -= rates[p] * (t_event - t);
        score_event(first_above<N_REACTIONS>(cumulative, target), x, c, a, score);
        signs = fire(target, x, c, a, cumulative);
        score_rates(x, c, a, rates);
        t = t_event;
        ++step;
    }
    atomic_add(launch.work, fired);
}
