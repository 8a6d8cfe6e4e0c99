// The pair 5(4) of Dormand & Prince (1980) with adaptive steps: math/dormand_prince.h. Their k_i are d[i] here.
#include "math/dormand_prince.h"
#include "ode/turns.h"

struct DormandPrince {
    static constexpr double ORDER = 5;
    Tolerance allowed;
    u64 most;
    u64 made = 0, rejected = 0, before = 0;
    double step = 0;
    bool fresh = true;  // whether d[0] is not known
    Real d[STAGES][N_VARIABLES + 1] = {};
    u64 *control = nullptr;

    DEVICE_MEMBER void start() { step = 0, fresh = true, before = made + rejected; }
    DEVICE_MEMBER void restart() { step = 0, fresh = true; }
    DEVICE_MEMBER Time begin(const Real *x, GivenConstants c, Time t, Time span) {
        fresh = false;
        return first_step(x, c, t, span, allowed, ORDER, d[0], d[1], d[2]);
    }
    DEVICE_MEMBER Time attempt(Real *x, GivenConstants c, Time t, Time h, Time end);
#ifdef HAS_PAST
    DEVICE_MEMBER const Real *rates_here() const { return d[0]; }
    DEVICE_MEMBER void from_rates(const Real *f) {
        for (int i = 0; i < N_VARIABLES; ++i) d[0][i] = f[i];
        fresh = false;
    }
    DEVICE_MEMBER void dense(const Real *x, const Real *f, const Real *y, double h,
                             double *to) const;
#endif
};

#ifdef HAS_PAST
// The step from `x` with rates `f` to `y`.
DEVICE_MEMBER void DormandPrince::dense(const Real *x, const Real *f, const Real *y, double h,
                                        double *to) const {
    for (int m = 0; m < N_DELAYED; ++m) {
        const int i = DELAYED[m];
        const double change = y[i] - x[i], bend = fused(h, f[i], -change);
        double last = DENSE[0] * f[i];
        for (int s = 2; s < STAGES; ++s) last = fused(DENSE[s], d[s][i], last);
        double *const a = to + COEFFICIENTS * m;
        a[0] = x[i], a[1] = change, a[2] = bend;
        a[3] = fused(-h, d[STAGES - 1][i], change - bend), a[4] = h * last;
    }
}
#endif

DEVICE_MEMBER Time DormandPrince::attempt(Real *x, GivenConstants c, Time t, Time h, Time end) {
    Real y[N_VARIABLES + 1];
    NO_UNROLL for (int stage = fresh ? 0 : 1; stage < STAGES; ++stage) {
        const int first = stage * (stage - 1) / 2;
        UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) {
            Real sum = number<Real>(0.0);
            for (int s = 0; s < stage; ++s)
                sum = fused(number<Real>(STAGE_STATE[first + s]), d[s][i], sum);
            y[i] = fused((Real)h, sum, x[i]);
        }
        const Time there = stage < 5 ? fused(number<Time>(STAGE_TIME[stage]), h, t) : end;
        ode_rates(y, c, (Real)there, d[stage]);
    }
    ErrorNorm norm = no_error(allowed);
    UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) {
        Real sum = number<Real>(0.0);
        for (int s = 0; s < STAGES; ++s) sum = fused(number<Real>(STAGE_ERROR[s]), d[s][i], sum);
        norm.add((Real)h * sum, x[i], y[i]);
    }
    const Time error = seen_error(norm.value(), x, y, d[0], d[STAGES - 1], c, t, h, end);
    fresh = false;
    const auto good = error <= 1.0;
    if (any_of(good))
        UNROLL_UP_TO_16(N_VARIABLES) for (int i = 0; i < N_VARIABLES; ++i) {
            x[i] = good ? y[i] : x[i];
            d[0][i] = good ? d[STAGES - 1][i] : d[0][i];
        }
    return error;
}

struct AdaptiveArguments {
    OdeJob job;
    double relative, absolute;  // tolerances
    u64 most;                   // steps of a trajectory
    Number *scratch;            // [threads, HISTORY_WORDS] where equations look back
};

TRAJECTORIES_TOGETHER(ode_dopri5)

KERNEL(ode_dopri5, const AdaptiveArguments arguments) {
    const OdeJob &job = arguments.job;
    DormandPrince method = {{arguments.relative, arguments.absolute}, arguments.most};
#ifdef HAS_PAST
    take_turns(job, method, GLOBAL_SIZE, arguments.scratch + THREAD_OFFSET(HISTORY_WORDS));
#else
    take_turns(job, method, GLOBAL_SIZE);
#endif
}
