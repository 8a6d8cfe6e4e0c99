// The same method as ode/rk4.cc with the equations of a trajectory spread over WARPS warps: all
// lanes of a warp run the same equations for different trajectories.
//
// Each variable belongs to one warp, which keeps it and the sum of its rates in registers. What
// equations read lies in shared memory as [variable][lane], so that lanes never share a bank; it is
// there twice, read from one copy and written to the other, so that a stage needs one barrier. The
// 32 trajectories of a group run through the same spans together, and a barrier is that of a group,
// not of the block. The operations on a variable and their order are those of ode/rk4.cc.
//
// With WRITER each group has one more warp, which writes samples or counts them (ode/blocks/memory.h).
#include "ode/blocks/memory.h"
#include "ode/rk4.h"

typedef Handover<LANES> Samplers;

constexpr int GROUP_THREADS = LANES * WARPS;  // that integrate
constexpr int ALL_THREADS = GROUP_THREADS + (WRITER ? LANES : 0);
constexpr int BARRIERS = 1 + (WRITER ? Samplers::BARRIERS : 0);
constexpr int STATE_NUMBERS = (2 * N_VARIABLES + N_CONSTANTS) * LANES;
constexpr int HANDED_NUMBERS = WRITER ? Samplers::NUMBERS : 0;
constexpr int BIN_NUMBERS = BIN_PLANES * LANES / (int)sizeof(Real);
constexpr int GROUP_NUMBERS = STATE_NUMBERS + HANDED_NUMBERS + BIN_NUMBERS;
static_assert(WRITER || !COUNTS, "a warp of its own counts");
static_assert(GROUPS * GROUP_NUMBERS * (i64)sizeof(Real) <= BLOCK_BYTES,
              "a block's memory holds its groups");
static_assert(GROUPS * BARRIERS < 16, "a block has barriers for its groups");

// A lane's numbers in shared memory.
struct LaneNumbers {
    Real *at;
    DEVICE_MEMBER Real &operator[](int i) const { return at[i * LANES]; }
};

struct GroupWork {
    const OdeJob &job;
    i64 substeps;
    Real *memory;
    int warp, lane, group;
    Samplers samples;
    u64 steps;

    DEVICE_MEMBER LaneNumbers copy(int which) const {
        return {memory + which * N_VARIABLES * LANES + lane};
    }
    DEVICE_MEMBER LaneNumbers constants() const {
        return {memory + 2 * N_VARIABLES * LANES + lane};
    }
    DEVICE_MEMBER void wait() const { BARRIER_WAIT(1 + group * BARRIERS, GROUP_THREADS); }

    template <int G>
    DEVICE_MEMBER void run();
    template <int G>
    DEVICE_MEMBER void trajectories(i64 first_row);
    template <int G>
    DEVICE_MEMBER void step(Real *x, double t, const StepSize &by) const;
    template <int G>
    DEVICE_MEMBER void begin(i64 row, Real *x) const;
    template <int G>
    DEVICE_MEMBER void event(int number, Real *x, Real t) const;
    template <int G>
    DEVICE_MEMBER void sample(i64 row, i64 k, Real t) const;
    template <int G>
    DEVICE_MEMBER void hand_over(Real t, bool missing);
};

// From the state in copy 0 and `x` to the next one in both.
template <int G>
DEVICE_MEMBER void GroupWork::step(Real *x, double t, const StepSize &by) const {
    using Own = Group<G>;
    const Real half = by.half, full = by.full, sixth = by.sixth;
    const Real middle = (Real)(t + 0.5 * by.h), last = (Real)(t + by.h);
    const LaneNumbers c = constants(), even = copy(0), odd = copy(1);
    Real d[Own::SIZE + 1], y[Own::SIZE + 1], sum[Own::SIZE + 1];
    Own::rates(even, c, (Real)t, d);
    UNROLL for (int i = 0; i < Own::SIZE; ++i) sum[i] = d[i], y[i] = fused(half, d[i], x[i]);
    Own::store(odd, y);
    wait();
    Own::rates(odd, c, middle, d);
    UNROLL for (int i = 0; i < Own::SIZE; ++i) {
        sum[i] = fused((Real)2, d[i], sum[i]);
        y[i] = fused(half, d[i], x[i]);
    }
    Own::store(even, y);
    wait();
    Own::rates(even, c, middle, d);
    UNROLL for (int i = 0; i < Own::SIZE; ++i) {
        sum[i] = fused((Real)2, d[i], sum[i]);
        y[i] = fused(full, d[i], x[i]);
    }
    Own::store(odd, y);
    wait();
    Own::rates(odd, c, last, d);
    UNROLL for (int i = 0; i < Own::SIZE; ++i) x[i] = fused(sixth, sum[i] + d[i], x[i]);
    Own::store(even, x);
    wait();
}

