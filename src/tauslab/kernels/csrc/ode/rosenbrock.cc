// RODAS (Hairer & Wanner 1996, IV.7): a stiffly accurate Rosenbrock method of order 4 with an embedded method
// of order 3, for stiff equations.
//
//     book                                       here
//     gamma, h                                   GAMMA, the step
//     J                                          entries of the Jacobian, `source` of the tables
//     (1 / (gamma h) I - J) u_i = right side     `factorise` once a step, then a solution for each stage
//     alpha_ij, c_ij (a_ij, c_ij for u_i)        coefficients of the stages, below
//     err                                        the last stage
//
// A step has one sparse elimination. Pivots are not exchanged; a step that meets a pivot of zero is repeated
// with a smaller h. The elimination of a small system stands in `model.h` as statements.
#include "ode/turns.h"

constexpr double GAMMA = 0.25;
constexpr int STAGES = 6;

// Where derivatives go.
struct Into {
    Real *at;
    DEVICE_MEMBER void put(int i, Real value) const { at[i] = value; }
};

#ifdef UNROLLED_ELIMINATION
#define EACH_STAGE UNROLL

struct Elimination {
    Real entries[N_ENTRIES + 1] = {}, cells[N_CELLS] = {};
    DEVICE_MEMBER Into derivatives() { return {entries}; }
    DEVICE_MEMBER void factorise(Real shift) { factorise_unrolled(entries, shift, cells); }
    DEVICE_MEMBER void solve(Real *u) const { solve_unrolled(cells, u); }
};
#else
#define EACH_STAGE NO_UNROLL

// Rows in the order of their pivots; cells of a row side by side: below the diagonal, the diagonal,
// beyond it. `starts` cuts cells into rows, `lower` counts those below the diagonal, `columns` are
// pivots, `source` entries of the Jacobian (-1: none), `order` the variable of a pivot.
struct Tables {
    const i32 *source, *columns, *starts, *lower, *order;
};

// Memory of a trajectory in flight, interleaved with others as the device likes it.
struct Cells {
    Real *at;
    DEVICE_MEMBER Real &operator[](i64 i) const { return at[i * THREAD_STRIDE]; }
    DEVICE_MEMBER void put(int i, Real value) const { at[(i64)i * THREAD_STRIDE] = value; }
};

// The factors of the matrix shift - J, row by row: below the diagonal the multipliers, on it the
// reciprocals of pivots. A derivative that is not finite counts as none: the error of a step tells
// what that costs. `row` is room for N_VARIABLES numbers.
DEVICE_SHARED void factorise(const Tables &tables, const Cells &matrix, const Cells &entries,
                             Real shift, Real *row) {
    const Real zero = number<Real>(0.0);
    for (int i = 0; i < N_VARIABLES; ++i) {
        const int begin = tables.starts[i], end = tables.starts[i + 1];
        const int diagonal = begin + tables.lower[i];
        for (int k = begin; k < end; ++k) {
            const Real entry = tables.source[k] < 0 ? zero : entries[tables.source[k]];
            row[tables.columns[k]] = entry * zero == zero ? -entry : zero;
        }
        row[i] += shift;
        for (int k = begin; k < diagonal; ++k) {
            const int pivot = tables.columns[k];
            const int above = tables.starts[pivot] + tables.lower[pivot];
            const Real factor = row[pivot] * matrix[above];
            matrix[k] = factor;
            for (int j = above + 1; j < tables.starts[pivot + 1]; ++j)
                row[tables.columns[j]] = fused(-factor, matrix[j], row[tables.columns[j]]);
        }
        matrix[diagonal] = number<Real>(1.0) / row[i];
        for (int k = diagonal + 1; k < end; ++k) matrix[k] = row[tables.columns[k]];
    }
}

