// Poisson numbers decided in single precision, where that is certain: the same numbers as those of
// random/poisson.h. A decision compares an estimate with a bound on its error; where the difference is less, it is
// open, and double precision has to decide. docs/developers/poisson.md tells how often.
#pragma once

#include "random/philox.h"

// What stands in place of a number: the attempt failed, or nothing is certain.
constexpr int FAILED = -1, OPEN = -2;

constexpr float LARGEST_ESTIMATED_MEAN = 4096.0f;  // the number would often be open beyond
// Where u and v are too close to 0 for words of 32 bits.
constexpr u32 EDGE_WORD = 1u << 23;  // LEAST_EDGE
constexpr float LEAST_HEIGHT = 0x1p-10f;

// `poisson_rejection`, of which symbols and constants are. A number that the squeeze takes is one that the law takes.
//
//     error of                    at most                                allowed
//     number before rounding      1.8e-7 mean + 3.6e-7 slope             5e-7 mean + 1.5e-6 slope
//     half the logarithm's sum    7e-5 + 1e-6 size of the logarithm      1e-4 + 4e-6 size
//
// Most of the 7e-5 is the error of v, of which 23 bits are used: 2^-24 / v, largest at LEAST_HEIGHT, 6.1e-5.
DEVICE int estimated_rejection(double exact_mean, const Philox4 &words) {
    const float mean = (float)exact_mean;
    const float b = FMA_SINGLE(2.53f, quick_root(mean), 0.931f);
    const float a = FMA_SINGLE(0.02483f, b, -0.059f);
    const u32 u_word = (u32)words.x0, side = (u32)((i32)u_word >> 31);
    const u32 edge_word = u_word ^ side;
    const float edge = FMA_SINGLE((float)edge_word, 0x1p-32f, 0x1p-33f);
    const float inverse = quick_reciprocal(edge);
    const float steep = a * inverse;
    const float slope = FMA_SINGLE(2.0f, steep, b);
    const float u = single_of(single_bits(0.5f - edge) ^ (~side & 0x80000000u));
    const float number = FMA_SINGLE(slope, u, mean - 0.07f);
    const float shifted = number + 0x1.8p23f, k = shifted - 0x1.8p23f;
    const float off = ABS_SINGLE(number - k);
    const float room = FMA_SINGLE(slope, -1.5e-6f, FMA_SINGLE(mean, -5e-7f, 0.5f));

    const float v = 2.0f - single_of(0x3f800000u + ((u32)words.x2 >> 9)) - 0x1p-24f;
    const float b_hat = b - 3.4f;
    const float hat = FMA_SINGLE(steep, inverse, b) * b_hat;
    const float height = v * FMA_SINGLE(1.1239f, b_hat, 1.2f) * quick_reciprocal(hat);
    const float logarithm = quick_log2(0x1.921fb6p+2f * k * height * height);

    const float ratio_log = quick_log2(k * quick_reciprocal(mean));
    const float deviance = FMA_SINGLE(0.69314718f * k, ratio_log, mean - k);
    const float k_inverse = quick_reciprocal(k);
    const float stirling = k_inverse * FMA_SINGLE(k_inverse * k_inverse, -1.0f / 360, 1.0f / 12);
    const float miss = FMA_SINGLE(logarithm, 0.34657359f, deviance) + stirling;

    const float bound = FMA_SINGLE(k, 1.5e-6f, FMA_SINGLE(ABS_SINGLE(logarithm), 4e-6f, 1e-4f));
    // Comparisons that are false where anything is not a number.
    const bool rounded = (off < room) & (mean < LARGEST_ESTIMATED_MEAN);
    const bool compared = (ABS_SINGLE(miss) > bound) & (k > 0.0f) & (v >= LEAST_HEIGHT);
    const bool failed = (edge_word < EDGE_WORD - 1) | (rounded & (k < 0.0f));
    const bool certain = rounded & compared & (edge_word > EDGE_WORD);
    int decided = miss <= 0.0f ? (int)(single_bits(shifted) - 0x4b400000u) : FAILED;
    decided = certain ? decided : OPEN;
    return failed ? FAILED : decided;
}

// `poisson_inversion`. With y = t - 1 a step is y <- y ratio - 1, and the number of steps is that of positive y. In
// units of u, t is off by 3e-6 before the search, and in its steps by 3e-7 times the sum of 1 - F(k - 1), which is
// mean + 1; twice that is allowed.
DEVICE int estimated_inversion(double exact_mean, const Philox4 &words) {
    const float mean = (float)exact_mean;
    const float inverse = quick_reciprocal(mean);
    const float u = FMA_SINGLE((float)(u32)words.x0, 0x1p-32f, 0x1p-33f);
    float y = FMA_SINGLE(u, quick_exp2(mean * 1.44269504f), -1.0f), k = 0.0f;
    // Four steps at a time, as long as all are taken; y grows only where the law has ended and it is made of errors.
    for (;;) {
        const float ratio = k * inverse;
        float next = y;
    UNROLL for (int i = 1; i <= 4; ++i)
            next = FMA_SINGLE(next, FMA_SINGLE((float)i, inverse, ratio), -1.0f);
        if (!((next > 0.0f) & (next < 0x1p36f))) break;
        y = next, k += 4.0f;
    }
    UNROLL for (int i = 0; i < 4; ++i) {
        const bool more = y > 0.0f;
        k = more ? k + 1.0f : k;
        y = more ? FMA_SINGLE(y, k * inverse, -1.0f) : y;
    }
    // log2 of 1 / p(k), by Stirling's formula, which is near enough to k! also for k = 1 and for 0.16 in place of 0.
    const float k_law = k > 0.0f ? k : 0.16f;
    const float k_log = quick_log2(k_law);
    const float rest =
        FMA_SINGLE(0.5f, k_log, FMA_SINGLE(0.1203f, quick_reciprocal(k_law), 1.33f));
    const float law =
        FMA_SINGLE(k, k_log - quick_log2(mean), FMA_SINGLE(mean - k, 1.442695f, rest));
    const float room = FMA_SINGLE(mean, 6e-7f, 7e-6f) * quick_exp2(law);
    const bool certain = (y + 1.0f > room) & (-y > room);
    return certain ? (int)(single_bits(k + 0x1.8p23f) - 0x4b400000u) : OPEN;
}
