// Functions on SIMD lanes against those of one double, bit by bit, for tests.
#include "simd/laws.h"
#include "device/prelude.h"
#include "random/streams.h"

constexpr int KINDS = 6;
// Where functions change from one case to another.
TABLE double EDGES[24] = {0.0,    -0.0,    1.0,       -1.0,      2.0,      0.5,
                          3.0,    -3.0,    0x1p-1074, 0x1p-1022, 0x1p+52,  0x1p+53,
                          706.9,  707.0,   707.1,     709.78,    709.8,    -707.0,
                          -708.4, -745.13, -745.2,    0x1p1023,  -0x1p-52, 1e22};

// An argument made of random bits: any bits, an edge or a special value, or of a range that laws have.
DEVICE double argument_of(const Philox4 &words, u32 kind) {
    const double unit = unit_half_open(words.x0, words.x1);
    if (kind == 0) return from_bits(joined(words.x0, words.x1));
    if (kind == 1) return 10.0 * unit;
    if (kind == 2) return 1500.0 * (unit - 0.5);
    if (kind == 3) return (double)((u32)words.x0 % 50);
    if (kind == 4) return 1.0 + 0x1p-6 * (unit - 0.5);
    const u32 edge = (u32)words.x0 % 27;
    if (edge < 24) return EDGES[edge];
    return edge == 24 ? tl_nan() : edge == 25 ? tl_infinity() : -tl_infinity();
}

struct LaneProbeArguments {
    u64 count;
    u64 *wrong;  // [12], a number for each function
};

template <class Function>
DEVICE void compare(const Real *arguments, const Function &function, u64 *wrong) {
    double x[SIMD_LANES], y[SIMD_LANES], found[SIMD_LANES];
    store(x, arguments[0]), store(y, arguments[1]);
    store(found, function(arguments[0], arguments[1]));
    for (int lane = 0; lane < SIMD_LANES; ++lane)
        *wrong += as_bits(found[lane]) != as_bits(function(x[lane], y[lane]));
}

KERNEL(probe_lanes, const LaneProbeArguments job) {
    const TrajectoryStream series = trajectory_stream(5, STREAM_PILOT, 0, 0);
    u64 number = 0;
    for (u64 turn = 0; turn < job.count; ++turn) {
        double in[2][SIMD_LANES];
        const Philox4 kinds = draw(series, number++);
        for (int i = 0; i < 2; ++i) {
            const bool mixed = kinds.x2 & 1;
            for (int lane = 0; lane < SIMD_LANES; ++lane) {
                const Philox4 words = draw(series, number++);
                const u32 kind = mixed ? (u32)words.x2 : (u32)(i ? kinds.x1 : kinds.x0);
                in[i][lane] = argument_of(words, kind % KINDS);
            }
        }
        Real both[2];
        load(both[0], in[0]), load(both[1], in[1]);
        u64 *wrong = job.wrong;
        compare(both, [](auto x, auto) { return tl_exp(x); }, wrong++);
        compare(both, [](auto x, auto) { return tl_log(x); }, wrong++);
        compare(both, [](auto x, auto) { return tl_log10(x); }, wrong++);
        compare(both, [](auto x, auto) { return tl_abs(x); }, wrong++);
        compare(both, [](auto x, auto) { return tl_floor(x); }, wrong++);
        compare(both, [](auto x, auto) { return tl_ceil(x); }, wrong++);
        compare(both, [](auto x, auto) { return tl_tanh(x); }, wrong++);
        compare(both, [](auto x, auto) { return tl_sin(x); }, wrong++);
        compare(both, [](auto x, auto) { return tl_cos(x); }, wrong++);
        compare(both, [](auto x, auto y) { return tl_pow(x, y); }, wrong++);
        compare(both, [](auto x, auto y) { return tl_min(x, y); }, wrong++);
        compare(both, [](auto x, auto y) { return tl_max(x, y); }, wrong++);
    }
}
