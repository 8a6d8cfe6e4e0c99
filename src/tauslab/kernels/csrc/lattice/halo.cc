// Edge planes of a slab on their way to the slabs below and above, which keep them beside their own.
//
// A message holds `depth` planes: the number of waiting particles, the sites, the stamps of their
// tiles, and, if more than one step is done between messages, up to `room` waiting particles. It is
// packed straight into the receiver's memory where that can be reached, and a signal tells when it
// is complete; otherwise into memory that the host sends. Two messages are in use by turns: one of
// number n + 2 is packed only after that of number n + 1 came from the same neighbour, which had
// unpacked number n before.
#include "lattice/site/waiting.h"

struct Message {
    u64 *waiting_count;
    Site *sites;
    u32 *stamps;
    Waiting *waiting;
};

// Parts begin at multiples of 16 bytes; kernels/lattice/halo_messages.py knows the same layout.
DEVICE Message message_in(const Lattice &l, i64 depth, u64 *memory) {
    Message m;
    m.waiting_count = memory;
    m.sites = (Site *)(memory + 2);
    const i64 words = depth * l.ny * l.nx * (i64)(sizeof(Site) / 4);
    m.stamps = (u32 *)(memory + 2 + (words + 3) / 4 * 2);
    m.waiting = (Waiting *)((u64 *)m.stamps + (depth * tiles_of_plane(l) + 3) / 4 * 2);
    return m;
}

// Appends those that wait in one tile; `place` is the tile's number within the message.
DEVICE void pack_waiting(const Lattice &l, i64 tile, i64 place, const Message &m, i64 room,
                         u64 *counter) {
    const u64 list = l.step & 1;
    for (i32 i = *tile_head(l, list, tile); i >= 0;) {
        const Waiting entry = l.waiting[(i64)list * l.capacity + i];
        i = entry.next;
        const u64 at = atomic_add(counter, 1);
        if (at >= (u64)room) {
            atomic_add(l.work + MESSAGE_FULL, 1);
            continue;
        }
        m.waiting[at] = {entry.site, entry.age, entry.particle, (i32)place};
    }
}

// Which items of a list a thread does: every `stride`-th.
struct Share {
    i64 first, stride;
};
#define SHARE \
    Share { \
        BLOCK_ID *BLOCK_THREADS + THREAD_ID, BLOCKS *BLOCK_THREADS \
    }

// Planes first_plane .. first_plane + depth - 1 into a message.
DEVICE void pack_planes(const Lattice &l, Share share, i64 first_plane, i64 depth, i64 room,
                        u64 *memory, u64 *counter) {
    const Message m = message_in(l, depth, memory);
    const i64 sites = l.ny * l.nx, tiles = tiles_of_plane(l);
    for (i64 i = share.first; i < depth * sites; i += share.stride)
        m.sites[i] = l.state[first_plane * sites + i];
    for (i64 i = share.first; i < depth * tiles; i += share.stride) {
        m.stamps[i] = l.state_stamps[first_plane * tiles + i];
        if (room > 0) pack_waiting(l, first_plane * tiles + i, i, m, room, counter);
    }
}

// Nobody waits in planes beside the slab until a message says so.
DEVICE void forget_waiting(const Lattice &l, Share share) {
    const i64 tiles = tiles_of_plane(l), end = l.planes * tiles;
    const i64 own_begin = l.own_begin * tiles, own_end = l.own_end * tiles;
    for (i64 i = share.first; i < end; i += share.stride)
        if (i < own_begin || i >= own_end) *tile_head(l, l.step & 1, i) = -1;
}

struct HaloPackArguments {
    LatticeArguments lattice;
    i64 depth, room;     // of a message: planes, and waiting particles
    u64 *below, *above;  // messages for the slabs below and above; null where there is none
    u64 *below_signal, *above_signal;
    u64 *counters;  // zeros, and left so: waiting particles of both messages, blocks that are done
    u64 number;     // of the message
};

