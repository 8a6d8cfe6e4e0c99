// Other site types between two steps, and new places for the particles that may not stay where they are.
//
// A particle wants the nearest site that it may be in and that has a free slot; which of equally near ones, and who
// goes first, is drawn. Done by all threads at once, this is deferred acceptance: a particle asks for sites in its
// order of preference, a site keeps the first of those that ask for its free slots, and whom it lets go asks for the
// next. What comes of it does not depend on who asks when, so neither on threads nor on how a lattice is cut.
#include "lattice/site/site.h"
#include "random/philox_wide.h"

// A particle that leaves its site.
struct Leaver {
    u64 turn;  // drawn, with the leaver's number + 1 in the lower half; the largest turn goes first
    u64 site;  // of the whole lattice
    u64 ties;  // drawn: its choice among equally near sites
    u32 particle;  // species + 1
    u32 follows;   // the site type, + 1, that it follows; 0: any where its species may be
};

constexpr int KINDS = N_SPECIES + 1;  // of a table by particle
constexpr u64 LEAVES = 5;             // stream, as those of lattice/change.cc

struct LeaveArguments {
    Site *sites;               // of the slab
    const u8 *before, *after;  // their types
    i64 n_sites, chunk;        // a thread does `chunk` of them
    i64 first_site;            // their numbers in the whole lattice begin here
    const u8 *stays;           // [type, particle]: whether it may stay where the type is now this
    const u8 *follows;         // [particle]: whether it goes with the type of its site
    const u8 *present;         // [type]: whether the lattice has it now
    u32 *counts;               // [chunks]: leavers, and
    u64 *changed;              // sites of another type;
    u8 *asking;                // [particle]: set where one needs a site where its species may be
    const i64 *begins;         // [chunks]: numbers of the leavers; null: count alone
    i64 first_leaver;          // number of the first in `leavers`
    Leaver *leavers;
    u64 seed, step, call, replica;  // of the draws
};

// Whether a particle leaves: 0: no; else the type that it follows, + 1, or N_TYPES + 1 for any.
DEVICE int leaving(const LeaveArguments &a, int before, int after, u32 particle) {
    if (a.follows[particle] && a.present[before]) return before + 1;
    return a.stays[after * KINDS + (i64)particle] ? 0 : N_TYPES + 1;
}

// Counts the leavers of chunks of sites, or takes them out.
KERNEL(rdme_leave, const LeaveArguments a) {
    for (i64 k = GLOBAL_ID; k * a.chunk < a.n_sites; k += GLOBAL_SIZE) {
        const i64 begin = k * a.chunk,
                  end = begin + a.chunk < a.n_sites ? begin + a.chunk : a.n_sites;
        i64 at = a.begins ? a.begins[k] : 0;
        u64 changed = 0;
        for (i64 i = begin; i < end; ++i) {
            if (a.before[i] == a.after[i]) continue;
            ++changed;
            const Site content = a.sites[i];
            if (is_empty(content)) continue;
            Slot *const slots = slots_of(a.sites[i]);
            int filled = 0, kept = 0;
    UNROLL for (int s = 0; s < SLOTS; ++s) {
                const u32 particle = particle_of(content.word, s / GROUP, s % GROUP);
                if (!particle) break;
                ++filled;
                const int goes = leaving(a, a.before[i], a.after[i], particle);
                if (a.begins && !goes) slots[kept++] = (Particle)particle;
                if (!goes) continue;
                const u32 follows = goes > N_TYPES ? 0 : (u32)goes;
                if (!a.begins) {
                    if (!follows) a.asking[particle] = 1;
                    ++at;
                    continue;
                }
                const u64 site = (u64)(a.first_site + i);
                const PhiloxWide drawn =
                    philox_wide(site, (u64)s | a.call << 8, a.step, a.replica, a.seed, LEAVES);
                const u64 turn = drawn.x0 << 32 | (u32)(at + 1);
                a.leavers[at - a.first_leaver] = {turn, site, drawn.x1, particle, follows};
                ++at;
            }
            for (; a.begins && kept < filled; ++kept) slots[kept] = 0;
        }
        if (!a.begins) {
            a.counts[k] = (u32)at;
            if (changed) atomic_add(a.changed, changed);
        }
    }
}

// The whole lattice, and where particles may go.
struct Ground {
    const u8 *types;  // of all sites
    i64 nz, ny, nx;
    i32 wraps_z, wraps_y, wraps_x;  // whether an axis is periodic
    const u8 *enters;               // [type, particle]
    const i32 *offsets;             // [place, 3]: z, y, x, the nearest first
    const i32 *rings;               // [n_rings + 1]: where equally near ones begin
    i64 n_rings;
};

