// Philox4x64-10 of the same paper as random/philox.h: the raw words that numpy.random.Philox gives, whose first
// block has 1 in the counter's low word.
#pragma once

#include "device/prelude.h"

struct PhiloxWide {
    u64 x0, x1, x2, x3;

    // Word number `i`, 0 to 3.
    DEVICE_MEMBER u64 word(u64 i) const {
        const u64 low = i & 1 ? x1 : x0, high = i & 1 ? x3 : x2;
        return i & 2 ? high : low;
    }
};

DEVICE PhiloxWide philox4x64_10(PhiloxWide c, u64 k0, u64 k1) {
    constexpr u64 M0 = 0xD2E7470EE14C6C93ull, M1 = 0xCA5A826395121157ull;
    UNROLL for (int round = 0; round < 10; ++round) {
        const u64 high0 = MULHI64(M0, c.x0), low0 = M0 * c.x0;
        const u64 high1 = MULHI64(M1, c.x2), low1 = M1 * c.x2;
        c = {high1 ^ c.x1 ^ k0, low1, high0 ^ c.x3 ^ k1, low0};
        k0 += 0x9E3779B97F4A7C15ull;
        k1 += 0xBB67AE8584CAA73Bull;
    }
    return c;
}

// Words 4 * block .. 4 * block + 3 of a stream.
DEVICE PhiloxWide philox_wide(u64 block, u64 c1, u64 c2, u64 c3, u64 k0, u64 k1) {
    return philox4x64_10({block + 1, c1, c2, c3}, k0, k1);
}
