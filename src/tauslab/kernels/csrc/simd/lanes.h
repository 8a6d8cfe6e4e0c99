// SIMD lanes of a CPU core: one trajectory on each lane of a vector. Operators of vectors are the compiler's
// own (g++ and clang++), which round as those of doubles do; only what they lack is here.
//
// SIMD_LANES is the number of doubles in a register of the processor that is compiled for. Any other power of 2
// up to 8 gives the same numbers (tests compare them). This header comes before math/: its templates call what
// is here.
#pragma once

#include "device/prelude.h"

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#define WIDEST_LANES 8
#elif defined(__AVX2__) && defined(__FMA__)
#define WIDEST_LANES 4
#else
#define WIDEST_LANES 2
#endif
#ifndef SIMD_LANES
#define SIMD_LANES WIDEST_LANES
#endif

// Where vectors are as wide as registers, some steps name an instruction that compilers do not find.
#if SIMD_LANES == 8 && WIDEST_LANES == 8
#define ON_AVX512 1
#elif SIMD_LANES == 4 && WIDEST_LANES >= 4
#define ON_AVX2 1
#endif
#if defined(ON_AVX512) || defined(ON_AVX2)
#pragma GCC diagnostic push
#ifndef __clang__  // g++ 12 sees faults in its own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

// A real number, a word of 64 bits, and a condition (0 or -1) for each lane.
#if SIMD_LANES == 1
typedef double Real;
typedef u64 Words;
typedef bool Mask;
#else
typedef double Real __attribute__((vector_size(8 * SIMD_LANES)));
typedef u64 Words __attribute__((vector_size(8 * SIMD_LANES)));
typedef decltype(Real{} < Real{}) Mask;
#endif

#define UNROLL_BY_4 _Pragma("GCC unroll 4")

constexpr u32 ALL_LANES = (1u << SIMD_LANES) - 1;

DEVICE Real on_lanes(double value) {
    return value - Real{};
}

DEVICE Words on_lanes(u64 value) {
    return value + Words{};
}

// Vectors in memory, where lanes are read and written one by one.
template <class Value, class Vector>
DEVICE void store(Value *to, const Vector &value) {
    static_assert(sizeof(Vector) == SIMD_LANES * sizeof(Value));
    __builtin_memcpy(to, &value, sizeof value);
}

template <class Vector, class Value>
DEVICE void load(Vector &value, const Value *from) {
    static_assert(sizeof(Vector) == SIMD_LANES * sizeof(Value));
    __builtin_memcpy(&value, from, sizeof value);
}

// One lane of a vector in memory.
template <class Value, class Vector>
DEVICE Value &at(Vector &vector, int lane) {
    return ((Value *)&vector)[lane];
}

// A function of doubles, lane by lane.
template <class Function>
DEVICE Real each_lane(const Real &a, const Function &function) {
    double in[SIMD_LANES], out[SIMD_LANES];
    store(in, a);
    for (int lane = 0; lane < SIMD_LANES; ++lane) out[lane] = function(in[lane]);
    Real result;
    load(result, out);
    return result;
}

#if SIMD_LANES > 1
// a * b + c, rounded once.
DEVICE Real fused(Real a, Real b, Real c) {
#if defined(ON_AVX512)
    return (Real)_mm512_fmadd_pd((__m512d)a, (__m512d)b, (__m512d)c);
#elif defined(ON_AVX2)
    return (Real)_mm256_fmadd_pd((__m256d)a, (__m256d)b, (__m256d)c);
#else
    Real result;
    UNROLL for (int lane = 0; lane < SIMD_LANES; ++lane) result[lane] =
        FMA(a[lane], b[lane], c[lane]);
    return result;
#endif
}

DEVICE Real quotient(Real a, Real b) {
    return a / b;
}

DEVICE Words as_bits(Real value) {
    return (Words)value;
}

DEVICE Real from_bits(Words bits) {
    return (Real)bits;
}
#endif

// Products of the lower halves of words: 64 bits each.
DEVICE Words wide_products(Words a, Words b) {
#if defined(ON_AVX512)
    return (Words)_mm512_mul_epu32((__m512i)a, (__m512i)b);
#elif defined(ON_AVX2)
    return (Words)_mm256_mul_epu32((__m256i)a, (__m256i)b);
#else
    return (a & 0xffffffffull) * (b & 0xffffffffull);
#endif
}

DEVICE Words exclusive_or(Words a, Words b, Words c) {
#if defined(ON_AVX512)
    return (Words)_mm512_ternarylogic_epi64((__m512i)a, (__m512i)b, (__m512i)c, 0x96);
#else
    return a ^ b ^ c;
#endif
}