// The first warp computes constants and initial values of all.
template <int G>
DEVICE_MEMBER void GroupWork::begin(i64 row, Real *x) const {
    const LaneNumbers state = copy(0), shared = constants();
    if (G == 0) {
        Real all[N_VARIABLES + 1] = {}, c[N_CONSTANTS + 1] = {};
        begin_trajectory(job, row, all, c);
        for (int i = 0; i < N_VARIABLES; ++i) state[i] = all[i];
        for (int i = 0; i < N_CONSTANTS; ++i) shared[i] = c[i];
    }
    wait();
    Group<G>::load(state, x);
}

template <int G>
DEVICE_MEMBER void GroupWork::event(int number, Real *x, Real t) const {
    LaneNumbers state = copy(0);
    wait();
    if (G == 0) ode_event(number, state, constants(), t);
    wait();
    Group<G>::load(state, x);
}

template <int G>
DEVICE_MEMBER void GroupWork::sample(i64 row, i64 k, Real t) const {
    const OdeSamples &out = job.samples;
    if (out.at) {
        const SampleOut to = {out.at + row * out.row_stride + k * out.time_stride,
                              out.quantity_stride};
        Group<G>::quantities(copy(0), constants(), t, to);
    }
    if (job.final && k == job.last) {
        const FinalOut to = {job.final + row * job.final_count, job.final_count};
        Group<G>::quantities(copy(0), constants(), t, to);
    }
}

template <int G>
DEVICE_MEMBER void GroupWork::hand_over(Real t, bool missing) {
    Real *own = samples.room() + lane;
    const BufferOut to = {own, Samplers::PITCH};
    Group<G>::quantities(copy(0), constants(), t, to);
    if (G == 0) to.put(N_QUANTITIES, (Real)missing);
    samples.hand_over();
}

template <int G>
DEVICE_MEMBER void GroupWork::trajectories(i64 first_row) {
    // Lanes beyond the last row repeat it, and record nothing.
    const bool inside = first_row + lane < job.rows;
    const i64 row = inside ? first_row + lane : job.rows - 1;
    Real x[Group<G>::SIZE + 1] = {};
    begin<G>(row, x);
    i64 missing = job.n_spans;  // the span from which on this lane's trajectory has no samples
    for (i64 span = 0; span < job.n_spans; ++span) {
        const double from = job.begin[span], to = job.end[span];
        if (to > from) {
            const StepSize by = step_size((to - from) / (double)substeps);
            for (i64 i = 0; i < substeps; ++i) step<G>(x, from + (double)i * by.h, by);
            if (G == 0 && inside && missing == job.n_spans) steps += (u64)substeps;
        }
        if (missing == job.n_spans && !all_finite(copy(0))) missing = span;
        if (job.event[span] >= 0) event<G>(job.event[span], x, (Real)to);
        if (job.sample[span] < 0) continue;
        if constexpr (WRITER) {
            hand_over<G>((Real)to, missing != job.n_spans);
        } else if (inside && missing == job.n_spans) {
            sample<G>(row, job.sample[span], (Real)to);
        }
    }
    if (G == 0 && inside) {
        if (!WRITER) miss_samples(job, row, missing);
        if (job.status) job.status[row] = missing == job.n_spans ? ODE_DONE : ODE_NOT_A_NUMBER;
    }
    wait();
}

template <int G>
DEVICE_MEMBER void GroupWork::run() {
    const i64 stride = BLOCKS * GROUPS * LANES;
    for (i64 first = (BLOCK_ID * GROUPS + group) * LANES; first < job.rows; first += stride)
        trajectories<G>(first);
}

BLOCK_KERNEL(ALL_THREADS *GROUPS, LEAST_BLOCKS, ode_warps, const BlockArguments arguments) {
    BLOCK_MEMORY(Real, memory, GROUPS * GROUP_NUMBERS);
    const OdeJob &job = arguments.job;
    // The number of the barrier is known at compile time if there is one group. A block that may use any
    // barrier reserves all of them, and a multiprocessor has enough for four such blocks.
    const int group = GROUPS == 1 ? 0 : THREAD_IN_BLOCK / ALL_THREADS;
    const int lane = THREAD_IN_BLOCK % LANES;
    const int warp = THREAD_IN_BLOCK % ALL_THREADS / LANES;
    const i64 first_row = (BLOCK_ID * GROUPS + group) * LANES, row_step = BLOCKS * GROUPS * LANES;
    Real *own = memory + group * GROUP_NUMBERS;
    Samplers handed = {own + STATE_NUMBERS, 2 + group * BARRIERS, ALL_THREADS,
                        WRITER ? samples_of(job, first_row, row_step) : 0, 0};
    if (WRITER && warp == WARPS) {
        const CountJob &count = arguments.count;
        u8 *bins = (u8 *)(own + STATE_NUMBERS + HANDED_NUMBERS);
        write_samples(job, count, bins, handed, first_row, row_step, lane);
        return;
    }
    GroupWork work = {job, arguments.substeps, own, warp, lane, group, handed, 0};
    run_group(warp, work);
    if (job.steps && warp == 0) atomic_add(job.steps, work.steps);
}