DEVICE_SHARED void solve(const Tables &tables, const Cells &matrix, Real *u, Real *row) {
    for (int i = 0; i < N_VARIABLES; ++i) {
        const int begin = tables.starts[i];
        Real sum = u[tables.order[i]];
        for (int k = begin; k < begin + tables.lower[i]; ++k)
            sum = fused(-matrix[k], row[tables.columns[k]], sum);
        row[i] = sum;
    }
    for (int i = N_VARIABLES - 1; i >= 0; --i) {
        const int diagonal = tables.starts[i] + tables.lower[i];
        Real sum = row[i];
        for (int k = diagonal + 1; k < tables.starts[i + 1]; ++k)
            sum = fused(-matrix[k], row[tables.columns[k]], sum);
        row[i] = sum * matrix[diagonal];
        u[tables.order[i]] = row[i];
    }
}

struct Elimination {
    Tables tables;
    Cells cells, entries;
    Real row[N_VARIABLES + 1] = {};
    DEVICE_MEMBER const Cells &derivatives() { return entries; }
    DEVICE_MEMBER void factorise(Real shift) { ::factorise(tables, cells, entries, shift, row); }
    DEVICE_MEMBER void solve(Real *u) { ::solve(tables, cells, u, row); }
};
#endif

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

DEVICE Real stage_time(int stage, Time t, Time h, Time end) {
    return (Real)(stage < 4 ? fused(number<Time>(STAGE_TIME[stage]), h, t) : end);
}

struct Rosenbrock {
    static constexpr double ORDER = 4;
    Tolerance allowed;
    u64 most;
    Elimination elimination;
    u64 made = 0, rejected = 0, before = 0;
    double step = 0;
    bool fresh = true;  // whether derivatives are not known
    bool moved = true;  // whether rates are not known
    Real slopes[N_VARIABLES + 1] = {}, rates[N_VARIABLES + 1] = {};
    Real u[STAGES][N_VARIABLES + 1] = {};
    u64 *control = nullptr;

    DEVICE_MEMBER void start() { restart(), before = made + rejected; }
    DEVICE_MEMBER void restart() { step = 0, fresh = moved = true; }
    DEVICE_MEMBER Time begin(const Real *x, GivenConstants c, Time t, Time span) {
        moved = false, fresh = true;
        // Copies: arrays of which the other function takes an address are in no registers.
        Real at[N_VARIABLES + 1], here[N_VARIABLES + 1], there[N_VARIABLES + 1], y[N_VARIABLES + 1];
        for (int i = 0; i < N_VARIABLES; ++i) at[i] = x[i];
        const Time first = first_step(at, c, t, span, allowed, ORDER, here, there, y);
        for (int i = 0; i < N_VARIABLES; ++i) rates[i] = here[i];
        return first;
    }
    DEVICE_MEMBER Time attempt(Real *x, GivenConstants c, Time t, Time h, Time end);
#ifdef HAS_PAST
    DEVICE_MEMBER const Real *rates_here() const { return rates; }
    DEVICE_MEMBER void from_rates(const Real *f) {
        for (int i = 0; i < N_VARIABLES; ++i) rates[i] = f[i];
        moved = false;
    }
    DEVICE_MEMBER void dense(const Real *x, const Real *f, const Real *y, double h,
                             double *to) const;
#endif
};

#ifdef HAS_PAST
// Dense output of order 3, as in the authors' program RODAS: weights of two coefficients, by stage.
TABLE double DENSE[2][STAGES - 1] = {{10.12623508344586, -7.487995877610167, -34.80091861555747,
                                      -7.992771707568823, 1.025137723295662},
                                     {-0.6762803392806898, 6.087714651680015, 16.43084320892478,
                                      24.76722511418386, -6.594389125716872}};

// The step from `x` to `y`.
DEVICE_MEMBER void Rosenbrock::dense(const Real *x, const Real *, const Real *y, double,
                                     double *to) const {
    for (int m = 0; m < N_DELAYED; ++m) {
        const int i = DELAYED[m];
        double *const a = to + COEFFICIENTS * m;
        a[0] = x[i], a[1] = y[i] - x[i], a[2] = a[3] = a[4] = 0;
        for (int s = 0; s < STAGES - 1; ++s) {
            a[2] = fused(DENSE[0][s], u[s][i], a[2]);
            a[3] = fused(DENSE[1][s], u[s][i], a[3]);
        }
    }
}
#endif

