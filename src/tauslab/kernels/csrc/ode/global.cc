// The same method as ode/rk4.cc with everything that a trajectory keeps in global memory: the plain
// way, against which layouts are measured. Neighbouring threads have neighbouring numbers.
#include "ode/rk4.h"

constexpr int GLOBAL_NUMBERS = 3 * N_VARIABLES + N_CONSTANTS;

struct GlobalNumbers {
    Real *at;
    DEVICE_MEMBER Real &operator[](int i) const { return at[i * THREAD_STRIDE]; }
};

struct GlobalSteps {
    GlobalNumbers next, sum;
    i64 substeps;
    u64 steps;

    DEVICE_MEMBER void start() const {}
    DEVICE_MEMBER void restart() const {}
    DEVICE_MEMBER u8 advance(GlobalNumbers &x, const GlobalNumbers &c, double from, double to) {
        fixed_steps(x, next, sum, c, from, to, substeps);
        steps += (u64)substeps;
        return ODE_DONE;
    }
};

struct GlobalArguments {
    OdeJob job;
    i64 substeps;  // of a span
    Real *memory;  // [lanes, GLOBAL_NUMBERS]
};

KERNEL(ode_global, const GlobalArguments arguments) {
    const OdeJob &job = arguments.job;
    Real *own = arguments.memory + THREAD_OFFSET(GLOBAL_NUMBERS);
    const i64 variables = (i64)N_VARIABLES * THREAD_STRIDE;
    GlobalNumbers x = {own}, c = {own + 3 * variables};
    GlobalSteps method = {{own + variables}, {own + 2 * variables}, arguments.substeps, 0};
    run_rows(job, GLOBAL_ID, GLOBAL_SIZE, method, x, c);
    if (job.steps) atomic_add(job.steps, method.steps);
}
