// Exact stochastic simulation, direct method, on the SIMD lanes of a CPU core: the same numbers as
// ensemble/ssa.cc, in which symbols are explained. A thread runs VECTORS vectors of trajectories, one
// trajectory on each lane, and all lanes fire once, then again. A lane whose trajectory ends
// takes the next one of the launch. Counts are doubles, which are exact.
//
// `clock` counts the firings of each of the thread's lanes; the draw's number of a lane is the clock
// less its value when the lane's trajectory began.
#include "simd/laws.h"
#include "ensemble/control.h"
#include "model.h"
#include "ensemble/lanes.h"
#include "ensemble/standing.h"

// How many trajectories a thread runs at a time, for the host.
extern "C" __attribute__((visibility("default"))) const int ssa_lanes_together = LANES_HERE;

// When the lane pauses next: before a count can pass its limit, at the draw that `max_steps` forbids, or
// where the low half of the draw's number begins anew.
DEVICE void set_pause(Thread &thread, Lanes &lanes, int lane, u64 clock) {
    const u64 number = clock - at<u64>(lanes.begun, lane);
    const i64 room = events_before_overflow(LargeCountsOfLane{lanes, lane});
    lanes.pause[lane] = NEVER;
    if (room < 0 || number >= thread.launch.max_steps) {
        lanes.t_next[lane] = -infinity();  // the next firing is a rare case
        return;
    }
    u64 events = 0x100000000ull - (u32)number;
    if (thread.launch.max_steps - number < events) events = thread.launch.max_steps - number;
    if ((u64)room + 1 < events) events = (u64)room + 1;
    lanes.pause[lane] = clock + events;
    if (lanes.pause[lane] < thread.pause) thread.pause = lanes.pause[lane];
}

// When the lane has something else to do than to fire: its next sample, or the end of a piece of the run.
DEVICE double next_stop(const Thread &thread, Lanes &lanes, int lane) {
    const double sample = thread.launch.times[lanes.k[lane]];
    if constexpr (!IS_THINNED) return sample;
    const double end = at<double>(lanes.c[PIECE_AT], lane);
    return end < sample ? end : sample;
}

// Records samples before a time.
DEVICE void record_before(const Thread &thread, Lanes &lanes, int lane, double t) {
    const CountsOfLane state = {lanes, lane};
    const ConstantsOfLane c = {lanes, lane};
    for (i64 &k = lanes.k[lane]; k < thread.out.n_times && thread.launch.times[k] < t; ++k) {
        if constexpr (IS_THINNED) at<double>(lanes.c[TIME_AT], lane) = thread.launch.times[k];
        record_sample(thread.out, lanes.row[lane], k, state, c);
    }
}

// The lane takes a state: that of the launch's trajectory `row`; if none is left for it, no piece ends.
DEVICE Place load_lane(const Thread &thread, Lanes &lanes, int lane, i64 row) {
    const Place place = place_in(thread.launch, row);
    for (int i = 0; i < N_SPECIES; ++i)
        lanes.x[i][lane] = thread.launch.initial[place.input * thread.launch.initial_stride + i];
    double c[N_CONSTANTS + 1] = {};
    const double *const own =
        thread.launch.constants + place.input * thread.launch.constants_stride;
    for (int i = 0; i < N_CONSTANTS; ++i) c[i] = own[i];
    lanes.tree[lane] = own + PIECE_AT, lanes.piece[lane] = 1;
    if (IS_THINNED && lanes.row[lane] == IDLE) c[LIMIT_AT] = infinity();
    check_constants(c);
    for (int i = 0; i < N_CONSTANTS; ++i) at<double>(lanes.c[i], lane) = c[i];
    lanes.t[lane] = 0;
    return place;
}

// The lane's draws are those of the trajectory at `place` from `number` on, up to the next whose low half is 0.
DEVICE PhiloxSeries begin_series(const Thread &thread, Lanes &lanes, int lane, const Place &place,
                                 u64 number, u64 clock) {
    const PhiloxSeries series =
        draw_series(*thread.launch.keys, STREAM_SSA, place.trajectory, place.point, number);
    at<u64>(lanes.series.x2, lane) = series.x2;
    at<u64>(lanes.series.x0, lane) = series.x0;
    at<u64>(lanes.series.x2_next, lane) = series.x2_next;
    at<u64>(lanes.series.x3_next, lane) = series.x3_next;
    at<u64>(lanes.begun_product, lane) = (clock - (u32)number) * PHILOX_M0;
    return series;
}

