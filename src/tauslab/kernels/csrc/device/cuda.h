// The CUDA prelude: a kernel is a __global__ function; one thread runs one work item at a time.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef u32 Word;  // 32 random bits, in the type that makes the fastest products

// 128 threads a block leave the scheduler room at any register count; set by the backend.
#ifndef THREADS_PER_BLOCK
#define THREADS_PER_BLOCK 128
#endif

#define DEVICE static __device__ __forceinline__
// Kernels that run until better ones are compiled (`quick_flags` of kernels/backends/nvrtc.py) have one copy of it.
#ifdef ONE_COPY
#define DEVICE_SHARED static __device__ __noinline__
#else
#define DEVICE_SHARED static __device__ __forceinline__
#endif
// A long law, or function, that others use: one copy of its text.
#define SHARED_LAW static __device__ __noinline__
// A large function that is seldom called: a copy of its text would take registers from those around it.
#define DEVICE_SELDOM static __device__ __noinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define KERNEL(name, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS_PER_BLOCK) name(__VA_ARGS__)
// At least `blocks` of its blocks fit on a multiprocessor, at the price of local memory. The oldest have room
// for fewer, and a bound that asks for more is none.
#if __CUDA_ARCH__ == 750
#define BLOCKS_WITH_ROOM(blocks) \
    ((blocks) * THREADS_PER_BLOCK > 1024 ? 1024 / THREADS_PER_BLOCK : (blocks))
#else
#define BLOCKS_WITH_ROOM(blocks) (blocks)
#endif
#define KERNEL_IN_BLOCKS(blocks, name, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS_PER_BLOCK, BLOCKS_WITH_ROOM(blocks)) \
        name(__VA_ARGS__)
#define GLOBAL_ID ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define GLOBAL_SIZE ((i64)gridDim.x * blockDim.x)
#define UNROLL _Pragma("unroll")
// For loops whose text would be long: some turns at a time.
#define UNROLL_SOME _Pragma("unroll 4")
// For short loops over what is in local memory: as many loads are on their way together.
#define UNROLL_MORE _Pragma("unroll 16")
// For loops that end after one or two turns.
#define NO_UNROLL _Pragma("unroll 1")
// For loops over the n numbers of a state, which is in memory where it is long: the text of all turns takes
// registers and two thirds of the time to compile (37 equations), and gains nothing there.
#define UNROLL_UP_TO_16(n) AS_PRAGMA(unroll((n) <= 16 ? 16 : 1))
#define AS_PRAGMA(text) _Pragma(#text)
#define LANE_LOOP UNROLL

// Barriers and exchanges of the threads of a team (team/team.h).
#define THREAD_IN_BLOCK threadIdx.x
#define BLOCK_BARRIER() __syncthreads()
// The mask of the `lanes` neighbouring lanes, a power of two, to which a thread belongs. Other lanes of its
// warp may be elsewhere in the program.
#define LANES_MASK(lanes) \
    ((lanes) == 32 ? 0xffffffffu : ((1u << (lanes)) - 1) << (threadIdx.x % 32 & ~((lanes) - 1)))
#define LANES_BARRIER(lanes) __syncwarp(LANES_MASK(lanes))
#define LANES_READ(lanes, value, lane) __shfl_sync(LANES_MASK(lanes), (value), (lane), (lanes))
// The same where all lanes of the warp come: one instruction serves them.
#define WARP_READ(lanes, value, lane) __shfl_sync(0xffffffffu, (value), (int)(lane), (lanes))
// The value of the lane before or behind; the first, or the last, gets any.
#define LANES_READ_BEFORE(lanes, value) __shfl_up_sync(LANES_MASK(lanes), (value), 1, (lanes))
#define LANES_READ_BEHIND(lanes, value) __shfl_down_sync(LANES_MASK(lanes), (value), 1, (lanes))
#define LANES_EXCHANGE(lanes, value, distance) \
    __shfl_xor_sync(LANES_MASK(lanes), (value), (distance))
#define LANES_BALLOT(lanes, condition) \
    (__ballot_sync(LANES_MASK(lanes), (condition)) >> \
         ((lanes) == 32 ? 0 : threadIdx.x % 32 & ~((lanes) - 1)) & \
     0xffffffffu >> (32 - (lanes)))
