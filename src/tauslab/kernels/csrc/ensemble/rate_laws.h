// Small pieces that generated rate laws are made of.
#pragma once

#include "device/prelude.h"

// Count plus change; wraps instead of overflowing, so that the sign tells.
DEVICE i32 plus(i32 count, i32 change) {
    return (i32)((u32)count + (u32)change);
}

// The first reaction whose cumulative propensity exceeds the target.
template <int N>
DEVICE int first_above(const double *cumulative, double target) {
    int reaction = 0;
    UNROLL for (int j = 0; j < N - 1; ++j) reaction += cumulative[j] <= target;
    return reaction;
}

// A negative propensity is an error of the model: NaN ends the trajectory with that status.
DEVICE double not_negative(double propensity) {
    return propensity >= 0 ? propensity : from_bits(0x7ff8000000000000ull);
}

// x to a whole power by repeated squaring; the order of the products is part of the result.
template <int POWER>
DEVICE double tl_whole_power(double x) {
    if constexpr (POWER < 0) {
        return 1.0 / tl_whole_power<-POWER>(x);
    } else if constexpr (POWER == 0) {
        return 1.0;
    } else if constexpr (POWER == 1) {
        return x;
    } else {
        const double half = tl_whole_power<POWER / 2>(x);
        if constexpr (POWER % 2 == 0)
            return half * half;
        else
            return half * half * x;
    }
}
