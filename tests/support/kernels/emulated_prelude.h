// A prelude for tests: the threads of a team as fibers of one CPU thread, so that the code that
// warps and blocks run can be checked without a GPU. A fiber runs until an operation of its warp or
// block has to wait for the others; operations that do not match abort the program. With
// fiber_order < 0 the fibers run in the opposite order, which shows what a missing barrier leaves to chance.
#pragma once

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "device/cpu.h"

#undef HAS_OCTETS
#undef KERNEL
#undef GLOBAL_ID
#undef GLOBAL_SIZE
#undef BLOCK_ID
#undef DRAWS_AHEAD
#undef THREAD_OFFSET
#undef THREAD_STRIDE
#undef BLOCKS
#undef BLOCK_KERNEL
#undef THREAD_ID
#undef BLOCK_THREADS
#undef BARRIER
#undef SHARED
#undef DRAW_AHEAD
#undef TEAM_MEMORY

constexpr int FIBERS = FIBERS_OF_BLOCK * FIBER_BLOCKS, STACK = 1 << 18;

struct Fiber {
    jmp_buf at;
    bool done;
    u64 warp_operations, block_operations, grid_operations;
    u64 value[2];
    bool vote[2], block_vote[2];
    char *stack;
};

extern "C" __attribute__((visibility("default"))) int fiber_order;
int fiber_order = 1;  // set before a launch

static Fiber fibers[FIBERS];
static int current;
static jmp_buf finished;
static u64 idle;

static u64 launches;

// What a block finds in its memory when a launch begins. The first of its threads calls it.
static void fill_with_garbage(void *memory, size_t bytes, u64 &launch) {
    if (launch == launches) return;
    launch = launches;
    memset(memory, 0xa5, bytes);
}

// For any other order: fibers are chosen, and give way, by chance; one block or warp is left behind for a while.
static u64 chance() {
    static u64 word = 88172645463325252ull + (u64)fiber_order;
    word ^= word << 13, word ^= word >> 7, word ^= word << 17;
    return word;
}

static bool by_chance() {
    return fiber_order != 1 && fiber_order != -1;
}

static int chosen_by_chance() {
    static int late = 0, size = 1;
    if (chance() % 8192 == 0) {
        size = chance() % 2 ? FIBERS_OF_BLOCK : 32;
        late = (int)(chance() % FIBERS) / size * size;
    }
    for (;;) {
        const int chosen = (int)(chance() % FIBERS);
        if (chosen < late || chosen >= late + size || chance() % 1024 == 0) return chosen;
    }
}

// Memory of a block that has no name of its own for each: a copy for each takes its turn.
static __attribute__((section("block_memory"), used)) u64 first_of_memory;
extern "C" __attribute__((visibility("hidden"))) char __start_block_memory[], __stop_block_memory[];

static void enter_block(int block) {
    static char *kept[FIBER_BLOCKS];
    static int within = -1;
    const size_t bytes = (size_t)(__stop_block_memory - __start_block_memory);
    if (block == within || FIBER_BLOCKS == 1) return;
    for (char *&each : kept)
        if (!each) each = (char *)malloc(bytes), memset(each, 0xa5, bytes);
    if (within >= 0) memcpy(kept[within], __start_block_memory, bytes);
    memcpy(__start_block_memory, kept[block], bytes);
    within = block;
}

static void switch_fiber() {
    if (by_chance()) current = chosen_by_chance();
    for (int turn = 1; turn <= FIBERS; ++turn) {
        const int next = (current + (fiber_order > 0 ? turn : FIBERS - turn)) % FIBERS;
        if (!fibers[next].done) {
            current = next;
            enter_block(next / FIBERS_OF_BLOCK);
            _longjmp(fibers[next].at, 1);
        }
    }
    _longjmp(finished, 1);
}

static void yield() {
    if (++idle > 100000000) {
        fprintf(stderr, "threads of a team wait for each other for ever\n");
        abort();
    }
    if (_setjmp(fibers[current].at) == 0) switch_fiber();
}

// Waits until the threads `begin .. end - 1` have come to the same operation.
template <class Count>
static void wait_for(int begin, int end, Count count) {
    const u64 own = count(fibers[current]);
    if (by_chance() && chance() % 4 == 0) yield();
    for (int i = begin; i < end;) {  // counts only grow: who has come is not looked at again
        if (count(fibers[i]) >= own) {
            ++i;
        } else if (fibers[i].done) {
            fprintf(stderr, "a thread ended before an operation of its team\n");
            abort();
        } else {
            yield();
        }
    }
    idle = 0;
}

// An operation of the `lanes` neighbours that a thread is one of.
static int warp_operation(int lanes) {
    const int begin = current / lanes * lanes;
    const int slot = (int)(++fibers[current].warp_operations & 1);
    wait_for(begin, begin + lanes, [](const Fiber &fiber) { return fiber.warp_operations; });
    return slot;
}

