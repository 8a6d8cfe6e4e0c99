// The same method as ode/rk4.cc, one trajectory per thread, with shared memory for what helps: with
// SHARED_CONSTANTS the constants of trajectories lie there, which leaves registers to variables; with
// COUNTS threads count their own samples, and all trajectories of a block run through the same spans
// together.
#include "ode/blocks/count_samples.h"
#include "ode/rk4.h"

constexpr int SAMPLE_NUMBERS = COUNTS ? (N_QUANTITIES + 1) * COMPUTE_THREADS : 0;
constexpr int CONSTANT_NUMBERS = SHARED_CONSTANTS ? N_CONSTANTS * COMPUTE_THREADS : 0;
constexpr int BIN_NUMBERS = BIN_PLANES * COMPUTE_THREADS / (int)sizeof(Real);
constexpr int BLOCK_NUMBERS = SAMPLE_NUMBERS + CONSTANT_NUMBERS + BIN_NUMBERS;
static_assert(BLOCK_NUMBERS * (i64)sizeof(Real) <= BLOCK_BYTES, "a block's memory");

// A thread's numbers in shared memory, where neighbours lie side by side.
struct SharedNumbers {
    Real *at;
    DEVICE_MEMBER Real &operator[](int i) const { return at[i * COMPUTE_THREADS]; }
};

// The buffers for the samples of a block's threads.
struct BlockOut {
    const CountJob &count;
    Real *memory;  // as [quantity][thread]
    u8 *bins;
};

// A thread takes a sample of its own trajectory, to be written or counted.
template <class State, class Constants>
DEVICE void sample_own(const OdeJob &job, i64 first, int thread, i64 k, const State &x,
                       const Constants &c, Real t, bool missing, BlockOut &out) {
    if (job.samples.at) {
        if (!missing && first + thread < job.rows) take_sample(job, first + thread, k, x, c, t);
        return;
    }
    if constexpr (COUNTS) {
        const BufferOut own = {out.memory + thread, COMPUTE_THREADS};
        ode_quantities(x, c, t, own);
        own.put(N_QUANTITIES, (Real)missing);
        bin_sample<1, COMPUTE_THREADS>(job, out.count, out.memory, COMPUTE_THREADS, out.bins, first,
                                       k, thread);
        if (k > 0) count_step<1, COMPUTE_THREADS>(out.count, out.bins, k, thread);
    }
}

template <class Constants>
DEVICE void integrate_rows(const OdeJob &job, i64 first, int lane, Real (&x)[N_VARIABLES + 1],
                           Constants &c, BlockOut &out, FixedSteps &method) {
    // Lanes beyond the last row repeat it; nothing of theirs is written.
    const bool inside = first + lane < job.rows;
    const i64 row = inside ? first + lane : job.rows - 1;
    Real y[N_VARIABLES + 1], sum[N_VARIABLES + 1];
    begin_trajectory(job, row, x, c);
    i64 missing = job.n_spans;  // the span from which on the trajectory has no samples
    for (i64 span = 0; span < job.n_spans; ++span) {
        const double from = job.begin[span], to = job.end[span];
        if (to > from) {
            fixed_steps(x, y, sum, c, from, to, method.substeps);
            if (inside && missing == job.n_spans) method.steps += (u64)method.substeps;
        }
        if (missing == job.n_spans && !all_finite(x)) missing = span;
        if (job.event[span] >= 0) ode_event(job.event[span], x, c, (Real)to);
        const i64 k = job.sample[span];
        if (k < 0) continue;
        sample_own(job, first, lane, k, x, c, (Real)to, missing != job.n_spans, out);
    }
    if (!inside) return;
    miss_samples(job, row, missing);
    if (job.status) job.status[row] = missing == job.n_spans ? ODE_DONE : ODE_NOT_A_NUMBER;
}

template <class Constants>
DEVICE void integrate_all(const OdeJob &job, BlockOut &out, FixedSteps &method, Constants &c) {
    const int thread = THREAD_IN_BLOCK;
    const i64 first_row = BLOCK_ID * COMPUTE_THREADS, row_step = BLOCKS * COMPUTE_THREADS;
    Real x[N_VARIABLES + 1] = {};
    if constexpr (COUNTS) {
        for (i64 first = first_row; first < job.rows; first += row_step)
            integrate_rows(job, first, thread, x, c, out, method);
    } else {
        run_rows(job, first_row + thread, row_step, method, x, c);
    }
}

BLOCK_KERNEL(COMPUTE_THREADS, LEAST_BLOCKS, ode_threads, const BlockArguments arguments) {
    BLOCK_MEMORY(Real, memory, BLOCK_NUMBERS);
    const OdeJob &job = arguments.job;
    BlockOut out = {arguments.count, memory, (u8 *)(memory + SAMPLE_NUMBERS + CONSTANT_NUMBERS)};
    FixedSteps method = {arguments.substeps, 0};
    if constexpr (SHARED_CONSTANTS) {
        SharedNumbers c = {memory + SAMPLE_NUMBERS + THREAD_IN_BLOCK};
        integrate_all(job, out, method, c);
    } else {
        Real c[N_CONSTANTS + 1] = {};
        integrate_all(job, out, method, c);
    }
    if (job.steps) atomic_add(job.steps, method.steps);
}
