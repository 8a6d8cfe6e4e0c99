// Random words of analyses, which the host draws by NumPy: see analysis/particles/weights.py.
#pragma once

#include "device/prelude.h"

// Word `i` of Philox4x64-10 under a key and a counter of which the first word grows from 1.
DEVICE u64 random_word(u64 key0, u64 key1, u64 number, u64 group, i64 i) {
    u64 c[4] = {(u64)(i / 4) + 1, 0, number, group};
    for (int round = 0; round < 10; ++round) {
        const u64 low0 = c[0] * 0xD2E7470EE14C6C93ull, low1 = c[2] * 0xCA5A826395121157ull;
        const u64 high0 = MULHI64(c[0], 0xD2E7470EE14C6C93ull),
                  high1 = MULHI64(c[2], 0xCA5A826395121157ull);
        c[0] = high1 ^ c[1] ^ key0;
        c[1] = low1;
        c[2] = high0 ^ c[3] ^ key1;
        c[3] = low0;
        key0 += 0x9E3779B97F4A7C15ull;
        key1 += 0xBB67AE8584CAA73Bull;
    }
    return i % 4 == 0 ? c[0] : i % 4 == 1 ? c[1] : i % 4 == 2 ? c[2] : c[3];
}

// A multiple of 2^-53 in [0, 1).
DEVICE double fraction_of(u64 word) {
    return (double)(word >> 11) * 0x1p-53;
}
