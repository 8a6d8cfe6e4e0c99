// Tau-leaping on the SIMD lanes of a CPU core: the same numbers as leaping/tau_leap.cc, in which symbols are explained.
// One trajectory leaps on each lane, and all lanes make a leap together. A trajectory that is to have exact firings
// leaves its lane to another; when enough wait for exact firings, all lanes make these. What is rare on a lane is done
// for it alone, by the functions of one trajectory: a leap that is taken back, very large numbers, limits.
#include "leaping/lanes/firings.h"
#include "model.h"
#include "leaping/lanes/thread.h"

// How many trajectories a thread runs at a time, for the host.
extern "C" __attribute__((visibility("default"))) const int tau_lanes_together = 2 * SIMD_LANES;

// Moves lanes behind the ends of their leaves, after samples there, so that the next plan is for the next leaf.
DEVICE_SELDOM void cross_leaves(Thread &thread, Lanes &lanes, u32 crossing) {
    for (; crossing; crossing &= crossing - 1) {
        const int lane = lowest_bit(crossing);
        const double t = at<double>(lanes.t, lane);
        at<double>(lanes.t_next, lane) = sample_lane<true>(thread, lanes, lane, t);
        if (thread.pool[lanes.place[lane]].k < thread.out.n_times)
            move_lane(thread, lanes, lane, [](Trajectory &moved) { find_leaf(moved); });
    }
}

// Samples and ends of trajectories. Returns the lanes whose plan is to be followed.
DEVICE_SELDOM u32 settle(Thread &thread, Lanes &lanes, const Real &a0, u32 rare) {
    u32 others = lanes.here;
    for (; rare; rare &= rare - 1) {
        const int lane = lowest_bit(rare);
        Trajectory &s = thread.pool[lanes.place[lane]];
        s.steps = at<u64>(lanes.steps, lane), s.attempts = (u32)at<u64>(lanes.attempts, lane);
        const u8 ended = state_of(s, at<const double>(a0, lane), thread.launch.max_steps);
        const double t = at<double>(lanes.t, lane);
        if (ended <= ABSORBED || ended == STEP_LIMIT)
            at<double>(lanes.t_next, lane) = sample_lane<true>(thread, lanes, lane, t);
        if (ended == DONE && s.k < thread.out.n_times) continue;
        others &= ~(1u << lane);
        const int place = store_lane(thread, lanes, lane);
        finish(s, thread.out, s.k == thread.out.n_times ? (u8)DONE : ended);
        thread.empty.push(place);
    }
    return others;
}

// Ends a trajectory in which a count passed its limit, which lanes do not look for. False if none did.
DEVICE_SELDOM bool ended_by_overflow(Thread &thread, int place) {
    Trajectory &s = thread.pool[place];
    if (!s.overflowed) return false;
    goes_on(s, 0.0, thread.out, thread.launch.times, thread.launch.max_steps);
    thread.empty.push(place);
    return true;
}

// A step of one lane alone, from before the leap that was tried.
DEVICE_SELDOM void step_alone(Thread &thread, Lanes &lanes, int lane) {
    const int place = store_lane(thread, lanes, lane);
    Trajectory &s = thread.pool[place];
    double numbers[N_REACTIONS];
    const LaneArray cells = {numbers};
    const Phase next = step(s, cells, thread.keys, thread.out, thread.launch.times,
                            thread.launch.max_steps, thread.tolerance, thread.work);
    if (s.row < 0)
        thread.empty.push(place);
    else if (ended_by_overflow(thread, place))
        return;
    else if (next == EXACT)
        thread.exact.push(place);
    else
        load_lane(thread, lanes, lane, place);
}

// The first of the critical reactions, on lanes where there are some.
struct Critical {
    Real waiting, target;
    Words draws;  // after it was drawn
};

