// Vector instructions that compilers do not find by themselves, by their names in the processor's manual. Each is
// a macro, and is defined only where vectors are as wide as registers: with AVX-512 and 8 lanes, or AVX2 and 4.
//
// A compiler's own header has all of them, but to parse it takes g++ 0.3 s, more than to compile most kernels. So
// the functions that this header calls are called directly where the compiler has them. clang++ names some of
// them otherwise and parses the header.
#pragma once

#if SIMD_LANES == 8 && WIDEST_LANES == 8
#define ON_AVX512
#elif SIMD_LANES == 4 && WIDEST_LANES >= 4
#define ON_AVX2
#endif

#if defined(__has_builtin) && !defined(INSTRUCTIONS_BY_HEADER)
#if defined(ON_AVX512)
#if __has_builtin(__builtin_ia32_vfmaddpd512_mask) && \
    __has_builtin(__builtin_ia32_sqrtpd512_mask) && \
    __has_builtin(__builtin_ia32_pmuludq512_mask) && \
    __has_builtin(__builtin_ia32_pternlogq512_mask) && \
    __has_builtin(__builtin_ia32_vpermt2varpd512_mask) && \
    __has_builtin(__builtin_ia32_ptestmq512) && __has_builtin(__builtin_ia32_blendmpd_512_mask) && \
    __has_builtin(__builtin_ia32_cvtq2mask512) && __has_builtin(__builtin_ia32_cvtmask2q512) && \
    __has_builtin(__builtin_ia32_cmppd512_mask) && __has_builtin(__builtin_ia32_getexppd512_mask)
#define INSTRUCTIONS_BY_NAME
#endif
#elif defined(ON_AVX2)
#if __has_builtin(__builtin_ia32_vfmaddpd256) && __has_builtin(__builtin_ia32_sqrtpd256) && \
    __has_builtin(__builtin_ia32_pmuludq256) && __has_builtin(__builtin_ia32_movmskpd256)
#define INSTRUCTIONS_BY_NAME
#endif
#endif
#endif

#if (defined(ON_AVX512) || defined(ON_AVX2)) && !defined(INSTRUCTIONS_BY_NAME)
#pragma GCC diagnostic push
#ifndef __clang__  // g++ 12 sees faults in its own header
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#include <immintrin.h>
#pragma GCC diagnostic pop
#endif

// All lanes; the mode of rounding of the thread; a <= b and a > b, false for NaN.
#define ALL_OF_THEM ((unsigned char)-1)
#define CURRENT_ROUNDING 4
#define AT_MOST 18
#define ABOVE 30

#if defined(ON_AVX512)
typedef double Doubles __attribute__((vector_size(64)));
typedef long long Longs __attribute__((vector_size(64)));
typedef int Ints __attribute__((vector_size(64)));
#if defined(INSTRUCTIONS_BY_NAME)
#define VFMADDPD(a, b, c) \
    __builtin_ia32_vfmaddpd512_mask((Doubles)(a), (Doubles)(b), (Doubles)(c), ALL_OF_THEM, \
                                    CURRENT_ROUNDING)
#define VSQRTPD(a) \
    __builtin_ia32_sqrtpd512_mask((Doubles)(a), Doubles{}, ALL_OF_THEM, CURRENT_ROUNDING)
#define VPMULUDQ(a, b) __builtin_ia32_pmuludq512_mask((Ints)(a), (Ints)(b), Longs{}, ALL_OF_THEM)
#define VPTERNLOGQ(a, b, c, table) \
    __builtin_ia32_pternlogq512_mask((Longs)(a), (Longs)(b), (Longs)(c), table, ALL_OF_THEM)
#define VPERMT2PD(index, a, b) \
    __builtin_ia32_vpermt2varpd512_mask((Longs)(index), (Doubles)(a), (Doubles)(b), ALL_OF_THEM)
#define VPTESTMQ(a, b) \
    ((unsigned char)__builtin_ia32_ptestmq512((Longs)(a), (Longs)(b), ALL_OF_THEM))
#define VBLENDMPD(mask, a, b) __builtin_ia32_blendmpd_512_mask((Doubles)(a), (Doubles)(b), mask)
#define VPMOVQ2M(a) ((unsigned char)__builtin_ia32_cvtq2mask512((Longs)(a)))
#define VPMOVM2Q(mask) __builtin_ia32_cvtmask2q512(mask)
#define VCMPPD(mask, a, b, how) \
    ((unsigned char)__builtin_ia32_cmppd512_mask((Doubles)(a), (Doubles)(b), how, mask, \
                                                 CURRENT_ROUNDING))