#define LANES_ANY(lanes, condition) \
    ((lanes) == 32 ? __any_sync(0xffffffffu, (condition)) != 0 \
                   : LANES_BALLOT(lanes, condition) != 0)
#define BLOCK_ANY(condition) (__syncthreads_or(condition) != 0)
#define BLOCK_SHARED __shared__
// Barrier `number` of a block, 1 to 15 (0 is the block's), for `threads` of its threads, whole warps.
#define BARRIER_WAIT(number, threads) (__syncwarp(), barrier_wait_((number), (threads)))
// The same of numbers that are text: a block takes as many of the 64 barriers of a multiprocessor as it uses, and 16 if
// the compiler cannot know.
#define BARRIER_OF(number, threads) (__syncwarp(), barrier_of_<(number), (threads)>())
// LANES_BARRIER(32) from which the compiler learns that the lanes go on together: no warp waits for another at barrier 1.
#define WARP_BARRIER() BARRIER_OF(1, 32)
// LANES_BALLOT of fewer lanes than a warp has. With a mask for each team a warp ballots once for every team, one
// after another. So the teams of which all lanes run here, side by side, ballot at once: those are in `here` with
// all their bits, and each of their lanes has the same `here`, which one instruction gave them.
#define HAS_TEAM_BALLOT
template <int LANES_OF_TEAM>
DEVICE u32 ballot_of_team(bool condition) {
    if (LANES_OF_TEAM == 32) return __ballot_sync(0xffffffffu, condition);
    constexpr u32 ALL = (1u << LANES_OF_TEAM % 32) - 1;
    const u32 first = threadIdx.x % 32 & ~(LANES_OF_TEAM - 1);
    u32 here;
    asm volatile("activemask.b32 %0;" : "=r"(here));
    u32 whole = 0;
#pragma unroll
    for (u32 i = 0; i < 32; i += LANES_OF_TEAM) whole |= (here >> i & ALL) == ALL ? ALL << i : 0u;
    const u32 mask = (whole >> first & 1) != 0 ? whole : ALL << first;
    return __ballot_sync(mask, condition) >> first & ALL;
}
DEVICE void barrier_wait_(int number, int threads) {
    asm volatile("bar.sync %0, %1;" ::"r"(number), "r"(threads) : "memory");
}
template <int NUMBER, int THREADS>
DEVICE void barrier_of_() {
    asm volatile("bar.sync %0, %1;" ::"n"(NUMBER), "n"(THREADS) : "memory");
}
// Shared memory of a block; the backend gives it as much as the source says.
#define BLOCK_MEMORY(type, name, count) \
    extern __shared__ double block_memory_[]; \
    static_assert((count) >= 0); \
    type *const name = (type *)block_memory_
// `count` doubles of the block's shared memory for each team of TEAM_THREADS; the backend gives the
// block as much as the source says.
#define TEAM_MEMORY(name, count) \
    extern __shared__ double team_memory_[]; \
    [[maybe_unused]] double *const name = team_memory_ + threadIdx.x / TEAM_THREADS * (count)
#define FIRST_SET(bits) (__ffs((int)(bits)) - 1)

// Registers are worth more than draws in store.
#define DRAWS_AHEAD 1u
#define DRAWS_BESIDE 1u
// A column of samples for each item of statistics: neighbouring threads read neighbouring columns.
#define COLUMNS_TOGETHER 1
// Values that were stored are loaded again, not kept in registers.
#define RELOAD asm volatile("" ::: "memory")
// Lanes of a warp that took different ways to here go on together, whatever `flag`, an i32, says next: the
// compiler does not see its value, so it gives no way a copy of what follows.
#define GO_ON_TOGETHER(flag) asm volatile("" : "+r"(flag))
// A number is loaded here, not where it is needed: the compiler would load it behind a branch. `kind` is "r" for
// 32 bits, "d" for a double.
#define LOADED_HERE(value, kind) asm volatile("" : "+" kind(value))
// The same of an address in the device's memory, from which others are computed.
#define ADDRESS_HERE(address) \
    do { \
        LOADED_HERE(address, "l"); \
        __builtin_assume(__isGlobal(address)); \
    } while (0)