static int first_of_block() {
    return current / FIBERS_OF_BLOCK * FIBERS_OF_BLOCK;
}

static int block_operation() {
    const int slot = (int)(++fibers[current].block_operations & 1);
    const int begin = first_of_block();
    wait_for(begin, begin + FIBERS_OF_BLOCK,
             [](const Fiber &fiber) { return fiber.block_operations; });
    return slot;
}

static void grid_operation() {
    ++fibers[current].grid_operations;
    wait_for(0, FIBERS, [](const Fiber &fiber) { return fiber.grid_operations; });
}

// Barriers of a block by number: who came, and how often all had come.
struct NamedBarrier {
    int expected, arrived;
    u64 turns;
};
static NamedBarrier named[FIBER_BLOCKS][16];

static void named_arrive(int number, int threads) {
    NamedBarrier &at = named[current / FIBERS_OF_BLOCK][number];
    if (number < 1 || number > 15 || threads % 32 || (at.arrived && at.expected != threads)) {
        fprintf(stderr, "threads disagree about barrier %d\n", number);
        abort();
    }
    at.expected = threads;
    if (++at.arrived == threads) at.arrived = 0, ++at.turns;
}

static void named_wait(int number, int threads) {
    const NamedBarrier &at = named[current / FIBERS_OF_BLOCK][number];
    const u64 turns = at.turns;
    named_arrive(number, threads);
    while (at.turns == turns) yield();
    idle = 0;
}

template <class T>
static T warp_read(int lanes, T value, int lane) {
    u64 bits = 0;
    __builtin_memcpy(&bits, &value, sizeof value);
    fibers[current].value[(fibers[current].warp_operations + 1) & 1] = bits;
    const int slot = warp_operation(lanes);
    bits = fibers[current / lanes * lanes + (lane & (lanes - 1))].value[slot];
    __builtin_memcpy(&value, &bits, sizeof value);
    return value;
}

static u32 warp_ballot(int lanes, bool condition) {
    fibers[current].vote[(fibers[current].warp_operations + 1) & 1] = condition;
    const int slot = warp_operation(lanes), begin = current / lanes * lanes;
    u32 bits = 0;
    for (int i = 0; i < lanes; ++i) bits |= (u32)fibers[begin + i].vote[slot] << i;
    return bits;
}

static bool block_any(bool condition) {
    fibers[current].block_vote[(fibers[current].block_operations + 1) & 1] = condition;
    const int slot = block_operation();
    bool any = false;
    for (int i = 0; i < FIBERS_OF_BLOCK; ++i) any |= fibers[first_of_block() + i].block_vote[slot];
    return any;
}

static void atomic_least(u64 *cell, u64 value) {
    if (value < *cell) *cell = value;
}

#include "csrc_bytes.h"

// Lets the others go on, now and then, where a thread looks at what they write.
static void give_way() {
    static u32 some = 1;
    some = some * 1664525u + 1013904223u;
    if (some >> 31 && _setjmp(fibers[current].at) == 0) switch_fiber();
}
#define atomic_add(cell, value) (give_way(), atomic_add(cell, value))
#define atomic_max(cell, value) (give_way(), atomic_max(cell, value))
#define read_now(cell) (give_way(), read_now(cell))
#define read_in_block(cell) (give_way(), read_in_block(cell))

// For a loop that waits for another block.
#define wait_a_little(...) yield()

// Blocks that wait for some others only.
static void signal_blocks(u32 *cell, u32 number) {
    if (current % FIBERS_OF_BLOCK == 0) *cell = number;
}

static void wait_for_blocks(const u32 *cell, u32 number) {
    while (cell && (i32)(*cell - number) < 0) yield();
}

static u32 wait_for_count(const u32 *cell, u32 least) {
    while ((i32)(*cell - least) < 0) yield();
    return *cell;
}

static void acquire_if(bool) {}

static u32 add_and_release_if(bool condition, u32 *cell) {
    give_way();
    u32 before = 0;
    if (condition && current % 32 == 0) before = (*cell)++;
    return warp_read(32, before, 0);
}

