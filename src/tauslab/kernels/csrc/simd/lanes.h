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

#include "simd/instructions.h"

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

// What is in memory is read again, for a compiler that would keep more values than there are registers, and write
// those that are in memory already to another place.
DEVICE void read_again() {
    asm volatile("" ::: "memory");
}

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
#if defined(VFMADDPD)
    return (Real)VFMADDPD(a, b, c);
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
#if defined(VPMULUDQ)
    return (Words)VPMULUDQ(a, b);
#else
    return (a & 0xffffffffull) * (b & 0xffffffffull);
#endif
}

DEVICE Words exclusive_or(Words a, Words b, Words c) {
#if defined(VPTERNLOGQ)
    return (Words)VPTERNLOGQ(a, b, c, 0x96);
#else
    return a ^ b ^ c;
#endif
}

// Bits of a number in [1, 2): the upper 52 of a word are what follows its point.
DEVICE Words from_one_to_two(Words a) {
#if defined(VPSHRDQ)
    return (Words)VPSHRDQ(a, on_lanes(0x3ffull), 12);
#else
    return a >> 12 | 0x3ff0000000000000ull;
#endif
}

// Entries of a table of 32 numbers; bits of `index` above its lowest five are ignored.
DEVICE Real table_of_32(const double *table, Words index) {
#if defined(VPERMT2PD)
    Real eight[4];
    UNROLL for (int i = 0; i < 4; ++i) load(eight[i], table + 8 * i);
    const Real low = (Real)VPERMT2PD(index, eight[0], eight[1]);
    const Real high = (Real)VPERMT2PD(index, eight[2], eight[3]);
    return (Real)VBLENDMPD(VPTESTMQ(index, on_lanes(16ull)), low, high);
#elif SIMD_LANES == 1
    return table[index & 31];
#else
    index &= 31;
    Real result;
    UNROLL for (int lane = 0; lane < SIMD_LANES; ++lane) result[lane] = table[index[lane]];
    return result;
#endif
}

// Entries of any table.
DEVICE Words table_entries(const unsigned long long *table, Words index) {
#if SIMD_LANES == 1
    return table[index];
#else
    Words result;
    UNROLL for (int lane = 0; lane < SIMD_LANES; ++lane) result[lane] = table[index[lane]];
    return result;
#endif
}

// 1 on lanes on which a condition holds, 0 on the others.
DEVICE Words one_where(Mask condition) {
#if SIMD_LANES == 1
    return condition;
#else
    return -(Words)condition;
#endif
}

// A bit for each lane on which a condition holds.
DEVICE u32 bits_of(Mask condition) {
#if defined(VPMOVQ2M)
    return VPMOVQ2M(condition);
#elif defined(VMOVMSKPD)
    return (u32)VMOVMSKPD(condition);
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
#if defined(VPMOVM2Q)
    return (Mask)VPMOVM2Q((unsigned char)bits);
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
#if defined(VCMPPD)
    return VCMPPD(VCMPPD(ALL_OF_THEM, c, Real{}, ABOVE), a, b, AT_MOST);
#else
    return bits_of((a <= b) & (c > 0.0));
#endif
}

// Puts a number on one lane. (Through memory it would wait for the vector to be stored.)
DEVICE void put(Real &vector, int lane, double value) {
#if defined(VBLENDMPD)
    vector = (Real)VBLENDMPD((unsigned char)(1u << lane), vector, on_lanes(value));
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
#if defined(VSQRTPD)
    return (Real)VSQRTPD(a);
#else
    Real result;
    UNROLL for (int lane = 0; lane < SIMD_LANES; ++lane) result[lane] = SQRT(a[lane]);
    return result;
#endif
}
#endif
