// Particles at t = 0, as model/lattice/placement.py puts them: the same draws, and so the same sites and slots.
//
// Particles of one placement are of one species, and placements are launches one after another. So it does not
// matter which of a launch's particles takes which free slot of a site, and atomic additions give the slots out.
// A particle that finds its site full is listed; the lists of the patches are done by `place_again`, each patch
// in the order of its particles, since their draws follow each other.
#include "random/philox_wide.h"

// Where particles stand: in slots, or as counts in bit planes (lattice/planes/planes.h). Pointers of all other forms are
// null; if all are, particles are put nowhere.
struct Target {
    u8 *narrow;   // particles [site, slot] of the slab, species + 1
    u16 *wide;    // the same
    u32 *planes;  // words of 32 sites, row after row
    i32 slots;
    i32 each;   // planes of a species
    i64 nx;     // sites of a row
    i64 first;  // number of the first site in `planes`
    i64 apart,
        more;  // how far the next plane of a word is, and behind 32 words by how much more the next word
};

// The lowest plane of a species, and the bit of a site.
struct PlaneOfSite {
    u32 *plane, bit;
};

DEVICE PlaneOfSite plane_of(const Target &to, i64 at, u32 particle) {
    const u64 site = (u64)(at + to.first), nx = (u64)to.nx, row = site / nx, x = site - row * nx;
    const i64 word = (i64)(row * ((nx + 31) / 32) + x / 32);
    return {to.planes + word + word / 32 * to.more + (i64)(particle - 1) * to.each * to.apart,
            1u << x % 32};
}

// Puts a particle into a slot of a site. In planes it adds 1 to a binary count: a bit that was 1 is carried to the next.
DEVICE void put_into(const Target &to, i64 at, u32 slot, u32 particle) {
    if (to.narrow) to.narrow[at * to.slots + slot] = (u8)particle;
    if (to.wide) to.wide[at * to.slots + slot] = (u16)particle;
    if (!to.planes) return;
    PlaneOfSite place = plane_of(to, at, particle);
    while (atomic_flip(place.plane, place.bit) & place.bit) place.plane += to.apart;
}

struct PlacingArguments {
    Target into;
    u32 *filled;        // [sites]: particles that came to it, which may be more than its slots
    const u32 *cells;   // [sites]: numbers of the sites from `base` on; null: 0, 1, ...
    i64 sites;          // of the site type, in the patches that touch the slab
    i64 base, own;      // the slab's first site is number -base of those, and has `own`
    u64 first, total;   // number of the first of these sites among all of its type
    u64 seed, replica;  // of the draws
};

struct Placing : PlacingArguments {
    // The site of the slab that is number `place` of the type; -1: of another slab.
    DEVICE_MEMBER i64 site(u64 place) const {
        const i64 at = (cells ? (i64)cells[place] : (i64)place) + base;
        return at < own ? at : -1;
    }

    DEVICE_MEMBER void prefetch(u64 place, u32 particle) const {
        const i64 at = site(place);
        PREFETCH(filled + place);
        if (at >= 0 && into.narrow) PREFETCH(into.narrow + at * into.slots);
        if (at >= 0 && into.wide) PREFETCH(into.wide + at * into.slots);
        if (at >= 0 && into.planes) PREFETCH(plane_of(into, at, particle).plane);
    }

    // Puts a particle into a slot of site number `place` of the type, if the slab has it.
    DEVICE_MEMBER void put(u64 place, u32 slot, u32 particle) const {
        const i64 at = site(place);
        if (at >= 0) put_into(into, at, slot, particle);
    }
};

constexpr u64 PATCH = 4096, FIRST = 1, AGAIN = 2;  // streams: the second word of the key

struct SitesArguments {
    const u8 *types;   // [sites], of whole planes
    i64 sites, chunk;  // a thread does `chunk` of them
    i32 site_type;
    u32 *counts;  // [chunks]: of the type
    const i64 *
        begins;  // [chunks]: number of the first among `cells`, may be less than 0; null: count alone
    i64 kept;
    u32 *cells;  // [kept]: places of the sites of the type, in order
};

// Where the sites of one type are: counted first, then numbered.
KERNEL(place_sites, const SitesArguments a) {
    for (i64 k = GLOBAL_ID; k * a.chunk < a.sites; k += GLOBAL_SIZE) {
        const i64 begin = k * a.chunk, end = begin + a.chunk < a.sites ? begin + a.chunk : a.sites;
        i64 at = a.begins ? a.begins[k] : 0;
        for (i64 i = begin; i < end; ++i) {
            if (a.types[i] != (u8)a.site_type) continue;
            if (a.begins && at >= 0 && at < a.kept) a.cells[at] = (u32)i;
            ++at;
        }
        if (!a.begins) a.counts[k] = (u32)at;
    }
}

