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
    const u8 *wanted;               // [N_SPECIES + 1]
    u64 seed, step, call, replica;  // of the draws
    Candidate *candidates;  // [room], in any order; their sites are counted from the slab's first
    u64 *count;             // of all, also of those that `room` has no place for
    u64 room;
};

DEVICE void list_site(const PlanesListArguments &a, const WordCounts &counts, u32 place, u64 site,
                      u64 first) {
    u32 slot = 0;
    for (u32 s = 0; s < N_SPECIES; ++s) {
        const u32 end = slot + number_at(counts.n[s], place);
        for (; slot < end; ++slot) {
            if (!a.wanted[s + 1]) continue;
            const u64 at = atomic_add(a.count, 1);
            if (at < a.room)
                a.candidates[at] = {key_of(a, a.replica, site, slot), site - first, s + 1, slot};
        }
    }
}

KERNEL(planes_list, const PlanesListArguments a) {
    const Lattice l = lattice_of(a.lattice);
    for (i64 word = GLOBAL_ID; word < l.words; word += GLOBAL_SIZE) {
        const WordCounts counts = load_word(l, (u32)word);
        u32 some = 0;
        for (int s = 0; s < N_SPECIES; ++s)
            for (int k = 0; k < PLANES && a.wanted[s + 1]; ++k) some |= counts.n[s][k];
        for (; some; some &= some - 1) {
            const u32 place = (u32)lowest_bit(some);
            list_site(a, counts, place, first_site(l, (u32)word) + place, first_site(l, 0));
        }
    }
}

struct PlanesEditArguments {
    PlaneArguments lattice;
    const u32 *words;     // [count]: different own words
    const i64 *begins;    // [count + 1]: where the changes of each begin
    const u8 *places;     // of each change, in the word
    const u8 *particles;  // species + 1
    i64 count;
    i32 adds;  // 1: particles are put in, in their order, while there is room; 0: they are taken out
    u8 *done;  // of each change: whether it was made
};

DEVICE u32 particles_at(const WordCounts &counts, u32 place) {
    u32 held = 0;
    for (int s = 0; s < N_SPECIES; ++s) held += number_at(counts.n[s], place);
    return held;
}

KERNEL(planes_edit, const PlanesEditArguments a) {
    const Lattice l = lattice_of(a.lattice);
    for (i64 i = GLOBAL_ID; i < a.count; i += GLOBAL_SIZE) {
        WordCounts counts = load_word(l, a.words[i]);
        for (i64 c = a.begins[i]; c < a.begins[i + 1]; ++c) {
            const u32 place = a.places[c];
            a.done[c] = !a.adds || particles_at(counts, place) < SLOTS;
            u32 bit = a.done[c] ? 1u << place : 0;
            for (int k = 0; k < PLANES; ++k) {
                u32 &plane = counts.n[a.particles[c] - 1][k];
                const u32 next =
                    a.adds ? plane & bit : ~plane & bit;  // a carry, or what is borrowed
                plane ^= bit;
                bit = next;
            }
        }
        store_word(l, a.words[i], counts);
    }
}
