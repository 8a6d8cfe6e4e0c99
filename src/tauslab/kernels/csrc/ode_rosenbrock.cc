// RODAS (Hairer & Wanner 1996, IV.7): a stiffly accurate Rosenbrock method of order 4 with an
// embedded one of order 3, for stiff equations. Every stage solves (1 / (gamma h) - J) u = r with
// one sparse elimination of the step; pivots are not exchanged, and a step that meets a pivot of
// zero is made again with a smaller h.
#include "ode_control.h"

constexpr double GAMMA = 0.25;
constexpr int STAGES = 6;

struct Tables {
    const i32 *source, *diagonal, *steps, *starts;
};

// Memory of a trajectory in flight, interleaved with others as the device likes it.
struct Cells {
    Real *at;
    DEVICE_MEMBER Real &operator[](i64 i) const { return at[i * THREAD_STRIDE]; }
    DEVICE_MEMBER void put(int i, Real value) const { at[(i64)i * THREAD_STRIDE] = value; }
};

// The matrix shift - J, then its factors in place: below pivots the multipliers, at pivots the
// reciprocals.
DEVICE_SHARED void factorise(const Tables &tables, const Cells &matrix, const Cells &entries,
                             Real shift) {
    for (int k = 0; k < N_CELLS; ++k)
        matrix[k] = tables.source[k] < 0 ? (Real)0 : -entries[tables.source[k]];
    for (int i = 0; i < N_VARIABLES; ++i) matrix[tables.diagonal[i]] += shift;
    const i32 *step = tables.steps;
    for (int i = 0; i < N_VARIABLES; ++i) {
        const int rows = step[2], columns = step[3];
        const i32 *row = step + 4, *column = row + 2 * rows, *cell = column + 2 * columns;
        const Real inverse = (Real)1 / matrix[step[1]];
        matrix[step[1]] = inverse;
        for (int r = 0; r < rows; ++r) {
            const Real factor = matrix[row[2 * r + 1]] * inverse;
            matrix[row[2 * r + 1]] = factor;
            for (int j = 0; j < columns; ++j, ++cell)
                matrix[*cell] = fused(-factor, matrix[column[2 * j + 1]], matrix[*cell]);
        }
        step = cell;
    }
}

DEVICE_SHARED void solve(const Tables &tables, const Cells &matrix, Real *u) {
    for (int i = 0; i < N_VARIABLES; ++i) {
        const i32 *step = tables.steps + tables.starts[i], *row = step + 4;
        for (int r = 0; r < step[2]; ++r)
            u[row[2 * r]] = fused(-matrix[row[2 * r + 1]], u[step[0]], u[row[2 * r]]);
    }
    for (int i = N_VARIABLES - 1; i >= 0; --i) {
        const i32 *step = tables.steps + tables.starts[i], *column = step + 4 + 2 * step[2];
        Real sum = u[step[0]];
        for (int j = 0; j < step[3]; ++j)
            sum = fused(-matrix[column[2 * j + 1]], u[column[2 * j]], sum);
        u[step[0]] = sum * matrix[step[1]];
    }
}

// Coefficients of stage s at earlier ones stand from s (s - 1) / 2 on.
TABLE double STAGE_STATE[15] = {1.544,
                                0.9466785280815826,
                                0.2557011698983284,
                                3.314825187068521,
                                2.896124015972201,
                                0.9986419139977817,
                                1.221224509226641,
                                6.019134481288629,
                                12.53708332932087,
                                -0.6878860361058950,
                                1.221224509226641,
                                6.019134481288629,
                                12.53708332932087,
                                -0.6878860361058950,
                                1.0};
TABLE double STAGE_RATE[15] = {-5.6688,
                               -2.430093356833875,
                               -0.2063599157091915,
                               -0.1073529058151375,
                               -9.594562251023355,
                               -20.47028614809616,
                               7.496443313967647,
                               -10.24680431464352,
                               -33.99990352819905,
                               11.70890893206160,
                               8.083246795921522,
                               -7.981132988064893,
                               -31.52159432874371,
                               16.31930543123136,
                               -6.058818238834054};
