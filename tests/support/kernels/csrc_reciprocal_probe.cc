// Reciprocals in single precision of all numbers against their definition, for tests.
#include "device/prelude.h"

DEVICE float of_bits(u32 bits) {
    union {
        u32 word;
        float value;
    } both = {bits};
    return both.value;
}

DEVICE u32 bits_of(float value) {
    union {
        float value;
        u32 word;
    } both = {value};
    return both.word;
}

// By whole numbers.
DEVICE u32 expected_bits(u32 a) {
    const u32 sign = a & 0x80000000u, size = a & 0x7fffffffu;
    if (size > 0x7f800000u) return 0x7fc00000u;
    if (size < 0x00800000u) return sign | 0x7f800000u;  // too small: a zero
    if (size > 0x7e800000u) return sign;                // above 2^126
    const u64 mantissa = (size & 0x7fffffu) | 0x800000u;
    const int exponent = (int)(size >> 23);
    if (mantissa == 0x800000u) return sign | (u32)(254 - exponent) << 23;
    // 2^47 / mantissa lies between 2^23 and 2^24, never half way between two whole numbers.
    const u64 whole = (1ull << 47) / mantissa, rest = (1ull << 47) % mantissa;
    const u64 nearest = whole + (2 * rest > mantissa ? 1 : 0);
    return sign | ((u32)(253 - exponent) << 23) + (u32)(nearest - 0x800000u);
}

struct ReciprocalArguments {
    u64 stride, count;
    u64 *wrong;
};

KERNEL(check_reciprocals, const ReciprocalArguments arguments) {
    u64 found = 0;
    for (u64 i = (u64)GLOBAL_ID; i < arguments.count; i += (u64)GLOBAL_SIZE) {
        const u32 bits = (u32)(arguments.stride * i);
        const float a = of_bits(bits);
        const float b = reciprocal(a);
        const bool right = a == a ? bits_of(b) == expected_bits(bits) : b != b;
        if (!right) ++found;
    }
    if (found) atomic_add(arguments.wrong, found);
}
