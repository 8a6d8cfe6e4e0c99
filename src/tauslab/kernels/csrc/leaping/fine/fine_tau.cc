// Tau-leaping of networks of any size, as in leaping/tau_leap.cc, which has the papers' symbols (on a GPU
// Komarov, D'Souza & Tapia 2012). A cooperative grid of blocks runs one trajectory from start to end, without
// the host. A GPU with room for more grids runs other trajectories in them.
//
// A step: all propensities and the sums of neighbours (`scan`), limits by species, and the choice of the
// leap by the last block that reaches the barrier. Then, for each half of the leap, Poisson numbers by
// reaction and counts by species. If a leap would not pay, the first block does some exact firings instead.
//
// Random numbers are those of leaping/tau_leap.cc; those of a reaction are at the address of its leaf.
#include "leaping/fine/changes.h"
#include "leaping/fine/control.h"
#include "model.h"

constexpr int EXACT_EVENTS = 100;  // after a leap that would not pay

// ------------------------------------------------------------------------------------ samples

template <class Threads>
DEVICE void record_all(const Tables &tables, i32 *cell, const i32 *x, const Threads &threads) {
    threads.each(0, N_RECORDED, [&](i64 i) { cell[i] = x[tables.at(AT_RECORDED, i)]; });
}

// State at sample times `from` to `to`, exclusive.
template <class Threads>
DEVICE void record_states(const Tables &tables, const Recorder &out, i64 row, i64 from, i64 to,
                          const Flight &s, const Threads &threads) {
    for (i64 k = from; k < to; ++k) {
        const i64 sample = row * out.n_times + k;
        if (N_RECORDED > 0 && out.counts)
            record_all(tables, out.counts + sample * N_RECORDED, s.x, threads);
        if (N_OBSERVABLES == 0 || !out.observables) continue;
        threads.each(0, N_OBSERVABLES, [&](i64 i) {
            const bool is_sum = tables.at(AT_SUM_ROW, i) < tables.at(AT_SUM_ROW, i + 1);
            out.observables[sample * N_OBSERVABLES + i] =
                is_sum ? weighted(tables, i, s.x) : general_observable((int)i, s.x, s.c, tables);
        });
    }
}

// The end of a trajectory. One that ended well keeps its state to the last sample.
DEVICE void record_end(const Tables &tables, const Recorder &out, const Control &now,
                       const Flight &s, const CooperativeGrid &grid) {
    const bool valid = now.ended <= ABSORBED;
    if (valid)
        record_states(tables, out, now.row, now.k, out.n_times, s, grid);
    else if (grid.leader())
        record_missing(out, now.row, now.k);
    if (grid.leader() && out.status) out.status[now.row] = (u8)now.ended;
    if (!out.final_counts) return;
    i32 *cell = out.final_counts + now.row * N_RECORDED;
    if (valid)
        record_all(tables, cell, s.x, grid);
    else
        grid.each(0, N_RECORDED, [&](i64 i) { cell[i] = MISSING_COUNT; });
}

// ----------------------------------------------------------------------------- steps, by a grid

// The propensity by which a reaction fires in half of a leap; in the second `s.next` is the state between
// the halves. Negative if there is no such state.
DEVICE double propensity_in_half(const Tables &tables, const Flight &s, i64 leaf, int half) {
    const double before = s.v[leaf];
    if (half == 0 || is_critical(before)) return leaping(before);
    const double between = magnitude(scanned(tables, leaf, s.next, s.c));
    return between < tl_infinity() ? extrapolated(before, between) : -1.0;
}

// Numbers of firings of this thread's reactions; returns what `apply_firings` would.
DEVICE int draw_firings(const Tables &tables, const Flight &s, const Control &now, int half,
                        const EnsembleArguments &launch, const CooperativeGrid &grid, u64 &fired) {
    const PhiloxKeys &keys = *launch.keys;
    const PhiloxSeries series = leap_series(keys, now.id, now.point, now.attempt + (u32)half);
    const double time = 0.5 * now.tau;
    const i32 chosen = half > 0 ? now.chosen : -1;
    int outcome = FITS;
    grid.each(0, N_REACTIONS, [&](i64 leaf) {
        const double mean = propensity_in_half(tables, s, leaf, half) * time;
        i64 number = 0;
        if (mean < 0)
            outcome |= FELL_BELOW_ZERO;
        else if (mean > POISSON_LARGEST_MEAN)
            outcome |= TOO_LARGE;
        else if (mean > 0)
            number = poisson(mean, LeapBits{series, keys, (u32)leaf});
        number += leaf == chosen;
        s.firings[leaf] = number;
        fired += (u64)number;
    });
    return outcome;
}

