// The same method as ode_rk4.cc, one trajectory per thread, with one more warp in each block, which
// writes the samples of the others. All trajectories of a block run through the same spans together.
#include "ode_memory.h"
#include "ode_rk4.h"

typedef Handover<COMPUTE_THREADS> Samplers;

DEVICE void integrate_rows(const OdeJob &job, i64 first, int lane, Samplers &samples,
                           FixedSteps &method) {
    // Lanes beyond the last row repeat it; nothing of theirs is written.
    const bool inside = first + lane < job.rows;
    const i64 row = inside ? first + lane : job.rows - 1;
    Real x[N_VARIABLES + 1] = {}, c[N_CONSTANTS + 1] = {};
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

BLOCK_KERNEL(COMPUTE_THREADS + LANES, LEAST_BLOCKS, ode_threads, ODE_ARGUMENTS, i64 substeps) {
    BLOCK_MEMORY(Real, memory, Samplers::NUMBERS);
    static_assert(Samplers::NUMBERS * (i64)sizeof(Real) <= BLOCK_BYTES, "a block's memory");
    const OdeJob job = ODE_JOB;
    const int thread = THREAD_IN_BLOCK;
    const i64 first_row = BLOCK_ID * COMPUTE_THREADS, row_step = BLOCKS * COMPUTE_THREADS;
    Samplers handed = {memory, 1, COMPUTE_THREADS + LANES, samples_of(job, first_row, row_step), 0};
    if (thread >= COMPUTE_THREADS) {
        write_samples(job, handed, first_row, row_step, thread - COMPUTE_THREADS);
        return;
    }
    FixedSteps method = {substeps, 0};
    for (i64 row = first_row; row < job.rows; row += row_step)
        integrate_rows(job, row, thread, handed, method);
    if (job.steps) atomic_add(job.steps, method.steps);
}
