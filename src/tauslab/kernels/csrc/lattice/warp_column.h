// Hops along z, then reactions, then waiting particles: a warp marches along z through a row of 32 sites.
//
// As in lattice/warp_plane.h, a lane keeps in registers what stays in its site and what leaves it.
//
//     plane k + 1     is loaded ahead
//     plane k         is read: the lane decides who hops along z     (content, above)
//     plane k - 1     is built of: who came from k - 2  (from_below)
//                                  who stayed           (stayed)
//                                  who comes from k     (above.minus)
//
// A site that does not fit registers, or in which a reaction may happen, is finished in the block's
// memory, from the particles as they were before the hops.
#pragma once

#include "lattice/column.h"
#include "lattice/warp_plane.h"

#if WARP_TILES

constexpr i64 MOST_MARCHED =
    WARP_LANES - 2;  // planes of one march: each lane looks up one, two are beside them

// The sites of a warp in the plane: 32 along x, one for each lane.
struct WarpColumn {
    i64 tile;
    int in_plane;
    bool inside;
};

// What is known of planes begin - 1 .. end before the march: a bit for each plane, or a value in its lane.
struct PlanesAhead {
    // Planes that the march reads. Plane k is read if particles may hop into plane k - 1, from k - 2,
    // k - 1 or k, or may enter it from nowhere.
    u32 marched;
    u32 held;    // planes that held particles before the step: their memory is not all zeros
    u32 waits;   // planes in which particles wait for a slot
    int stored;  // where the plane of this lane is stored, or -1
    u64 site;    // number of its first site
};

DEVICE PlanesAhead look_ahead(const Lattice &l, i64 tile, i64 begin, i64 end) {
    const i64 k = begin - 1 + THREAD_ID % WARP_LANES, plane = k <= end ? stored_plane(l, k) : -1;
    const Column column = {0, 0, tile, begin, end, false, {}, {}};
    const bool own = k >= begin && k < end;
    const bool waits = own && *tile_head(l, l.step & 1, k * tiles_of_plane(l) + tile) >= 0;
    const u32 filled = LANES_BALLOT(WARP_LANES, holds_particles(l, column, plane));
    const u32 enters = LANES_BALLOT(WARP_LANES, enters_from_nowhere(l, column, k));
    return {filled | filled << 1 | filled << 2 | enters | enters << 1,
            LANES_BALLOT(WARP_LANES, own && held_particles(l, column, k)),
            LANES_BALLOT(WARP_LANES, waits), (int)plane,
            plane < 0 ? 0 : site_number(l, plane, 0, 0)};
}

DEVICE Site load_moved(const Lattice &l, const WarpColumn &column, int plane) {
    Site site;
    if (plane >= 0 && column.inside)
        site = l.moved[plane * (l.ny * l.nx) + column.in_plane];
    else
        make_empty(site);
    return site;
}

// The hop probabilities to both sides, in the plane that lane `j` looked up.
DEVICE Sides sides_of_lane(const Lattice &l, const WarpColumn &column, const PlanesAhead &ahead,
                           u32 j) {
    if (N_TYPES == 1 && face_kind(0) == PERIODIC) return {0, 0};
    const int plane = LANES_READ(WARP_LANES, ahead.stored, (int)j);
    if (plane < 0 || !column.inside) return {0, 0};
    return sides_along_z(l, plane, plane * (l.ny * l.nx) + column.in_plane);
}

DEVICE Moves decide_along_z(const Lattice &l, const LatticeStream &s, const WarpColumn &column,
                            i64 plane) {
    if (plane < 0) return {0, 0};
    const i64 index = plane * l.ny * l.nx + column.in_plane;
    const u64 site = site_number(l, plane, 0, 0) + (u64)column.in_plane;
    return decide(l, s, site, 2, l.moved[index], hop_bits(s, site, 0, 2),
                  sides_along_z(l, plane, index));
}

// Builds a site of plane k from the three planes that hop into it; returns its number of particles.
DEVICE_SHARED int build_site(const Lattice &l, const LatticeStream &s, const WarpColumn &column,
                             i64 k, const SpillHere &spill, Site &to) {
    const i64 below = stored_plane(l, k - 1), above = stored_plane(l, k + 1), sites = l.ny * l.nx;
    const Moves own = decide_along_z(l, s, column, k);
    to = l.moved[k * sites + column.in_plane];
    int n = is_empty(to) ? 0 : take_out(to, own.minus | own.plus, l.packing);
    if (below >= 0)
        append(to, n, l.moved[below * sites + column.in_plane],
               decide_along_z(l, s, column, below).plus, l.packing, spill);
    if (above >= 0)
        append(to, n, l.moved[above * sites + column.in_plane],
               decide_along_z(l, s, column, above).minus, l.packing, spill);
    return n;
}

// Whether no reaction can happen in a site of `n` particles: the upper half of its random bits is above
// an upper bound of the probability.
DEVICE bool is_still(const Lattice &l, int type, u32 upper, u32 n) {
    if (N_REACTIONS == 0 || (N_ZEROTH == 0 && n == 0)) return true;
    const u32 *bounds = l.bounds + 2 * ROW * type;
    return REACTION_PASSES == 1 && upper > bounds[0] + (u64)(n * n) * bounds[1];
}

// Draws the bits of the second group of four slots.
struct SecondDrawAlongZ {
    DEVICE_MEMBER u64 bits(const LatticeStream &s, u64 site, int axis) const {
        return hop_bits(s, site, 1, axis);
    }
};

