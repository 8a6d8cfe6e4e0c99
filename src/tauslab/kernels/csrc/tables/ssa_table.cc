// Exact stochastic simulation, direct method (Gillespie 1977), for networks too large to unroll:
// the network is read from tables, and a team of threads runs one trajectory (see team/team.h). How the
// reaction is found, and by which random numbers: tables/selector.h; what it changes:
// tables/firing.h, or tables/dense.h for both; what events do: tables/events/table_stops.h. A pilot, which counts how
// often each reaction fires, has a stream of its own.
#include "ensemble/control.h"
#include "tables/arguments.h"
#include "model.h"
#include "math/math.h"
#include "tables/events/table_stops.h"
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
#ifdef HAS_EVENTS
    s.reals = {arguments.reals + TEAM_OFFSET(N_REALS)};
    Stops stops(EVENTS_OF_TEAM(arguments), WAITING_OF_TEAM(arguments));
#else
    Stops stops;
#endif
    Selector::Draws draws;
    u64 fired = 0;

    for (;;) {
        const i64 row = team_same(team_leader() ? take_row(launch.control, launch.rows) : 0);
        if (row >= launch.rows) break;
        const Place place = place_in(launch, row);
        s.c = launch.constants + place.input * launch.constants_stride;
        i64 k = 0;
        u64 step = 0;  // `fired` less the steps that fire no reaction
        double t = stops.begin(launch, row, place, tables, s, draws);
        double sample = n_times > 0 ? times[0] : infinity();
        u8 ended = stops.begun;
        while (n_times > 0 && ended == DONE) {
            if (stops.due) ended = stops.look(launch, place, tables, s, draws);
            if (ended != DONE) break;
            Selector::Event event(*launch.keys, place, step, draws, s);
            if (!(event.total() >= 0 && event.total() < infinity())) {
                ended = NOT_A_NUMBER;
                break;
            }
            if (stops.refines(event.total(), tables, s, draws)) continue;
            const double t_event = event.total() > 0 ? t + event.waiting(tables) : infinity();
            const double t_next = t_event < stops.next() ? t_event : stops.next();
            if (sample < t_next) {
                write_counts(tables, s);
                for (; sample < t_next; sample = ++k < n_times ? times[k] : infinity()) {
                    stops.set_time(s, sample);
                    record_state(tables, out, row, k, s);
                }
                if (k == n_times) {
                    const bool goes_on =
                        Stops::SOME ? Stops::FOLLOWS || t_next < infinity() : event.total() > 0;
                    ended = goes_on ? DONE : ABSORBED;
                    break;
                }
            }
            const bool leaves = step % LOOK_EVERY_TEAM == LOOK_EVERY_TEAM - 1;
            if (step >= launch.max_steps ||
                (leaves && team_leaves(launch.control, LOOK_EVERY_TEAM, t))) {
                ended = STEP_LIMIT;
                break;
            }
            t = t_next;
            stops.set_time(s, t);
            ++step;
            if (stops.pass(t_event < stops.next())) {
                --fired;
                continue;
            }
            const i32 reaction = event.reaction(tables);
            if (!stops.accepts(*launch.keys, place, step - 1, tables, s, reaction, ended)) {
                --fired;
                continue;
            }
            if (IS_PILOT && team_leader()) atomic_add(&arguments.firings[reaction], 1);
            ended = stops.begin_reaction(tables, s, reaction);
            if (ended != DONE) {
                --fired;
                break;
            }
            team_sync();  // all have read what the firing will change
            if (!Selector::fire(tables, reaction, s, draws)) ended = OVERFLOWED;
        }
        write_counts(tables, s);
        record_end(tables, out, row, k, ended, s);
        stops.keep(launch, row, tables, s, ended, t);
        team_sync();
        fired += step;
    }
    if (team_leader()) atomic_add(launch.work, fired);
}