DEVICE Critical draw_critical(const Thread &thread, Lanes &lanes, const PlanOf<Real> &plan) {
    const Mask some = plan.critical > 0.0;
    Critical found = {on_lanes(infinity()), Real{}, lanes.draws};
    if (!(bits_of(some) & lanes.here)) return found;
    Real critical = plan.critical;
    if constexpr (IS_THINNED) {
        const Real limit = plan.limit.time(), left = lanes.t_next - lanes.t;
        set_time<Real>(lanes.c, lanes.t + 0.5 * (limit < left ? limit : left));
        critical = critical_propensity(lanes.x, lanes.c);
    }
    const SeriesOnLanes series = lanes.series(thread.drawing.keys);
    DrawsOnLanes draw;
    draw_together<1>([&](int) -> const SeriesOnLanes & { return series; },
                     [&](int) { return lanes.draws; }, thread.drawing.keys, &draw);
    const Real waiting = exponential_on_lanes(thread.drawing.log_table, draw.waiting) / critical;
    found.waiting = some ? waiting : found.waiting;
    found.target = (draw.unit - 1.0) * critical;
    found.draws += (Words)some & 1ull;
    return found;
}

// A leap of the lanes `leaping`, with the propensities in `first`. Returns the lanes that are to make it alone.
DEVICE u32 leap_together(Thread &thread, Lanes &lanes, const PlanOf<Real> &plan, const Real *first,
                         u32 leaping) {
    // The leap ends at its limit, at the critical firing or at the sample, whichever is first.
    const Critical critical = draw_critical(thread, lanes, plan);
    const Real limit = plan.limit.time();
    Mask fires = critical.waiting < limit;
    Real tau = fires ? critical.waiting : limit;
    const Real end = lanes.t + tau;
    const Mask open = end < lanes.t_next;
    fires = fires & (open | (end == lanes.t_next));
    tau = open ? tau : lanes.t_next - lanes.t;
    const Real t = open ? end : lanes.t_next;
    Real chosen = on_lanes(-1.0);
    const u32 firing = bits_of(fires) & leaping;
    if (firing) {
        const Real channel = choose_critical<Real>(lanes.x, lanes.c, critical.target);
        chosen = fires ? channel : chosen;
    }

    Real x[N_SPECIES > 0 ? N_SPECIES : 1], cells[N_CHANNELS], fired = {};
    UNROLL for (int i = 0; i < N_SPECIES; ++i) x[i] = lanes.x[i];
    const Real *propensities = first;
    u32 good = leaping;
    HalfLeap half;
    NO_UNROLL for (u32 number = 0; number < (u32)HALVES && good; ++number) {
        if (number > 0) {
            if constexpr (IS_THINNED) set_time<Real>(lanes.c, lanes.t + 0.5 * tau);
            const auto possible = second_half(x, lanes.x, lanes.c, first, CellsOnLanes{cells});
            good &= bits_of(possible);
            propensities = cells;
        }
        half.series = series_on_lanes(thread.drawing.keys,
                                      lanes.attempts + ((u64)number | (u64)LEAP_STREAMS << 16),
                                      lanes.c2, lanes.c3);
        good &= draw_half(thread.drawing, half, propensities, 0.5 * tau, good);
        if (number > 0)
            for (u32 rest = firing & good; rest; rest &= rest - 1) {
                const int lane = lowest_bit(rest), channel = (int)at<double>(chosen, lane);
                if (channel >= 0) at<double>(half.number[channel], lane) += 1.0;
            }
        UNROLL for (int j = 0; j < N_CHANNELS; ++j) fired += half.number[j];
        good &= ~bits_of(apply_firings(x, FiringsOfChannels{half.number}));
    }

    const Mask done = lanes_of(good);
    UNROLL for (int i = 0; i < N_SPECIES; ++i) lanes.x[i] = done ? x[i] : lanes.x[i];
    lanes.t = done ? t : lanes.t;
    const Words one = (Words)done & 1ull;
    lanes.steps += one, lanes.attempts += one * (u64)HALVES;
    lanes.draws = done ? critical.draws : lanes.draws;
    thread.work.leaps += (u64)popc(good);
    for (u32 rest = good; rest; rest &= rest - 1)
        thread.work.firings += (u64)at<double>(fired, lowest_bit(rest));
    return leaping ^ good;
}

// Lanes that idle, leap after leap, while trajectories wait for exact firings: then these are made for the few.
constexpr int MOST_IDLE = 2 * SIMD_LANES;

