// The functions that generated equations call, in both precisions. Single precision takes the portable functions
// of doubles and rounds once more: the same bits on every device, and errors below one unit.
#pragma once

#include "math/math.h"

DEVICE float fused(float a, float b, float c) {
    return FMA_SINGLE(a, b, c);
}

DEVICE double root(double a) {
    return SQRT(a);
}

DEVICE float root(float a) {
    return SQRT_SINGLE(a);
}

DEVICE double reciprocal(double a) {
    return 1.0 / a;
}

#define OF_SINGLE(name) \
    DEVICE float name(float a) { \
        return (float)name((double)a); \
    }
#define OF_SINGLES(name) \
    DEVICE float name(float a, float b) { \
        return (float)name((double)a, (double)b); \
    }

OF_SINGLE(tl_exp)
OF_SINGLE(tl_log)
OF_SINGLE(tl_log10)
OF_SINGLE(tl_cbrt)
OF_SINGLE(tl_abs)
OF_SINGLE(tl_floor)
OF_SINGLE(tl_ceil)
OF_SINGLE(tl_sin)
OF_SINGLE(tl_cos)
OF_SINGLE(tl_tan)
OF_SINGLE(tl_asin)
OF_SINGLE(tl_acos)
OF_SINGLE(tl_atan)
OF_SINGLE(tl_sinh)
OF_SINGLE(tl_cosh)
OF_SINGLE(tl_tanh)
OF_SINGLES(tl_pow)
OF_SINGLES(tl_min)
OF_SINGLES(tl_max)

#undef OF_SINGLE
#undef OF_SINGLES
