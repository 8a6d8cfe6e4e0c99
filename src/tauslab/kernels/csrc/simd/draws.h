// Random bits and exponential variates on SIMD lanes: the same numbers as random/philox.h and math/log.h.
#pragma once

#include "simd/laws.h"
#include "random/streams.h"

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

// Draws of which number i has the series `series(i)` and the first word `number(i)` on each lane. They are made round
// by round, so that their chains of products run side by side. Upper halves of words are not read, only shifted
// out.
template <int COUNT, class Series, class Number>
DEVICE void draw_together(const Series &series, const Number &number, const KeysOnLanes &keys,
                          DrawsOnLanes *draws) {
    const Words m0 = on_lanes((u64)PHILOX_M0), m1 = on_lanes((u64)PHILOX_M1);
    Words x0[COUNT], x1[COUNT], x2[COUNT], x3[COUNT];
    UNROLL for (int i = 0; i < COUNT; ++i) {
        const SeriesOnLanes &own = series(i);
        const Words p0 = wide_products(number(i), m0);
        const Words p1 = wide_products((p0 >> 32) ^ own.x2, m1);
        x0[i] = (p1 >> 32) ^ own.x0;
        x1[i] = p1;
        x2[i] = p0 ^ own.x2_next;
        x3[i] = own.x3_next;
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

// tl_exponential(u) of each lane, for positive normal u.
DEVICE Real exponential_of(const LogColumns &table, Real u) {
    const auto part = log_parts(u);
    const Real y = fused(-part.m, table_of_32(table.reciprocal, part.index), on_lanes(1.0));
    return negative_log(part.k, {y, Real{}}, table_of_32(table.log_reciprocal, part.index));
}

// tl_exponential(2 - v) of each lane, for v in [1, 2).
DEVICE Real exponential_on_lanes(const LogColumns &table, Real v) {
    return exponential_of(table, 2.0 - v);
}

// As `philox_series`, for a second word `c1` of each lane and two that are given.
DEVICE SeriesOnLanes series_on_lanes(const KeysOnLanes &keys, Words c1, Words c2, Words c3) {
    const Words p1 = wide_products(c2, on_lanes((u64)PHILOX_M1));
    const Words p0 = wide_products(exclusive_or(p1 >> 32, c1, on_lanes(keys.k0[0])),
                                   on_lanes((u64)PHILOX_M0));
    return {c3 ^ keys.k1[0], p1 ^ keys.k0[1], p0 >> 32 ^ keys.k1[1], p0};
}