// Leaps until enough trajectories wait for exact firings, or none is left to leap. False: leave the launch.
DEVICE bool leap_all(Thread &thread, Lanes &lanes) {
    const u64 max_steps = thread.launch.max_steps;
    for (int idle = 0; thread.exact.count < EXACT_VECTORS * SIMD_LANES && idle < MOST_IDLE;) {
        for (u32 free = ALL_LANES ^ lanes.here; free; free &= free - 1) {
            const int place = next_to_leap(thread);
            if (place == NONE) break;
            load_lane(thread, lanes, lowest_bit(free), place);
        }
        if (!lanes.here) return true;
        if (thread.exact.count > 0) idle += popc(ALL_LANES ^ lanes.here);
        const double reached = at<double>(lanes.t, lowest_bit(lanes.here));
        if (thread.looks.due() && thread.looks.leave(thread.launch.control, thread.work, reached))
            return false;

        Real first[N_CHANNELS];
        if constexpr (IS_THINNED) {
            u32 crossing = lanes.here & bits_of(lanes.t >= lanes.c[LEAF_AT]);
            while (crossing) {
                cross_leaves(thread, lanes, crossing);
                crossing &= bits_of((lanes.t >= lanes.c[LEAF_AT]) & (lanes.t_next > -infinity()));
            }
            set_time<Real>(lanes.c, lanes.t);
        }
        const PlanOf<Real> plan =
            plan_leap(lanes.x, lanes.c, CellsOnLanes{first}, thread.tolerance);
        const Mask usual = (plan.a0 > 0.0) & (plan.a0 < infinity()) & (lanes.t < lanes.t_next) &
                           (Mask)(lanes.steps < max_steps) &
                           (Mask)(lanes.attempts < (u64)LARGEST_LEAP);
        u32 leaping = lanes.here;
        const u32 rare = leaping & ~bits_of(usual);
        if (rare) leaping = settle(thread, lanes, plan.a0, rare);
        Real longest = plan.limit.time();
        if constexpr (IS_THINNED) {
            const Real leaf = lanes.c[LEAF_LENGTH_AT];
            longest = longest < leaf ? longest : leaf;
        }
        u32 exact = leaping & ~bits_of(longest * plan.a0 >= WORTH_EVENTS);
        leaping ^= exact;
        u32 alone = leaping ? leap_together(thread, lanes, plan, first, leaping) : 0;
        for (; exact; exact &= exact - 1) {
            const int lane = lowest_bit(exact), place = store_lane(thread, lanes, lane);
            ++thread.pool[place].steps;
            thread.exact.push(place);
        }
        for (; alone; alone &= alone - 1) step_alone(thread, lanes, lowest_bit(alone));
    }
    return true;
}

// Whether exact firings of a trajectory need a look at limits.
DEVICE bool near_a_limit(const Trajectory &s, u64 max_steps) {
    return events_before_overflow(Counts{(i32 *)s.x}) < EXACT_EVENTS ||
           max_steps - s.steps < (u64)EXACT_EVENTS || s.attempts >= LARGEST_LEAP ||
           (u32)s.draws > ~0u - EXACT_EVENTS;
}

