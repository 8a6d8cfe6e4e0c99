// Words of sites: a bit for each of 32 sites side by side along x.
//
// A thread of a GPU has one word, and a warp 32 of them. A thread of a CPU has PLANE_WORDS, in a vector. A word's
// result is the same for any number of them (tests compare them).
#pragma once

#include "device/prelude.h"

#ifdef LANES_SIDE_BY_SIDE
#define PLANE_WORDS 1
#define PLANE_LANES 32  // threads that go together
#else
#define PLANE_LANES 1
#ifndef PLANE_WORDS
#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define PLANE_WORDS 16
#elif defined(__AVX2__) && defined(__FMA__)
#define PLANE_WORDS 8
#else
#define PLANE_WORDS 4
#endif
#endif
#define SIMD_LANES (PLANE_WORDS / 2)
#include "simd/lanes.h"
#endif

#include "random/streams.h"

#ifdef LANES_SIDE_BY_SIDE
typedef u32 Bits;
typedef u32 Lanes;  // 32 bits for each word of a part
constexpr int PARTS = 1;

DEVICE Bits on_words(u32 value) {
    return value;
}
DEVICE u32 &word_of(Bits &bits, int) {
    return bits;
}
DEVICE Bits load_words(const u32 *from) {
    return *from;
}
DEVICE void store_words(u32 *to, Bits bits) {
    *to = bits;
}
// Whether a word of any thread that goes together has a bit.
DEVICE bool any_site(Bits bits) {
    return any_lane(bits != 0);
}
DEVICE Bits majority(Bits a, Bits b, Bits c) {
    return (a & b) | (a & c) | (b & c);
}
DEVICE Bits parity(Bits a, Bits b, Bits c) {
    return a ^ b ^ c;
}
DEVICE u64 lane_products(Lanes a, u32 b) {
    return wide_product(a, b);
}
DEVICE Lanes lane_xor(Lanes a, Lanes b, Lanes c) {
    return a ^ b ^ c;
}
DEVICE Lanes part_of(Bits bits, int) {
    return bits;
}
DEVICE Bits joined_parts(const Lanes *parts) {
    return parts[0];
}
// The word of another thread of those that go together.
DEVICE Bits word_of_lane(Bits bits, u32 lane) {
    return LANES_READ(32, bits, lane);
}
DEVICE void lanes_meet() {
    LANES_BARRIER(32);
}
// Adds to a cell what all threads that go together have.
DEVICE void add_together(u64 *cell, u32 value) {
    u32 sum = value;
    UNROLL for (int distance = 16; distance; distance /= 2) sum += LANES_EXCHANGE(32, sum, distance);
    if (sum && THREAD_ID % PLANE_LANES == 0) atomic_add(cell, sum);
}
#else
typedef u32 Bits __attribute__((vector_size(4 * PLANE_WORDS)));
// Words of even number are a part, those of odd number another: a product has 64 bits.
typedef Words Lanes;
constexpr int PARTS = 2;

DEVICE Bits on_words(u32 value) {
    return value + Bits{};
}
DEVICE u32 &word_of(Bits &bits, int word) {
    return ((u32 *)&bits)[word];
}
DEVICE Bits load_words(const u32 *from) {
    Bits bits;
    __builtin_memcpy(&bits, from, sizeof bits);
    return bits;
}
DEVICE void store_words(u32 *to, Bits bits) {
    __builtin_memcpy(to, &bits, sizeof bits);
}
DEVICE bool any_site(Bits bits) {
#if defined(VPTESTMQ)
    return VPTESTMQ(bits, bits) != 0;
#else
    u64 pairs[PLANE_WORDS / 2], found = 0;
    __builtin_memcpy(pairs, &bits, sizeof bits);
    UNROLL for (int i = 0; i < PLANE_WORDS / 2; ++i) found |= pairs[i];
    return found != 0;
#endif
}
DEVICE Bits majority(Bits a, Bits b, Bits c) {
#if defined(VPTERNLOGQ)
    return (Bits)VPTERNLOGQ(a, b, c, 0xe8);
#else
    return (a & (b | c)) | (b & c);
#endif
}
DEVICE Bits parity(Bits a, Bits b, Bits c) {
    return (Bits)exclusive_or((Words)a, (Words)b, (Words)c);
}
DEVICE Words lane_products(Lanes a, u32 b) {
    return wide_products(a, on_lanes((u64)b));
}
DEVICE Lanes lane_xor(Lanes a, Lanes b, Lanes c) {
    return exclusive_or(a, b, c);
}
DEVICE Lanes part_of(Bits bits, int part) {
    return part ? (Words)bits >> 32 : (Words)bits;
}
DEVICE Bits joined_parts(const Lanes *parts) {
    return (Bits)((parts[0] & 0xffffffffull) | parts[1] << 32);
}
DEVICE Bits word_of_lane(Bits bits, u32) {
    return bits;
}
DEVICE void lanes_meet() {}
DEVICE void add_together(u64 *cell, u32 value) {
    if (value) atomic_add(cell, value);
}
#endif

// ~0 for 1, 0 for 0.
DEVICE Bits all_or_none(u32 bit) {
    return on_words(0u - bit);
}

DEVICE Bits either(Bits where, Bits there, Bits elsewhere) {
    return (where & there) | (~where & elsewhere);
}