// The lane takes the next trajectory of the launch, or runs the first one's state for ever.
DEVICE_SELDOM void begin_trajectory(Thread &thread, Lanes &lanes, int v, int lane, u64 clock,
                                    int d) {
    i64 row = 0;
    do row = row_of(thread.launch, take_row(thread.launch.control, thread.launch.rows));
    while (row < thread.launch.rows &&
           ended_before(thread.launch, thread.out, row, CountsOfLane{lanes, lane}));
    at<u64>(lanes.begun, lane) = clock;
    lanes.k[lane] = 0, lanes.reported[lane] = 0, lanes.pause[lane] = NEVER;
    if (row >= thread.launch.rows) {
        lanes.row[lane] = IDLE;
        lanes.t_next[lane] = infinity();
        load_lane(thread, lanes, lane, 0);
        return;
    }
    ++thread.busy;
    lanes.row[lane] = row;
    const Place place = load_lane(thread, lanes, lane, row);
    u64 number = 0;
    if (take_up(thread.launch, row, lanes.t[lane], number,
                [&](int i, double count) { lanes.x[i][lane] = count; })) {
        at<u64>(lanes.begun, lane) = clock - number;
        lanes.reported[lane] = number, thread.fired -= number;
    }
    lanes.t_next[lane] = next_stop(thread, lanes, lane);
    const PhiloxSeries series = begin_series(thread, lanes, lane, place, number, clock);
    set_pause(thread, lanes, lane, clock);
    fill_store_of_lane(thread, series, v, lane, d, number);
}

// The lane goes on with its waiting time, or what is left of it, piece after piece, to its next firing or the last
// sample.
DEVICE void cross_pieces(Thread &thread, Lanes &lanes, int v, int lane, int d) {
    double &waiting = at<double>(thread.waiting[d][v], lane), &t = lanes.t[lane], t_event;
    double c[N_CONSTANTS + 1], a[N_REACTIONS], cumulative[N_REACTIONS], a0 = lanes.a0[lane];
    i32 x[N_SPECIES > 0 ? N_SPECIES : 1];
    for (int i = 0; i < N_SPECIES; ++i) x[i] = (i32)lanes.x[i][lane];
    for (int i = 0; i < N_CONSTANTS; ++i) c[i] = at<double>(lanes.c[i], lane);
    const auto total = [&] {
        all_propensities(x, c, a, cumulative);
        return cumulative[N_REACTIONS - 1];
    };
    const double *const tree = lanes.tree[lane];
    i32 piece = lanes.piece[lane];
    a0 = refined(tree, piece, t, a0, c, total), t_event = t + waiting / a0;
    while (t_event > c[PIECE_AT]) {
        record_before(thread, lanes, lane, c[PIECE_AT]);
        if (lanes.k[lane] == thread.out.n_times) break;
        waiting = rest_of_waiting(waiting, a0, c[PIECE_AT] - t);
        t = just_after(c[PIECE_AT]);
        a0 = next_piece(tree, piece, t, c, total), t_event = t + waiting / a0;
    }
    lanes.piece[lane] = piece;
    for (int i = 0; i < PIECE_WORDS; ++i) at<double>(lanes.c[PIECE_AT + i], lane) = c[PIECE_AT + i];
}

