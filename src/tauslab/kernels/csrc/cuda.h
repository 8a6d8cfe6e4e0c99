// The CUDA prelude: a kernel is a __global__ function; one thread runs one work item at a time.
#pragma once

typedef unsigned char u8;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;

// 128 threads a block leave the scheduler room at any register count; set by the backend.
#ifndef THREADS_PER_BLOCK
#define THREADS_PER_BLOCK 128
#endif

#define DEVICE static __device__ __forceinline__
#define DEVICE_MEMBER __device__ __forceinline__
#define KERNEL(name, ...) \
    extern "C" __global__ void __launch_bounds__(THREADS_PER_BLOCK) name(__VA_ARGS__)
#define GLOBAL_ID ((i64)blockIdx.x * blockDim.x + threadIdx.x)
#define GLOBAL_SIZE ((i64)gridDim.x * blockDim.x)
#define UNROLL _Pragma("unroll")
#define LIKELY(condition) (condition)

#define FMA(a, b, c) __fma_rn((a), (b), (c))
#define SQRT(a) __dsqrt_rn(a)
#define MULHI32(a, b) __umulhi((a), (b))

// A per-thread array inside one allocation: neighbouring threads lie side by side, so loads
// coalesce.
#define THREAD_OFFSET(length) (GLOBAL_ID)
#define THREAD_STRIDE GLOBAL_SIZE

DEVICE u64 as_bits(double value) {
    return (u64)__double_as_longlong(value);
}

DEVICE double from_bits(u64 bits) {
    return __longlong_as_double((i64)bits);
}

DEVICE u64 atomic_add(u64 *cell, u64 value) {
    return atomicAdd(cell, value);
}