// Lower halves of two words as one word.
DEVICE Words joined_halves(Words high, Words low) {
#if defined(ON_AVX512)
    return (Words)_mm512_mask_shuffle_epi32((__m512i)low, 0xaaaa, (__m512i)high,
                                            (_MM_PERM_ENUM)_MM_SHUFFLE(2, 2, 0, 0));
#elif defined(ON_AVX2)
    return (Words)_mm256_blend_epi32((__m256i)low, (__m256i)(high << 32), 0xaa);
#else
    return high << 32 | (low & 0xffffffffull);
#endif
}

// Entries of a table of 32 numbers; bits of `index` above its lowest five are ignored.
DEVICE Real table_of_32(const double *table, Words index) {
#if defined(ON_AVX512)
    const __m512i i = (__m512i)index;
    const __m512d low =
        _mm512_permutex2var_pd(_mm512_loadu_pd(table), i, _mm512_loadu_pd(table + 8));
    const __m512d high =
        _mm512_permutex2var_pd(_mm512_loadu_pd(table + 16), i, _mm512_loadu_pd(table + 24));
    const __mmask8 upper = _mm512_test_epi64_mask(i, _mm512_set1_epi64(16));
    return (Real)_mm512_mask_blend_pd(upper, low, high);
#elif SIMD_LANES == 1
    return table[index & 31];
#else
    index &= 31;
    Real result;
    UNROLL for (int lane = 0; lane < SIMD_LANES; ++lane) result[lane] = table[index[lane]];
    return result;
#endif
}

// A bit for each lane on which a condition holds.
DEVICE u32 bits_of(Mask condition) {
#if defined(ON_AVX512)
    return _mm512_movepi64_mask((__m512i)condition);
#elif defined(ON_AVX2)
    return (u32)_mm256_movemask_pd((__m256d)condition);
#elif SIMD_LANES == 1
    return condition;
#else
    u32 found = 0;
    UNROLL for (int lane = 0; lane < SIMD_LANES; ++lane) found |=
        (u32)(condition[lane] & 1) << lane;
    return found;
#endif
}

// The condition that holds on the lanes with a bit.
DEVICE Mask lanes_of(u32 bits) {
#if defined(ON_AVX512)
    return (Mask)_mm512_movm_epi64((__mmask8)bits);
#elif SIMD_LANES == 1
    return bits & 1;
#else
    Words place = {};
    UNROLL for (int lane = 0; lane < SIMD_LANES; ++lane) place[lane] = 1ull << lane;
    return (Mask)((on_lanes((u64)bits) & place) != 0ull);
#endif
}

#if SIMD_LANES > 1
DEVICE void set_where(Mask here, Real &to, Real value) {
    to = here ? value : to;
}
#endif

// A bit for each lane on which a <= b and c > 0.
DEVICE u32 lanes_in_order(Real a, Real b, Real c) {
#if defined(ON_AVX512)
    const __mmask8 positive = _mm512_cmp_pd_mask((__m512d)c, _mm512_setzero_pd(), _CMP_GT_OQ);
    return _mm512_mask_cmp_pd_mask(positive, (__m512d)a, (__m512d)b, _CMP_LE_OQ);
#else
    return bits_of((a <= b) & (c > 0.0));
#endif
}

// Puts a number on one lane. (Through memory it would wait for the vector to be stored.)
DEVICE void put(Real &vector, int lane, double value) {
#if defined(ON_AVX512)
    vector =
        (Real)_mm512_mask_mov_pd((__m512d)vector, (__mmask8)(1u << lane), _mm512_set1_pd(value));
#elif SIMD_LANES == 8
    const Mask place = {0, 1, 2, 3, 4, 5, 6, 7};
    vector = place == (i64)lane ? on_lanes(value) : vector;
#elif SIMD_LANES == 4
    const Mask place = {0, 1, 2, 3};
    vector = place == (i64)lane ? on_lanes(value) : vector;
#elif SIMD_LANES == 2
    const Mask place = {0, 1};
    vector = place == (i64)lane ? on_lanes(value) : vector;
#else
    vector = lane == 0 ? value : vector;
#endif
}

#if SIMD_LANES > 1
DEVICE Real square_root(Real a) {
#if defined(ON_AVX512)
    return (Real)_mm512_sqrt_pd((__m512d)a);
#elif defined(ON_AVX2)
    return (Real)_mm256_sqrt_pd((__m256d)a);
#else
    Real result;
    UNROLL for (int lane = 0; lane < SIMD_LANES; ++lane) result[lane] = SQRT(a[lane]);
    return result;
#endif
}
#endif
