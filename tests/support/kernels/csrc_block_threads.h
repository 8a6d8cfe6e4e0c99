// In place of a few lines of device/cpu.h: the threads of the pool are the threads of one block, as on a
// GPU. They share a block's memory, wait at its barriers, and draw ahead.
#undef BLOCK_ID
#undef BLOCKS
#undef THREAD_ID
#undef BLOCK_THREADS
#undef BARRIER
#undef SHARED
#undef DRAW_AHEAD

static thread_local int block_thread = 0, block_threads = 1;
static u64 block_arrivals = 0;
static int block_flag = 0;

static inline int enter_block(i64 thread, i64 threads) {
    block_thread = (int)thread;
    block_threads = (int)threads;
    return 0;
}

static inline void block_barrier() {
    const u64 size = (u64)block_threads;
    const u64 arrived = __atomic_fetch_add(&block_arrivals, 1, __ATOMIC_ACQ_REL);
    while (__atomic_load_n(&block_arrivals, __ATOMIC_ACQUIRE) < (arrived / size + 1) * size)
        sched_yield();
}

static inline bool any_thread(bool condition) {
    if (condition) __atomic_store_n(&block_flag, 1, __ATOMIC_RELEASE);
    block_barrier();
    const bool any = __atomic_load_n(&block_flag, __ATOMIC_ACQUIRE) != 0;
    block_barrier();
    if (block_thread == 0) __atomic_store_n(&block_flag, 0, __ATOMIC_RELEASE);
    block_barrier();
    return any;
}

#define BLOCK_ID 0
#define BLOCKS 1
#define THREAD_ID block_thread
#define BLOCK_THREADS block_threads
#define BARRIER() block_barrier()
// The first line of every kernel of blocks.
#define SHARED \
    enter_block(global_id_, global_size_); \
    static
#define DRAW_AHEAD true
#define any_in_block(condition) any_thread(condition)
#define add_in_block(cell, value) __atomic_fetch_add((cell), (value), __ATOMIC_RELAXED)
#define grid_barrier(cell, blocks, arrivals) \
    ((void)(cell), (void)(blocks), (void)(arrivals), block_barrier())
#define SELECT_BYTES(a, b, selector) select_bytes((a), (b), (selector))