// ~0 for words that have a bit.
DEVICE Bits where_any(Bits bits) {
#ifdef LANES_SIDE_BY_SIDE
    return bits ? ~0u : 0u;
#else
    return (Bits)(bits != 0u);
#endif
}

DEVICE u32 bits_in(Bits bits) {
    u32 found = 0;
    UNROLL for (int i = 0; i < PLANE_WORDS; ++i) found += (u32)popc(word_of(bits, i));
    return found;
}

// Draws of a step. A draw is a pure function of the word's number in the whole lattice and of an address:
//     c0  word     c1  address     c2  step, bits 0..31     c3  step, bits 32..47 | replica << 16
// Bits 30 and 31 of an address keep it apart from all other draws (random/streams.h). See `PlanePurpose`.
struct StepDraws {
    u32 k0, k1, c2, c3;
};

DEVICE StepDraws step_draws(u64 seed, u64 step, u32 replica) {
    return {(u32)seed, (u32)(seed >> 32), (u32)step, ((u32)(step >> 32) & 0xffffu) | replica << 16};
}

DEVICE u32 key_0(const StepDraws &s, u32 round) {
    return s.k0 + round * 0x9E3779B9u;
}
DEVICE u32 key_1(const StepDraws &s, u32 round) {
    return s.k1 + round * 0xBB67AE85u;
}

enum PlanePurpose : u32 {
    HOPS_OF_PLANES = 0,  // and the axis; of a species and a level: bit words of the threshold
    GHOSTS_OF_PLANES = 4,  // of a face, a species and a number: bit words of the threshold
    CANDIDATES = 3,      // sites that may react: a site is one where all of some words have its bit
    SITE_REACTION = 4,   // of one site: whether, and which
    SITE_CROWD = 8,      // and the axis; of one site: who waits
};

DEVICE u32 plane_address(u32 purpose, u32 number) {
    return 3u << 30 | purpose << 24 | number;
}

// What rounds 0 to 2 make of words, whatever the address.
struct WordSeries {
    Lanes a3[PARTS], s1[PARTS], s2[PARTS], c3[PARTS];
};

DEVICE Lanes upper_half(decltype(lane_products(Lanes{}, 0)) product) {
    return (Lanes)(product >> 32);
}

DEVICE WordSeries word_series(const StepDraws &s, Bits number) {
    WordSeries series;
    UNROLL for (int i = 0; i < PARTS; ++i) {
        const auto p0 = lane_products(part_of(number, i), PHILOX_M0);
        const auto q1 = lane_products(upper_half(p0) ^ (s.c3 ^ key_1(s, 0)), PHILOX_M1);
        const u32 from_step = s.c2 * PHILOX_M1;
        const auto r0 = lane_products(upper_half(q1) ^ (from_step ^ key_0(s, 1)), PHILOX_M0);
        series.a3[i] = (Lanes)p0;
        series.s1[i] = (Lanes)q1 ^ key_0(s, 2);
        series.s2[i] = upper_half(r0) ^ key_1(s, 2);
        series.c3[i] = (Lanes)r0;
    }
    return series;
}

struct Draw {
    Bits x[4];
};

// What rounds 0 and 1 make of an address, whatever the word.
struct AddressSeries {
    u32 u1, u2;
};

// Of an address round 0 makes this; bits that change in the address change in it.
DEVICE u32 after_round_0(const StepDraws &s, u32 address) {
    return (u32)(wide_product(s.c2, PHILOX_M1) >> 32) ^ address ^ key_0(s, 0);
}

DEVICE AddressSeries round_1(const StepDraws &s, u32 after_round_0) {
    const u64 q0 = wide_product(after_round_0, PHILOX_M0);
    return {(u32)(q0 >> 32) ^ key_1(s, 1), (u32)q0};
}

// philox4x32_10 of every word with this address.
DEVICE Draw draw_of_words(const StepDraws &s, const WordSeries &series, const AddressSeries &address) {
    Lanes x[4][PARTS];
    UNROLL for (int i = 0; i < PARTS; ++i) {
        const auto r1 = lane_products(series.a3[i] ^ address.u1, PHILOX_M1);
        Lanes c0 = upper_half(r1) ^ series.s1[i], c1 = (Lanes)r1;
        Lanes c2 = series.s2[i] ^ address.u2, c3 = series.c3[i];
        UNROLL for (u32 round = 3; round < PHILOX_ROUNDS; ++round) {
            const auto p0 = lane_products(c0, PHILOX_M0), p1 = lane_products(c2, PHILOX_M1);
            c0 = lane_xor(upper_half(p1), c1, Lanes{} + key_0(s, round));
            c1 = (Lanes)p1;
            c2 = lane_xor(upper_half(p0), c3, Lanes{} + key_1(s, round));
            c3 = (Lanes)p0;
        }
        x[0][i] = c0, x[1][i] = c1, x[2][i] = c2, x[3][i] = c3;
    }
    return {{joined_parts(x[0]), joined_parts(x[1]), joined_parts(x[2]), joined_parts(x[3])}};
}

DEVICE Draw draw_of_words(const StepDraws &s, const WordSeries &series, u32 address) {
    return draw_of_words(s, series, round_1(s, after_round_0(s, address)));
}

// The same of one word.
DEVICE Philox4 draw_of_site(const StepDraws &s, u32 word, u32 address) {
    return philox4x32_10(word, address, s.c2, s.c3, s.k0, s.k1);
}
