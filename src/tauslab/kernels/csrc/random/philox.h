// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// A bijection of a 128-bit counter under a 64-bit key; no state, so any draw can be made anywhere.
#pragma once

#include "device/prelude.h"

struct Philox4 {
    Word x0, x1, x2, x3;
};

constexpr u32 PHILOX_M0 = 0xD2511F53u, PHILOX_M1 = 0xCD9E8D57u;
constexpr int PHILOX_ROUNDS = 10;

// The key of every round: it grows by Weyl steps (golden ratio, sqrt(3) - 1).
struct PhiloxKeys {
    u32 k0[PHILOX_ROUNDS], k1[PHILOX_ROUNDS];
};

// Of a seed.
DEVICE PhiloxKeys philox_keys(u64 seed) {
    PhiloxKeys keys;
    UNROLL for (int round = 0; round < PHILOX_ROUNDS; ++round) {
        keys.k0[round] = (u32)seed + (u32)round * 0x9E3779B9u;
        keys.k1[round] = (u32)(seed >> 32) + (u32)round * 0xBB67AE85u;
    }
    return keys;
}

// One round. A full 32 x 32 -> 64 bit product is one instruction on both devices.
DEVICE Philox4 philox_round(const Philox4 &c, u32 k0, u32 k1) {
    const u64 p0 = wide_product(c.x0, PHILOX_M0);
    const u64 p1 = wide_product(c.x2, PHILOX_M1);
    return {(Word)(p1 >> 32) ^ c.x1 ^ k0, (u32)p1, (Word)(p0 >> 32) ^ c.x3 ^ k1, (u32)p0};
}

DEVICE Philox4 philox4x32_10(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
    Philox4 c = {c0, c1, c2, c3};
    UNROLL for (int round = 0; round < PHILOX_ROUNDS; ++round) {
        c = philox_round(c, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

// Draws whose counters differ in c0 alone: what the first two rounds make of the other words.
struct PhiloxSeries {
    u32 x2, x0, x2_next, x3_next;
};

DEVICE PhiloxSeries philox_series(const PhiloxKeys &keys, u32 c1, u32 c2, u32 c3) {
    const u64 p1 = wide_product(c2, PHILOX_M1);
    const u64 p0 = wide_product((u32)(p1 >> 32) ^ c1 ^ keys.k0[0], PHILOX_M0);
    return {c3 ^ keys.k1[0], (u32)p1 ^ keys.k0[1], (u32)(p0 >> 32) ^ keys.k1[1], (u32)p0};
}

// philox4x32_10 of the series' counter with first word `c0`.
DEVICE Philox4 philox_draw(const PhiloxSeries &series, const PhiloxKeys &keys, u32 c0) {
    const u64 p0 = wide_product(c0, PHILOX_M0);
    const u64 p1 = wide_product((Word)(p0 >> 32) ^ series.x2, PHILOX_M1);
    Philox4 c = {(Word)(p1 >> 32) ^ series.x0, (u32)p1, (u32)p0 ^ series.x2_next, series.x3_next};
    UNROLL for (int round = 2; round < PHILOX_ROUNDS; ++round)
        c = philox_round(c, keys.k0[round], keys.k1[round]);
    return c;
}
