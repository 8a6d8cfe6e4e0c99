// Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
// A bijection of a 128-bit counter under a 64-bit key; no state, so any draw can be made anywhere.
#pragma once

#include "prelude.h"

struct Philox4 {
    u32 x0, x1, x2, x3;
};

// One round. A full 32 x 32 -> 64 bit product is one instruction on both devices.
DEVICE Philox4 philox_round(const Philox4 &c, u32 k0, u32 k1) {
    const u64 p0 = (u64)0xD2511F53u * c.x0;
    const u64 p1 = (u64)0xCD9E8D57u * c.x2;
    return {(u32)(p1 >> 32) ^ c.x1 ^ k0, (u32)p1, (u32)(p0 >> 32) ^ c.x3 ^ k1, (u32)p0};
}

// Ten rounds; the key grows by Weyl steps (golden ratio, sqrt(3) - 1) between rounds.
DEVICE Philox4 philox4x32_10(u32 c0, u32 c1, u32 c2, u32 c3, u32 k0, u32 k1) {
    Philox4 c = {c0, c1, c2, c3};
    UNROLL for (int round = 0; round < 10; ++round) {
        c = philox_round(c, k0, k1);
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}
