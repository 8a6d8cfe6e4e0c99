// The same method as ode_rk4.cc, one trajectory per thread, with shared memory for what helps: with
// SHARED_CONSTANTS the constants of trajectories lie there, which leaves registers to variables; with
// WRITER each block has one more warp, which writes the samples of the others, and all trajectories
// of a block run through the same spans together.
#include "ode_memory.h"
#include "ode_rk4.h"

typedef Handover<COMPUTE_THREADS> Samplers;

constexpr int ALL_THREADS = COMPUTE_THREADS + (WRITER ? LANES : 0);
constexpr int HANDED_NUMBERS = WRITER ? Samplers::NUMBERS : 0;
constexpr int BLOCK_NUMBERS =
    HANDED_NUMBERS + (SHARED_CONSTANTS ? N_CONSTANTS * COMPUTE_THREADS : 0);
static_assert(BLOCK_NUMBERS * (i64)sizeof(Real) <= BLOCK_BYTES, "a block's memory");

// A thread's numbers in shared memory, where neighbours lie side by side.
struct SharedNumbers {
    Real *at;
    DEVICE_MEMBER Real &operator[](int i) const { return at[i * COMPUTE_THREADS]; }
};

template <class Constants>
DEVICE void integrate_rows(const OdeJob &job, i64 first, int lane, Constants &c, Samplers &samples,
                           FixedSteps &method) {
    // Lanes beyond the last row repeat it; nothing of theirs is written.
    const bool inside = first + lane < job.rows;
    const i64 row = inside ? first + lane : job.rows - 1;
    Real x[N_VARIABLES + 1] = {};
    Real y[N_VARIABLES + 1], sum[N_VARIABLES + 1];
    begin_trajectory(job, row, x, c);
    u8 ended = ODE_DONE;
    for (i64 span = 0; span < job.n_spans; ++span) {
        const double from = job.begin[span], to = job.end[span];
        if (to > from) {
            fixed_steps(x, y, sum, c, from, to, method.substeps);
            if (inside && ended == ODE_DONE) method.steps += (u64)method.substeps;
        }
        if (!all_finite(x)) ended = ODE_NOT_A_NUMBER;
        if (job.event[span] >= 0) ode_event(job.event[span], x, c, (Real)to);
        if (job.sample[span] < 0) continue;
        Real *own = samples.room() + lane;
        const BufferOut to_buffer = {own, Samplers::PITCH};
        ode_quantities(x, c, (Real)to, to_buffer);
        to_buffer.put(N_QUANTITIES, (Real)(ended != ODE_DONE));
        samples.hand_over();
    }
    if (inside && job.status) job.status[row] = ended;
}

template <class Constants>
DEVICE void integrate_all(const OdeJob &job, i64 first_row, i64 row_step, int thread, Constants &c,
                          Samplers &samples, FixedSteps &method) {
    Real x[N_VARIABLES + 1] = {};
    for (i64 first = first_row; first < job.rows; first += row_step) {
        if constexpr (WRITER) {
            integrate_rows(job, first, thread, c, samples, method);
        } else if (first + thread < job.rows) {
            run_trajectory(job, first + thread, method, x, c);
        }
    }
}

BLOCK_KERNEL(ALL_THREADS, LEAST_BLOCKS, ode_threads, ODE_ARGUMENTS, i64 substeps) {
    BLOCK_MEMORY(Real, memory, BLOCK_NUMBERS);
    const OdeJob job = ODE_JOB;
    const int thread = THREAD_IN_BLOCK;
    const i64 first_row = BLOCK_ID * COMPUTE_THREADS, row_step = BLOCKS * COMPUTE_THREADS;
    Samplers handed = {memory, 1, ALL_THREADS, samples_of(job, first_row, row_step), 0};
    if (thread >= COMPUTE_THREADS) {
        write_samples(job, handed, first_row, row_step, thread - COMPUTE_THREADS);
        return;
    }
    FixedSteps method = {substeps, 0};
    if constexpr (SHARED_CONSTANTS) {
        SharedNumbers c = {memory + HANDED_NUMBERS + thread};
        integrate_all(job, first_row, row_step, thread, c, handed, method);
    } else {
        Real c[N_CONSTANTS + 1] = {};
        integrate_all(job, first_row, row_step, thread, c, handed, method);
    }
    if (job.steps) atomic_add(job.steps, method.steps);
}
