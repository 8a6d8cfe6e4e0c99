// What generated laws (model.h) call, on SIMD lanes. Functions are those of math/math.h, lane by lane.
#pragma once

#include "math/math.h"
#include "simd/lanes.h"

// A count on lanes is a double, exact up to 2^53.
DEVICE Real quantity(const Real &count) {
    return count;
}

DEVICE Real plus(const Real &count, const Real &change) {
    return count + change;
}

#if SIMD_LANES > 1
#define FUNCTION_ON_LANES(name) \
    DEVICE_SHARED Real name(Real a) { \
        return each_lane(a, [](double x) { return name(x); }); \
    }
#define FUNCTION_OF_TWO_ON_LANES(name) \
    DEVICE_SHARED Real name(Real a, Real b) { \
        return each_lane(a, b, [](double x, double y) { return name(x, y); }); \
    } \
    DEVICE Real name(Real a, double b) { \
        return name(a, on_lanes(b)); \
    } \
    DEVICE Real name(double a, Real b) { \
        return name(on_lanes(a), b); \
    }

FUNCTION_ON_LANES(tl_exp)
FUNCTION_ON_LANES(tl_log)
FUNCTION_ON_LANES(tl_log10)
FUNCTION_ON_LANES(tl_cbrt)
FUNCTION_ON_LANES(tl_abs)
FUNCTION_ON_LANES(tl_floor)
FUNCTION_ON_LANES(tl_ceil)
FUNCTION_ON_LANES(tl_sin)
FUNCTION_ON_LANES(tl_cos)
FUNCTION_ON_LANES(tl_tan)
FUNCTION_ON_LANES(tl_asin)
FUNCTION_ON_LANES(tl_acos)
FUNCTION_ON_LANES(tl_atan)
FUNCTION_ON_LANES(tl_sinh)
FUNCTION_ON_LANES(tl_cosh)
FUNCTION_ON_LANES(tl_tanh)
FUNCTION_OF_TWO_ON_LANES(tl_pow)
FUNCTION_OF_TWO_ON_LANES(tl_min)
FUNCTION_OF_TWO_ON_LANES(tl_max)

#undef FUNCTION_ON_LANES
#undef FUNCTION_OF_TWO_ON_LANES
#endif
