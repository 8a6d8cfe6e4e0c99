// Random bits and exponential variates on SIMD lanes: the same numbers as random/philox.h and math/log.h.
#pragma once

#include "math/log.h"
#include "random/streams.h"
#include "simd/lanes.h"

// The series of each lane, a word of 32 bits in each.
struct SeriesOnLanes {
    Words x2, x0, x2_next, x3_next;
};

// The keys of the rounds, a word of 64 bits each.
struct KeysOnLanes {
    u64 k0[PHILOX_ROUNDS], k1[PHILOX_ROUNDS];

    DEVICE_MEMBER explicit KeysOnLanes(const PhiloxKeys &keys) {
        for (int i = 0; i < PHILOX_ROUNDS; ++i) k0[i] = keys.k0[i], k1[i] = keys.k1[i];
    }
};

// What a draw gives on each lane, both in [1, 2): `waiting` becomes an exponential variate.
struct DrawsOnLanes {
    Real waiting, unit;
};

// Draws number c0, c0 + step, ... of each lane's series, round by round, so that their chains of products run
// side by side. Upper halves of words are not read, only shifted out.
template <int COUNT>
DEVICE void draw_together(const SeriesOnLanes &series, const KeysOnLanes &keys, Words c0, u64 step,
                          DrawsOnLanes *draws) {
    const Words m0 = on_lanes((u64)PHILOX_M0), m1 = on_lanes((u64)PHILOX_M1);
    Words x0[COUNT], x1[COUNT], x2[COUNT], x3[COUNT];
    UNROLL for (int i = 0; i < COUNT; ++i) {
        const Words p0 = wide_products(c0 + (u64)i * step, m0);
        const Words p1 = wide_products((p0 >> 32) ^ series.x2, m1);
        x0[i] = (p1 >> 32) ^ series.x0;
        x1[i] = p1;
        x2[i] = p0 ^ series.x2_next;
        x3[i] = series.x3_next;
    }
    UNROLL for (int round = 2; round < PHILOX_ROUNDS; ++round) {
        const Words k0 = on_lanes(keys.k0[round]), k1 = on_lanes(keys.k1[round]);
        UNROLL for (int i = 0; i < COUNT; ++i) {
            const Words p0 = wide_products(x0[i], m0), p1 = wide_products(x2[i], m1);
            x0[i] = exclusive_or(p1 >> 32, x1[i], k0);
            x2[i] = exclusive_or(p0 >> 32, x3[i], k1);
            x1[i] = p1;
            x3[i] = p0;
        }
    }
    const Words one = on_lanes(0x3ff0000000000000ull);
    UNROLL for (int i = 0; i < COUNT; ++i) {
        const Words first = joined_halves(x0[i], x1[i]) >> 12 | one;
        const Words second = joined_halves(x2[i], x3[i]) >> 12 | one;
        __builtin_memcpy(&draws[i].waiting, &first, sizeof first);
        __builtin_memcpy(&draws[i].unit, &second, sizeof second);
    }
}

// The table of math/log.h, a column after the other.
struct LogColumns {
    double reciprocal[32], log_reciprocal[32];
};

DEVICE LogColumns log_columns() {
    LogColumns columns;
    for (u32 i = 0; i < 32; ++i) {
        columns.reciprocal[i] = log_entry(i).reciprocal;
        columns.log_reciprocal[i] = log_entry(i).log_reciprocal;
    }
    return columns;
}

// tl_exponential(2 - v) of each lane, for v in [1, 2).
DEVICE Real exponential_on_lanes(const LogColumns &table, Real v) {
    // The steps of `log_parts`, with all 64 bits at once.
    const Real u = 2.0 - v;
    Words x;
    __builtin_memcpy(&x, &u, sizeof x);
    const Words above = x + ((0x40000000ull - 0x3fe64000ull) << 32);
    const Words exponent = above >> 52 | 0x4330000000000000ull;
    const Words fraction = (above & 0x000fffffffffffffull) + (0x3fe64000ull << 32);
    Real k, m;
    __builtin_memcpy(&k, &exponent, sizeof k);
    __builtin_memcpy(&m, &fraction, sizeof m);
    const Real minus_k = (0x1p52 + 1024.0) - k;
    const Words index = above >> 47;
    const Real y = fused(-m, table_of_32(table.reciprocal, index), on_lanes(1.0));
    const Real base = fused(minus_k, on_lanes(LOG_SERIES[6]), table_of_32(table.log_reciprocal, index));
    Real series = fused(y, on_lanes(LOG_SERIES[0]), on_lanes(LOG_SERIES[1]));
    UNROLL for (int i = 2; i < 6; ++i) series = fused(y, series, on_lanes(LOG_SERIES[i]));
    series = fused(y, series, on_lanes(0.5));
    const Real high = base + y, low = y - (high - base);  // fast_two_sum
    return high + fused(y * y, series, fused(minus_k, on_lanes(LOG_SERIES[7]), low));
}