// Loads memory that will be read soon.
#define PREFETCH(address) asm volatile("prefetch.global.L1 [%0];" : : "l"(address))
// The same into the cache that all multiprocessors share; nothing waits for it.
#define PREFETCH_FOR_ALL(address) asm volatile("prefetch.global.L2 [%0];" : : "l"(address))
#define LIKELY(condition) __builtin_expect(!!(condition), 1)

#define FMA(a, b, c) __fma_rn((a), (b), (c))
#define SQRT(a) __dsqrt_rn(a)
#define FMA_SINGLE(a, b, c) __fmaf_rn((a), (b), (c))
#define ABS_SINGLE(a) fabsf(a)
#define SQRT_SINGLE(a) __fsqrt_rn(a)
#define MULHI64(a, b) __umul64hi((a), (b))
// Instructions for normal positive numbers: 1 / a to 2^-23 of itself; log2(a) to 2^-22, outside of (0.5, 2)
// to 2^-22 of itself (PTX ISA); and the largest whole number that is not above, from 0 to 2^32 - 1.
#define ABOUT_RECIPROCAL(a) about_reciprocal_(a)
#define ABOUT_LOG2(a) about_log2_(a)
#define WHOLE_OF_SINGLE(a) __float2uint_rz(a)
DEVICE float about_reciprocal_(float a) {
    float found;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(a));
    return found;
}
DEVICE float about_log2_(float a) {
    float found;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(a));
    return found;
}

// Numbers of the program text in constant memory, where an instruction finds them: a literal would
// have to be put together first. For indices known at compile time only.
#define TABLE static __constant__
// Tables that the lanes of a warp read in different places.
#define LANE_TABLE static __device__ const

// A per-thread array inside one allocation: neighbouring threads lie side by side, so loads
// coalesce.
#define THREAD_OFFSET(length) (GLOBAL_ID)
#define THREAD_STRIDE GLOBAL_SIZE

// Scratch memory of a lane, indexed like an array of `length` doubles. `shared` of them are in the
// multiprocessor's shared memory, where lanes may take different elements at once; if that is 0, all are
// local. The backend gives a block THREADS_PER_BLOCK * shared doubles.
#define LANE_ARRAY(name, shared, length) \
    extern __shared__ double lane_memory_[]; \
    double name##_[(shared) > 0 ? 1 : (length)]; \
    const LaneArray<((shared) > 0)> name = {(shared) > 0 ? lane_memory_ + threadIdx.x : name##_}
template <bool SHARED>
struct LaneArray {
    double *cell;
    DEVICE_MEMBER double &operator[](int i) const {
        return cell[SHARED ? i * THREADS_PER_BLOCK : i];
    }
};

// For how many lanes of the warp the condition holds. All lanes call it.
DEVICE int lanes_where(bool condition) {
    return __popc(__ballot_sync(0xffffffffu, condition));
}

DEVICE bool any_lane(bool condition) {
    return __any_sync(0xffffffffu, condition) != 0;
}

// Number of the lowest bit set.
DEVICE int lowest_bit(u64 word) {
    return __ffsll((i64)word) - 1;
}

DEVICE u64 as_bits(double value) {
    return (u64)__double_as_longlong(value);
}

DEVICE double from_bits(u64 bits) {
    return __longlong_as_double((i64)bits);
}

DEVICE double from_words(u32 high, u32 low) {
    return __hiloint2double((int)high, (int)low);
}

DEVICE u32 high_word(double value) {
    return (u32)__double2hiint(value);
}

// The first 24 bits of a positive number that is normal in single precision.
DEVICE float single_of(double value) {
    const u32 high = (u32)__double2hiint(value), low = (u32)__double2loint(value);
    return __uint_as_float(__funnelshift_l(low, high, 3) + 0x40000000u);
}

// A copy of a table of doubles that stays in registers, those of a warp where it has such: a loop would read
// constant memory again in each turn, one instruction of ten in exact SSA. What a warp makes together the compiler
// can not make again in the loop. All lanes of the warp call it.
template <class Numbers>
DEVICE Numbers in_registers(const Numbers &table) {
    Numbers copy = table;
#if __CUDA_ARCH__ >= 800
    UNROLL for (u32 i = 0; i < sizeof(Numbers) / sizeof(u32); ++i)
        ((u32 *)&copy)[i] = __reduce_or_sync(0xffffffffu, ((const u32 *)&table)[i]);
#endif
    return copy;
}

DEVICE u32 low_word(double value) {
    return (u32)__double2loint(value);
}

// Records of tables: one load each.
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
    const int2 words = *(const int2 *)from;
    return {words.x, words.y};
}

