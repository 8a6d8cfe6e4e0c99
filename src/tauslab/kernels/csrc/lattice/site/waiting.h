// Particles that found no slot wait at their site, and enter at the end of a step, oldest first.
//
// A list is an array filled from the front; the entries of a tile are chained. Nothing depends on
// where an entry lies. Particles that still wait go to the list of the next step.
#pragma once

#include "lattice/site/lattice.h"

// Place in `age` of the passes of a step: x, y, z, then reactions, then hooks (options/hook_view.py).
enum SpillPass : u32 {
    SPILL_X = 0,
    SPILL_Y = 0x1000,
    SPILL_Z = 0x2000,
    SPILL_REACTION = 0x3000,
    SPILL_HOOK = 0xf000,
};

DEVICE i32 *tile_head(const Lattice &l, u64 list, i64 tile) {
    return l.heads + (i64)list * l.planes * tiles_of_plane(l) + tile;
}

// The number of particles on a list while steps run; a kernel may say where.
#ifndef WAITING_COUNT
#define WAITING_COUNT(l, list) ((l).work + WAITING_0 + (list))
#endif

// If the list is full, the batch of steps is void: LIST_FULL makes the host repeat it with a longer list.
DEVICE_SHARED void add_waiting(const Lattice &l, u64 list, i64 tile, u64 site, u64 age,
                               u32 particle) {
    const u64 place = atomic_add(WAITING_COUNT(l, list), 1);
    if (place >= (u64)l.capacity) {
        atomic_add(l.work + LIST_FULL, 1);
        return;
    }
    volatile Waiting *entry = l.waiting + (i64)list * l.capacity + (i64)place;
    entry->site = site;
    entry->age = age;
    entry->particle = particle;
    i32 *head = tile_head(l, list, tile);
    for (i32 first = *(volatile i32 *)head, seen;; first = seen) {
        entry->next = first;
        threadfence();
        seen = atomic_compare_exchange(head, first, (i32)place);
        if (seen == first) return;
    }
}

// Takes in what a pass cannot place at one site; `keep` is false where another repeats the same.
struct SpillHere {
    const Lattice &l;
    i64 tile;
    u64 site;
    u32 pass;
    bool keep;

    DEVICE_MEMBER void operator()(u32 particle, u32 number) const {
        if (!keep) return;
        if (owns_site(l, site)) atomic_add(l.work + SPILLS, 1);
        add_waiting(l, l.step & 1, tile, site, l.step << 16 | (pass + number), particle);
    }
};

// The oldest entry of `site` that is not younger than `from`, or none.
DEVICE const volatile Waiting *oldest_waiting(const Lattice &l, i32 head, u64 site, u64 from) {
    const volatile Waiting *list = l.waiting + (i64)(l.step & 1) * l.capacity, *found = nullptr;
    NO_UNROLL for (i32 i = head; i >= 0; i = list[i].next)
        if (list[i].site == site && list[i].age >= from && (!found || list[i].age < found->age))
            found = list + i;
    return found;
}

// Puts waiting particles into the free slots of their site; the others wait another step.
DEVICE_SHARED void place_waiting(const Lattice &l, i64 tile, u64 site, Slot *slots, int &n) {
    const i32 head = *(volatile i32 *)tile_head(l, l.step & 1, tile);
    if (head < 0) return;
    u64 from = 0;
    const volatile Waiting *entry = oldest_waiting(l, head, site, from);
    for (; entry && n < SLOTS; entry = oldest_waiting(l, head, site, from)) {
        slots[n++] = (Particle)entry->particle;
        from = entry->age + 1;
    }
    for (; entry; entry = oldest_waiting(l, head, site, from)) {
        add_waiting(l, (l.step + 1) & 1, tile, site, entry->age, entry->particle);
        from = entry->age + 1;
    }
}