TABLE double STAGE_TIME[STAGES] = {0, 0.386, 0.21, 0.63, 1, 1};
TABLE double STAGE_SLOPE[STAGES] = {0.25, -0.1043, 0.1035, -0.0362, 0, 0};

struct Rosenbrock {
    static constexpr double ORDER = 4;
    Tolerance allowed;
    u64 most;
    Tables tables;
    Cells matrix, entries;
    u64 made, rejected, before;
    double step;
    bool fresh;  // whether derivatives are not known
    Real slopes[N_VARIABLES + 1];
    Real u[STAGES][N_VARIABLES + 1];
    u64 *control = nullptr;

    DEVICE_MEMBER void start() { step = 0, fresh = true, before = made + rejected; }
    DEVICE_MEMBER void restart() { step = 0, fresh = true; }
    DEVICE_MEMBER double begin(const Real *x, const Real *c, double t, double span) {
        Real d[N_VARIABLES + 1];
        ode_rates(x, c, (Real)t, d);
        return first_step(x, d, allowed, span);
    }
    DEVICE_MEMBER double attempt(Real *x, const Real *c, double t, double h, double end);
};

DEVICE_MEMBER double Rosenbrock::attempt(Real *x, const Real *c, double t, double h, double end) {
    if (fresh) {
        ode_jacobian(x, c, (Real)t, entries);
        for (int i = 0; i < N_VARIABLES; ++i) slopes[i] = 0;
        if (TIME_ENTERS) ode_time_slopes(x, c, (Real)t, slopes);
        fresh = false;
    }
    factorise(tables, matrix, entries, (Real)(1.0 / (GAMMA * h)));
    Real y[N_VARIABLES + 1], d[N_VARIABLES + 1];
    NO_UNROLL for (int stage = 0; stage < STAGES; ++stage) {
        const int first = stage * (stage - 1) / 2;
        for (int i = 0; i < N_VARIABLES; ++i) {
            y[i] = x[i];
            for (int s = 0; s < stage; ++s)
                y[i] = fused((Real)STAGE_STATE[first + s], u[s][i], y[i]);
        }
        ode_rates(y, c, (Real)(stage < 4 ? FMA(STAGE_TIME[stage], h, t) : end), d);
        const Real slope = (Real)(STAGE_SLOPE[stage] * h);
        for (int i = 0; i < N_VARIABLES; ++i) {
            Real sum = 0;
            for (int s = 0; s < stage; ++s) sum = fused((Real)STAGE_RATE[first + s], u[s][i], sum);
            u[stage][i] = fused(slope, slopes[i], fused((Real)(1.0 / h), sum, d[i]));
        }
        solve(tables, matrix, u[stage]);
    }
    ErrorNorm norm = {allowed, 0};
    for (int i = 0; i < N_VARIABLES; ++i) {
        y[i] += u[STAGES - 1][i];
        norm.add(u[STAGES - 1][i], x[i], y[i]);
    }
    const double error = norm.value();
    if (error <= 1.0) {
        for (int i = 0; i < N_VARIABLES; ++i) x[i] = y[i];
        fresh = true;
    }
    return error;
}

KERNEL(ode_rosenbrock, ODE_ARGUMENTS, double relative, double absolute, u64 most, const i32 *source,
       const i32 *diagonal, const i32 *elimination, const i32 *starts, Real *scratch) {
    const OdeJob job = ODE_JOB;
    Real *const own = scratch + THREAD_OFFSET(N_CELLS + N_ENTRIES);
    Rosenbrock method = {{relative, absolute},
                         most,
                         {source, diagonal, elimination, starts},
                         {own},
                         {own + (i64)N_CELLS * THREAD_STRIDE},
                         0,
                         0,
                         0,
                         0,
                         true,
                         {},
                         {}};
    take_turns(job, method);
}