// What of equally near sites goes first.
DEVICE u32 tie_of(u64 ties, u64 place) {
    u64 word = ties + place * 0x9E3779B97F4A7C15ull;
    word = (word ^ word >> 30) * 0xBF58476D1CE4E5B9ull;
    word = (word ^ word >> 27) * 0x94D049BB133111EBull;
    return (u32)(word >> 32 ^ word);
}

// A coordinate of the lattice, -1 for none.
DEVICE i64 along(i64 at, i64 n, i32 wraps) {
    if (at >= 0 && at < n) return at;
    if (!wraps) return -1;
    at %= n;
    return at < 0 ? at + n : at;
}

struct Place {
    i64 z, y, x;
};

DEVICE Place place_of(const Ground &g, u64 site) {
    const i64 row = (i64)site / g.nx;
    return {row / g.ny, row % g.ny, (i64)site % g.nx};
}

// The site so far from a place; -1 where there is none.
DEVICE i64 site_beside(const Ground &g, const Place &from, i64 dz, i64 dy, i64 dx) {
    const i64 z = along(from.z + dz, g.nz, g.wraps_z), y = along(from.y + dy, g.ny, g.wraps_y),
              x = along(from.x + dx, g.nx, g.wraps_x);
    return z < 0 || y < 0 || x < 0 ? -1 : (z * g.ny + y) * g.nx + x;
}

DEVICE bool is_open(const Ground &g, const Leaver &one, i64 site) {
    const int type = N_TYPES == 1 ? 0 : g.types[site];
    return one.follows ? type + 1 == (int)one.follows
                       : g.enters[type * KINDS + (i64)one.particle] != 0;
}

// A site that a leaver asks for, -1 for none; and its place among all that it prefers, from 1 on.
struct Wish {
    u64 place;
    i64 site;
};

// Places of a ring are ordered by 22 drawn bits, then by their numbers.
constexpr u32 OF_RING = 1023;

struct AskArguments {
    Ground ground;
    const Site *sites;  // of the slab,
    i64 n_sites, first_site;
    const Leaver *leavers;
    u64 *asked;          // [leaver]: place of the last wish
    const u64 *goes_on;  // [count, 2]: leavers, and their last wishes; null: all from the first
    i64 count;
    u64 *keys;   // [buckets]: sites + 1 for which somebody has asked
    u64 *kept;   // [buckets, SLOTS]: turns of those that they keep, the largest first
    i64 buckets; // a power of two
    u64 *others, *others_count;  // [.., 2], as goes_on: those who go on in another slab; null: there is none
    u32 *left;                   // those that have no wish left,
    u64 *left_count;
};

// Free slots of a site of the slab, all of one that is not.
DEVICE int room_of(const AskArguments &a, i64 site) {
    const i64 at = site - a.first_site;
    return at < 0 || at >= a.n_sites ? SLOTS : SLOTS - particles_in(a.sites[at]);
}

// What a leaver asks for after a place. Sites of the slab that are full from the start are passed over if `asks`.
DEVICE Wish next_wish(const AskArguments &a, const Leaver &one, u64 after, bool asks) {
    const Ground &g = a.ground;
    const Place from = place_of(g, one.site);
    for (i64 ring = after ? (i64)(after - 1 >> 32) : 0; ring < g.n_rings; ++ring) {
        Wish best = {~0ull, -1};
        for (i32 i = g.rings[ring]; i < g.rings[ring + 1]; ++i) {
            const i32 *d = g.offsets + 3 * i;
            const i64 site = site_beside(g, from, d[0], d[1], d[2]);
            if (site < 0 || !is_open(g, one, site)) continue;
            const u32 low = (tie_of(one.ties, (u64)i) & ~OF_RING) | (u32)(i - g.rings[ring]);
            const u64 place = ((u64)ring << 32 | low) + 1;
            if (place <= after || place >= best.place) continue;
            if (!asks || room_of(a, site) > 0) best = {place, site};
        }
        if (best.site >= 0) return best;
    }
    return {0, -1};
}

// The bucket of a site.
DEVICE i64 bucket_of(const AskArguments &a, i64 site) {
    const u64 key = (u64)site + 1;
    u64 at = key * 0x9E3779B97F4A7C15ull >> 20;
    for (;; ++at) {
        u64 *const cell = a.keys + (at & (u64)(a.buckets - 1));
        u64 seen = read_now(cell);
        if (!seen) seen = atomic_compare_exchange(cell, 0, key);
        if (!seen || seen == key) return (i64)(at & (u64)(a.buckets - 1));
    }
}

