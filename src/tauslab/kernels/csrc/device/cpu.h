// The CPU prelude: a kernel is a plain function that every thread of the pool calls once.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
// 32 random bits, in the type that makes the fastest products: vectors multiply 64-bit lanes.
typedef u64 Word;

#define DEVICE static inline __attribute__((always_inline))
// A function that is called in many places, or large: compile time grows with copies.
#define DEVICE_SHARED __attribute__((noinline, unused)) static
// A long law that others use: one copy of its text.
#define SHARED_LAW static inline __attribute__((noinline))
// A large function that is seldom called.
#define DEVICE_SELDOM static __attribute__((noinline, unused))
#define DEVICE_MEMBER inline __attribute__((always_inline))
#define KERNEL(name, ...) \
    extern "C" __attribute__((visibility("default"))) void name( \
        [[maybe_unused]] i64 global_id_, [[maybe_unused]] i64 global_size_, __VA_ARGS__)
#define KERNEL_IN_BLOCKS(blocks, name, ...) KERNEL(name, __VA_ARGS__)
#define GLOBAL_ID global_id_
#define GLOBAL_SIZE global_size_
#define UNROLL _Pragma("GCC unroll 64")
#define UNROLL_SOME
#define UNROLL_MORE
#define NO_UNROLL
#define UNROLL_UP_TO_16(n)
// A loop over lanes, which the compiler turns into vector code if it is left as it is.
#define LANE_LOOP
// Draws a trajectory makes at a time; 16 are slower, 64 not faster (Schlögl, g++ 12, AVX-512).
#define DRAWS_AHEAD 32u
#define DRAWS_BESIDE 8u
// Columns of samples that an item of statistics adds side by side, as vectors do.
#define COLUMNS_TOGETHER 16
#define RELOAD static_cast<void>(0)
#define GO_ON_TOGETHER(flag) static_cast<void>(flag)
#define LOADED_HERE(value, kind) static_cast<void>(value)
#define ADDRESS_HERE(address) static_cast<void>(address)
// Loads memory that will be read soon.
#define PREFETCH(address) __builtin_prefetch(address)
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

#define FMA(a, b, c) __builtin_fma((a), (b), (c))
#define SQRT(a) __builtin_sqrt(a)
#define FMA_SINGLE(a, b, c) __builtin_fmaf((a), (b), (c))
#define ABS_SINGLE(a) __builtin_fabsf(a)
#define SQRT_SINGLE(a) __builtin_sqrtf(a)
#define MULHI64(a, b) ((u64)(((unsigned __int128)(a) * (unsigned __int128)(b)) >> 64))
// These take normal positive numbers; their errors are at most those of a GPU.
#define ABOUT_RECIPROCAL(a) (1.0f / (a))
#define ABOUT_LOG2(a) __builtin_log2f(a)
#define WHOLE_OF_SINGLE(a) ((a) < 0x1p32f ? (a) > 0.0f ? (u32)(a) : 0u : 0xffffffffu)
#define TABLE static constexpr
#define LANE_TABLE TABLE
// A CPU has few registers, and reads its memory as fast.
template <class Numbers>
DEVICE const Numbers &in_registers(const Numbers &table) {
    return table;
}

// A per-thread array inside one allocation: a CPU thread keeps its own items side by side.
#define THREAD_OFFSET(length) (GLOBAL_ID * (i64)(length))
#define THREAD_STRIDE 1

