// Exact stochastic simulation, direct method (Gillespie 1977), for networks that are small enough to be
// unrolled. One thread runs one trajectory, and takes the next one of the launch when it ends, so no lane
// waits for the slowest. Selector `linear`: propensities are summed in the order of reactions.
//
// Where trajectories are so few that lanes of a GPU would idle, LANES_OF_TRAJECTORY lanes run the same one: each makes the
// random numbers of one of as many firings, which all read from it. The first takes and counts for all.
//
//     Gillespie 1977     here
//     X_i                x[i]
//     a_mu, a_0          a[j], cumulative[N_REACTIONS - 1]
//     r_1, tau           words 0 and 1 of a draw; `waiting` / a0
//     r_2, mu            words 2 and 3; `fire` chooses the reaction and applies it
//
// Draw number `step` of the trajectory's stream gives the 128 random bits of that step.
//
// Where rates follow the time, propensities are upper bounds in a piece of the run (kernels/network/thinning.py), and
// what fires is found among the propensities at the time of the firing (Lewis and Shedler 1979): the last reaction,
// which changes nothing, where the target is above their sum. Beyond the end of a piece, and where the total is above the
// limit of the piece, the rest of the waiting time goes on with other bounds (ensemble/pieces.h).
#include "ensemble/control.h"
#include "model.h"
#include "math/math.h"
#include "ensemble/parking.h"
#include "ensemble/pieces.h"
#include "ensemble/sampling.h"
#include "ensemble/standing.h"
#include "ensemble/stepping.h"

// Blocks on a multiprocessor for which there are registers. Nine where a network is small, six up to sixteen
// reactions: 36 and 24 warps hide what a thread waits for. With few registers for each lane, the keys of the
// random bits, which all share, go to those of the warp. Larger networks get as many blocks as they need
// registers for.
constexpr int WEIGHT = N_REACTIONS + 2 * N_CONSTANTS;
constexpr int RESIDENT_BLOCKS = WEIGHT + 2 * N_LAWS < 8 ? 9
                                : WEIGHT <= 16          ? 6
                                : WEIGHT <= 28          ? 4
                                : WEIGHT <= 44          ? 3
                                                        : 0;

// Whether what begins a trajectory is the end of a firing, so that there is one copy of that.
constexpr bool BEGINS_BY_FIRING = FIRES_ALL && DRAWS_AHEAD == 1;
constexpr bool SHARES_DRAWS = LANES_OF_TRAJECTORY > 1;
static_assert(BEGINS_BY_FIRING || !SHARES_DRAWS);

// What the first lane of a trajectory does, told to the others.
template <class Work>
DEVICE i64 by_first([[maybe_unused]] u32 lane, const Work &work) {
#if defined(LANES_READ)
    if constexpr (SHARES_DRAWS) {
        i64 found = 0;
        if (lane == 0) found = work();
        return LANES_READ(LANES_OF_TRAJECTORY, found, 0);
    }
#endif
    return work();
}

// The draws of the next firings of a warp, which fires all its trajectories together: each lane makes that of one.
// Draw `step` is the one at `place` among them.
DEVICE void make_draws(const PhiloxSeries &series, const PhiloxKeys &keys, u32 step, u32 lane,
                       u32 place, const LogEntry *entries, StepDraws &own) {
    read_draw(philox_draw(series, keys, step + lane - place), own, LOG_SERIES, entries);
}

#if defined(WARP_READ)
// All lanes read the draw at `place`.
DEVICE StepDraws draws_at(const StepDraws &own, u32 place) {
    return {{WARP_READ(LANES_OF_TRAJECTORY, own.waiting[0], place)},
            {WARP_READ(LANES_OF_TRAJECTORY, own.unit[0], place)}};
}
#else
DEVICE StepDraws draws_at(const StepDraws &own, u32) {
    return own;
}
#endif

struct SsaArguments {
    EnsembleArguments launch;
    Parked *queue;      // [2 * lanes], see ensemble/parking.h; null: nobody parks
    u8 *ready;          // [2 * lanes], zeros
    const u64 *listed;  // how many rows run, see ensemble/ssa_ends.cc; null: all of the launch
    const u32 *list;    // these rows
};