// Samples before the next events, ends of pieces of the run, after which waiting times continue with other bounds, and
// totals above the limits of pieces.
// Lanes that do not continue leave `lanes.here`. Returns the lanes whose piece is another.
DEVICE_SELDOM u32 sample_exact(const Thread &thread, Lanes &lanes, const Real &a0,
                               const Real &t_event, Real &waiting, u32 rare) {
    u32 crossed = 0;
    for (; rare; rare &= rare - 1) {
        const int lane = lowest_bit(rare);
        const double total = at<const double>(a0, lane);
        if (!(total > 0 && total < infinity()) && !(IS_THINNED && total == 0)) {
            if constexpr (IS_THINNED) at<double>(lanes.t, lane) = not_a_number();
            lanes.here &= ~(1u << lane);
            continue;
        }
        const double t = at<const double>(t_event, lane);
        if constexpr (IS_THINNED) {
            if (total > at<double>(lanes.c[LIMIT_AT], lane)) {
                move_lane(thread, lanes, lane,
                          [&](Trajectory &moved) { refine_piece(moved, total); });
                crossed |= 1u << lane;
                continue;
            }
            const double end = at<double>(lanes.c[PIECE_AT], lane);
            if (t > end) {
                const double next = sample_lane<false>(thread, lanes, lane, end);
                if (next > -infinity()) {
                    at<double>(waiting, lane) = rest_of_waiting(
                        at<double>(waiting, lane), total, end - at<double>(lanes.t, lane));
                    move_lane(thread, lanes, lane, [](Trajectory &moved) { cross_piece(moved); });
                    crossed |= 1u << lane;
                } else {
                    lanes.here &= ~(1u << lane);
                }
                continue;
            }
        }
        if (t <= at<double>(lanes.t_next, lane)) continue;
        const double next = sample_lane<false>(thread, lanes, lane, t);
        at<double>(lanes.t_next, lane) = next;
        if (!(next > -infinity())) lanes.here &= ~(1u << lane);
    }
    return crossed;
}

// A vector of trajectories with exact firings, and draws of the next.
struct ExactFirings {
    static constexpr int TOGETHER = 4;
    Real x[N_SPECIES > 0 ? N_SPECIES : 1], a[N_REACTIONS], cumulative[N_REACTIONS], t;
    DrawsOnLanes draws[TOGETHER];
};

DEVICE void draw_exact(const Thread &thread, const Lanes &lanes, int first, ExactFirings &exact) {
    constexpr int TOGETHER = ExactFirings::TOGETHER;
    const SeriesOnLanes series = lanes.series(thread.drawing.keys);
    draw_together<TOGETHER>([&](int) -> const SeriesOnLanes & { return series; },
                            [&](int d) { return lanes.draws + (u64)(first + d); },
                            thread.drawing.keys, exact.draws);
    UNROLL for (int d = 0; d < TOGETHER; ++d) exact.draws[d].waiting =
        exponential_on_lanes(thread.drawing.log_table, exact.draws[d].waiting);
}

// The firing of draw `d`, which is number `made` of the trajectories, on the lanes `lanes.here`.
DEVICE void fire_once(Thread &thread, Lanes &lanes, ExactFirings &exact, int d, int made) {
    Real a0, t_event;
    for (u32 crossed = ALL_LANES; crossed;) {
        crossed = 0;
        a0 = exact.cumulative[N_REACTIONS - 1];
        const Real waiting = exact.draws[d].waiting / a0;
        t_event = exact.t + waiting;
        u32 rare = ~lanes_in_order(t_event, lanes.t_next, waiting);
        if constexpr (IS_THINNED) rare |= bits_of(a0 > lanes.c[LIMIT_AT]);
        rare &= lanes.here;
        if (!rare) break;
        UNROLL for (int k = 0; k < N_SPECIES; ++k) lanes.x[k] = exact.x[k];
        lanes.t = exact.t;
        const u32 before = lanes.here;
        crossed = sample_exact(thread, lanes, a0, t_event, exact.draws[d].waiting, rare);
        const u32 ended = before ^ lanes.here;
        for (u32 rest = ended; rest; rest &= rest - 1) {
            const int lane = lowest_bit(rest), place = lanes.place[lane];
            store_lane(thread, lanes, lane);
            Trajectory &s = thread.pool[place];
            s.steps += (u64)made, s.draws += (u64)made;
            thread.ready.push(place);
        }
        if (IS_THINNED && crossed) {
            exact.t = lanes.t;
            all_propensities(exact.x, lanes.c, exact.a, exact.cumulative);
        }
    }
    if constexpr (IS_THINNED) {
        lanes.c[TIME_AT] = t_event;
        propensities_now(exact.x, lanes.c, exact.cumulative);
        const Real now = exact.cumulative[N_REACTIONS - 2];
        const Mask known = (now >= 0.0) & (now <= a0 * BOUND_HOLDS);
        t_event = known ? t_event : on_lanes(not_a_number());
    }
    const Real target = fused(exact.draws[d].unit, a0, -a0);
    fire_together(target, exact.x, lanes.c, exact.a, exact.cumulative);
    exact.t = t_event;
}