#define THREAD_IN_BLOCK (current % FIBERS_OF_BLOCK)
#define BLOCK_ID (current / FIBERS_OF_BLOCK)
#define LANES_BARRIER(lanes) warp_operation(lanes)
#define BLOCK_BARRIER() block_operation()
#define LANES_READ(lanes, value, lane) warp_read((lanes), (value), (lane))
#define WARP_READ(lanes, value, lane) warp_read((lanes), (value), (lane))
#define LANES_READ_BEFORE(lanes, value) warp_read((lanes), (value), current - 1)
#define LANES_READ_BEHIND(lanes, value) warp_read((lanes), (value), current + 1)
#define LANES_EXCHANGE(lanes, value, distance) warp_read((lanes), (value), current ^ (distance))
#define LANES_BALLOT(lanes, condition) warp_ballot((lanes), (condition))
#define PREFETCH_FOR_ALL(address) static_cast<void>(address)
#define LANES_ANY(lanes, condition) (warp_ballot((lanes), (condition)) != 0)
#define BLOCK_ANY(condition) block_any(condition)
#define BLOCK_SHARED static
#define BARRIER_WAIT(number, threads) named_wait((number), (threads))
#define WARP_BARRIER() warp_operation(32)
#define BARRIER_OF(number, threads) named_wait((number), (threads))
#define BLOCK_MEMORY(type, name, count) \
    static type name##_of_blocks[FIBER_BLOCKS][(count) + 1]; \
    static u64 name##_filled[FIBER_BLOCKS]; \
    type *const name = name##_of_blocks[BLOCK_ID]; \
    fill_with_garbage(name, (count) * sizeof(type), name##_filled[BLOCK_ID])
#define TEAM_MEMORY(name, count) \
    static double name##_of_teams[FIBERS / TEAM_THREADS + 1][(count) + 1]; \
    double *const name = name##_of_teams[current / TEAM_THREADS]
#define BLOCKS ((i64)FIBER_BLOCKS)
// Kernels of blocks, of which there is one.
#define THREAD_ID THREAD_IN_BLOCK
#define BLOCK_THREADS FIBERS_OF_BLOCK
#define BARRIER() block_operation()
#define SHARED static __attribute__((section("block_memory")))
#define DRAWS_AHEAD 1u
#define DRAW_AHEAD true
#define LANES_SIDE_BY_SIDE
#define any_in_block(condition) block_any(condition)
#define grid_barrier(cell, blocks, arrivals) \
    ((void)(cell), (void)(blocks), (void)(arrivals), grid_operation())
#define grid_arrive(cell, blocks, arrivals) ((void)(cell), (void)(blocks), block_operation())
#define grid_wait(cell, arrivals) ((void)(cell), (void)(arrivals), grid_operation())
#define SELECT_BYTES(a, b, selector) select_bytes((a), (b), (selector))
#define WARPS_STEAL
#define THREADS_PER_BLOCK FIBERS_OF_BLOCK
#define lanes_where(condition) __builtin_popcount(warp_ballot(32, (condition)))
#define any_lane(condition) (warp_ballot(32, (condition)) != 0)
#define fence_in_block() ((void)0)
#define FIRST_SET(bits) __builtin_ctz(bits)
#define GLOBAL_ID current
#define GLOBAL_SIZE FIBERS
#define THREAD_OFFSET(length) GLOBAL_ID
#define THREAD_STRIDE GLOBAL_SIZE

static void (*fiber_work)(void *);
static void *fiber_arguments;
static ucontext_t starter;

static void fiber_main() {
    if (_setjmp(fibers[current].at) == 0) swapcontext(&(new ucontext_t)[0], &starter);
    fiber_work(fiber_arguments);
    fibers[current].done = true;
    switch_fiber();
}

static void run_fibers(void (*work)(void *), void *arguments) {
    fiber_work = work, fiber_arguments = arguments;
    ++launches;
    for (current = 0; current < FIBERS; ++current) {
        Fiber &fiber = fibers[current];
        if (fiber.stack == nullptr) fiber.stack = (char *)malloc(STACK);
        fiber.done = false;
        fiber.warp_operations = fiber.block_operations = fiber.grid_operations = 0;
        ucontext_t context;
        getcontext(&context);
        context.uc_stack.ss_sp = fiber.stack, context.uc_stack.ss_size = STACK;
        context.uc_link = nullptr;
        makecontext(&context, fiber_main, 0);
        swapcontext(&starter, &context);
    }
    if (_setjmp(finished) == 0) {
        current = fiber_order > 0 ? FIBERS - 1 : 0;
        switch_fiber();
    }
    for (const auto &block : named)
        for (const NamedBarrier &at : block)
            if (at.arrived) fprintf(stderr, "threads ended at a barrier\n"), abort();
}

template <class Body>
struct Launch;

template <class... A>
struct Launch<void (*)(A...)> {
    template <void (*BODY)(A...)>
    static void run(A... arguments) {
        auto work = [&] { BODY(arguments...); };
        run_fibers([](void *self) { (*(decltype(work) *)self)(); }, &work);
    }
};

#define KERNEL(name, ...) \
    static void name##_body(__VA_ARGS__); \
    extern "C" __attribute__((visibility("default"))) void *name; \
    void *name = (void *)&Launch<decltype(&name##_body)>::run<name##_body>; \
    static void name##_body(__VA_ARGS__)

#define BLOCK_KERNEL(threads, blocks, name, ...) KERNEL(name, __VA_ARGS__)