// Scratch memory of a lane, indexed like an array of `length` doubles; `shared` is how many of them a
// GPU keeps in shared memory.
#define LANE_ARRAY(name, shared, length) \
    double name##_[length]; \
    const LaneArray name = {name##_}
struct LaneArray {
    double *cell;
    DEVICE_MEMBER double &operator[](int i) const { return cell[i]; }
};

// Shared memory of a team. A CPU has none.
#define TEAM_MEMORY(name, count) \
    static_assert((count) == 0); \
    [[maybe_unused]] double *const name = nullptr

// For how many lanes of the warp the condition holds. A CPU thread is the only lane.
DEVICE int lanes_where(bool condition) {
    return condition;
}

DEVICE bool any_lane(bool condition) {
    return condition;
}

// Number of the lowest bit set.
DEVICE int lowest_bit(u64 word) {
    return __builtin_ctzll(word);
}

DEVICE u64 as_bits(double value) {
    u64 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE double from_bits(u64 bits) {
    double value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE double from_words(u32 high, u32 low) {
    return from_bits((u64)high << 32 | low);
}

DEVICE u32 high_word(double value) {
    return (u32)(as_bits(value) >> 32);
}

DEVICE u32 low_word(double value) {
    return (u32)as_bits(value);
}

// The first 24 bits of a positive number that is normal in single precision.
DEVICE float single_of(double value) {
    const u32 bits = (u32)(as_bits(value) >> 29) + 0x40000000u;
    float found;
    __builtin_memcpy(&found, &bits, sizeof found);
    return found;
}

// Eight doubles, for sums over lanes: as many registers as the processor needs.
#define HAS_OCTETS
typedef double Octet __attribute__((vector_size(64)));
typedef double Quartet __attribute__((vector_size(32)));
typedef double Couple __attribute__((vector_size(16)));
typedef i64 WholeOctet __attribute__((vector_size(64)));

DEVICE Octet load_octet(const double *from) {
    Octet value;
    __builtin_memcpy(&value, from, sizeof value);
    return value;
}

DEVICE Octet load_octet(const i64 *from) {
    WholeOctet value;
    __builtin_memcpy(&value, from, sizeof value);
    return __builtin_convertvector(value, Octet);
}

DEVICE Octet load_octet(const i32 *from) {
    i32 value __attribute__((vector_size(32)));
    __builtin_memcpy(&value, from, sizeof value);
    return __builtin_convertvector(value, Octet);
}

// The first `count` numbers, and `rest` in place of the others.
DEVICE Octet first_of(const Octet &value, int count, double rest) {
    const WholeOctet place = {0, 1, 2, 3, 4, 5, 6, 7};
    const WholeOctet here = place < count;
    return here ? value : rest - Octet{};
}

DEVICE void store_octet(double *to, const Octet &value) {
    __builtin_memcpy(to, &value, sizeof value);
}

// The last three steps of a butterfly.
DEVICE double octet_total(const Octet &value) {
    const double *at = (const double *)&value;
    Quartet low, high;
    __builtin_memcpy(&low, at, sizeof low);
    __builtin_memcpy(&high, at + 4, sizeof high);
    const Quartet four = low + high;
    const Couple two = {four[0] + four[2], four[1] + four[3]};
    return two[0] + two[1];
}

// Records of tables.
struct IntPair {
    i32 a, b;
};
struct IntQuad {
    i32 a, b, c, d;
};
struct RealPair {
    double a, b;
};

DEVICE IntPair load_pair(const i32 *from) {
    return {from[0], from[1]};
}

DEVICE RealPair load_pair(const double *from) {
    return {from[0], from[1]};
}

DEVICE IntQuad load_quad(const i32 *from) {
    return {from[0], from[1], from[2], from[3]};
}

// A table that nobody writes while the kernel runs.
template <class T>
using ReadOnly = const T *;

// The full product of two numbers below 2^32.
DEVICE u64 wide_product(Word a, Word b) {
    return a * b;
}

// 1 + the upper 52 of 64 bits / 2^52.
DEVICE double from_fraction(Word hi, Word lo) {
    return from_bits((hi << 32 | lo) >> 12 | 0x3ff0000000000000ull);
}

DEVICE double quotient(double a, double b) {
    return a / b;
}

// 1 / a where results and operands below the least normal number, 2^-126, count as zeros.
DEVICE float reciprocal(float a) {
    const float found = 1.0f / a, size = __builtin_fabsf(found);
    const float edge = size > 0x1p126f ? __builtin_inff() : 0.0f;
    return size < 0x1p-126f || size > 0x1p126f ? __builtin_copysignf(edge, found) : found;
}

// Double precision takes a CPU no longer than estimates would.
#define ESTIMATES_FIRST false

// Fast functions of a GPU, see device/cuda.h; here for tests of what calls them.
DEVICE float quick_reciprocal(float a) {
    return 1.0f / a;
}

DEVICE float quick_root(float a) {
    return __builtin_sqrtf(a);
}

DEVICE float quick_log2(float a) {
    return __builtin_log2f(a);
}

DEVICE float quick_exp2(float a) {
    return __builtin_exp2f(a);
}

DEVICE u32 single_bits(float value) {
    u32 bits;
    __builtin_memcpy(&bits, &value, sizeof bits);
    return bits;
}

DEVICE float single_of(u32 bits) {
    float value;
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

DEVICE u64 atomic_add(u64 *cell, u64 value) {
    return __atomic_fetch_add(cell, value, __ATOMIC_RELAXED);
}

DEVICE u32 atomic_add(u32 *cell, u32 value) {
    return __atomic_fetch_add(cell, value, __ATOMIC_RELAXED);
}

// Stores `value`; returns what the cell held.
DEVICE u64 atomic_exchange(u64 *cell, u64 value) {
    return __atomic_exchange_n(cell, value, __ATOMIC_RELAXED);
}

// A cell that the host may write while the kernel runs.
DEVICE u64 read_now(const u64 *cell) {
    return __atomic_load_n(cell, __ATOMIC_RELAXED);
}

DEVICE u8 read_now(const u8 *cell) {
    return __atomic_load_n(cell, __ATOMIC_RELAXED);
}

// The cell becomes `value` where that is larger.
DEVICE void atomic_largest(u64 *cell, u64 value) {
    u64 found = read_now(cell);
    while (found < value && !__atomic_compare_exchange_n(cell, &found, value, true,
                                                         __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
    }
}

// The same; returns what the cell held.
DEVICE u64 atomic_max(u64 *cell, u64 value) {
    u64 found = __atomic_load_n(cell, __ATOMIC_ACQUIRE);
    while (found < value && !__atomic_compare_exchange_n(cell, &found, value, true,
                                                         __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return found;
}

// Adds 1 to the cell of each lane that has one.
DEVICE void warp_aggregated_add(u64 *cell) {
    if (cell) atomic_add(cell, 1);
}

// Blocks: threads that share memory and wait for each other. Here one thread is a block, so that
// loops over a block's items, `for (int i = THREAD_ID; i < n; i += BLOCK_THREADS)`, do them all.
#define BLOCK_KERNEL(threads, blocks, name, ...) KERNEL(name, __VA_ARGS__)
#define BLOCK_ID global_id_
#define BLOCKS global_size_
#define THREAD_ID 0
#define BLOCK_THREADS 1
#define BARRIER()
#define SHARED
// A draw that only a full site needs is made only for one.
#define DRAW_AHEAD false

// Types through which memory of another type is read.
#define MAY_ALIAS __attribute__((may_alias))

// Whether it holds for any thread of the block; all must ask.
DEVICE bool any_in_block(bool condition) {
    return condition;
}

DEVICE int leading_zeros(u32 word) {
    return word ? __builtin_clz(word) : 32;
}

DEVICE int popc(u32 word) {
    return __builtin_popcount(word);
}

// The lowest `count` bits, all 32 for a larger count; it is not negative.
DEVICE u32 low_bits(int count) {
    return count < 32 ? (1u << count) - 1 : ~0u;
}

// Number of the lowest bit that is set; `word` is not 0.
DEVICE int lowest_bit(u32 word) {
    return __builtin_ctz(word);
}

// Stores `value` if the cell holds `expected`; returns what the cell held.
DEVICE i32 atomic_compare_exchange(i32 *cell, i32 expected, i32 value) {
    __atomic_compare_exchange_n(cell, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

DEVICE u64 atomic_compare_exchange(u64 *cell, u64 expected, u64 value) {
    __atomic_compare_exchange_n(cell, &expected, value, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

// A value that all lanes of a warp have.
DEVICE u32 uniform(u32 value) {
    return value;
}

// A pointer into the block's memory.
template <class T>
DEVICE T *kept_in_block(T *pointer) {
    return pointer;
}

// A cell of the block's memory that others change meanwhile.
DEVICE u32 read_in_block(const u32 *cell) {
    return *(const volatile u32 *)cell;
}

// Adds to a cell of the block's memory; returns what was there.
DEVICE u32 add_in_block(u32 *cell, u32 value) {
    const u32 before = *cell;
    *cell = before + value;
    return before;
}

// Sets bits of a cell of the block's memory; returns what was there.
DEVICE u32 or_in_block(u32 *cell, u32 bits) {
    const u32 before = *cell;
    *cell = before | bits;
    return before;
}

// Changes bits of a cell; returns what was there.
DEVICE u32 atomic_flip(u32 *cell, u32 bits) {
    return __atomic_fetch_xor(cell, bits, __ATOMIC_RELAXED);
}

// Changes bits of a cell of the block's memory.
DEVICE void flip_in_block(u32 *cell, u32 bits) {
    *cell ^= bits;
}

// Orders writes: other threads see earlier writes before later ones.
DEVICE void threadfence() {
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

// Leaves memory that a thread looks at again and again to others for a while.
DEVICE void wait_a_little() {}

extern "C" int sched_yield(void);

// Wait until all blocks of the launch, which run at the same time, are here. `cell` is 0 at the
// start of the launch and counts arrivals; a GPU's threads count in `arrivals`, which is 0 then too.
DEVICE void grid_barrier(u64 *cell, i64 blocks, u32 &arrivals) {
    static_cast<void>(arrivals);
    if (blocks == 1) return;
    const u64 arrived = __atomic_fetch_add(cell, 1, __ATOMIC_ACQ_REL);
    const u64 target = (arrived / (u64)blocks + 1) * (u64)blocks;
    for (int turn = 0; __atomic_load_n(cell, __ATOMIC_ACQUIRE) < target; ++turn)
        if (turn > 1000) sched_yield();
}

// As `threadfence`, for other devices too.
DEVICE void threadfence_system() {
    threadfence();
}

// Signals another device that everything before the last `threadfence_system` has arrived.
DEVICE void send_signal(u64 *cell, u64 value) {
    __atomic_store_n(cell, value, __ATOMIC_RELEASE);
}

// Waits until a cell that another device writes holds `value` or more.
DEVICE void wait_for_signal(const u64 *cell, u64 value) {
    for (int turn = 0; __atomic_load_n(cell, __ATOMIC_ACQUIRE) < value; ++turn)
        if (turn > 100) sched_yield();
}