DEVICE RealPair load_pair(const double *from) {
    const double2 words = *(const double2 *)from;
    return {words.x, words.y};
}

DEVICE IntQuad load_quad(const i32 *from) {
    const int4 words = *(const int4 *)from;
    return {words.x, words.y, words.z, words.w};
}

// A table that nobody writes while the kernel runs. Pointers in a kernel's struct of arguments tell the
// compiler nothing of that, whatever they are declared as.
template <class T>
struct ReadOnly {
    const T *base;
    DEVICE_MEMBER T operator[](i64 i) const { return __ldg(base + i); }
    DEVICE_MEMBER ReadOnly operator+(i64 i) const { return {base + i}; }
};

DEVICE IntPair load_pair(const ReadOnly<i32> &from) {
    const int2 words = __ldg((const int2 *)from.base);
    return {words.x, words.y};
}

DEVICE IntQuad load_quad(const ReadOnly<i32> &from) {
    const int4 words = __ldg((const int4 *)from.base);
    return {words.x, words.y, words.z, words.w};
}

// 32 x 32 -> 64 bits. Written as a 64-bit product it costs an addition of zero more.
DEVICE u64 wide_product(u32 a, u32 b) {
    u64 product;
    asm("mul.wide.u32 %0, %1, %2;" : "=l"(product) : "r"(a), "r"(b));
    return product;
}

// a / b, correctly rounded, where no step over- or underflows: b within 2^-900 .. 2^900, a zero or
// within 2^-60 .. 2^60. The compiler's own sequence for such operands, without its tests for others.
DEVICE double quotient(double a, double b) {
    double estimate;
    asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(estimate) : "d"(b));
    const double r0 = from_words(high_word(estimate), 1);
    const double e0 = FMA(r0, -b, 1.0);
    const double r1 = FMA(r0, FMA(e0, e0, e0), r0);
    const double r = FMA(r1, FMA(r1, -b, 1.0), r1);
    const double q = a * r;
    return FMA(r, FMA(q, -b, a), q);
}

// 1 / a, correctly rounded; results and operands below the least normal number count as zeros. Unlike a
// division it has no branch, so several run at once. The estimate is at most one unit off, and one step
// corrects it. For a zero or an infinity `rest` is not a number; the minimum takes its other operand,
// and the estimate stays.
DEVICE float reciprocal(float a) {
    float estimate, rest, found;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(estimate) : "f"(a));
    asm("fma.rn.ftz.f32 %0, %1, %2, %3;" : "=f"(rest) : "f"(-a), "f"(estimate), "f"(1.0f));
    rest = fminf(rest, 1.0f);
    asm("fma.rn.ftz.f32 %0, %1, %2, %1;" : "=f"(found) : "f"(estimate), "f"(rest));
    return found;
}

// Whether estimates in single precision settle most of what is then seldom computed in double precision.
#define ESTIMATES_FIRST true

// Fast functions of normal numbers, to a few units in the last place; subnormal results are zeros. For
// estimates whose error is bounded: no result may depend on their bits.
DEVICE float quick_reciprocal(float a) {
    float found;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(a));
    return found;
}

DEVICE float quick_root(float a) {
    float found;
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(a));
    return found;
}

DEVICE float quick_log2(float a) {
    float found;
    asm("lg2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(a));
    return found;
}

DEVICE float quick_exp2(float a) {
    float found;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(found) : "f"(a));
    return found;
}

DEVICE u32 single_bits(float value) {
    return __float_as_uint(value);
}

DEVICE float single_of(u32 bits) {
    return __uint_as_float(bits);
}