BLOCK_KERNEL(TILE_THREADS, 1, halo_pack, const HaloPackArguments arguments) {
    const Lattice l = lattice_of(arguments.lattice);
    const i64 depth = arguments.depth, room = arguments.room;
    u64 *const below = arguments.below, *const above = arguments.above;
    u64 *const counters = arguments.counters;
    const Share share = SHARE;
    if (below) pack_planes(l, share, l.own_begin, depth, room, below, counters);
    if (above) pack_planes(l, share, l.own_end - depth, depth, room, above, counters + 1);
    if (room > 0) forget_waiting(l, share);
    threadfence_system();
    BARRIER();
    if (THREAD_ID != 0 || atomic_add(counters + 2, 1) + 1 != (u64)BLOCKS) return;
    threadfence_system();  // of all blocks
    if (below) *below = atomic_add(counters, 0);
    if (above) *above = atomic_add(counters + 1, 0);
    counters[0] = counters[1] = counters[2] = 0;
    threadfence_system();
    const u64 value = arguments.number + l.work[MESSAGES_BEFORE];
    if (arguments.below_signal) send_signal(arguments.below_signal, value);
    if (arguments.above_signal) send_signal(arguments.above_signal, value);
}

struct HaloWaitArguments {
    const u64 *below_signal, *above_signal;  // null where none is to come
    const u64 *work;                         // of the lattice
    u64 number;                              // of the message
};

// Waits for the signals of a message.
BLOCK_KERNEL(32, 1, halo_wait, const HaloWaitArguments a) {
    if (BLOCK_ID != 0 || THREAD_ID != 0) return;
    const u64 value = a.number + a.work[MESSAGES_BEFORE];
    if (a.below_signal) wait_for_signal(a.below_signal, value);
    if (a.above_signal) wait_for_signal(a.above_signal, value);
}

// A message into stored planes first_plane .. first_plane + depth - 1.
DEVICE void unpack_planes(const Lattice &l, Share share, i64 first_plane, i64 depth, i64 room,
                          u64 *memory) {
    const Message m = message_in(l, depth, memory);
    const i64 sites = l.ny * l.nx, tiles = tiles_of_plane(l);
    for (i64 i = share.first; i < depth * sites; i += share.stride)
        l.state[first_plane * sites + i] = m.sites[i];
    for (i64 i = share.first; i < depth * tiles; i += share.stride) {
        l.state_stamps[first_plane * tiles + i] = m.stamps[i];
        // Between messages the outer planes were left as they were: not empty, whatever their stamp.
        l.moved_stamps[first_plane * tiles + i] = (u32)l.step;
    }
    const u64 count = *m.waiting_count;
    for (i64 i = share.first; i < room && (u64)i < count; i += share.stride) {
        const Waiting entry = m.waiting[i];
        add_waiting(l, l.step & 1, first_plane * tiles + entry.next, entry.site, entry.age,
                    entry.particle);
    }
}

struct HaloUnpackArguments {
    LatticeArguments lattice;
    i64 depth, room;     // of a message: planes, and waiting particles
    u64 *below, *above;  // messages of the slabs below and above; null where there is none
};

BLOCK_KERNEL(TILE_THREADS, 1, halo_unpack, const HaloUnpackArguments arguments) {
    const Lattice l = lattice_of(arguments.lattice);
    const Share share = SHARE;
    const i64 depth = arguments.depth, room = arguments.room;
    if (arguments.below) unpack_planes(l, share, 0, depth, room, arguments.below);
    if (arguments.above) unpack_planes(l, share, l.planes - depth, depth, room, arguments.above);
}

struct HaloAdvanceArguments {
    u64 *work;  // of the lattice
    u64 steps, messages;
};

// Moves on what launches that are replayed begin from.
BLOCK_KERNEL(32, 1, halo_advance, const HaloAdvanceArguments a) {
    if (BLOCK_ID != 0 || THREAD_ID != 0) return;
    a.work[STEPS_BEFORE] += a.steps;
    a.work[MESSAGES_BEFORE] += a.messages;
}
