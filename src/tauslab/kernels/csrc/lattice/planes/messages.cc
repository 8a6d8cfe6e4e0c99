// What hops over the edges of a slab on its way to the slabs below and above.
//
// A message has the flags of the edge plane's words, then the planes of what leaves each species; those above the
// lowest are written where flags say so. It is packed straight into the receiver's memory where that can be reached,
// and a signal tells when it is complete; otherwise into memory that the host sends.
#include "lattice/planes/planes.h"

struct PlanePackArguments {
    PlaneArguments lattice;
    i64 buffer;          // of `moved`
    u32 *below, *above;  // messages for the slabs below and above; null where there is none
    u64 *below_signal, *above_signal;
    u64 *counter;  // blocks that are done; 0, and left so
    u64 number;    // of the message
};

// Moves words between planes of `moved` and a message.
struct EdgePlane {
    u32 *message;
    i64 first;  // index in `moved`
    int side;
};

template <bool PACKS>
DEVICE void travel(const Lattice &l, int buffer, const EdgePlane &edge, i64 thread, i64 threads) {
    if (!edge.message) return;
    for (i64 i = thread; i < l.plane; i += threads) {
        u32 more = PACKS ? 0 : edge.message[i];
    UNROLL for (int s = 0; s < MORE_SETS; ++s) {
            u32 &flags = more_of(l, buffer, s)[edge.first + i];
            if (PACKS)
                more |= flags;
            else
                flags = more;
        }
        if (PACKS) edge.message[i] = more;
    UNROLL for (int s = 0; s < N_SPECIES; ++s) {
            const int end = more >> s & 1 ? PLANES : LOW_PLANES;
            for (int k = 0; k < end; ++k) {
                u32 *const here = moved_at(l, (i32)(edge.first + i), buffer, edge.side, s, k);
                u32 *const there = edge.message + (1 + s * PLANES + k) * (i64)l.plane + i;
                if (PACKS)
                    *there = *here;
                else
                    *here = *there;
            }
        }
    }
}

BLOCK_KERNEL(PLANE_THREADS, 1, planes_pack, const PlanePackArguments a) {
    const Lattice l = lattice_of(a.lattice);
    const i64 thread = BLOCK_ID * BLOCK_THREADS + THREAD_ID, threads = BLOCKS * BLOCK_THREADS;
    const i64 own = l.below * l.plane;
    travel<true>(l, (int)a.buffer, {a.below, own, MINUS}, thread, threads);
    travel<true>(l, (int)a.buffer, {a.above, own + l.words - l.plane, PLUS}, thread, threads);
    threadfence_system();
    BARRIER();
    if (THREAD_ID != 0 || atomic_add(a.counter, 1) + 1 != (u64)BLOCKS) return;
    *a.counter = 0;
    threadfence_system();  // of all blocks
    if (a.below_signal) send_signal(a.below_signal, a.number);
    if (a.above_signal) send_signal(a.above_signal, a.number);
}

struct PlaneWaitArguments {
    const u64 *below_signal, *above_signal;  // null where none is to come
    u64 number;                              // of the message
};

// Waits for the signals of a message.
BLOCK_KERNEL(32, 1, planes_wait, const PlaneWaitArguments a) {
    if (BLOCK_ID != 0 || THREAD_ID != 0) return;
    if (a.below_signal) wait_for_signal(a.below_signal, a.number);
    if (a.above_signal) wait_for_signal(a.above_signal, a.number);
}

struct PlaneUnpackArguments {
    PlaneArguments lattice;
    i64 buffer;          // of `moved`
    u32 *below, *above;  // messages of the slabs below and above; null where there is none
};

BLOCK_KERNEL(PLANE_THREADS, 1, planes_unpack, const PlaneUnpackArguments a) {
    const Lattice l = lattice_of(a.lattice);
    const i64 thread = BLOCK_ID * BLOCK_THREADS + THREAD_ID, threads = BLOCKS * BLOCK_THREADS;
    travel<false>(l, (int)a.buffer, {a.below, 0, PLUS}, thread, threads);
    travel<false>(l, (int)a.buffer, {a.above, l.below * l.plane + l.words, MINUS}, thread, threads);
}