DEVICE u64 atomic_add(u64 *cell, u64 value) {
    return atomicAdd(cell, value);
}

DEVICE u32 atomic_add(u32 *cell, u32 value) {
    return atomicAdd(cell, value);
}

// Stores `value`; returns what the cell held.
DEVICE u64 atomic_exchange(u64 *cell, u64 value) {
    return atomicExch(cell, value);
}

// A cell that the host may write while the kernel runs.
DEVICE u64 read_now(const u64 *cell) {
    return *(const volatile u64 *)cell;
}

DEVICE u8 read_now(const u8 *cell) {
    return *(const volatile u8 *)cell;
}

// The cell becomes `value` where that is larger; fewer writes than threads.
DEVICE void atomic_largest(u64 *cell, u64 value) {
    if (value > read_now(cell)) atomicMax(cell, value);
}

// The same; returns what the cell held.
DEVICE u64 atomic_max(u64 *cell, u64 value) {
    return atomicMax(cell, value);
}

// Adds 1 to the cell of each lane that has one. All lanes of the warp call it; those with one cell add once.
DEVICE void warp_aggregated_add(u64 *cell) {
    const u32 same = __match_any_sync(0xffffffffu, (u64)cell);
    if (cell && __ffs((int)same) - 1 == (int)(threadIdx.x % 32)) atomicAdd(cell, (u64)__popc(same));
}

// The cell becomes `value` if that is smaller, as unsigned integers; fewer writes than threads.
DEVICE void atomic_least(u64 *cell, u64 value) {
    if (value < *(volatile u64 *)cell) atomicMin(cell, value);
}

// Blocks: threads that share memory and wait for each other.
#define BLOCK_KERNEL(threads, blocks, name, ...) \
    extern "C" __global__ void __launch_bounds__(threads, blocks) name(__VA_ARGS__)
#define BLOCK_ID ((i64)blockIdx.x)
#define BLOCKS ((i64)gridDim.x)
#define THREAD_ID ((int)threadIdx.x)
#define BLOCK_THREADS ((int)blockDim.x)
#define BARRIER() __syncthreads()
#define SHARED __shared__
// A warp that makes a draw for one site makes it for all.
#define DRAW_AHEAD true
// The lanes of a warp have sites side by side, and exchange what hops between them.
#define LANES_SIDE_BY_SIDE
// Warps of a block exchange trajectories (device/work_stealing.h).
#define WARPS_STEAL
// Bytes of two words in the order of the nibbles of `selector`: 0 to 3 of `a`, 4 to 7 of `b`; with
// 8 more, the byte's sign eight times.
#define SELECT_BYTES(a, b, selector) select_bytes((a), (b), (selector))

#define MAY_ALIAS

// Whether it holds for any thread of the block; all must ask.
DEVICE bool any_in_block(bool condition) {
    return __syncthreads_or(condition) != 0;
}

// Without the mask that the intrinsic puts on its selector.
DEVICE u32 select_bytes(u32 a, u32 b, u32 selector) {
    u32 found;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(found) : "r"(a), "r"(b), "r"(selector));
    return found;
}

// Sum of the products of four signed bytes with four unsigned ones.
DEVICE i32 dot_bytes(u32 of_signed, u32 of_unsigned) {
    i32 sum;
    asm("dp4a.s32.u32 %0, %1, %2, 0;" : "=r"(sum) : "r"(of_signed), "r"(of_unsigned));
    return sum;
}

// Number of the highest bit that is set, less those of its bits that are not in MASK; MASK for none. The compiler
// would take what is added to it into the mask, and then adds more often.
template <i32 MASK>
DEVICE i32 highest_bit_masked(u32 word) {
    i32 found;
    asm("{ .reg .u32 t; bfind.u32 t, %1; and.b32 %0, t, %2; }"
        : "=r"(found)
        : "r"(word), "n"(MASK));
    return found;
}