// Exact firings of all lanes; afterwards none has a trajectory.
DEVICE void fire_exactly(Thread &thread, Lanes *vectors) {
    constexpr int TOGETHER = ExactFirings::TOGETHER;
    static_assert(EXACT_EVENTS % TOGETHER == 0);
    ExactFirings exact[EXACT_VECTORS];
    u32 here = 0;
    for (int v = 0; v < EXACT_VECTORS; ++v) {
        UNROLL for (int i = 0; i < N_SPECIES; ++i) exact[v].x[i] = vectors[v].x[i];
        exact[v].t = vectors[v].t;
        all_propensities(exact[v].x, vectors[v].c, exact[v].a, exact[v].cumulative);
        here |= vectors[v].here;
    }
    u64 fired = 0;
    for (int i = 0; i < EXACT_EVENTS && here; i += TOGETHER) {
        for (int v = 0; v < EXACT_VECTORS; ++v)
            if (vectors[v].here) draw_exact(thread, vectors[v], i, exact[v]);
        NO_UNROLL for (int d = 0; d < TOGETHER && here; ++d) {
            here = 0;
            UNROLL for (int v = 0; v < EXACT_VECTORS; ++v) {
                if (vectors[v].here) fire_once(thread, vectors[v], exact[v], d, i + d);
                here |= vectors[v].here;
                fired += (u64)popc(vectors[v].here);
            }
        }
    }
    for (int v = 0; v < EXACT_VECTORS; ++v) {
        Lanes &lanes = vectors[v];
        UNROLL for (int i = 0; i < N_SPECIES; ++i) lanes.x[i] = exact[v].x[i];
        lanes.t = exact[v].t;
        lanes.steps += (u64)EXACT_EVENTS, lanes.draws += (u64)EXACT_EVENTS;
        for (u32 rest = lanes.here; rest; rest &= rest - 1)
            thread.ready.push(store_lane(thread, lanes, lowest_bit(rest)));
    }
    thread.work.exact += fired, thread.work.firings += fired;
}

// Exact firings of trajectories that wait for them.
DEVICE_SELDOM void exact_all(Thread &thread, Lanes *vectors) {
    const u64 max_steps = thread.launch.max_steps;
    int taken = 0;
    while (taken < EXACT_VECTORS * SIMD_LANES && thread.exact.count > 0) {
        const int place = thread.exact.pop();
        Trajectory &s = thread.pool[place];
        if (!near_a_limit(s, max_steps)) {
            find_piece(s);
            load_lane(thread, vectors[taken / SIMD_LANES], taken % SIMD_LANES, place);
            ++taken;
            continue;
        }
        double numbers[N_REACTIONS];
        const LaneArray cells = {numbers};
        exact_events(s, cells, thread.keys, thread.out, thread.launch.times, max_steps, thread.work);
        if (!ended_by_overflow(thread, place)) thread.ready.push(place);
    }
    if (taken > 0) fire_exactly(thread, vectors);
}

struct LaneLeapArguments {
    EnsembleArguments launch;
    double epsilon;  // bound on the expected relative change of a propensity in a leap
};

KERNEL(tau_lanes, const LaneLeapArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const i64 share = (launch.rows + GLOBAL_SIZE - 1) / GLOBAL_SIZE;
    Trajectory pool[POOL];
    Thread thread = {launch, *launch.keys, recorder_of(launch),
                     tolerance_of(arguments.epsilon), {KeysOnLanes(*launch.keys), log_columns()},
                     pool, share < POOL ? (int)share : POOL};
    for (int place = 0; place < POOL; ++place) thread.empty.push(place);
    Lanes leaping = {}, exact[EXACT_VECTORS] = {};
    leaping.end_at = LEAF_AT;
    for (Lanes &lanes : exact) lanes.end_at = PIECE_AT;
    while (leap_all(thread, leaping)) {
        if (thread.exact.count == 0 && !leaping.here) break;
        exact_all(thread, exact);
    }
    add_work(launch.work, thread.work);
}