struct GivenArguments {
    Target into;
    u32 *filled;       // null: particles are put into the slab; else they are only counted
    const i64 *sites;  // [count] of the slab, or of `filled`
    const i32 *slots, *species;  // [count]
    i64 count;
};

// Particles whose places are known.
KERNEL(place_given, const GivenArguments a) {
    for (i64 i = GLOBAL_ID; i < a.count; i += GLOBAL_SIZE) {
        if (a.filled)
            atomic_add(a.filled + a.sites[i], 1u);
        else
            put_into(a.into, a.sites[i], (u32)a.slots[i], (u32)a.species[i] + 1);
    }
}

struct DrawnArguments {
    PlacingArguments of;
    u64 *left;   // particles that found no slot: patch << 32 | number of the placement
    u64 *count;  // how many, also of those that `room` has no place for
    u64 room;
    u64 placement;  // its number
    u64 particles;
    i32 species;
};

// Site `number` of the type takes a particle, or the list if it is full.
DEVICE void place_one(const DrawnArguments &a, const Placing &of, u64 number) {
    const u64 place = number - of.first;
    const u32 slot = atomic_add(of.filled + place, 1u);
    if (slot < (u32)of.into.slots) {
        of.put(place, slot, (u32)a.species + 1);
        return;
    }
    const u64 last = of.total < PATCH ? 0 : of.total / PATCH - 1, patch = number / PATCH;
    const u64 at = atomic_add(a.count, 1);
    if (at < a.room) a.left[at] = (patch < last ? patch : last) << 32 | a.placement;
}

// All particles of a placement by count.
KERNEL(place_drawn, const DrawnArguments a) {
    const Placing of = {a.of};
    // Memory is asked for some draws ahead of its use: two places are seldom near each other.
    u64 numbers[4 * DRAWS_BESIDE];
    for (u64 begin = (u64)GLOBAL_ID; 4 * begin < a.particles;
         begin += DRAWS_BESIDE * (u64)GLOBAL_SIZE) {
    UNROLL for (u64 i = 0; i < DRAWS_BESIDE; ++i) {
            const u64 block = begin + i * (u64)GLOBAL_SIZE;
            const PhiloxWide drawn = philox_wide(block, a.placement, 0, of.replica, of.seed, FIRST);
            UNROLL for (u64 k = 0; k < 4; ++k) {
                const u64 number = drawn.word(k) % of.total;
                const bool here = 4 * block + k < a.particles && number - of.first < (u64)of.sites;
                numbers[4 * i + k] = here ? number : ~0ull;
                if (DRAWS_BESIDE > 1 && here) of.prefetch(number - of.first, (u32)a.species + 1);
            }
        }
        UNROLL for (u64 i = 0; i < 4 * DRAWS_BESIDE; ++i)
            if (numbers[i] != ~0ull) place_one(a, of, numbers[i]);
    }
}

struct AgainArguments {
    PlacingArguments of;
    u64 *left;           // sorted; used up
    const i64 *begins;   // [patches + 1]: where the particles of each patch begin
    const i32 *species;  // [placement]
    i64 patches;         // that have such particles
    u64 site_type;
    u64 *refused;        // patches that have too few free slots
};

// Particles of each patch that found their sites full go to others of the patch, drawn until one has room.
KERNEL(place_again, const AgainArguments a) {
    const Placing of = {a.of};
    const u64 whole = of.total < PATCH ? 1 : of.total / PATCH;
    for (i64 i = GLOBAL_ID; i < a.patches; i += GLOBAL_SIZE) {
        u64 *const left = a.left + a.begins[i];
        const u64 patch = left[0] >> 32, end = patch == whole - 1 ? of.total : (patch + 1) * PATCH;
        const u64 start = patch * PATCH - of.first, sites = end - patch * PATCH;
        u32 *const filled = of.filled + start;
        u64 waiting = (u64)(a.begins[i + 1] - a.begins[i]), free = 0;
        for (u64 k = 0; k < sites; ++k) free += filled[k] < (u32)of.into.slots ? of.into.slots - filled[k] : 0;
        if (waiting > free) {
            atomic_add(a.refused, 1);
            continue;
        }
        PhiloxWide drawn = {};
        for (u64 word = 0; waiting;) {
            u64 stay = 0;
            for (u64 k = 0; k < waiting; ++k, ++word) {
                if (word % 4 == 0)
                    drawn = philox_wide(word / 4, a.site_type, patch, of.replica, of.seed, AGAIN);
                const u64 place = drawn.word(word % 4) % sites, particle = left[k];
                if (filled[place] >= (u32)of.into.slots)
                    left[stay++] = particle;
                else
                    of.put(start + place, filled[place]++, (u32)a.species[(u32)particle] + 1);
            }
            waiting = stay;
        }
    }
}
