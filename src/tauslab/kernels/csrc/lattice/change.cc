// Changes of particles between two steps, by hooks and by programs that hold lattices: particles that become
// others, are listed, taken out and put in.
//
// Sites are those of one slab, or of lattices of `each` sites that lie one behind the other.
#include "lattice/candidate.h"
#include "lattice/site/site.h"

// A histogram of species in the block's memory, where it is small enough.
constexpr int KINDS = N_SPECIES <= 8192 ? N_SPECIES : 1;

struct ChangedSites {
    Site *sites;
    i64 n_sites, each, first_site;  // sites are numbered in their lattice from `first_site` on
};

struct BecomeArguments {
    ChangedSites lattice;
    const u8 *where;     // [n_sites]: 0 where nothing changes; null: all may
    const u32 *becomes;  // [N_SPECIES + 1]: the particle that each becomes; 0: it goes
    u64 *changed;        // [N_SPECIES]: particles that became others, zeros at first
};

// Particles of a site keep their order.
DEVICE void become(const BecomeArguments &a, i64 site, u32 *bins) {
    const Site content = a.lattice.sites[site];
    if (is_empty(content) || (a.where && !a.where[site])) return;
    Slot *const slots = slots_of(a.lattice.sites[site]);
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
    for (i64 i = BLOCK_ID * BLOCK_THREADS + THREAD_ID; i < a.lattice.n_sites;
         i += BLOCKS * BLOCK_THREADS)
        become(a, i, bins);
    BARRIER();
    for (int i = THREAD_ID; KINDS == N_SPECIES && i < KINDS; i += BLOCK_THREADS)
        if (bins[i]) atomic_add(a.changed + i, bins[i]);
}

struct ListArguments {
    ChangedSites lattice;
    Listing to;
};

KERNEL(rdme_list, const ListArguments a) {
    const ChangedSites &l = a.lattice;
    for (i64 i = GLOBAL_ID; i < l.n_sites; i += GLOBAL_SIZE) {
        const Slot *const slots = slots_of(l.sites[i]);
        const u64 replica = a.to.replica + (u64)(i / l.each);
        const u64 site = (u64)(l.first_site + i % l.each);
        // One copy of the draw: with one for each slot the text does not fit the cache of instructions.
        NO_UNROLL for (u32 slot = 0; slot < SLOTS && slots[slot]; ++slot)
            list_particle(a.to, replica, site, (u64)i, slots[slot], slot);
    }
}

struct EditArguments {
    ChangedSites lattice;
    const Candidate *given;  // [count], by site
    i64 count;
    u8 *left;  // [count]: 1 for particles that find no slot, in their order; null: particles are taken out
};

// Brings the particles of a site to the front, in their order.
DEVICE void close_gaps(Site &site) {
    Slot *const slots = slots_of(site);
    int kept = 0;
    for (int s = 0; s < SLOTS; ++s)
        if (const Particle particle = slots[s]) slots[kept++] = particle;
    for (; kept < SLOTS; ++kept) slots[kept] = 0;
}

// A thread edits the site of a particle if it is the first there.
KERNEL(rdme_edit, const EditArguments a) {
    for (i64 i = GLOBAL_ID; i < a.count; i += GLOBAL_SIZE) {
        const u64 at = a.given[i].site;
        if (i && a.given[i - 1].site == at) continue;
        Site &site = a.lattice.sites[at];
        int filled = particles_in(site);
        for (i64 k = i; k < a.count && a.given[k].site == at; ++k) {
            if (!a.left) {
                slots_of(site)[a.given[k].slot] = 0;
                continue;
            }
            a.left[k] = filled == SLOTS;
            if (filled < SLOTS) slots_of(site)[filled++] = (Particle)a.given[k].particle;
        }
        if (!a.left) close_gaps(site);
    }
}

struct TakeArguments {
    ChangedSites lattice;
    Taking of;
};

// Empties slots first. Of those of one site the first then closes all gaps.
BLOCK_KERNEL(TAKERS, 1, rdme_take, const TakeArguments a) {
    if (!lists_serve(a.of, BLOCK_ID)) return;
    const i64 places = a.of.lists * (i64)a.of.from.room;
    for (i64 i = BLOCK_ID * BLOCK_THREADS + THREAD_ID; i < places; i += BLOCKS * BLOCK_THREADS) {
        if (!is_chosen(a.of, i)) continue;
        const Candidate &one = a.of.from.candidates[i];
        slots_of(a.lattice.sites[one.site])[one.slot] = 0;
        a.of.chosen[atomic_add(a.of.state + CHOSEN, 1)] = (u32)i;
    }
    if (!is_last_block(a.of, BLOCKS)) return;
    const i64 count = (i64)read_now(a.of.state + CHOSEN);
    constexpr u32 BEHIND = ~0u;
    for (i64 k = THREAD_ID; k < count; k += BLOCK_THREADS) {
        const Candidate &one = a.of.from.candidates[a.of.chosen[k]];
        const Slot *const slots = slots_of(a.lattice.sites[one.site]);
        bool first = true;
        for (u32 s = 0; s < one.slot; ++s) first = first && slots[s];
        if (!first) a.of.chosen[k] = BEHIND;
    }
    BARRIER();
    for (i64 k = THREAD_ID; k < count; k += BLOCK_THREADS)
        if (a.of.chosen[k] != BEHIND)
            close_gaps(a.lattice.sites[a.of.from.candidates[a.of.chosen[k]].site]);
}
