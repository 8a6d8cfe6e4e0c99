// Moves of objects of several sites by one site, as kernels/lattice/objects.py says.
//
// Objects that share no site with an undecided one of an earlier turn are decided together: the outcome is that of one
// after another.
#include "device/prelude.h"

struct ObjectsArguments {
    // Of the sites that may change:
    u16 *cells;   // [site, slots]: species + 1, the first slots filled first
    u8 *types;    // [site]
    u8 *taken;    // [site]: whether an object is there, or a particle waits that may not be in one
    u64 *claims;  // [site]: 0 at first
    // Of the objects that want to move, in their turns:
    const i32 *
        objects;  // [object, 2 + own + entered]: side, particle, then sites: its own, and those that it enters, -1 behind these
    u8 *moved;    // [object]: `Decision`, `UNDECIDED` at first
    const i32
        *leaves;  // [side, entered]: which own site it leaves, on the line of each that it enters
    const i32 *centre;  // [side]: the particle's new site among its own and those that it enters
    const u8 *goes;     // [particle]: whether it changes places with objects,
    const u8 *stays;    // [particle]: or stops them
    i64 count, own, entered, slots;
    i32 within, site_type;
};

enum Decision : u8 { UNDECIDED, STAYS, MOVES };

constexpr int MOVE_THREADS = 512;

struct Object {
    const i32 *own, *entered, *leaves;
    i32 centre;
    bool inside;  // whether that is an own site
    u16 particle;
};

DEVICE Object object_of(const ObjectsArguments &a, i64 number) {
    const i32 *const row = a.objects + number * (2 + a.own + a.entered);
    const i32 centre = a.centre[row[0]];
    return {row + 2,         row + 2 + a.own, a.leaves + row[0] * a.entered,
            row[2 + centre], centre < a.own,  (u16)row[1]};
}

DEVICE u16 *cell_of(const ObjectsArguments &a, i32 site) {
    return a.cells + site * a.slots;
}

DEVICE int filled_in(const ObjectsArguments &a, i32 site) {
    const u16 *const cell = cell_of(a, site);
    int n = 0;
    while (n < a.slots && cell[n]) ++n;
    return n;
}

// Whether an object may move, which alone has claimed its sites.
DEVICE bool may_move(const ObjectsArguments &a, const Object &one) {
    bool pushes = false, wall = false;
    if (one.inside && filled_in(a, one.centre) == a.slots) return false;
    for (i64 k = 0; k < a.entered && one.entered[k] >= 0; ++k) {
        const i32 site = one.entered[k], left = one.own[one.leaves[k]];
        if (a.types[site] != a.within || a.taken[site]) return false;
        const u16 *const cell = cell_of(a, site);
        const int filled = filled_in(a, site);
        int going = 0;
        for (int s = 0; s < filled; ++s) {
            if (a.stays[cell[s]]) return false;
            going += a.goes[cell[s]];
        }
        pushes |= going > 0;
        wall |= a.types[left] != a.site_type;
        if (filled_in(a, left) - (left == one.own[0]) + going > a.slots) return false;
        if (site == one.centre && filled - going == a.slots) return false;
    }
    return !(pushes && wall);
}

// Moves it. Particles that may not be in it come to the sites that it leaves, behind those there; its own goes last.
DEVICE void move(const ObjectsArguments &a, const Object &one) {
    u16 *const from = cell_of(a, one.own[0]);
    bool found = false;
    for (i64 s = 0; s < a.slots; ++s) {
        found |= from[s] == one.particle;
        if (found) from[s] = s + 1 < a.slots ? from[s + 1] : (u16)0;
    }
    for (i64 k = 0; k < a.entered && one.entered[k] >= 0; ++k) {
        const i32 site = one.entered[k], left = one.own[one.leaves[k]];
        u16 *const cell = cell_of(a, site), *const behind = cell_of(a, left);
        int kept = 0, filled = filled_in(a, left);
        for (i64 s = 0; s < a.slots && cell[s]; ++s) {
            const u16 particle = cell[s];
            cell[s] = 0;
            (a.goes[particle] ? behind[filled++] : cell[kept++]) = particle;
        }
        if (a.types[left] == a.site_type) a.types[left] = (u8)a.within;
        a.types[site] = (u8)a.site_type;
        a.taken[left] = 0, a.taken[site] = 1;
    }
    cell_of(a, one.centre)[filled_in(a, one.centre)] = one.particle;
}

// The n-th claim on a site is larger than those of rounds before, and in a round the first turn's is the largest.
DEVICE u64 claim_of(const ObjectsArguments &a, u64 round, i64 number) {
    return round << 32 | (u64)(a.count - number);
}

DEVICE void claim(const ObjectsArguments &a, const Object &one, u64 claim) {
    for (i64 k = 0; k < a.own + a.entered && one.own[k] >= 0; ++k)
        atomic_max(a.claims + one.own[k], claim);
}

DEVICE bool has_all(const ObjectsArguments &a, const Object &one, u64 claim) {
    for (i64 k = 0; k < a.own + a.entered && one.own[k] >= 0; ++k)
        if (read_now(a.claims + one.own[k]) != claim) return false;
    return true;
}

BLOCK_KERNEL(MOVE_THREADS, 1, rdme_move_objects, const ObjectsArguments a) {
    bool some = true;
    for (u64 round = 1; some; ++round) {
        for (i64 i = THREAD_ID; i < a.count; i += BLOCK_THREADS)
            if (a.moved[i] == UNDECIDED) claim(a, object_of(a, i), claim_of(a, round, i));
        BARRIER();
        some = false;
        for (i64 i = THREAD_ID; i < a.count; i += BLOCK_THREADS) {
            if (a.moved[i] != UNDECIDED) continue;
            const Object one = object_of(a, i);
            if (!has_all(a, one, claim_of(a, round, i))) {
                some = true;
                continue;
            }
            const bool moves = may_move(a, one);
            if (moves) move(a, one);
            a.moved[i] = moves ? MOVES : STAYS;
        }
        some = any_in_block(some);
    }
}
