// The pair 5(4) of Dormand & Prince (1980): steps adapt, the last stage is the first of the next.
#include "ode_control.h"

struct DormandPrince {
    static constexpr double ORDER = 5;
    Tolerance allowed;
    u64 most;
    u64 made, rejected, before;
    double step;
    bool fresh;  // whether d0 is not known
    Real d0[N_VARIABLES + 1];

    DEVICE_MEMBER void start() { step = 0, fresh = true, before = made + rejected; }
    DEVICE_MEMBER void restart() { step = 0, fresh = true; }
    DEVICE_MEMBER double begin(const Real *x, const Real *c, double t, double span) {
        ode_rates(x, c, (Real)t, d0);
        fresh = false;
        return first_step(x, d0, allowed, span);
    }
    DEVICE_MEMBER double attempt(Real *x, const Real *c, double t, double h, double end);
};

DEVICE_MEMBER double DormandPrince::attempt(Real *x, const Real *c, double t, double h,
                                            double end) {
    Real d1[N_VARIABLES + 1], d2[N_VARIABLES + 1], d3[N_VARIABLES + 1], d4[N_VARIABLES + 1];
    Real d5[N_VARIABLES + 1], y[N_VARIABLES + 1];
    if (fresh) ode_rates(x, c, (Real)t, d0), fresh = false;
    const Real step = (Real)h;
    for (int i = 0; i < N_VARIABLES; ++i) y[i] = fused(step, d0[i] * (Real)(1.0 / 5), x[i]);
    ode_rates(y, c, (Real)(t + h / 5), d1);
    for (int i = 0; i < N_VARIABLES; ++i)
        y[i] = fused(step, fused((Real)(9.0 / 40), d1[i], (Real)(3.0 / 40) * d0[i]), x[i]);
    ode_rates(y, c, (Real)(t + h * 0.3), d2);
    for (int i = 0; i < N_VARIABLES; ++i) {
        const Real sum = fused((Real)(-56.0 / 15), d1[i], (Real)(44.0 / 45) * d0[i]);
        y[i] = fused(step, fused((Real)(32.0 / 9), d2[i], sum), x[i]);
    }
    ode_rates(y, c, (Real)(t + h * 0.8), d3);
    for (int i = 0; i < N_VARIABLES; ++i) {
        Real sum = fused((Real)(-25360.0 / 2187), d1[i], (Real)(19372.0 / 6561) * d0[i]);
        sum = fused((Real)(64448.0 / 6561), d2[i], sum);
        y[i] = fused(step, fused((Real)(-212.0 / 729), d3[i], sum), x[i]);
    }
    ode_rates(y, c, (Real)(t + h * (8.0 / 9)), d4);
    for (int i = 0; i < N_VARIABLES; ++i) {
        Real sum = fused((Real)(-355.0 / 33), d1[i], (Real)(9017.0 / 3168) * d0[i]);
        sum = fused((Real)(46732.0 / 5247), d2[i], sum);
        sum = fused((Real)(49.0 / 176), d3[i], sum);
        y[i] = fused(step, fused((Real)(-5103.0 / 18656), d4[i], sum), x[i]);
    }
    ode_rates(y, c, (Real)end, d5);
    for (int i = 0; i < N_VARIABLES; ++i) {
        Real sum = fused((Real)(500.0 / 1113), d2[i], (Real)(35.0 / 384) * d0[i]);
        sum = fused((Real)(125.0 / 192), d3[i], sum);
        sum = fused((Real)(-2187.0 / 6784), d4[i], sum);
        y[i] = fused(step, fused((Real)(11.0 / 84), d5[i], sum), x[i]);
    }
    ode_rates(y, c, (Real)end, d1);  // of the new point
    ErrorNorm norm = {allowed, 0};
    for (int i = 0; i < N_VARIABLES; ++i) {
        Real sum = fused((Real)(-71.0 / 16695), d2[i], (Real)(71.0 / 57600) * d0[i]);
        sum = fused((Real)(71.0 / 1920), d3[i], sum);
        sum = fused((Real)(-17253.0 / 339200), d4[i], sum);
        sum = fused((Real)(22.0 / 525), d5[i], sum);
        norm.add(step * fused((Real)(-1.0 / 40), d1[i], sum), x[i], y[i]);
    }
    const double error = norm.value();
    if (error <= 1.0)
        for (int i = 0; i < N_VARIABLES; ++i) x[i] = y[i], d0[i] = d1[i];
    return error;
}

KERNEL(ode_dopri5, ODE_ARGUMENTS, double relative, double absolute, u64 most) {
    const OdeJob job = ODE_JOB;
    DormandPrince method = {{relative, absolute}, most, 0, 0, 0, 0, true, {}};
    take_turns(job, method);
}
