// Exact stochastic simulation, direct method (Gillespie 1977), for networks too large to unroll:
// the network is read from tables, and a team of threads runs one trajectory (see team/team.h). How the
// reaction is found, and by which random numbers: tables/sum_search.h; what it changes:
// tables/event.h, or tables/dense.h for both. A pilot, which counts how often each reaction fires, has a stream of
// its own.
#include "ensemble/control.h"
#include "tables/arguments.h"
#include "model.h"
#include "math/math.h"
#include "device/prelude.h"
#include "random/streams.h"
#include "tables/selector.h"
#include "tables/team_sampling.h"

TEAM_KERNEL(ssa_table, const TableArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const Tables tables = {arguments.whole_tables, arguments.real_tables};
    const i64 n_times = launch.n_times;
    const double *const times = launch.times;
    TEAM_MEMORY(shared, SHARED_DOUBLES);
    State s;
    s.v = {SHARED_PARTS > 0 ? shared : arguments.values + TEAM_OFFSET(N_VALUES)};
    s.top = top_of(s, shared);
    s.x = {SHARED_PARTS > 1 ? (i32 *)(shared + N_VALUES)
                            : arguments.team_counts + TEAM_OFFSET(N_COUNTS)};
    s.n = {(Whole *)(shared + N_VALUES + ROOM_OF_COUNTS), {arguments.whole + TEAM_OFFSET(N_WHOLE)}};
    Selector::Draws draws;
    u64 fired = 0;

    for (;;) {
        const i64 row = team_same(team_leader() ? take_row(launch.control, launch.rows) : 0);
        if (row >= launch.rows) break;
        const Place place = place_in(launch, row);
        s.c = launch.constants + place.input * launch.constants_stride;
        start(tables, launch.initial + place.input * launch.initial_stride, s);
        Selector::begin(draws, s);
        i64 k = 0;
        u64 step = 0;
        double t = 0, sample = n_times > 0 ? times[0] : infinity();
        u8 ended = DONE;
        while (n_times > 0) {
            Selector::Event event(*launch.keys, place, step, draws, s);
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
            if (step >= launch.max_steps ||
                (looks && team_leaves(launch.control, LOOK_EVERY_TEAM, t))) {
                ended = STEP_LIMIT;
                break;
            }
            const i32 reaction = event.reaction(tables);
            if (IS_PILOT && team_leader()) atomic_add(&arguments.firings[reaction], 1);
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
    if (team_leader()) atomic_add(launch.work, fired);
}