DEVICE_MEMBER Time Rosenbrock::attempt(Real *x, GivenConstants c, Time t, Time h, Time end) {
    const Real zero = number<Real>(0.0);
    if (fresh) {
        ode_jacobian(x, c, (Real)t, elimination.derivatives());
        for (int i = 0; i < N_VARIABLES; ++i) slopes[i] = zero;
        if (TIME_ENTERS) ode_time_slopes(x, c, (Real)t, slopes);
        for (int i = 0; i < N_VARIABLES; ++i)
            slopes[i] = slopes[i] * zero == zero ? slopes[i] : zero;
        fresh = false;
    }
    elimination.factorise((Real)(1.0 / (GAMMA * h)));
    Real y[N_VARIABLES + 1], d[N_VARIABLES + 1];
    Time error = number<Time>(0.0);
    // After the last stage comes what the step arrives at. Its rates are those of the next step, and
    // a state that has none is none to go on from.
    EACH_STAGE for (int stage = 0; stage <= STAGES; ++stage) {
        const int first = stage * (stage - 1) / 2;
        if (stage == STAGES) {
            ErrorNorm norm = no_error(allowed);
            UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) {
                y[i] += u[STAGES - 1][i];
                norm.add(u[STAGES - 1][i], x[i], y[i]);
            }
            error = norm.value();
            if (!any_of(error <= 1.0)) return error;
        } else {
            UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) {
                y[i] = x[i];
                for (int s = 0; s < stage; ++s)
                    y[i] = fused(number<Real>(STAGE_STATE[first + s]), u[s][i], y[i]);
            }
        }
        Real *const f = stage == 0 ? rates : d;
        if (stage > 0 || moved) ode_rates(y, c, stage_time(stage, t, h, end), f);
        if (stage == STAGES) break;
        moved = false;
        const Real slope = (Real)(STAGE_SLOPE[stage] * h);
        UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) {
            Real sum = zero;
            for (int s = 0; s < stage; ++s)
                sum = fused(number<Real>(STAGE_RATE[first + s]), u[s][i], sum);
            u[stage][i] = fused(slope, slopes[i], fused((Real)(1.0 / h), sum, f[i]));
        }
        elimination.solve(u[stage]);
    }
    error = are_finite<Real>(d) ? error : number<Time>(tl_nan());
    error = seen_error(error, x, y, rates, d, c, t, h, end);
    const auto good = error <= 1.0;
    if (!any_of(good)) return error;
    UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) {
        x[i] = good ? y[i] : x[i];
        rates[i] = good ? d[i] : rates[i];
    }
    fresh = true;
    return error;
}

struct RosenbrockArguments {
    OdeJob job;
    double relative, absolute;                             // tolerances
    u64 most;                                              // steps of a trajectory
    const i32 *source, *columns, *starts, *lower, *order;  // of the elimination, see above
    Number *scratch;  // [lanes, N_CELLS + N_ENTRIES, and HISTORY_WORDS where equations look back]
};

TRAJECTORIES_TOGETHER(ode_rosenbrock)

KERNEL(ode_rosenbrock, const RosenbrockArguments a) {
    const OdeJob &job = a.job;
#ifdef UNROLLED_ELIMINATION
    Rosenbrock method = {{a.relative, a.absolute}, a.most, {}};
#else
#ifdef HAS_PAST
    constexpr i64 WORDS = N_CELLS + N_ENTRIES + HISTORY_WORDS;
#else
    constexpr i64 WORDS = N_CELLS + N_ENTRIES;
#endif
    Real *const own = own_memory(a.scratch + THREAD_OFFSET(own_numbers(WORDS)));
    Rosenbrock method = {{a.relative, a.absolute},
                         a.most,
                         {{a.source, a.columns, a.starts, a.lower, a.order},
                          {own},
                          {own + (i64)N_CELLS * THREAD_STRIDE}}};
#endif
#ifdef HAS_PAST
    take_turns(job, method, GLOBAL_SIZE, own + (N_CELLS + N_ENTRIES) * THREAD_STRIDE);
#else
    take_turns(job, method, GLOBAL_SIZE);
#endif
}
