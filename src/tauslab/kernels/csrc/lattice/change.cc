// Changes of particles between two steps, by hooks and by programs that hold lattices: particles that become
// others, are listed, taken out and put in.
//
// Sites are those of one slab, or of lattices of `each` sites that lie one behind the other.
#include "lattice/candidate.h"
#include "lattice/site/site.h"

// A histogram of species in the block's memory, where it is small enough.
constexpr int KINDS = N_SPECIES <= 8192 ? N_SPECIES : 1;

struct BecomeArguments {
    Site *sites;
    const u8 *where;  // [n_sites]: 0 where nothing changes; null: all may
    i64 n_sites;
    const u32 *becomes;  // [N_SPECIES + 1]: the particle that each becomes; 0: it goes
    u64 *changed;        // [N_SPECIES]: particles that became others, zeros at first
};

// Particles of a site keep their order.
DEVICE void become(const BecomeArguments &a, i64 site, u32 *bins) {
    const Site content = a.sites[site];
    if (is_empty(content) || (a.where && !a.where[site])) return;
    Slot *const slots = slots_of(a.sites[site]);
    int filled = 0, kept = 0;
    UNROLL for (int s = 0; s < SLOTS; ++s) {
        const u32 before = particle_of(content.word, s / GROUP, s % GROUP);
        if (!before) break;
        const u32 after = a.becomes[before];
        if (after != before) {
            if (KINDS == N_SPECIES)
                add_in_block(bins + before - 1, 1);
            else
                atomic_add(a.changed + before - 1, 1);
        }
        if (after && (kept < filled || after != before)) slots[kept] = (Particle)after;
        kept += after != 0;
        ++filled;
    }
    for (; kept < filled; ++kept) slots[kept] = 0;
}

BLOCK_KERNEL(TILE_THREADS, 1, rdme_become, const BecomeArguments a) {
    SHARED u32 bins[KINDS];
    for (int i = THREAD_ID; i < KINDS; i += BLOCK_THREADS) bins[i] = 0;
    BARRIER();
    for (i64 i = BLOCK_ID * BLOCK_THREADS + THREAD_ID; i < a.n_sites; i += BLOCKS * BLOCK_THREADS)
        become(a, i, bins);
    BARRIER();
    for (int i = THREAD_ID; KINDS == N_SPECIES && i < KINDS; i += BLOCK_THREADS)
        if (bins[i]) atomic_add(a.changed + i, bins[i]);
}

struct ListArguments {
    const Site *sites;
    i64 n_sites, each, first_site;  // sites are numbered in their lattice from `first_site` on
    const u8 *wanted;               // [N_SPECIES + 1]
    u64 seed, step, call, replica;  // of the draws; `replica` is the first lattice's
    Candidate *candidates;          // [room], in any order
    u64 *count;                     // of all, also of those that `room` has no place for
    u64 room;
};

KERNEL(rdme_list, const ListArguments a) {
    for (i64 i = GLOBAL_ID; i < a.n_sites; i += GLOBAL_SIZE) {
        const Site content = a.sites[i];
        if (is_empty(content)) continue;
        const u64 lattice = (u64)(i / a.each), site = (u64)(a.first_site + i % a.each);
        UNROLL for (u32 slot = 0; slot < SLOTS; ++slot) {
            const u32 particle = particle_of(content.word, slot / GROUP, slot % GROUP);
            if (!particle) break;
            if (!a.wanted[particle]) continue;
            const u64 at = atomic_add(a.count, 1);
            if (at >= a.room) continue;
            a.candidates[at] = {key_of(a, a.replica + lattice, site, slot), (u64)i, particle, slot};
        }
    }
}

struct TakeArguments {
    Site *sites;
    const i64 *at;     // [count]: different sites
    const u32 *slots;  // [count]: a bit for each slot that is emptied
    i64 count;
};

// Empties slots of a site, a bit for each; the other particles keep their order.
DEVICE void take_out_slots(Site &site, u32 gone) {
    Slot *const slots = slots_of(site);
    int kept = 0;
    for (int s = 0; s < SLOTS; ++s) {
        const Particle particle = slots[s];
        if (gone >> s & 1) continue;
        slots[kept++] = particle;
    }
    for (; kept < SLOTS; ++kept) slots[kept] = 0;
}

KERNEL(rdme_take, const TakeArguments a) {
    for (i64 i = GLOBAL_ID; i < a.count; i += GLOBAL_SIZE)
        take_out_slots(a.sites[a.at[i]], a.slots[i]);
}

struct PutArguments {
    Site *sites;
    const i64 *given;  // different sites [count], where the particles of each begin [count + 1], species + 1
    i64 count;
    i32 *room;  // [count]: how many found a slot, the first ones
};

KERNEL(rdme_put, const PutArguments a) {
    const i64 *const begins = a.given + a.count, *const particles = begins + a.count + 1;
    for (i64 i = GLOBAL_ID; i < a.count; i += GLOBAL_SIZE) {
        Site &site = a.sites[a.given[i]];
        const int filled = particles_in(site);
        const i64 begin = begins[i], coming = begins[i + 1] - begin;
        const int room = coming < SLOTS - filled ? (int)coming : SLOTS - filled;
        for (int k = 0; k < room; ++k)
            slots_of(site)[filled + k] = (Particle)particles[begin + k];
        a.room[i] = room;
    }
}