// Whether one of the four 16-bit lanes of two words is 0x8000. It may also say so of 0x8001 in a high lane over a
// low one of 0, which borrows: who asks looks at each lane then.
DEVICE bool has_least_of_16(u32 low, u32 high) {
#if __CUDA_ARCH__ >= 900
    u32 least;  // as signed numbers
    asm("min.s16x2 %0, %1, %2;" : "=r"(least) : "r"(low), "r"(high));
    return least & ~(least - 0x00010001u) & 0x80008000u;
#else
    return ((low & ~(low - 0x00010001u)) | (high & ~(high - 0x00010001u))) & 0x80008000u;
#endif
}

// `bits` up; by 64 and more, everything is out.
DEVICE u64 shift_left(u64 word, u32 bits) {
    u64 moved;
    asm("shl.b64 %0, %1, %2;" : "=l"(moved) : "l"(word), "r"(bits));
    return moved;
}

// `bits` down; by 32 and more, everything is out.
DEVICE u32 shift_right(u32 word, u32 bits) {
    u32 moved;
    asm("shr.b32 %0, %1, %2;" : "=r"(moved) : "r"(word), "r"(bits));
    return moved;
}

// Returns `value`, and makes the compiler keep it in a register instead of computing it again at every use:
// the compiler cannot know that a lane reads its own value.
DEVICE u32 kept(u32 value) {
    return __shfl_sync(0xffffffffu, value, (int)threadIdx.x);
}

DEVICE u64 kept(u64 value) {
    return (u64)kept((u32)(value >> 32)) << 32 | kept((u32)value);
}

template <class T>
DEVICE T *kept(T *pointer) {
    return (T *)__cvta_global_to_generic(kept((u64)__cvta_generic_to_global(pointer)));
}

// Returns `value`, which is the same in all lanes of a warp. What is read from one lane the compiler knows to be so: it
// keeps it once for the warp, and where a branch depends on it no lane goes another way.
DEVICE u32 uniform(u32 value) {
    return __shfl_sync(0xffffffffu, value, 0);
}

DEVICE u64 uniform(u64 value) {
    return (u64)uniform((u32)(value >> 32)) << 32 | uniform((u32)value);
}

// A pointer into the block's memory.
template <class T>
DEVICE T *kept_in_block(T *pointer) {
    return (T *)__cvta_shared_to_generic(kept((u32)__cvta_generic_to_shared(pointer)));
}

DEVICE int leading_zeros(u32 word) {
    return __clz((int)word);
}

DEVICE int popc(u32 word) {
    return __popc(word);
}

// The lowest `count` bits, all 32 for a larger count; it is not negative. The instruction shifts
// everything out where the language leaves the shift undefined.
DEVICE u32 low_bits(int count) {
    u32 above;
    asm("shl.b32 %0, 1, %1;" : "=r"(above) : "r"(count));
    return above - 1;
}

// Number of the lowest bit that is set; `word` is not 0.
DEVICE int lowest_bit(u32 word) {
    return __ffs((int)word) - 1;
}

// Stores `value` if the cell holds `expected`; returns what the cell held.
DEVICE i32 atomic_compare_exchange(i32 *cell, i32 expected, i32 value) {
    return atomicCAS(cell, expected, value);
}

DEVICE u64 atomic_compare_exchange(u64 *cell, u64 expected, u64 value) {
    return atomicCAS(cell, expected, value);
}

// A cell of the block's memory that others change meanwhile.
DEVICE u32 read_in_block(const u32 *cell) {
    return *(const volatile u32 *)cell;
}

// Adds to a cell of the block's memory; returns what was there.
DEVICE u32 add_in_block(u32 *cell, u32 value) {
    return atomicAdd(cell, value);
}

// Sets bits of a cell of the block's memory; returns what was there.
DEVICE u32 or_in_block(u32 *cell, u32 bits) {
    return atomicOr(cell, bits);
}

// Changes bits of a cell; returns what was there.
DEVICE u32 atomic_flip(u32 *cell, u32 bits) {
    return atomicXor(cell, bits);
}

// Changes bits of a cell of the block's memory.
DEVICE void flip_in_block(u32 *cell, u32 bits) {
    atomicXor(cell, bits);
}

// Orders writes: other threads of the device see earlier writes before later ones.
DEVICE void threadfence() {
    __threadfence();
}

// The same for threads of the block.
DEVICE void fence_in_block() {
    __threadfence_block();
}

