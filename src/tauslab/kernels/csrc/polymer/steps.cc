// Steps of bead chains by Brownian dynamics (Ermak & McCammon 1978, J. Chem. Phys. 69, 1352, without hydrodynamics):
// r += D dt F / kT + sqrt(2 D dt) xi.
//
//     symbol                  here
//     k D dt, of springs      spring    energy k / 2 (r - rest)^2 of beads that are bound to each other
//     kappa D dt              bend      energy kappa (1 - cos theta) of three beads in a row
//     4 eps D dt / a^2        push      energy eps (1 - r^2 / a^2)^2 of two beads nearer than a = `range`
//     sqrt(6 D dt)            noise     times a uniform number in (-1, 1), of which three moments are those of
//                                       the normal one (Duenweg & Paul 1991, Int. J. Mod. Phys. C 2, 817)
//
// Each thread has some beads. Beads are in lists by cell, of which two tables take turns: a step reads the lists of one
// and makes those of the other. In which order a list has its beads depends on threads; what neighbours push is
// therefore added as whole numbers of `unit`, in any order with the same sum.
#include "math/basic.h"
#include "random/streams.h"

struct alignas(16) Bead {
    double z, y, x;  // metres
    i64 next;        // of its list: a bead, or -1
};

struct PolymerArguments {
    u64 seed;
    i64 beads, first_step, steps;
    Bead *beads_of_even, *beads_of_odd;  // [beads]: before steps of even and odd numbers
    const i32 *links;  // [beads, 4]: before, after, two others; -1: none; first -2: no such bead
    u64 *heads;        // [2, cells]: step of the launch + 1, and the first bead of the list
    i64 side;          // cells along an axis, a power of 2; those beyond begin again with the first
    double spring, rest, bend, push, range, noise;
    double per_edge, units, unit;  // cells in a metre; push in units; metres of a unit
    double reach;                  // no coordinate is larger
    const u8 *levels;  // [nz, ny, nx]: 0 where beads may be, else how far that is; null: everywhere
    i64 nz, ny, nx;
    double spacing;  // metres
    u64 *work;       // barrier; moves that were no numbers, or left the reach
};

constexpr int LINKS = 4;
constexpr i64 NONE = -1, ABSENT = -2;
constexpr int POLYMER_THREADS = 128, POLYMER_BLOCKS = 6;  // of kernels/polymer/engine.py
constexpr double WHOLE = 0x1.8p52;  // a number plus this is rounded to a whole one

struct Vector {
    double z, y, x;
};

DEVICE Vector from_to(const Bead &a, const Bead &b) {
    return {b.z - a.z, b.y - a.y, b.x - a.x};
}

DEVICE double product(const Vector &a, const Vector &b) {
    return a.z * b.z + a.y * b.y + a.x * b.x;
}

// sum += c a
DEVICE void add(Vector &sum, double c, const Vector &a) {
    sum.z += c * a.z;
    sum.y += c * a.y;
    sum.x += c * a.x;
}

// ---------------------------------------------------------------- bonds

DEVICE void pull(const PolymerArguments &a, const Bead *now, i64 i, const i64 *links, Vector &sum) {
    for (int k = 0; k < LINKS; ++k) {
        if (links[k] < 0) continue;
        const Vector d = from_to(now[i], now[links[k]]);
        const double length = a.rest > 0.0 ? SQRT(product(d, d)) : 0.0;
        add(sum, length > 0.0 ? a.spring * (1.0 - a.rest / length) : a.spring, d);
    }
}

// Direction from one bead to another, and one over their distance.
struct Bond {
    Vector along;
    double per_length;
};

DEVICE Bond bond(const Bead *now, i64 i, i64 j) {
    const Vector d = from_to(now[i], now[j]);
    const double squared = product(d, d);
    const double per_length = squared > 0.0 ? 1.0 / SQRT(squared) : 0.0;
    return {{d.z * per_length, d.y * per_length, d.x * per_length}, per_length};
}

// d cos(theta) / d end of the second bond, times `c`: (u - cos v) / length.
DEVICE void turn(Vector &sum, double c, const Bond &u, const Bond &v) {
    const double cosine = product(u.along, v.along);
    add(sum, c * v.per_length, u.along);
    add(sum, -(c * v.per_length) * cosine, v.along);
}

