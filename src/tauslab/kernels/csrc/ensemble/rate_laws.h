// Small pieces that generated rate laws are made of.
#pragma once

#include "device/nothing.h"

// Laws are templates over the type of a count. One trajectory has counts of 32 bits, and its laws give
// doubles; several on the lanes of a CPU core have vectors of doubles for both: simd/lanes.h.
template <class Count>
struct QuantityOf {
    typedef Count type;
};
template <>
struct QuantityOf<i32> {
    typedef double type;
};
template <class Count>
using Quantity = typename QuantityOf<Count>::type;

// A count as what laws compute with.
DEVICE double quantity(i32 count) {
    return (double)count;
}
// Of any other type only as declared elsewhere: never by way of 32 bits.
template <class Other>
DEVICE double quantity(Other) = delete;

DEVICE double square_root(double a) {
    return SQRT(a);
}

// A number that is the same for all trajectories, or is one for each already.
template <class Count, class Value>
DEVICE Quantity<Count> same(Value value) {
    if constexpr (sizeof(Value) == sizeof(Quantity<Count>))
        return value;
    else
        return value - Quantity<Count>{};  // x - 0 is x, also for x = -0
}

// A change of a count that is the same for all trajectories.
template <class Count>
DEVICE Count whole(i32 change) {
    if constexpr (sizeof(Count) == sizeof(i32))
        return change;
    else
        return same<Count>((double)change);
}

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
template <class Real>
DEVICE Real not_negative(Real propensity) {
    return propensity >= 0 ? propensity : from_bits(0x7ff8000000000000ull);
}

// The lesser of `least` and how often a count can grow by `by` before it passes its limit.
DEVICE i64 fewer_events(i64 least, double count, i32 by) {
    const i64 room = 2147483647 - (i64)count;
    const i64 events = room < 0 ? -1 : room / by;
    return events < least ? events : least;
}

// x to a whole power by repeated squaring; the order of the products is part of the result.
template <int POWER, class Real>
DEVICE Real tl_whole_power(Real x) {
    if constexpr (POWER < 0) {
        return 1.0 / tl_whole_power<-POWER>(x);
    } else if constexpr (POWER == 0) {
        return 1.0 - Real{};
    } else if constexpr (POWER == 1) {
        return x;
    } else {
        const Real half = tl_whole_power<POWER / 2>(x);
        if constexpr (POWER % 2 == 0)
            return half * half;
        else
            return half * half * x;
    }
}