#define VGETEXPPD(a) \
    __builtin_ia32_getexppd512_mask((Doubles)(a), Doubles{}, ALL_OF_THEM, CURRENT_ROUNDING)
#else
#define VFMADDPD(a, b, c) _mm512_fmadd_pd((Doubles)(a), (Doubles)(b), (Doubles)(c))
#define VSQRTPD(a) _mm512_sqrt_pd((Doubles)(a))
#define VPMULUDQ(a, b) _mm512_mul_epu32((__m512i)(a), (__m512i)(b))
#define VPTERNLOGQ(a, b, c, table) \
    _mm512_ternarylogic_epi64((__m512i)(a), (__m512i)(b), (__m512i)(c), table)
#define VPERMT2PD(index, a, b) _mm512_permutex2var_pd((Doubles)(a), (__m512i)(index), (Doubles)(b))
#define VPTESTMQ(a, b) _mm512_test_epi64_mask((__m512i)(a), (__m512i)(b))
#define VBLENDMPD(mask, a, b) _mm512_mask_blend_pd(mask, (Doubles)(a), (Doubles)(b))
#define VPMOVQ2M(a) _mm512_movepi64_mask((__m512i)(a))
#define VPMOVM2Q(mask) _mm512_movm_epi64(mask)
#define VCMPPD(mask, a, b, how) _mm512_mask_cmp_pd_mask(mask, (Doubles)(a), (Doubles)(b), how)
#define VGETEXPPD(a) _mm512_getexp_pd((Doubles)(a))
#endif

// Of newer processors. VPERMB_HIGHEST: the highest byte of each lane is the table's at the number in its highest byte,
// the others are 0.
typedef char Bytes __attribute__((vector_size(64)));
#define HIGHEST_BYTES 0x8080808080808080ull
#if defined(INSTRUCTIONS_BY_NAME)
#if defined(__AVX512VBMI__) && __has_builtin(__builtin_ia32_permvarqi512_mask)
#define VPERMB_HIGHEST(number, table) \
    __builtin_ia32_permvarqi512_mask(*(const Bytes *)(table), (Bytes)(number), Bytes{}, \
                                     HIGHEST_BYTES)
#endif
#if defined(__AVX512VBMI2__) && __has_builtin(__builtin_ia32_vpshrd_v8di)
#define VPSHRDQ(low, high, by) __builtin_ia32_vpshrd_v8di((Longs)(low), (Longs)(high), by)
#endif
#else
#if defined(__AVX512VBMI__)
#define VPERMB_HIGHEST(number, table) \
    _mm512_maskz_permutexvar_epi8(HIGHEST_BYTES, (__m512i)(number), *(const __m512i *)(table))
#endif
#if defined(__AVX512VBMI2__)
#define VPSHRDQ(low, high, by) _mm512_shrdi_epi64((__m512i)(low), (__m512i)(high), by)
#endif
#endif

#elif defined(ON_AVX2)
typedef double Doubles __attribute__((vector_size(32)));
typedef int Ints __attribute__((vector_size(32)));
#if defined(INSTRUCTIONS_BY_NAME)
#define VFMADDPD(a, b, c) __builtin_ia32_vfmaddpd256((Doubles)(a), (Doubles)(b), (Doubles)(c))
#define VSQRTPD(a) __builtin_ia32_sqrtpd256((Doubles)(a))
#define VPMULUDQ(a, b) __builtin_ia32_pmuludq256((Ints)(a), (Ints)(b))
#define VMOVMSKPD(a) __builtin_ia32_movmskpd256((Doubles)(a))
#else
#define VFMADDPD(a, b, c) _mm256_fmadd_pd((Doubles)(a), (Doubles)(b), (Doubles)(c))
#define VSQRTPD(a) _mm256_sqrt_pd((Doubles)(a))
#define VPMULUDQ(a, b) _mm256_mul_epu32((__m256i)(a), (__m256i)(b))
#define VMOVMSKPD(a) _mm256_movemask_pd((Doubles)(a))
#endif
#endif
