// Two exact trajectories of one network with different constants or initial counts, which share as
// many events as they can: the split coupling of Anderson (2012), SIAM J. Numer. Anal. 50, 2237.
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
// Each side alone has the law of an exact trajectory. The pair is simulated by the direct method:
// draw number `step` of the pair's stream gives the waiting time and the choice.
#include "coupled/arguments.h"
#include "ensemble/control.h"
#include "model.h"
#include "math/math.h"
#include "device/prelude.h"
#include "ensemble/sampling.h"
#include "ensemble/stepping.h"
#include "random/streams.h"

// Outputs of both sides at sample time `k`, their difference and its square.
DEVICE void record_pair(const EnsembleArguments &launch, i64 row, i64 k, const CoupledPair &pair) {
    double *const cell =
        launch.observables + (row * launch.n_times + k) * PAIR_COLUMNS * N_OBSERVABLES;
    const Counts x = {pair.x}, y = {pair.y};
    record_observables(x, pair.c, cell + N_OBSERVABLES);
    record_observables(y, pair.d, cell + 2 * N_OBSERVABLES);
    for (int i = 0; i < N_OBSERVABLES; ++i)
        record_difference(cell + i, N_OBSERVABLES, cell[N_OBSERVABLES + i],
                          cell[2 * N_OBSERVABLES + i]);
}

// The pair gave no sample from time `k` on.
DEVICE void record_missing_pair(const EnsembleArguments &launch, i64 row, i64 k) {
    const i64 width = PAIR_COLUMNS * N_OBSERVABLES;
    for (i64 i = k * width; i < launch.n_times * width; ++i)
        launch.observables[row * launch.n_times * width + i] = not_a_number();
}

KERNEL(coupled_pairs, const PairArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const i64 n_times = launch.n_times, rows = launch.rows;
    const double *const times = launch.times;
    i32 x[N_SPECIES] = {}, y[N_SPECIES] = {};
    double c[N_CONSTANTS + 1] = {}, d[N_CONSTANTS + 1] = {};
    double a[N_REACTIONS] = {}, b[N_REACTIONS] = {};
    double cumulative[N_REACTIONS] = {};
    const CoupledPair pair = {x, y, c, d, a, b, cumulative};
    PhiloxSeries series = {};
    StepDraws draws;
    const PhiloxKeys keys = *launch.keys;
    i64 row = -1, k = 0;
    u64 fired = 0;
    u32 era = 0, step = 0, pause = 0;  // halves of the draw's number
    double t = 0, t_next = 0;
    i32 signs = 0;  // negative after an overflow

    for (;;) {
        // When the next event happens.
        const u32 next = step % DRAWS_AHEAD;
        if (next == 0) draw_ahead(series, keys, step, draws);
        const double a0 = cumulative[N_REACTIONS - 1];
        const double waiting = draws.waiting[next];
        double t_event = t + quotient(waiting, a0);

        // Everything rare in one branch, as in ensemble/ssa.cc.
        const u32 size = high_word(a0) | ((u32)signs & 0x80000000u);
        const bool usual = size - SMALLEST_USUAL < LARGEST_USUAL - SMALLEST_USUAL;
        if (!LIKELY(usual & (t_event <= t_next) & (step != pause))) {
            u8 ended = DONE;
            if (!LIKELY(usual)) {
                t_event = t + waiting / a0;
                if (signs < 0)
                    ended = OVERFLOWED;
                else if (a0 == 0)
                    ended = ABSORBED, t_event = infinity();
                else if (!(a0 > 0 && a0 < infinity()))
                    ended = NOT_A_NUMBER;
            }

            // Samples before the event.
            bool valid = ended <= ABSORBED;
            if (LIKELY(valid && row >= 0))
                for (; k < n_times && times[k] < t_event; ++k) record_pair(launch, row, k, pair);

            if (valid && row >= 0 && k < n_times && step == pause) {
                const u64 number = (u64)era << 32 | step;
                if (number >= launch.max_steps) {
                    ended = STEP_LIMIT, valid = false;
                } else {
                    if (must_leave(launch.control, LOOK_EVERY, t)) break;
                    if (step == 0xffffffffu) {
                        ++era;
                        const Place place = place_in(launch, row);
                        series = draw_series(keys, STREAM_COUPLED, place.trajectory,
                                             arguments.points[place.point], number + 1);
                    }
                    pause = next_pause(number + 1, launch.max_steps);
                }
            }

            // The end of the pair, and the start of the next.
            if (!valid || k == n_times || row < 0) {
                if (row >= 0) {
                    if (!valid) record_missing_pair(launch, row, k);
                    launch.status[row] = ended;
                    fired += (u64)era << 32 | step;
                }
                row = take_row(launch.control, rows);
                if (row >= rows) break;
                const Place place = place_in(launch, row);
                series = draw_series(keys, STREAM_COUPLED, place.trajectory,
                                     arguments.points[place.point], 0);
                const i32 *const initial = launch.initial + place.input * launch.initial_stride;
                const double *const constants =
                    launch.constants + place.input * launch.constants_stride;
                load<N_SPECIES>(x, initial);
                load<N_SPECIES>(y, initial + N_SPECIES);
                load<N_CONSTANTS>(c, constants);
                load<N_CONSTANTS>(d, constants + N_CONSTANTS);
                check_constants(c);
                check_constants(d);
                pair_propensities(pair);
                k = 0, era = 0, step = 0, pause = next_pause(0, launch.max_steps);
                t = 0, t_next = times[0], signs = 0;
                continue;
            }
            t_next = times[k];
        }

        // The reaction is the first whose cumulative propensity exceeds the target.
        signs = fire_pair(scaled_half_open(draws.unit[next], a0), pair);
        t = t_event;
        ++step;
    }
    atomic_add(launch.work, fired);
}