// What is rare on a lane, but for a sample alone: as in ensemble/ssa.cc. True if a trajectory or a piece begins.
DEVICE bool settle_lane(Thread &thread, Lanes &lanes, int v, int lane, u64 clock, int d) {
    const i64 row = lanes.row[lane];
    i64 &k = lanes.k[lane];
    if (row == IDLE) {
        load_lane(thread, lanes, lane, 0);
        return false;
    }
    const double a0 = lanes.a0[lane];
    double t_event = lanes.t_event[lane];
    u8 ended = DONE;
    if (IS_THINNED && !(lanes.t[lane] >= 0))
        ended = NOT_A_NUMBER;
    else if (events_before_overflow(LargeCountsOfLane{lanes, lane}) < 0)
        ended = OVERFLOWED;
    else if (a0 == 0)
        ended = IS_THINNED ? DONE : ABSORBED, t_event = infinity();
    else if (!(a0 > 0 && a0 < infinity()))
        ended = NOT_A_NUMBER;

    bool valid = ended <= ABSORBED, crosses = false;
    const i64 n_times = thread.out.n_times;
    if constexpr (IS_THINNED) {
        crosses = valid && (t_event > at<double>(lanes.c[PIECE_AT], lane) ||
                            a0 > at<double>(lanes.c[LIMIT_AT], lane));
        if (crosses) cross_pieces(thread, lanes, v, lane, d);
        crosses = crosses && k < n_times;
    }
    if (valid && !crosses) record_before(thread, lanes, lane, t_event);
    const u64 number = clock - at<u64>(lanes.begun, lane);
    const bool last = number >= thread.launch.max_steps;
    if (valid && k < n_times && last && !crosses) ended = STEP_LIMIT, valid = false;
    if (valid && k < n_times) {
        lanes.t_next[lane] = last ? -infinity() : next_stop(thread, lanes, lane);
        return crosses;
    }
    if (!valid) record_missing(thread.out, row, k);
    const CountsOfLane state = {lanes, lane};
    record_end(thread.out, row, ended, valid, state);
    keep_standing(thread.launch, row, ended, valid, lanes.t[lane], number, state);
    thread.fired += number;
    if (thread.launch.lengths) thread.launch.lengths[row] = number;
    --thread.busy;
    begin_trajectory(thread, lanes, v, lane, clock, d);
    return true;
}

DEVICE_SELDOM bool settle(Thread &thread, Lanes &lanes, int v, u32 rare, u64 clock, int d) {
    bool anew = false;
    for (; rare; rare &= rare - 1)
        anew |= settle_lane(thread, lanes, v, lowest_bit(rare), clock, d);
    return anew;
}

// All lanes are between two events. False if the launch is to end unfinished.
DEVICE_SELDOM bool pause_all(Thread &thread, Lanes *vectors, u64 clock) {
    bool leave = false;
    const bool looks = clock == thread.look;
    if (looks) thread.look += LOOK_EVERY;
    thread.pause = thread.look;
    for (int v = 0; v < VECTORS; ++v) {
        Lanes &lanes = vectors[v];
        for (int lane = 0; lane < SIMD_LANES; ++lane) {
            if (lanes.row[lane] == IDLE) continue;
            const u64 number = clock - at<u64>(lanes.begun, lane);
            if (looks) {
                leave |=
                    must_leave(thread.launch.control, number - lanes.reported[lane], lanes.t[lane]);
                lanes.reported[lane] = number;
            }
            if (lanes.pause[lane] == clock) {
                if (number > 0 && (u32)number == 0)
                    begin_series(thread, lanes, lane, place_in(thread.launch, lanes.row[lane]),
                                 number, clock);
                set_pause(thread, lanes, lane, clock);
            }
            if (lanes.pause[lane] < thread.pause) thread.pause = lanes.pause[lane];
        }
    }
    return !leave;
}

// Copies for functions that are seldom called, and back.
DEVICE void copy_out(const Running &run, Lanes &lanes) {
    UNROLL for (int i = 0; i < N_SPECIES; ++i) store(lanes.x[i], run.x[i]);
    store(lanes.a0, run.cumulative[N_REACTIONS - 1]);
    store(lanes.t, run.t), store(lanes.t_next, run.t_next);
}

DEVICE void copy_back(Running &run, const Lanes &lanes) {
    Real a[N_REACTIONS];
    UNROLL for (int i = 0; i < N_SPECIES; ++i) load(run.x[i], lanes.x[i]);
    load(run.t, lanes.t), load(run.t_next, lanes.t_next);
    all_propensities(run.x, lanes.c, a, run.cumulative);
}

// Lanes whose total of bounds is above the limit of their piece.
DEVICE u32 lanes_over_limit(const Running &run, const Lanes &lanes) {
    if constexpr (IS_THINNED)
        return bits_of(run.cumulative[N_REACTIONS - 1] > lanes.c[LIMIT_AT]);
    return 0;
}

