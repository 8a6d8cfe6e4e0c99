// Changes of particles between two steps, as lattice/change.cc makes of those in slots: here the particles of a site
// stand in the order of species.
#include "lattice/candidate.h"
#include "lattice/planes/planes.h"

// Counts of all species in the sites of a word.
struct WordCounts {
    u32 n[N_SPECIES][PLANES];
};

DEVICE WordCounts load_word(const Lattice &l, u32 word) {
    WordCounts found;
    for (int s = 0; s < N_SPECIES; ++s)
        for (int k = 0; k < PLANES; ++k) found.n[s][k] = *stayed_at(l, word, s, k);
    return found;
}

DEVICE void store_word(const Lattice &l, u32 word, const WordCounts &counts) {
    for (int s = 0; s < N_SPECIES; ++s)
        for (int k = 0; k < PLANES; ++k) *stayed_at(l, word, s, k) = counts.n[s][k];
}

DEVICE u32 number_at(const u32 (&n)[PLANES], u32 place) {
    u32 found = 0;
    for (int k = 0; k < PLANES; ++k) found |= (n[k] >> place & 1) << k;
    return found;
}

// Adds the counts of some sites.
DEVICE void add_counts(u32 (&to)[PLANES], const u32 (&from)[PLANES], u32 sites) {
    u32 carry = 0;
    for (int k = 0; k < PLANES; ++k) {
        const u32 a = to[k], b = from[k] & sites;
        to[k] = a ^ b ^ carry;
        carry = (a & b) | (a & carry) | (b & carry);
    }
}

struct PlanesBecomeArguments {
    PlaneArguments lattice;
    const u8 *where;     // [own site]: 0 where nothing changes; null: all may
    const u32 *becomes;  // [N_SPECIES + 1]: the particle that each becomes; 0: it goes
    u64 *changed;        // [N_SPECIES]: particles that became others, zeros at first
};

DEVICE u32 chosen_sites(const Lattice &l, const u8 *where, u32 word) {
    if (!where) return ~0u;
    const u8 *const own = where + (first_site(l, word) - first_site(l, 0));
    u32 sites = 0;
    for (u32 place = 0; place < sites_of(l, word); ++place)
        sites |= (u32)(own[place] != 0) << place;
    return sites;
}

KERNEL(planes_become, const PlanesBecomeArguments a) {
    const Lattice l = lattice_of(a.lattice);
    u64 changed[N_SPECIES] = {};
    for (i64 word = GLOBAL_ID; word < l.words; word += GLOBAL_SIZE) {
        const u32 sites = chosen_sites(l, a.where, (u32)word);
        if (!sites) continue;
        const WordCounts before = load_word(l, (u32)word);
        WordCounts after = {};
        for (int s = 0; s < N_SPECIES; ++s) {
            const u32 becomes = a.becomes[s + 1], others = becomes == (u32)s + 1 ? 0 : sites;
            add_counts(after.n[s], before.n[s], ~others);
            if (becomes) add_counts(after.n[becomes - 1], before.n[s], others);
            for (int k = 0; k < PLANES; ++k) changed[s] += (u64)popc(before.n[s][k] & others) << k;
        }
        store_word(l, (u32)word, after);
    }
    for (int s = 0; s < N_SPECIES; ++s)
        if (changed[s]) atomic_add(a.changed + s, changed[s]);
}

struct PlanesListArguments {
    PlaneArguments lattice;
    Listing to;  // sites are counted from the slab's first
};

DEVICE void list_site(const Listing &to, const WordCounts &counts, u32 place, u64 site, u64 first) {
    u32 slot = 0;
    for (u32 s = 0; s < N_SPECIES; ++s) {
        const u32 end = slot + number_at(counts.n[s], place);
        for (; slot < end; ++slot) list_particle(to, to.replica, site, site - first, s + 1, slot);
    }
}

KERNEL(planes_list, const PlanesListArguments a) {
    const Lattice l = lattice_of(a.lattice);
    for (i64 word = GLOBAL_ID; word < l.words; word += GLOBAL_SIZE) {
        const WordCounts counts = load_word(l, (u32)word);
        u32 some = 0;
        for (int s = 0; s < N_SPECIES; ++s)
            for (int k = 0; k < PLANES && a.to.limits[3 * (s + 1)]; ++k) some |= counts.n[s][k];
        for (; some; some &= some - 1) {
            const u32 place = (u32)lowest_bit(some);
            list_site(a.to, counts, place, first_site(l, (u32)word) + place, first_site(l, 0));
        }
    }
}

struct PlanesEditArguments {
    PlaneArguments lattice;
    const Candidate *given;  // [count], by site
    i64 count;
    u8 *left;  // [count]: 1 for particles that find no slot, in their order; null: particles are taken out
};

DEVICE u32 particles_at(const WordCounts &counts, u32 place) {
    u32 held = 0;
    for (int s = 0; s < N_SPECIES; ++s) held += number_at(counts.n[s], place);
    return held;
}

DEVICE u32 word_of(const Lattice &l, u64 site) {
    const u64 nx = (u64)l.nx;
    return (u32)(site / nx * (u64)l.row + site % nx / 32);
}

// A thread edits the word of a particle if it is the first there.
KERNEL(planes_edit, const PlanesEditArguments a) {
    const Lattice l = lattice_of(a.lattice);
    const u64 nx = (u64)l.nx;
    const auto word_at = [&](i64 i) { return word_of(l, a.given[i].site); };
    for (i64 i = GLOBAL_ID; i < a.count; i += GLOBAL_SIZE) {
        const u32 word = word_at(i);
        if (i && word_at(i - 1) == word) continue;
        WordCounts counts = load_word(l, word);
        for (i64 c = i; c < a.count && word_at(c) == word; ++c) {
            const u32 place = (u32)(a.given[c].site % nx % 32);
            const bool done = !a.left || particles_at(counts, place) < SLOTS;
            if (a.left) a.left[c] = !done;
            u32 bit = done ? 1u << place : 0;
            for (int k = 0; k < PLANES; ++k) {
                u32 &plane = counts.n[a.given[c].particle - 1][k];
                const u32 next =
                    a.left ? plane & bit : ~plane & bit;  // a carry, or what is borrowed
                plane ^= bit;
                bit = next;
            }
        }
        store_word(l, word, counts);
    }
}

struct PlanesTakeArguments {
    PlaneArguments lattice;
    Taking of;
};

// Threads take 1 from counts of a word at the same time: a bit that was 0 is borrowed from the next.
BLOCK_KERNEL(TAKERS, 1, planes_take, const PlanesTakeArguments a) {
    const Lattice l = lattice_of(a.lattice);
    if (!lists_serve(a.of, BLOCK_ID)) return;
    const i64 places = a.of.lists * (i64)a.of.from.room;
    for (i64 i = BLOCK_ID * BLOCK_THREADS + THREAD_ID; i < places; i += BLOCKS * BLOCK_THREADS) {
        if (!is_chosen(a.of, i)) continue;
        const Candidate &one = a.of.from.candidates[i];
        const u32 word = word_of(l, one.site), bit = 1u << one.site % (u64)l.nx % 32;
        int k = 0;
        while (!(atomic_flip(stayed_at(l, word, (int)one.particle - 1, k), bit) & bit)) ++k;
    }
}
