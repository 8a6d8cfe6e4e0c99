// Exact stochastic simulation, direct method (Gillespie 1977), for networks too large to unroll:
// the network is read from tables, and a team of threads runs one trajectory (see team/team.h). How the
// reaction is found, and by which random numbers: tables/sum_search.h and tables/composition.h; what it changes:
// tables/event.h, or tables/dense.h for both. A pilot, which counts how often each reaction fires, has a stream of
// its own.
#include "ensemble/control.h"
#include "tables/event.h"
#include "model.h"
#include "math/math.h"
#include "device/prelude.h"
#include "random/streams.h"
#include "tables/sum_search.h"
#include "tables/team_sampling.h"

// How many doubles of shared memory the first parts of a team's state take: sums, counts, whole numbers.
constexpr i64 ROOM_OF_COUNTS = (N_COUNTS + 1) / 2;
constexpr i64 ROOM_OF_WHOLE = (FAST_WHOLE * (i64)sizeof(Whole) + 7) / 8;
constexpr i64 FAST_DOUBLES =
    (FAST_PARTS > 0 ? N_VALUES : 0) + (FAST_PARTS > 1 ? ROOM_OF_COUNTS : 0) + ROOM_OF_WHOLE;

#if IS_DENSE
typedef SumSearch Selector;
#else
#include "tables/composition.h"

template <bool GROUPED>
struct SelectorOf {
    typedef SumSearch Type;
};
template <>
struct SelectorOf<true> {
    typedef Composition Type;
};
typedef SelectorOf<(IS_GROUPED > 0)>::Type Selector;
#endif

TEAM_KERNEL(ssa_table, const PhiloxKeys *keys, i64 per_point, i64 before, i64 first, i64 rows,
            const double *times, i64 n_times, const i32 *initial, i64 initial_stride,
            const double *constants, i64 constants_stride, u64 max_steps, u64 *next_row,
            i32 *counts, double *observables, i32 *final_counts, u8 *status, u64 *events,
            const i32 *__restrict__ whole_tables, const double *__restrict__ real_tables,
            double *all_values, i32 *all_counts, Whole *all_whole, [[maybe_unused]] u64 *firings) {
    const Recorder out = {counts, observables, final_counts, status, n_times};
    const Tables tables = {whole_tables, real_tables};
    TEAM_MEMORY(shared, FAST_DOUBLES);
    State s;
    s.v = {FAST_PARTS > 0 ? shared : all_values + TEAM_OFFSET(N_VALUES)};
    s.x = {FAST_PARTS > 1 ? (i32 *)(shared + N_VALUES) : all_counts + TEAM_OFFSET(N_COUNTS)};
    s.n = {(Whole *)(shared + N_VALUES + ROOM_OF_COUNTS), {all_whole + TEAM_OFFSET(N_WHOLE)}};
    Selector::Draws draws;
    u64 fired = 0;

    for (;;) {
        const i64 row = team_same(team_leader() ? take_row(next_row, rows) : 0);
        if (row >= rows) break;
        const Place place = place_of(first, row, per_point, before);
        s.c = constants + place.input * constants_stride;
        start(tables, initial + place.input * initial_stride, s);
        Selector::begin(draws, s);
        i64 k = 0;
        u64 step = 0;
        double t = 0, sample = n_times > 0 ? times[0] : infinity();
        u8 ended = DONE;
        while (n_times > 0) {
            Selector::Event event(*keys, place, step, draws, s);
            double t_event = infinity();
            if (event.total() > 0 && event.total() < infinity()) {
                t_event = t + event.waiting(tables);
            } else {
                ended = event.total() == 0 ? ABSORBED : NOT_A_NUMBER;
                if (ended == NOT_A_NUMBER) break;
            }
            if (sample < t_event) {
                write_counts(tables, s);
                for (; sample < t_event; sample = ++k < n_times ? times[k] : infinity())
                    record_state(tables, out, row, k, s);
                if (k == n_times) break;
            }
            const bool looks = step % LOOK_EVERY_TEAM == LOOK_EVERY_TEAM - 1;
            if (step >= max_steps || (looks && team_leaves(next_row, LOOK_EVERY_TEAM, t))) {
                ended = STEP_LIMIT;
                break;
            }
            const i32 reaction = event.reaction(tables);
            if (IS_PILOT && team_leader()) atomic_add(&firings[reaction], 1);
            t = t_event;
            ++step;
            team_sync();  // all have read what the event will change
            if (!Selector::fire(tables, reaction, s, draws)) {
                ended = OVERFLOWED;
                break;
            }
        }
        write_counts(tables, s);
        record_end(tables, out, row, k, ended, s);
        team_sync();
        fired += step;
    }
    if (team_leader()) atomic_add(events, fired);
}