// Up to 100 exact firings, by one block: its threads follow the same program.
DEVICE void exact_events(const Tables &tables, const Recorder &out, const Flight &flight,
                         Control &control, const EnsembleArguments &launch,
                         const BlockThreads &block) {
    Control s = control;
    for (int i = 0; i < EXACT_EVENTS; ++i) {
        const double a0 = root(tables, flight, ALL);
        if (state_of(s, a0, launch) != DONE) break;
        const Philox4 bits = next_bits(s, launch);
        const double t = s.t + tl_exponential(unit_open_low(bits.x0, bits.x1)) / a0;
        s.sampled = s.k;
        while (s.k < launch.n_times && launch.times[s.k] < t) ++s.k;
        record_states(tables, out, s.row, s.sampled, s.k, flight, block);
        if (s.k == launch.n_times) break;
        const i32 leaf = find(tables, flight, ALL, unit_half_open(bits.x2, bits.x3) * a0);
        block.sync();  // all have read what the firing will change
        if (fire(tables, flight, leaf, block)) control.too_large = 1;
        block.sync();
        s.overflowed = control.too_large;
        s.t = t, ++s.steps, ++s.exact;
    }
    block.sync();
    if (block.leader()) control = s, control.too_large = 0;
}

// Run by one warp of the last block at the barrier; all lanes do the same.
template <class Work>
DEVICE void decide_once(const BlockThreads &block, Control *control, Work work) {
    if (!block.first_warp()) return;
    Control s = *control;
    work(s);
    lanes_sync();
    if (first_lane()) *control = s;
}

// One trajectory. Returns how many reactions fired in leaps of this thread's reactions.
DEVICE u64 run(const Tables &tables, const Recorder &out, Flight s, Control *control,
               const EnsembleArguments &launch, double epsilon, CooperativeGrid &grid) {
    u64 fired = 0;
    const Tolerance tolerance = tolerance_of(epsilon);
    for (;;) {
        scan(tables, s, grid);
        grid.sync();
        const double own = least_limit(tables, s, tolerance, grid);
        grid.least(&control->least, own);
        if (LEVELS > 1) sum_level(tables, s, 2, grid);
        grid.sync_then([&](const BlockThreads &block) {
            for (i32 depth = 3; depth <= LEVELS; ++depth) {
                sum_level(tables, s, depth, block);
                block.sync();
            }
            decide_once(block, control, [&](Control &now) { decide(tables, s, now, launch); });
        });
        record_states(tables, out, control->row, control->sampled, control->k, s, grid);
        if (control->next == FINISH) break;
        while (control->next == LEAP) {
            u64 drawn = 0;
    NO_UNROLL for (int half = 0; half < HALVES; ++half) {
                int outcome = draw_firings(tables, s, *control, half, launch, grid, drawn);
                grid.sync();
                outcome |= change_counts(tables, s, half > 0 ? s.next : s.x, grid);
                if (outcome & FELL_BELOW_ZERO) control->fell = 1;
                if (outcome & TOO_LARGE) control->too_large = 1;
                grid.sync_then([&](const BlockThreads &block) {
                    if (half + 1 < HALVES) return;
                    decide_once(block, control, [&](Control &now) { judge(tables, s, now, launch); });
                });
            }
            if (control->next != SCAN) continue;
            fired += drawn;
            i32 *const before = s.x;
            s.x = s.next, s.next = before;
        }
        if (control->next != EXACT) continue;
        grid.sync();  // samples have been read
        if (grid.first_block()) exact_events(tables, out, s, *control, launch, BlockThreads());
        grid.sync();
    }
    record_end(tables, out, *control, s, grid);
    return fired;
}

BLOCK_KERNEL(BLOCK_SIZE, BLOCKS_PER_MULTIPROCESSOR, fine_tau, const FineTauArguments arguments) {
    const EnsembleArguments &launch = arguments.launch;
    const Recorder out = recorder_of(launch);
    const Tables tables = {arguments.whole_tables, arguments.real_tables};
    u64 *const barriers = arguments.barriers, *const work = launch.work;
    CooperativeGrid grid(GLOBAL_ID, arguments.blocks, barriers);
    static_assert(sizeof(Control) <= 8 * CONTROL_WORDS, "a grid's control has room");
    Control *control = (Control *)(arguments.controls + grid.number * CONTROL_WORDS);
    i32 *const state = arguments.states + grid.number * 2 * N_SPECIES;
    Flight s = {state, state + N_SPECIES, arguments.values + grid.number * N_VALUES,
                arguments.firings + grid.number * N_REACTIONS, launch.constants};
    u64 fired = 0;
    const auto take_next = [&](const BlockThreads &block) {
        decide_once(block, control, [&](Control &now) { begin(now, launch); });
    };
    grid.each(0, N_VALUES, [&](i64 i) { s.v[i] = 0.0; });  // the rest of groups stays zero
    grid.sync_then(take_next);
    while (control->next != QUIT) {
        s.c = launch.constants + control->input * launch.constants_stride;
        const i32 *from = launch.initial + control->input * launch.initial_stride;
        grid.each(0, N_SPECIES, [&](i64 i) { s.x[i] = from[i]; });
        grid.sync();
        fired += run(tables, out, s, control, launch, arguments.epsilon, grid);
        grid.sync_then(take_next);
    }
    if (grid.leader()) {
        fired += control->exact;
        atomic_add(work + 1, control->leaps);
        atomic_add(work + 2, control->exact);
        atomic_add(work + 3, control->halved);
    }
    atomic_add(work, fired);
}