// Finishes a site of plane k in which more happens than hops, or which did not fit registers. `built`
// has `count` particles if it is `complete`; otherwise it is ignored.
DEVICE_SHARED void finish_marched(const Lattice &l, const LatticeStream &s,
                                  const WarpColumn &column, i64 k, bool complete, u64 built,
                                  int count, bool drawn, u64 bits, Site &to) {
    const i64 number = k * tiles_of_plane(l) + column.tile;
    const u64 site = site_number(l, k, 0, 0) + (u64)column.in_plane;
    const SpillHere spill = {l, number, site, SPILL_Z, true};
    if (complete)
        make_pair(to, built);
    else
        count = build_site(l, s, column, k, spill, to);
    finish_site(l, s, spill, l.state_stamps + number, k * l.ny * l.nx + column.in_plane, drawn,
                bits, count, to);
}

// Marches through planes begin .. end - 1, at most MOST_MARCHED, in row `row` of the tiles `tile`.
// `of_lanes` is memory of the block, a site for each lane.
DEVICE_SHARED void march_in_lanes(const Lattice &l, const LatticeStream &s, i64 tile, int row,
                                  i64 begin, i64 end, Site *of_lanes) {
    const int along_x = tiles_along_x(l), lane = THREAD_ID % WARP_LANES;
    const int tile_row = (int)tile / along_x, x0 = ((int)tile - tile_row * along_x) * TILE_X;
    const int y = tile_row * TILE_Y + row, x = x0 + lane;
    if (y >= (int)l.ny) return;
    const PlanesAhead ahead = look_ahead(l, tile, begin, end);
    if (!(ahead.marched | ahead.held)) return;

    const WarpColumn column = {tile, y * (int)l.nx + x, x < (int)l.nx};
    const u32 sites = (u32)(l.ny * l.nx), last = kept((u32)(end - begin) + 1);
    const u32 high = kept((u32)(site_number(l, begin, 0, 0) >> 32));
    const bool split = ahead.stored >= 0 && ((u32)(ahead.site >> 32) != high ||
                                             (u32)((ahead.site + sites - 1) >> 32) != high);
    const u32 role = kept((column.inside ? INSIDE : 0) | (any_in_warp(split) ? SPLIT : 0));
    const PhiloxSeries series =
        philox_series(s.keys, lattice_c1(high, PURPOSE_Z, 0, 0), s.c2, s.c3);
    Site *at =
        kept(l.state + (begin - 2) * (i64)sites + column.in_plane);  // the site of plane k - 1
    // Bytes from that site to the site of plane k + 1 before its hops along z.
    const u64 next_plane = kept((u64)l.moved - (u64)l.state + 2 * sizeof(Site) * (u64)sites);
    u32 from_below = 0, plus = 0, bits = 0, upper = 0, rest = 0;
    u32 filled = 0;  // planes that hold particles after the step
    u64 stayed = 0;
    Site next = load_moved(l, column, LANES_READ(WARP_LANES, ahead.stored, 0));
    u32 bit = 1;  // of plane k = begin - 1 + j; plane k - 1 is built
    NO_UNROLL for (u32 j = 0; j <= last; ++j, bit <<= 1, at += sites) {
        if (!(ahead.marched & bit)) {
            if (j > 1 && ahead.held & bit >> 1 && column.inside) make_empty(*at);
            if (ahead.marched & bit << 1)
                next = load_moved(l, column, LANES_READ(WARP_LANES, ahead.stored, (int)j + 1));
            from_below = plus = bits = upper = 0;
            stayed = 0;
            continue;
        }
        const Site content = next;
        if (j + 1 < last) {
            if (role & INSIDE) next = *(const Site *)((const u8 *)at + next_plane);
        } else {
            next = load_moved(l, column, j < last ? (int)stored_plane(l, end) : -1);
        }
        u64 site = (u64)high << 32 |
                   (LANES_READ(WARP_LANES, (u32)ahead.site, (int)j) + (u32)column.in_plane);
        if (role & SPLIT) site = LANES_READ(WARP_LANES, ahead.site, (int)j) + (u64)column.in_plane;
        const Philox4 draw = LIKELY(!(role & SPLIT)) ? philox_draw(series, s.keys, (u32)site)
                                                     : lattice_draw(s, site, PURPOSE_Z, 0, 0);
        const Sides sides = sides_of_lane(l, column, ahead, j);
        const bool more = any_in_warp(content.word[1] != 0);
        SecondDrawAlongZ second;
        const SplitSite above = decide_and_split(l, s, site, 2, content, joined(draw.x0, draw.x1), more,
                                             second, sides);
        if (j > 1) {
            u64 built;
            const u32 all = join_slots(stayed, bits, from_below, above.minus, built);
            const bool fits = is_complete(all, plus, from_below, above.minus);
            const bool still =
                fits && !(ahead.waits & bit >> 1) && role & INSIDE &&
                is_still(l, type_at(l, at - l.state), upper, all / SLOT_BITS);
            if (LIKELY(still)) {
                Site to;
                make_pair(to, built);
                *at = to;
            } else if (role & INSIDE) {
                finish_marched(l, s, column, begin - 2 + (i64)j, fits, built, (int)all / SLOT_BITS,
                               (ahead.marched & bit >> 1) != 0, joined(upper, rest),
                               of_lanes[lane]);
            }
            if (any_in_warp(still && built != 0)) filled |= bit >> 1;
        }
        from_below = plus;
        plus = above.plus;
        stayed = above.stayed;
        bits = above.bits;
        upper = (u32)draw.x2;
        rest = (u32)draw.x3;
    }
    if (filled >> lane & 1)
        l.state_stamps[(begin - 1 + lane) * tiles_of_plane(l) + tile] = (u32)(l.step + 2);
}

#endif