DEVICE bool is_own(const AskArguments &a, i64 site) {
    return site >= a.first_site && site < a.first_site + a.n_sites;
}

// A leaver asks until a site has kept it, or has let another go, which then asks on.
//
// Of several slabs all begin with the same leavers, each with those whose next wish, full or not, is its own. One that
// goes on elsewhere is handed over.
KERNEL(rdme_ask, const AskArguments a) {
    for (i64 i = GLOBAL_ID; i < a.count; i += GLOBAL_SIZE) {
        u64 number = a.goes_on ? a.goes_on[2 * i] : (u64)i, after = a.goes_on ? a.goes_on[2 * i + 1] : 0;
        if (a.others) {
            const Wish wish = next_wish(a, a.leavers[number], after, false);
            if (wish.site >= 0 && !is_own(a, wish.site)) continue;
        }
        for (;;) {
            const Leaver one = a.leavers[number];
            const Wish wish = next_wish(a, one, after, true);
            if (wish.site < 0) {
                a.left[atomic_add(a.left_count, 1)] = (u32)number;
                break;
            }
            if (!is_own(a, wish.site)) {
                const u64 place = atomic_add(a.others_count, 1);
                a.others[2 * place] = number;
                a.others[2 * place + 1] = wish.place - 1;
                break;
            }
            *(volatile u64 *)(a.asked + number) = wish.place;
            threadfence();
            u64 turn = one.turn;
            u64 *const kept = a.kept + bucket_of(a, wish.site) * SLOTS;
            const int room = room_of(a, wish.site);
            for (int s = 0; turn && s < room; ++s) {
                const u64 before = atomic_max(kept + s, turn);
                turn = before < turn ? before : turn;
            }
            if (!turn) break;
            threadfence();
            number = (u32)turn - 1;
            after = *(volatile u64 *)(a.asked + number);
        }
    }
}

struct EnterArguments {
    Site *sites;
    i64 first_site;
    const Leaver *leavers;
    const u64 *keys, *kept;
    i64 buckets;
};

// Puts those that sites keep into their free slots.
KERNEL(rdme_enter, const EnterArguments a) {
    for (i64 i = GLOBAL_ID; i < a.buckets; i += GLOBAL_SIZE) {
        if (!a.keys[i]) continue;
        Site &site = a.sites[(i64)a.keys[i] - 1 - a.first_site];
        const int filled = particles_in(site);
        for (int s = 0; filled + s < SLOTS; ++s) {
            const u64 turn = a.kept[i * SLOTS + s];
            if (!turn) break;
            slots_of(site)[filled + s] = (Particle)a.leavers[(u32)turn - 1].particle;
        }
    }
}

struct NearestArguments {
    Ground ground;
    const Leaver *leavers;
    const u32 *numbers;  // [count]: of leavers
    i64 count;
    i64 *nearest;  // [count]: sites where they may be, full or not; -1: there is none
};

// The nearest open site among those of one shell of a cube around a leaver, if it is nearer than `best`.
struct Nearest {
    const Ground &g;
    const Leaver &one;
    Place from;
    u64 distance, tie;
    i64 site;

    DEVICE_MEMBER void look(i64 dz, i64 dy, i64 dx) {
        const u64 squared = (u64)(dz * dz + dy * dy + dx * dx);
        if (squared > distance) return;
        const i64 at = site_beside(g, from, dz, dy, dx);
        if (at < 0 || !is_open(g, one, at)) return;
        const u64 drawn = (u64)tie_of(one.ties, (u64)at) << 32 | (u32)at;
        if (squared == distance && drawn >= tie) return;
        distance = squared, tie = drawn, site = at;
    }
};

KERNEL(rdme_nearest, const NearestArguments a) {
    const Ground &g = a.ground;
    const i64 most = g.nz > g.ny ? (g.nz > g.nx ? g.nz : g.nx) : (g.ny > g.nx ? g.ny : g.nx);
    for (i64 i = GLOBAL_ID; i < a.count; i += GLOBAL_SIZE) {
        const Leaver one = a.leavers[a.numbers[i]];
        Nearest nearest = {g, one, place_of(g, one.site), ~0ull, ~0ull, -1};
        for (i64 r = 0; r < most && (u64)(r * r) <= nearest.distance; ++r)
            for (i64 dz = -r; dz <= r; ++dz)
                for (i64 dy = -r; dy <= r; ++dy) {
                    const bool face = dz == -r || dz == r || dy == -r || dy == r;
                    for (i64 dx = -r; dx <= r; dx += face || !r ? 1 : 2 * r) nearest.look(dz, dy, dx);
                }
        a.nearest[i] = nearest.site;
    }
}