KERNEL_IN_BLOCKS(RESIDENT_BLOCKS, ssa, const SsaArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    SHARED u32 spare;
    SHARED LogEntry log_table[LOG_ENTRIES];
    const LogEntry *const entries = kept_in_block(log_table);
    const Parking parking = {launch.control + PARKED, arguments.queue, arguments.ready,
                             kept_in_block(&spare)};
    if (THREAD_ID == 0) parking.begin();
    for (int i = THREAD_ID; i < LOG_ENTRIES; i += BLOCK_THREADS) log_table[i] = log_entry((u32)i);
    BARRIER();
    const Recorder out = recorder_of(launch);
    Recorder samples = out;
    samples.n_times = 1;  // rows of one sample: `sample` counts those of all trajectories
    const i64 rows = arguments.listed ? (i64)*arguments.listed : launch.rows;
    const i32 n_times = (i32)launch.n_times;
    const double *const times = launch.times;
    i32 x[N_SPECIES] = {};
    double c[N_CONSTANTS + N_LITERALS + 1] = {};
    double a[N_REACTIONS] = {};
    double cumulative[N_REACTIONS] = {};
    const Counts state = {x};
    PhiloxSeries series = {};
    StepDraws draws = {};
    [[maybe_unused]] StepDraws own_draws = {};
    const u32 lane = (u32)THREAD_ID % LANES_OF_TRAJECTORY;
    const PhiloxKeys keys = *launch.keys;  // in registers: loaded, so not made again in the loop
    const LogSeries &logs = in_registers(LOG_SERIES);
    const Literals literals = in_registers(LITERALS);
    UNROLL for (int i = 0; i < N_LITERALS; ++i) c[N_CONSTANTS + i] = literals.of[i];
    i64 row = -1, sample = 0;
    i32 k = 0;
    u64 fired = 0;
    u32 era = 0, step = 0, pause = 0;  // halves of the draw's number
    [[maybe_unused]] u32 turn = 0;     // firings of the warp
    // Where a trajectory waits for itself alone, a product tells sooner than a quotient that no sample comes before a
    // firing: t + waiting / a0 <= t_next, in spite of all roundings, if waiting <= room * a0.
    [[maybe_unused]] double room = 0;
    double t = 0, t_next = 0;
    i32 signs = 0;  // negative after an overflow
    [[maybe_unused]] const double *tree = nullptr;
    [[maybe_unused]] i32 piece = 1;

    const auto record_before = [&](double t_event) {
        NO_UNROLL while (t_next < t_event) {
            if constexpr (IS_THINNED) c[TIME_AT] = t_next;
            record_sample(samples, sample, 0, state, c);
            ++sample;
            if (++k == n_times) break;
            t_next = times[k];
        }
    };

    [[maybe_unused]] const auto total_of_bounds = [&] {
        all_propensities(x, c, a, cumulative);
        return cumulative[N_REACTIONS - 1];
    };

    // Goes on to the piece in which the next firing happens, and records what is before it.
    [[maybe_unused]] const auto cross_pieces = [&](double &waiting, double &a0, double &t_event) {
        a0 = refined(tree, piece, t, a0, c, total_of_bounds), t_event = t + waiting / a0;
        while (t_event > c[PIECE_AT] && k < n_times) {
            record_before(c[PIECE_AT]);
            waiting = rest_of_waiting(waiting, a0, c[PIECE_AT] - t);
            t = just_after(c[PIECE_AT]);
            a0 = next_piece(tree, piece, t, c, total_of_bounds), t_event = t + waiting / a0;
        }
        if (k == n_times) t_next = infinity();
    };

    // How the trajectory ends, or goes on, where a0 is none to divide by without a test.
    const auto judge = [&](double a0, double waiting, double &t_event) -> u8 {
        t_event = t + waiting / a0;
        if (IS_THINNED && !(t >= 0)) return NOT_A_NUMBER;
        if (signs < 0) return OVERFLOWED;
        if (a0 == 0) return t_event = infinity(), IS_THINNED ? DONE : ABSORBED;
        return a0 > 0 && a0 < infinity() ? DONE : NOT_A_NUMBER;
    };

    // Hands the trajectory over, unless few firings are to come: as many for each sample as there were so far.
    const auto park = [&] {
        Parked parked = {row, (u64)era << 32 | step, t, k, piece, {}};
        load<N_SPECIES>(parked.x, x);
        const bool few = parked.number * (u64)(n_times - k) < (u64)k * (u64)PARK_EVENTS;
        return few ? Parking::KEPT : parking.park(parked, GLOBAL_SIZE);
    };

    // At a pause: the step limit, the control words, an era of draws. False if the launch is to end unfinished.
    const auto look = [&](u8 &ended, bool &valid, Philox4 &bits) {
        const u64 number = (u64)era << 32 | step;
        if (number >= launch.max_steps) return ended = STEP_LIMIT, valid = false, true;
        if (by_first(lane, [&] { return (i64)must_leave(launch.control, LOOK_EVERY, t); }))
            return false;
        if (step == 0xffffffffu) {
            ++era;
            const Place place = place_in(launch, row);
            series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, number + 1);
            bits = philox_draw(series, keys, 0);
        }
        pause = next_pause(number + 1, launch.max_steps);
        return true;
    };

    const auto end = [&](u8 ended, bool valid) {
        if (!valid) record_missing(out, row, k);
        record_end(out, row, ended, valid, state);
        keep_standing(launch, row, ended, valid, t, (u64)era << 32 | step, state);
        fired += (u64)era << 32 | step;
        if (launch.lengths) launch.lengths[row] = (u64)era << 32 | step;
    };

    // Takes the next trajectory of the launch, or one that is parked; false if there is none.
    const auto take = [&](Parked &next) {
        do
            next.row = by_first(
                lane, [&] { return row_of(launch, take_row(launch.control, rows)); });
        while (next.row < rows && ended_before(launch, out, next.row, state));
        const bool fresh = next.row < rows;
        if (fresh && arguments.listed) next.row = arguments.list[next.row];
        if (!fresh && !parking.take(next)) return false;
        const bool goes_on = fresh && take_up(launch, next.row, next.t, next.number,
                                              [&](int i, double count) { next.x[i] = (i32)count; });
        if (goes_on) fired -= next.number;
        row = next.row, k = next.k, sample = row * n_times + k;
        era = (u32)(next.number >> 32), step = (u32)next.number;
        pause = next_pause(next.number, launch.max_steps);
        t_next = times[k];
        const Place place = place_in(launch, row);
        series = draw_series(keys, STREAM_SSA, place.trajectory, place.point, next.number);
        load<N_SPECIES>(x, next.x);
        if (fresh && !goes_on)
            load<N_SPECIES>(x, launch.initial + place.input * launch.initial_stride);
        const double *const own = launch.constants + place.input * launch.constants_stride;
        load<N_CONSTANTS>(c, own);
        check_constants(c);
        if constexpr (IS_THINNED) {
            tree = own + PIECE_AT, piece = fresh ? 1 : next.piece;
            load_piece(tree, piece, c);
        }
        return true;
    };

    for (;;) {
        // When the next firing happens.
        const u32 now = step % DRAWS_AHEAD;
        double a0 = cumulative[N_REACTIONS - 1];
        double waiting = draws.waiting[now];
        double t_event = SHARES_DRAWS ? 0.0 : t + quotient(waiting, a0);
        double target = scaled_half_open(draws.unit[now], a0);
        // Before what is rare is asked for: the choice of the reaction need not wait for the answer.
        if constexpr (SHARES_DRAWS) LOADED_HERE(target, "d");
        const bool no_sample = SHARES_DRAWS ? waiting <= room * a0 : t_event <= t_next;
        const u32 place = (turn + 1) % LANES_OF_TRAJECTORY;
        bool draws_anew = SHARES_DRAWS && place == 0;
        Philox4 bits = {};
        if constexpr (BEGINS_BY_FIRING && !SHARES_DRAWS) bits = philox_draw(series, keys, step + 1);

        // Everything rare in one branch: a0 that is zero, infinite, NaN, negative or beyond what
        // `quotient` takes, a count that passed its limit (a sign bit), a sample, a pause.
        const u32 size = high_word(a0) | ((u32)signs & 0x80000000u);
        bool usual = size - SMALLEST_USUAL < LARGEST_USUAL - SMALLEST_USUAL;
        if constexpr (IS_THINNED) {
            if constexpr (SHARES_DRAWS) t_event = t + quotient(waiting, a0);
            usual &= (t_event <= c[PIECE_AT]) & (a0 <= c[LIMIT_AT]);
        }
        i32 fires = 1;
        bool crossed = false;
        if (!LIKELY(usual & no_sample & (step != pause) & !draws_anew)) {
            if constexpr (SHARES_DRAWS) t_event = t + quotient(waiting, a0);
            if constexpr (IS_THINNED) {
                crossed = !usual && row >= 0 && signs >= 0;
                if (crossed) {
                    cross_pieces(waiting, a0, t_event);
                    target = scaled_half_open(draws.unit[now], a0);
                    const u32 high = high_word(a0);
                    usual = high - SMALLEST_USUAL < LARGEST_USUAL - SMALLEST_USUAL && t >= 0;
                }
            }
            if (LIKELY(usual)) record_before(t_event);
            if (!LIKELY(usual & (k < n_times) & (step != pause) & !parking.sparse())) {
                u8 ended = DONE;
                if (!usual) {
                    ended = judge(a0, waiting, t_event);
                    if (ended <= ABSORBED && row >= 0) record_before(t_event);
                }
                bool valid = ended <= ABSORBED;
                if (valid && k < n_times && row >= 0 && parking.sparse() && !crossed) {
                    const Parking::Outcome how = park();
                    if (how == Parking::PARKED_AND_LEFT) break;
                    if (how == Parking::PARKED_AND_LAST) row = -1;
                }
                if (valid && k < n_times && row >= 0 && step == pause) {
                    draws_anew = true;  // of another series, perhaps
                    if (!look(ended, valid, bits)) break;
                }
                if (!valid || k >= n_times || row < 0) {
                    if (row >= 0) end(ended, valid);
                    Parked next = {};
                    if (!take(next)) break;
                    if constexpr (BEGINS_BY_FIRING) {
                        // The first reaction leads to this state: no sum is below a target that is no number.
                        before_first(x);
                        target = not_a_number();
                        t_event = t = next.t, waiting = 0, a0 = 1, --step;
                        draws_anew = true;
                        if constexpr (!SHARES_DRAWS) bits = philox_draw(series, keys, step + 1);
                    } else {
                        all_propensities(x, c, a, cumulative);
                        draw_ahead(series, keys, step - step % DRAWS_AHEAD, draws);
                        t = next.t, signs = 0, fires = 0;
                    }
                }
            }
            if (SHARES_DRAWS && draws_anew)
                make_draws(series, *launch.keys, step + 1, lane, place, entries, own_draws);
        }

        GO_ON_TOGETHER(step);
        if (BEGINS_BY_FIRING || fires) {
            // The reaction is the first whose cumulative propensity exceeds the target. The numbers of the next
            // firing are drawn meanwhile: neither waits for the other.
            if constexpr (!SHARES_DRAWS || IS_THINNED) t = t_event;
            ++step, ++turn;
            if constexpr (IS_THINNED) {
                const bool begins = target != target;
                c[TIME_AT] = t;
                propensities_now(x, c, cumulative);
                const double now = cumulative[N_REACTIONS - 2];
                if (!begins && !(now >= 0 && now <= a0 * BOUND_HOLDS)) t = not_a_number();
            }
            StepDraws next = draws;
            if constexpr (SHARES_DRAWS)
                next = draws_at(own_draws, place);
            else if constexpr (BEGINS_BY_FIRING)
                read_draw(bits, draws, logs, entries);
            else if (step % DRAWS_AHEAD == 0)
                draw_ahead(series, keys, step, draws);
            signs = fire(target, x, c, a, cumulative, [&] {
                if constexpr (SHARES_DRAWS && !IS_THINNED) t += quotient(waiting, a0);
                if constexpr (SHARES_DRAWS) room = (t_next - t) * (1 - 0x1p-30);
            });
            if constexpr (SHARES_DRAWS) draws = next;
        }
    }
    if (lane == 0) atomic_add(launch.work, fired);
}