// Samples of lanes that need nothing else; the others are returned. No call: registers keep the state.
DEVICE u32 sample_lanes(const Thread &thread, Running &run, Lanes &lanes, const Real &t_event,
                        u32 rare) {
    // An idle lane samples at infinity, and one that is at a limit before the first time.
    const u32 samples = bits_of((run.t_next < t_event) & (t_event < infinity()) &
                                (run.t_next >= 0.0)) & rare & ~lanes_over_limit(run, lanes);
    u32 others = rare ^ samples;
    const i64 n_times = thread.out.n_times;
    UNROLL for (int i = 0; i < N_SPECIES; ++i) store(lanes.x[i], run.x[i]);
    store(lanes.t_event, t_event);
    NO_UNROLL for (u32 rest = samples; rest; rest &= rest - 1) {
        const int lane = lowest_bit(rest);
        const double t = lanes.t_event[lane];
        const bool crosses = IS_THINNED && t > at<double>(lanes.c[PIECE_AT], lane);
        if (!crosses) record_before(thread, lanes, lane, t);
        if (crosses || lanes.k[lane] == n_times)
            others |= 1u << lane;
        else
            put(run.t_next, lane, next_stop(thread, lanes, lane));
    }
    return others;
}

KERNEL(ssa_lanes, EnsembleArguments launch) {
    Thread thread = {launch, recorder_of(launch), log_columns()};
    Lanes lanes[VECTORS] = {};
    Running run[VECTORS];
    NextEvents next;
    u64 clock = 0;
    const KeysOnLanes keys(*launch.keys);

    // A thread takes no more trajectories at once than its share of the launch.
    const i64 share = (launch.rows + GLOBAL_SIZE - 1) / GLOBAL_SIZE;
    for (int i = 0; i < LANES_HERE; ++i) {
        Lanes &some = lanes[i / SIMD_LANES];
        some.row[i % SIMD_LANES] = IDLE;
        some.t_next[i % SIMD_LANES] = infinity();
        load_lane(thread, some, i % SIMD_LANES, 0);
        if (i < share) begin_trajectory(thread, some, i / SIMD_LANES, i % SIMD_LANES, clock, 0);
    }
    for (int v = 0; v < VECTORS; ++v) copy_back(run[v], lanes[v]);

    while (thread.busy) {
        if (clock == thread.pause) {
            for (int v = 0; v < VECTORS; ++v) copy_out(run[v], lanes[v]);
            if (!pause_all(thread, lanes, clock)) break;
            for (int v = 0; v < VECTORS; ++v) copy_back(run[v], lanes[v]);
        }
        fill_store(thread, lanes, clock);
        set_times(thread, run, 0, next);
        for (int d = 0; clock < thread.pause;) {
            u32 rare[VECTORS], any = 0;
            UNROLL for (int v = 0; v < VECTORS; ++v) {
                // Total propensities that are zero, infinite or not a number give no positive time.
                rare[v] = ALL_LANES ^ lanes_in_order(next.t[v], run[v].t_next, next.waiting[v]);
                rare[v] |= lanes_over_limit(run[v], lanes[v]);
                any |= rare[v];
            }
            if (!LIKELY(any == 0)) {
                u32 others = 0;
                UNROLL for (int v = 0; v < VECTORS; ++v) {
                    if (rare[v])
                        rare[v] = sample_lanes(thread, run[v], lanes[v], next.t[v], rare[v]);
                    others |= rare[v];
                }
                if (others) {
                    bool anew = false;
                    for (int v = 0; v < VECTORS; ++v) {
                        if (!rare[v]) continue;
                        copy_out(run[v], lanes[v]);
                        anew |= settle(thread, lanes[v], v, rare[v], clock, d);
                        copy_back(run[v], lanes[v]);
                    }
                    if (anew) {
                        if (!thread.busy) break;
                        set_times(thread, run, d, next);
                        continue;
                    }
                }
            }

            const bool last = fire(thread, run, lanes, d, next);
            // Divided early, so that a processor that went the wrong way learns it soon.
            const auto set_next = [&](int step) {
                if (step == TIMES_AT) set_times(thread, run, (d + 1) % STORE, next);
            };
            if (last)
                refill(thread, lanes, keys, clock, d, [&](int step) {
                    after_fire<true>(step, run, lanes), set_next(step);
                });
            else
                refill(thread, lanes, keys, clock, d, [&](int step) {
                    after_fire<false>(step, run, lanes), set_next(step);
                });
            d = (d + 1) % STORE, ++clock;
        }
    }
    atomic_add(launch.work, thread.fired);
}
