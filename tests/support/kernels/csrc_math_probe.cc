// Every portable function over arrays, for tests: `probe` takes arguments from memory,
// `probe_random` makes them from Philox, so that all devices see the same ones.
#include "math/math.h"
#include "device/prelude.h"
#include "random/streams.h"

// clang-format off
enum Function : u32 {
    EXPONENTIAL, LOG, LOG10, LOG1P, EXP, EXPM1, POW, CBRT, SIN, COS, TAN, ASIN, ACOS, ATAN, SINH,
    COSH, TANH, FLOOR, CEIL, ABS, MIN, MAX, ROOT, N_FUNCTIONS
};
// clang-format on

template <u32 FUNCTION>
DEVICE double value_of(double x, [[maybe_unused]] double y) {
    if constexpr (FUNCTION == EXPONENTIAL) return tl_exponential(x);
    if constexpr (FUNCTION == LOG) return tl_log(x);
    if constexpr (FUNCTION == LOG10) return tl_log10(x);
    if constexpr (FUNCTION == LOG1P) return tl_log1p(x);
    if constexpr (FUNCTION == EXP) return tl_exp(x);
    if constexpr (FUNCTION == EXPM1) return tl_expm1(x);
    if constexpr (FUNCTION == POW) return tl_pow(x, y);
    if constexpr (FUNCTION == CBRT) return tl_cbrt(x);
    if constexpr (FUNCTION == SIN) return tl_sin(x);
    if constexpr (FUNCTION == COS) return tl_cos(x);
    if constexpr (FUNCTION == TAN) return tl_tan(x);
    if constexpr (FUNCTION == ASIN) return tl_asin(x);
    if constexpr (FUNCTION == ACOS) return tl_acos(x);
    if constexpr (FUNCTION == ATAN) return tl_atan(x);
    if constexpr (FUNCTION == SINH) return tl_sinh(x);
    if constexpr (FUNCTION == COSH) return tl_cosh(x);
    if constexpr (FUNCTION == TANH) return tl_tanh(x);
    if constexpr (FUNCTION == FLOOR) return tl_floor(x);
    if constexpr (FUNCTION == CEIL) return tl_ceil(x);
    if constexpr (FUNCTION == ABS) return tl_abs(x);
    if constexpr (FUNCTION == MIN) return tl_min(x, y);
    if constexpr (FUNCTION == MAX) return tl_max(x, y);
    if constexpr (FUNCTION == ROOT) {
        const double root = SQRT(x);
        return is_nan(root) ? tl_nan() : root;
    }
}

// Arguments number i: one half with any bits, one half in a range where the function lives.
template <u32 FUNCTION>
DEVICE double random_value(i64 i) {
    const TrajectoryStream stream = trajectory_stream(20, STREAM_PILOT, (u64)FUNCTION, 0);
    const Philox4 bits = draw(stream, (u64)i);
    if constexpr (FUNCTION == EXPONENTIAL) {
        return tl_exponential(unit_open_low(bits.x0, bits.x1));
    } else {
        const double unit = unit_half_open(bits.x0, bits.x1);
        const double other = unit_half_open(bits.x2, bits.x3);
        if (i & 1) {
            const u64 x = (u64)bits.x0 << 32 | bits.x1;
            const u64 y = (u64)bits.x2 << 32 | bits.x3;
            return value_of<FUNCTION>(from_bits(x), from_bits(y));
        }
        if constexpr (FUNCTION == ASIN || FUNCTION == ACOS)
            return value_of<FUNCTION>(2.0 * unit - 1.0, other);
        if constexpr (FUNCTION == LOG || FUNCTION == LOG10 || FUNCTION == POW)
            return value_of<FUNCTION>(4.0 * unit, 80.0 * (other - 0.5));
        return value_of<FUNCTION>(80.0 * (unit - 0.5), 80.0 * (other - 0.5));
    }
}

// Calls `task` with FUNCTION for the chosen function, which is unpacked before any loop.
template <u32 FUNCTION, class Task>
DEVICE void dispatch(u32 function, const Task &task) {
    if (function == FUNCTION) task.template run<FUNCTION>();
    if constexpr (FUNCTION + 1 < N_FUNCTIONS) dispatch<FUNCTION + 1>(function, task);
}

struct GivenArguments {
    i64 begin, stride, n;
    const double *x, *y;
    double *out;
    template <u32 FUNCTION>
    DEVICE_MEMBER void run() const {
        for (i64 i = begin; i < n; i += stride) out[i] = value_of<FUNCTION>(x[i], y[i]);
    }
};

struct RandomArguments {
    i64 begin, stride, n, first;
    double *out;
    template <u32 FUNCTION>
    DEVICE_MEMBER void run() const {
        for (i64 i = begin; i < n; i += stride) out[i] = random_value<FUNCTION>(first + i);
    }
};

KERNEL(probe, u32 function, i64 n, const double *x, const double *y, double *out) {
    dispatch<0>(function, GivenArguments{GLOBAL_ID, GLOBAL_SIZE, n, x, y, out});
}

// out[i] = the function of arguments number first + i
KERNEL(probe_random, u32 function, i64 first, i64 n, double *out) {
    dispatch<0>(function, RandomArguments{GLOBAL_ID, GLOBAL_SIZE, n, first, out});
}

// Four words per row of six: counter 0..3, key 0..1.
KERNEL(probe_philox, i64 n, const u32 *rows, u32 *out) {
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        const u32 *r = rows + 6 * i;
        const Philox4 x = philox4x32_10(r[0], r[1], r[2], r[3], r[4], r[5]);
        out[4 * i] = x.x0, out[4 * i + 1] = x.x1, out[4 * i + 2] = x.x2, out[4 * i + 3] = x.x3;
    }
}

// Draw and uniform numbers of one address: seed, stream, trajectory, point, number.
KERNEL(probe_draw, u64 seed, u32 stream, u64 trajectory, u32 point, u64 number, u32 *out) {
    const Philox4 x = draw(trajectory_stream(seed, stream, trajectory, point), number);
    if (GLOBAL_ID == 0) out[0] = x.x0, out[1] = x.x1, out[2] = x.x2, out[3] = x.x3;
}

// Both uniform conversions of 64 random bits.
KERNEL(probe_unit, i64 n, const u64 *bits, double *open_low, double *half_open) {
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) {
        open_low[i] = unit_open_low((u32)(bits[i] >> 32), (u32)bits[i]);
        half_open[i] = unit_half_open((u32)(bits[i] >> 32), (u32)bits[i]);
    }
}