// The angles at a bead and at the beads before and after it. Bonds point away from the bead: a turned one changes the
// sign of the cosine.
DEVICE void straighten(const PolymerArguments &a, const Bead *now, i64 i, const i64 *links,
                       Vector &sum) {
    const i64 before = links[0], after = links[1];
    if (before >= 0 && after >= 0) {  // at this bead: bonds to both, cos theta = -u v
        const Bond u = bond(now, i, before), v = bond(now, i, after);
        turn(sum, a.bend, u, v);
        turn(sum, a.bend, v, u);
    }
    for (int side = 0; side < 2; ++side) {
        const i64 middle = side ? after : before;
        const i64 end = middle >= 0 ? (i64)a.links[middle * LINKS + side] : NONE;
        if (end < 0) continue;
        const Bond u = bond(now, end, middle), v = bond(now, middle, i);
        turn(sum, a.bend, u, v);
    }
}

// ---------------------------------------------------------------- neighbours

DEVICE i64 cell_along(const PolymerArguments &a, double x) {
    return (i64)tl_floor(x * a.per_edge);
}

DEVICE i64 cell_at(const PolymerArguments &a, i64 z, i64 y, i64 x) {
    const i64 low = a.side - 1;
    return ((z & low) * a.side + (y & low)) * a.side + (x & low);
}

// Puts a bead into the lists of a step of the launch; returns which one it now stands before.
DEVICE i64 insert(const PolymerArguments &a, i64 step, i64 i, const Vector &at) {
    const i64 cell = cell_at(a, cell_along(a, at.z), cell_along(a, at.y), cell_along(a, at.x));
    u64 *const head = a.heads + (step & 1) * a.side * a.side * a.side + cell;
    const u64 before = atomic_exchange(head, (u64)(step + 1) << 32 | (u64)i);
    return before >> 32 == (u64)(step + 1) ? (i64)(u32)before : NONE;
}

DEVICE i64 in_units(double x) {
    return (i64)(as_bits(x + WHOLE) - as_bits(WHOLE));
}

DEVICE void push_away(const PolymerArguments &a, const Bead *now, i64 step, i64 i, const i64 *links,
                      Vector &sum) {
    const double squared_range = a.range * a.range, per_squared = 1.0 / squared_range;
    const u64 *const heads = a.heads + (step & 1) * a.side * a.side * a.side;
    const Bead own = now[i];
    const i64 z = cell_along(a, own.z), y = cell_along(a, own.y), x = cell_along(a, own.x);
    i64 units_z = 0, units_y = 0, units_x = 0;
    for (int plane = -1; plane <= 1; ++plane)
        for (int row = -1; row <= 1; ++row) {
            u64 found[3];
    UNROLL for (int k = 0; k < 3; ++k) found[k] =
                heads[cell_at(a, z + plane, y + row, x + k - 1)];
            UNROLL for (int k = 0; k < 3; ++k) {
                i64 j = found[k] >> 32 == (u64)(step + 1) ? (i64)(u32)found[k] : NONE;
                while (j >= 0) {
                    const Bead other = now[j];
                    const Vector d = from_to(other, own);
                    const double squared = product(d, d);
                    const bool bound =
                        j == links[0] || j == links[1] || j == links[2] || j == links[3];
                    if (squared < squared_range && j != i && !bound) {
                        const double c = a.units * (1.0 - squared * per_squared);
                        units_z += in_units(c * d.z);
                        units_y += in_units(c * d.y);
                        units_x += in_units(c * d.x);
                    }
                    j = other.next;
                }
            }
        }
    add(sum, a.unit, {(double)units_z, (double)units_y, (double)units_x});
}

// ---------------------------------------------------------------- walls

DEVICE i64 site_along(double x, double spacing) {
    return (i64)tl_floor(x / spacing);
}

DEVICE int level(const PolymerArguments &a, const i64 *site) {
    const bool outside = site[0] < 0 || site[0] >= a.nz || site[1] < 0 || site[1] >= a.ny ||
                         site[2] < 0 || site[2] >= a.nx;
    return outside ? 255 : a.levels[(site[0] * a.ny + site[1]) * a.nx + site[2]];
}