// As `threadfence`, for the host and other devices too.
DEVICE void threadfence_system() {
    __threadfence_system();
}

// Signals another device that everything before the last `threadfence_system` has arrived.
DEVICE void send_signal(u64 *cell, u64 value) {
    *(volatile u64 *)cell = value;
}

// Leaves the memory that a thread looks at again and again to others for a while.
DEVICE void wait_a_little(u32 nanoseconds = 20) {
    __nanosleep(nanoseconds);
}

// Waits until a cell that another device writes holds `value` or more.
DEVICE void wait_for_signal(const u64 *cell, u64 value) {
    while (*(const volatile u64 *)cell < value) wait_a_little();
    __threadfence_system();
}

// Wait until all blocks of the launch, which run at the same time, are here. `cell` is 0 at the start of
// the launch and counts arrivals; `arrivals` is 0 then too, each thread's own, and says how many have to come.
// In two parts, between which a block does what does not depend on the others.
DEVICE void grid_arrive(u64 *cell, i64 blocks, u32 &arrivals) {
    arrivals += (u32)blocks;
    __syncthreads();
    if (threadIdx.x == 0)
        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" : : "l"(cell) : "memory");
}

DEVICE void grid_wait(u64 *cell, u32 arrivals) {
    if (threadIdx.x == 0) {
        u32 now;
        // Each load with acquire semantics empties the multiprocessor's cache: one, when all are here.
        do {
            asm volatile("ld.relaxed.gpu.u32 %0, [%1];" : "=r"(now) : "l"(cell) : "memory");
        } while ((i32)(now - arrivals) < 0);
        asm volatile("ld.acquire.gpu.u32 %0, [%1];" : "=r"(now) : "l"(cell) : "memory");
    }
    __syncthreads();
}

DEVICE void grid_barrier(u64 *cell, i64 blocks, u32 &arrivals) {
    grid_arrive(cell, blocks, arrivals);
    grid_wait(cell, arrivals);
}

// The same for blocks that wait for some others only. Each has a cell, in which it counts where it has come to, after a
// barrier of its threads.
DEVICE void signal_blocks(u32 *cell, u32 number) {
    if (threadIdx.x == 0)
        asm volatile("st.release.gpu.global.u32 [%0], %1;" : : "l"(cell), "r"(number) : "memory");
}

// `cell` is that of a block to wait for, another for each thread; null: for none.
// A barrier of the block's threads has to follow.
DEVICE void wait_for_blocks(const u32 *cell, u32 number) {
    if (cell) {
        u32 now;
        do {
            asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(cell) : "memory");
        } while ((i32)(now - number) < 0);
        asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(cell) : "memory");
    }
}

// The same of cells that count: waits until one holds `least` or more, and returns what it holds.
DEVICE u32 wait_for_count(const u32 *cell, u32 least) {
    u32 now;
    do {
        asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(cell) : "memory");
    } while ((i32)(now - least) < 0);
    asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(now) : "l"(cell) : "memory");
    return now;
}

// Adds 1 to such a cell for a whole warp, after all its earlier writes are visible; returns what the cell held before. All
// lanes call it with equal arguments, together.
DEVICE u32 add_and_release_if(bool condition, u32 *cell) {
    u32 before = 0;
    asm volatile(
        "{ .reg .pred p; setp.ne.u32 p, %2, 0; @p atom.release.gpu.global.add.u32 %0, [%1], 1; }"
        : "+r"(before)
        : "l"(cell), "r"((u32)(condition && threadIdx.x % 32 == 0))
        : "memory");
    return __shfl_sync(0xffffffffu, before, 0);
}

// After a wait for a count: makes the writes of the threads that counted visible to this thread.
DEVICE void acquire_if(bool condition) {
    asm volatile("{ .reg .pred p; setp.ne.u32 p, %0, 0; @p fence.acq_rel.gpu; }"
                 :
                 : "r"((u32)condition)
                 : "memory");
}

// 1 + the upper 52 of 64 bits / 2^52.
DEVICE double from_fraction(u32 hi, u32 lo) {
    return from_words(0x3ff00000u + (hi >> 12), hi << 20 | lo >> 12);
}
