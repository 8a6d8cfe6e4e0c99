// The same method as ode/rk4.cc with the equations of a trajectory spread over WARPS warps: all
// lanes of a warp run the same equations for different trajectories.
//
// Each variable belongs to one warp, which keeps it and the sum of its rates in registers. What
// equations read lies in shared memory as [variable][lane], so that lanes never share a bank; it is
// there twice, read from one copy and written to the other, so that a stage needs one barrier. The
// 32 trajectories of a block run through the same spans together. The operations on a variable and
// their order are those of ode/rk4.cc.
#include "ode/blocks/count_samples.h"
#include "ode/rk4.h"

constexpr int ALL_THREADS = LANES * WARPS;
constexpr int BLOCK_NUMBERS = (2 * N_VARIABLES + N_CONSTANTS) * LANES;
static_assert(!COUNTS, "samples of several warps are not counted");
static_assert(BLOCK_NUMBERS * (i64)sizeof(Real) <= BLOCK_BYTES, "a block's memory");

// A lane's numbers in shared memory.
struct LaneNumbers {
    Real *at;
    DEVICE_MEMBER Real &operator[](int i) const { return at[i * LANES]; }
};

struct GroupWork {
    const OdeJob &job;
    i64 substeps;
    Real *memory;
    int warp, lane;
    u64 steps;

    DEVICE_MEMBER LaneNumbers copy(int which) const {
        return {memory + which * N_VARIABLES * LANES + lane};
    }
    DEVICE_MEMBER LaneNumbers constants() const {
        return {memory + 2 * N_VARIABLES * LANES + lane};
    }
    DEVICE_MEMBER void wait() const { BARRIER_WAIT(1, ALL_THREADS); }

    // From the state in copy 0 and `x` to the next one in both.
    template <int G>
    DEVICE_MEMBER void step(Real *x, double t, const StepSize &by) const {
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
    DEVICE_MEMBER void begin(i64 row, Real *x) const {
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
    DEVICE_MEMBER void event(int number, Real *x, Real t) const {
        LaneNumbers state = copy(0);
        wait();
        if (G == 0) ode_event(number, state, constants(), t);
        wait();
        Group<G>::load(state, x);
    }

    template <int G>
    DEVICE_MEMBER void sample(i64 row, i64 k, Real t) const {
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
    DEVICE_MEMBER void trajectories(i64 first_row) {
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
            if (job.sample[span] >= 0 && inside && missing == job.n_spans)
                sample<G>(row, job.sample[span], (Real)to);
        }
        if (G == 0 && inside) {
            miss_samples(job, row, missing);
            if (job.status) job.status[row] = missing == job.n_spans ? ODE_DONE : ODE_NOT_A_NUMBER;
        }
        wait();
    }

    template <int G>
    DEVICE_MEMBER void run() {
        for (i64 first = BLOCK_ID * LANES; first < job.rows; first += BLOCKS * LANES)
            trajectories<G>(first);
    }
};

BLOCK_KERNEL(ALL_THREADS, LEAST_BLOCKS, ode_warps, const BlockArguments arguments) {
    BLOCK_MEMORY(Real, memory, BLOCK_NUMBERS);
    const OdeJob &job = arguments.job;
    const int lane = THREAD_IN_BLOCK % LANES, warp = THREAD_IN_BLOCK / LANES;
    GroupWork work = {job, arguments.substeps, memory, warp, lane, 0};
    run_group(warp, work);
    if (job.steps && warp == 0) atomic_add(job.steps, work.steps);
}