// Moves a site along an axis, through all sites between: not at all if one is farther from where beads may be.
DEVICE bool enters(const PolymerArguments &a, i64 *site, int axis, i64 after) {
    const i64 before = site[axis];
    const int most = level(a, site);
    while (site[axis] != after) {
        site[axis] += after > site[axis] ? 1 : -1;
        if (level(a, site) > most) {
            site[axis] = before;
            return false;
        }
    }
    return true;
}

// Where a bead is after a move along one axis after the other: never through a site that is farther from where it may
// be. So a bead in a box without forces is anywhere with equal probability, slides along a wall that forces push it to,
// and passes no wall.
DEVICE Vector confined(const PolymerArguments &a, const Bead &from, const Vector &to) {
    if (!a.levels) return to;
    double at[3] = {from.z, from.y, from.x};
    const double wanted[3] = {to.z, to.y, to.x};
    i64 site[3];
    UNROLL for (int axis = 0; axis < 3; ++axis) site[axis] = site_along(at[axis], a.spacing);
    UNROLL for (int axis = 0; axis < 3; ++axis) {
        const i64 after = site_along(wanted[axis], a.spacing);
        if (after == site[axis] || enters(a, site, axis, after)) at[axis] = wanted[axis];
    }
    return {at[0], at[1], at[2]};
}

// ---------------------------------------------------------------- a step

// Uniform in (-1, 1), with mean 0.
DEVICE double centred(Word word) {
    return ((double)(i32)((u32)word ^ 0x80000000u) + 0.5) * 0x1p-31;
}

DEVICE void move(const PolymerArguments &a, i64 step, i64 i) {
    const Bead *const now = step & 1 ? a.beads_of_odd : a.beads_of_even;
    Bead *const then = step & 1 ? a.beads_of_even : a.beads_of_odd;
    const IntQuad row = load_quad(a.links + i * LINKS);
    const i64 links[LINKS] = {row.a, row.b, row.c, row.d};
    if (links[0] == ABSENT) return;
    const Bead own = now[i];
    Vector moves = {0.0, 0.0, 0.0};
    pull(a, now, i, links, moves);
    if (a.bend > 0.0) straighten(a, now, i, links, moves);
    if (a.push > 0.0) push_away(a, now, step, i, links, moves);
    const TrajectoryStream stream = trajectory_stream(a.seed, STREAM_POLYMER, (u64)i, 0);
    const Philox4 words = draw(stream, (u64)(a.first_step + step));
    add(moves, a.noise, {centred(words.x0), centred(words.x1), centred(words.x2)});
    Vector to = {own.z + moves.z, own.y + moves.y, own.x + moves.x};
    const double farthest = tl_max(tl_abs(to.z), tl_max(tl_abs(to.y), tl_abs(to.x)));
    if (!(farthest < a.reach)) {
        atomic_add(a.work + 1, (u64)1);
        to = {own.z, own.y, own.x};
    }
    to = confined(a, own, to);
    const i64 next = a.push > 0.0 ? insert(a, step + 1, i, to) : NONE;
    then[i] = {to.z, to.y, to.x, next};
}

BLOCK_KERNEL(POLYMER_THREADS, POLYMER_BLOCKS, polymer_steps, const PolymerArguments a) {
    const i64 begin = a.beads * BLOCK_ID / BLOCKS, end = a.beads * (BLOCK_ID + 1) / BLOCKS;
    u32 arrivals = 0;
    for (i64 i = begin + THREAD_ID; i < end; i += BLOCK_THREADS) {
        Bead &own = a.beads_of_even[i];
        if (a.push > 0.0 && a.links[i * LINKS] != ABSENT)
            own.next = insert(a, 0, i, {own.z, own.y, own.x});
    }
    grid_barrier(a.work, BLOCKS, arrivals);
    for (i64 step = 0; step < a.steps; ++step) {
        for (i64 i = begin + THREAD_ID; i < end; i += BLOCK_THREADS) move(a, step, i);
        grid_barrier(a.work, BLOCKS, arrivals);
    }
}
