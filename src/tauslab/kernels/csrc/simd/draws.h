// Random bits and exponential variates on SIMD lanes: the same numbers as random/philox.h and math/log.h.
#pragma once

#include "device/nothing.h"
#include "simd/laws.h"
#include "random/streams.h"

// The series of each lane, a word of 32 bits in each.
struct SeriesOnLanes {
    Words x2, x0, x2_next, x3_next;
};

// The keys of the rounds, a word of 64 bits each; those of the last round are in its upper half.
struct KeysOnLanes {
    u64 k0[PHILOX_ROUNDS], k1[PHILOX_ROUNDS];

    DEVICE_MEMBER explicit KeysOnLanes(const PhiloxKeys &keys) {
        for (int i = 0; i < PHILOX_ROUNDS; ++i) {
            const int shift = i < PHILOX_ROUNDS - 1 ? 0 : 32;
            k0[i] = (u64)keys.k0[i] << shift, k1[i] = (u64)keys.k1[i] << shift;
        }
    }
};

// What a draw gives on each lane, both in [1, 2): `waiting` becomes an exponential variate.
struct DrawsOnLanes {
    Real waiting, unit;
};

// Between the rounds of random bits.
constexpr int STEPS_BETWEEN = PHILOX_ROUNDS - 2;

// Draws of which number i has the series `series(i)` on each lane, and `product(i)`: its first word times PHILOX_M0.
// They are made round by round, so that their chains of products run side by side. Upper halves of words are not
// read, only shifted out. `between(step)` is called STEPS_BETWEEN times, for work that fills the time in which products
// are waited for.
template <int COUNT, class Series, class Product, class Between = Nothing>
DEVICE void draw_by_products(const Series &series, const Product &product, const KeysOnLanes &keys,
                             DrawsOnLanes *draws, const Between &between = {}) {
    const Words m0 = on_lanes((u64)PHILOX_M0), m1 = on_lanes((u64)PHILOX_M1);
    Words x0[COUNT], x1[COUNT], x2[COUNT], x3[COUNT];
    UNROLL for (int i = 0; i < COUNT; ++i) {
        const SeriesOnLanes &own = series(i);
        const Words p0 = product(i);
        const Words p1 = wide_products((p0 >> 32) ^ own.x2, m1);
        x0[i] = (p1 >> 32) ^ own.x0;
        x1[i] = p1;
        x2[i] = p0 ^ own.x2_next;
        x3[i] = own.x3_next;
    }
    constexpr int LAST = PHILOX_ROUNDS - 1;
    UNROLL for (int round = 2; round < LAST; ++round) {
        const Words k0 = on_lanes(keys.k0[round]), k1 = on_lanes(keys.k1[round]);
        UNROLL for (int i = 0; i < COUNT; ++i) {
            const Words p0 = wide_products(x0[i], m0), p1 = wide_products(x2[i], m1);
            x0[i] = exclusive_or(p1 >> 32, x1[i], k0);
            x2[i] = exclusive_or(p0 >> 32, x3[i], k1);
            x1[i] = p1;
            x3[i] = p0;
        }
        between(round - 2);
    }
    // Of the last round both halves of a product are used: words 0 and 1 are p1 with its upper half changed.
    const Words k0 = on_lanes(keys.k0[LAST]), k1 = on_lanes(keys.k1[LAST]);
    UNROLL for (int i = 0; i < COUNT; ++i) {
        const Words p0 = wide_products(x0[i], m0), p1 = wide_products(x2[i], m1);
        const Words first = from_one_to_two(exclusive_or(p1, x1[i] << 32, k0));
        const Words second = from_one_to_two(exclusive_or(p0, x3[i] << 32, k1));
        __builtin_memcpy(&draws[i].waiting, &first, sizeof first);
        __builtin_memcpy(&draws[i].unit, &second, sizeof second);
    }
    between(LAST - 2);
}

// The same, of first words `number(i)`.
template <int COUNT, class Series, class Number>
DEVICE void draw_together(const Series &series, const Number &number, const KeysOnLanes &keys,
                          DrawsOnLanes *draws) {
    const Words m0 = on_lanes((u64)PHILOX_M0);
    const auto product = [&](int i) { return wide_products(number(i), m0); };
    draw_by_products<COUNT>(series, product, keys, draws);
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

// exponential_on_lanes of COUNT vectors in STEPS_BETWEEN steps: the same operations, side by side.
template <int COUNT>
struct ExponentialsInSteps {
    const LogColumns &table;
    Real m[COUNT], k[COUNT], y[COUNT], base[COUNT], series[COUNT], sum[COUNT], low[COUNT];
    Words index[COUNT];

    DEVICE_MEMBER explicit ExponentialsInSteps(const LogColumns &columns) : table(columns) {}

    // Of v in [1, 2).
    DEVICE_MEMBER void begin(int i, Real v) {
        const auto part = log_parts_to_one(2.0 - v);
        m[i] = part.m, k[i] = part.k, index[i] = part.index;
    }

    DEVICE_MEMBER void step(int i, int number) {
        const double *const of = LOG_SERIES.of;
        if (number == 0)
            y[i] = fused(-m[i], table_of_32(table.reciprocal, index[i]), on_lanes(1.0));
        if (number == 1) {
            base[i] = fused(k[i], on_lanes(-of[6]), table_of_32(table.log_reciprocal, index[i]));
            series[i] = fused(y[i], on_lanes(of[0]), on_lanes(of[1]));
        }
        if (number >= 2 && number <= 5)
            series[i] = fused(y[i], series[i], on_lanes(of[number]));
        if (number == 2) sum[i] = base[i] + y[i];
        if (number == 3) low[i] = sum[i] - base[i];
        if (number == 4) low[i] = y[i] - low[i];
        if (number == 5) low[i] = fused(k[i], on_lanes(-of[7]), low[i]);
        if (number == 6) series[i] = fused(y[i], series[i], on_lanes(0.5));
    }

    DEVICE_MEMBER Real end(int i) const {
        return sum[i] + fused(y[i] * y[i], series[i], low[i]);
    }
};

// As `philox_series`, for a second word `c1` of each lane and two that are given.
DEVICE SeriesOnLanes series_on_lanes(const KeysOnLanes &keys, Words c1, Words c2, Words c3) {
    const Words p1 = wide_products(c2, on_lanes((u64)PHILOX_M1));
    const Words p0 = wide_products(exclusive_or(p1 >> 32, c1, on_lanes(keys.k0[0])),
                                   on_lanes((u64)PHILOX_M0));
    return {c3 ^ keys.k1[0], p1 ^ keys.k0[1], p0 >> 32 ^ keys.k1[1], p0};
}
