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

constexpr int PLANES_AHEAD =
    4;  // that memory is asked for, so that a plane comes soon when it is loaded
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
    u32 held;      // planes that held particles before the step: their memory is not all zeros
    u32 waits;     // planes in which particles wait for a slot
    u32 followed;  // planes whose next one lies behind them, in memory and in the numbers of sites
    int stored;    // where the plane of this lane is stored, or -1
    u64 site;      // number of its first site
};

DEVICE PlanesAhead look_ahead(const Lattice &l, i64 tile, i64 begin, i64 end) {
    const int lane = THREAD_ID % WARP_LANES;
    const i64 k = begin - 1 + lane, plane = k <= end ? stored_plane(l, k) : -1;
    const i64 per_plane = tiles_of_plane(l), sites = l.ny * l.nx;
    const bool own = k >= begin && k < end;
    // Loads that do not wait for each other.
    const i64 number = (own ? k : begin) * per_plane + tile;
    const u32 moved_stamp = l.moved_stamps[(plane < 0 ? begin : plane) * per_plane + tile];
    const u32 stamp = l.state_stamps[number];
    const i32 head = *(volatile i32 *)tile_head(l, l.step & 1, number);
    const bool always = l.always && l.always[number] & 2;
    const bool waits = own && head >= 0;
    const u32 filled = LANES_BALLOT(WARP_LANES, plane >= 0 && moved_stamp == (u32)(l.step + 1));
    const u32 enters = LANES_BALLOT(WARP_LANES, own && (always || head >= 0));
    const u64 site = plane < 0 ? 0 : site_number(l, plane, 0, 0);
    const int next = lane + 1 < WARP_LANES ? lane + 1 : lane;
    const int next_plane = LANES_READ(WARP_LANES, (int)plane, next);
    const u64 next_site = LANES_READ(WARP_LANES, site, next);
    return {filled | filled << 1 | filled << 2 | enters | enters << 1,
            LANES_BALLOT(WARP_LANES, own && stamp == (u32)(l.step + 1)),
            LANES_BALLOT(WARP_LANES, waits),
            LANES_BALLOT(WARP_LANES, plane >= 0 && next_plane == (int)plane + 1 &&
                                         next_site == site + (u64)sites),
            (int)plane,
            site};
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

// What is noted of a site of a march that is finished later: its lane, its plane, and whether it is stored as
// hops made it, or has to be put together from memory.
enum ListedSite : u32 { LISTED_LANE = 31, LISTED_PLANE = 5, LISTED_WHOLE = 1 << 15 };

// Memory of a warp.
struct WarpColumnWork {
    Site kept[WARP_LANES];
    u16 listed[MOST_MARCHED * WARP_LANES];
};

// Upper 32 random bits of a site up to which a reaction may happen there, [type, number of particles].
constexpr int MOST_COUNTED = WORDS * PER_WORD;
constexpr int LIMITED_TYPES = 16;
constexpr bool HAS_LIMITS = N_REACTIONS > 0 && REACTION_PASSES == 1 && (N_TYPES <= LIMITED_TYPES) &&
                            (BOUND_ENTRIES <= MOST_KEPT);
struct ReactionLimits {
    u32 of[HAS_LIMITS ? N_TYPES : 1][MOST_COUNTED + 1];
};

// Each particle counts as the fastest of all, as in bound_of.
DEVICE_SHARED void fill_limits(const Lattice &l, ReactionLimits &limits) {
    if (!HAS_LIMITS) return;
    for (int i = THREAD_ID; i < N_TYPES * (MOST_COUNTED + 1); i += BLOCK_THREADS) {
        const int type = i / (MOST_COUNTED + 1);
        const u32 n = (u32)(i % (MOST_COUNTED + 1)), *bounds = l.bounds + 2 * ROW * type;
        u64 first = 0, pair = 0;
        for (int particle = 1; particle < ROW; ++particle) {
            first = bounds[2 * particle] > first ? bounds[2 * particle] : first;
            pair = bounds[2 * particle + 1] > pair ? bounds[2 * particle + 1] : pair;
        }
        const u64 bound = bounds[0] + (n ? n * (first + (n - 1) * pair) : 0);
        limits.of[type][n] = bound < 0xffffffffu ? (u32)bound : 0xffffffffu;
    }
}

// Whether no reaction can happen in a site whose particles take `size` bits, with these random bits.
DEVICE bool is_still(const Lattice &l, const ReactionLimits &limits, i64 index, u32 upper,
                     u32 size) {
    if (N_REACTIONS == 0) return true;
    if (!HAS_LIMITS && N_ZEROTH == 0 && size == 0) return true;
    if (REACTION_PASSES > 1) return false;
    if (HAS_LIMITS) {
        constexpr u32 BITS_TO_BYTES = SLOT_BITS / sizeof(u32);  // a number for each particle
        const u8 *of_type = (const u8 *)limits.of[type_at(l, index)];
        return upper > *(const u32 *)(of_type + size / BITS_TO_BYTES);
    }
    const u32 *bounds = l.bounds + 2 * ROW * type_at(l, index), n = size / SLOT_BITS;
    return upper > bounds[0] + (u64)(n * n) * bounds[1];
}

// Draws the bits of other groups than the first.
struct FurtherDrawsAlongZ {
    DEVICE_MEMBER u64 bits(const LatticeStream &s, u64 site, int axis, int group) const {
        return hop_bits(s, site, group, axis);
    }
};

// Finishes a site of plane k in which more happens than hops, or which did not fit registers. If `whole`, it is
// stored as hops made it.
DEVICE_SHARED void finish_marched(const Lattice &l, const LatticeStream &s,
                                  const WarpColumn &column, i64 k, bool whole, Site &to) {
    const i64 number = k * tiles_of_plane(l) + column.tile,
              index = k * l.ny * l.nx + column.in_plane;
    const u64 site = site_number(l, k, 0, 0) + (u64)column.in_plane;
    const SpillHere spill = {l, number, site, SPILL_Z, true};
    int n;
    if (whole) {
        to = l.state[index];
        n = particles_in(to);
    } else {
        n = build_site(l, s, column, k, spill, to);
    }
    finish_site(l, s, spill, l.state_stamps + number, index, false, 0, n, to);
}

// The sites of a warp in a row of a tile, as one lane sees them.
DEVICE WarpColumn warp_column(const Lattice &l, i64 tile, int row, int lane) {
    const int along_x = tiles_along_x(l);
    const int tile_row = (int)tile / along_x, x0 = ((int)tile - tile_row * along_x) * TILE_X;
    const int y = tile_row * TILE_Y + row, x = x0 + lane;
    return {tile, y * (int)l.nx + x, x < (int)l.nx};
}

// Finishes `n` sites that are listed. Each lane takes one at a time.
DEVICE_SHARED void finish_listed(const Lattice &l, const LatticeStream &s, i64 tile, int row,
                                 i64 begin, int n, WarpColumnWork &work) {
    const int lane = THREAD_ID % WARP_LANES;
    LANES_BARRIER(WARP_LANES);
    NO_UNROLL for (int i = lane; i < n; i += WARP_LANES) {
        const u32 entry = work.listed[i];
        const WarpColumn column = warp_column(l, tile, row, (int)(entry & LISTED_LANE));
        const i64 k = begin + (entry >> LISTED_PLANE & 31);
        finish_marched(l, s, column, k, entry & LISTED_WHOLE, work.kept[lane]);
    }
    LANES_BARRIER(WARP_LANES);
}

// Marches where the upper halves of site numbers differ within a plane.
DEVICE_SHARED void march_through_memory(const Lattice &l, const LatticeStream &s,
                                        const WarpColumn &column, i64 begin, i64 end,
                                        const PlanesAhead &ahead, Site &of_lane) {
    if (!column.inside) return;
    NO_UNROLL for (i64 k = begin; k < end; ++k) {
        if (ahead.marched >> (k - begin + 2) & 1)
            finish_marched(l, s, column, k, false, of_lane);
        else if (ahead.held >> (k - begin + 1) & 1)
            make_empty(l.state[k * l.ny * l.nx + column.in_plane]);
    }
}

// A march of a warp, as one lane sees it. Lanes beyond the plane do and store what the last lane within does.
struct March {
    WarpColumn column;  // within the plane
    bool inside;        // whether the lane's own place is
    i64 begin, sites;
    u32 last, high;  // plane that is read, of 0 for begin - 1; upper halves of site numbers
    Site *state;     // of plane begin - 2
    u64 next_plane;  // bytes from a site of `state` to that of three planes further up before its hops along z
    u32 filled;      // planes that are read when one is built that holds particles after the step
    int n_listed;
};

// Notes the sites of a plane that are to be finished. All lanes of the warp call it.
DEVICE void list_sites(March &march, u32 lanes, u32 plane, bool whole, WarpColumnWork &work) {
    const u32 lane = (u32)THREAD_ID % WARP_LANES;
    if (lanes >> lane & 1)
        work.listed[march.n_listed + popc(lanes & ((1u << lane) - 1))] =
            (u16)(lane | plane << LISTED_PLANE | (whole ? LISTED_WHOLE : 0));
    march.n_listed += popc(lanes);
}

// Marches through planes `j` .. `run_end - 1`, where plane 0 is begin - 1, and builds the one below each.
DEVICE void march_run(const Lattice &l, const LatticeStream &s, const PhiloxSeries &series,
                      const ReactionLimits &limits, const PlanesAhead &ahead, u32 j, u32 run_end,
                      March &march, WarpColumnWork &work) {
    const u32 in_plane = (u32)march.column.in_plane;
    u32 from_below = 0, below_bits = 0, plus = 0, plus_bits = 0, bits = 0;
    u32 upper = 1;  // random bits of a site that was not read: only an empty one is still
    Slots stayed = {};
    Site content = load_moved(l, march.column, LANES_READ(WARP_LANES, ahead.stored, (int)j));
    u32 low = LANES_READ(WARP_LANES, (u32)ahead.site, (int)j) + in_plane;
    Site *at = march.state + j * march.sites;  // the site that is built, if j > 1
    const u64 stride = kept(sizeof(Site) * (u64)march.sites);
    const u64 later = kept(march.next_plane + (PLANES_AHEAD - 1) * stride);
    const u32 waits = ahead.waits << 1;  // bits of planes that are read when those with them are built
    u32 bit = 1u << j;
    for (u32 i = 0; i + 1 < PLANES_AHEAD && ahead.followed & bit << i; ++i)
        PREFETCH_FOR_ALL((const u8 *)at + march.next_plane + i * stride);
    NO_UNROLL for (; j < run_end; ++j, bit <<= 1) {
        if (bit & ahead.followed >> (PLANES_AHEAD - 1)) PREFETCH_FOR_ALL((const u8 *)at + later);
        const u64 site = (u64)march.high << 32 | low;
        const Philox4 draw = philox_draw(series, s.keys, low);
        FurtherDrawsAlongZ further;
        const SplitSite above = decide_and_split<true>(
            l, s, site, 2, content.word, used_bits(content.word[0]), joined(draw.x0, draw.x1),
            any_in_warp(content.word[1] != 0), is_larger(content), further,
            sides_of_lane(l, march.column, ahead, j));
        if (LIKELY(bit & ahead.followed)) {
            content = *(const Site *)((const u8 *)at + march.next_plane);
            low += (u32)march.sites;
        } else if (j < march.last) {
            content =
                load_moved(l, march.column, LANES_READ(WARP_LANES, ahead.stored, (int)j + 1));
            low = LANES_READ(WARP_LANES, (u32)ahead.site, (int)j + 1) + in_plane;
        }
        Site built;
        make_site(built, join_slots(stayed, bits, from_below, below_bits, above.minus));
        const u32 size = bits + below_bits + above.minus_bits;
        if (j > 1) *at = built;  // what does not fit is stored again
        march.filled |= built.word[0] ? bit : 0;
        const bool fits = size <= MOST_BITS;
        const bool still =
            fits && !(waits & bit) && is_still(l, limits, at - l.state, upper, size);
        if (any_in_warp(j > 1 && !still))
            list_sites(march, LANES_BALLOT(WARP_LANES, march.inside && !still), j - 2, fits, work);
        from_below = plus;
        below_bits = plus_bits;
        plus = above.plus;
        plus_bits = above.plus_bits;
        stayed = above.stayed;
        bits = above.bits;
        upper = (u32)draw.x2;
        at = (Site *)((u8 *)at + stride);
    }
}

// Marches through planes begin .. end - 1, at most MOST_MARCHED, in row `row` of the tiles `tile`.
DEVICE_SHARED void march_in_lanes(const Lattice &l, const LatticeStream &s,
                                  const ReactionLimits &of_block, i64 tile, int row, i64 begin,
                                  i64 end, WarpColumnWork &of_warp) {
    const ReactionLimits &limits = *kept_in_block(&of_block);
    WarpColumnWork &work = *kept_in_block(&of_warp);
    const int lane = THREAD_ID % WARP_LANES;
    const WarpColumn column = warp_column(l, tile, row, lane);
    if (column.in_plane - lane >= (int)(l.ny * l.nx)) return;
    const PlanesAhead ahead = look_ahead(l, tile, begin, end);
    if (!(ahead.marched | ahead.held)) return;

    const i64 sites = l.ny * l.nx;
    const u32 high = uniform((u32)(site_number(l, begin, 0, 0) >> 32));
    const bool split =
        ahead.stored >= 0 && ((u32)(ahead.site >> 32) != high ||
                              (u32)((ahead.site + (u64)sites - 1) >> 32) != high);
    if (any_in_warp(split)) {
        march_through_memory(l, s, column, begin, end, ahead, work.kept[lane]);
        return;
    }
    const u32 last = uniform((u32)(end - begin) + 1);
    const int beyond = column.inside ? 0 : (int)((u32)column.in_plane % (u32)l.nx) + 1;
    const WarpColumn within = {tile, (int)kept((u32)(column.in_plane - beyond)), true};
    March march = {within,
                   column.inside,
                   begin,
                   sites,
                   last,
                   high,
                   kept(l.state + (begin - 2) * sites + within.in_plane),
                   kept((u64)l.moved - (u64)l.state + 2 * sizeof(Site) * (u64)sites),
                   0,
                   0};
    const PhiloxSeries series =
        philox_series(s.keys, lattice_c1(high, PURPOSE_Z, 0, 0), s.c2, s.c3);
    for (u32 j = 0; j <= last;) {
        if (ahead.marched >> j & 1) {
            u32 run_end = j + 1;
            while (run_end <= last && ahead.marched >> run_end & 1) ++run_end;
            march_run(l, s, series, limits, ahead, j, run_end, march, work);
            j = run_end;
        } else {
            if (j > 1 && ahead.held >> (j - 1) & 1) make_empty(march.state[j * sites]);
            ++j;
        }
    }
    if (march.n_listed) finish_listed(l, s, tile, row, begin, march.n_listed, work);
    u32 filled = march.filled;
    UNROLL for (int distance = 1; distance < WARP_LANES; distance *= 2)
        filled |= LANES_EXCHANGE(WARP_LANES, filled, distance);
    if (lane > 0 && filled >> 1 >> lane & 1)
        l.state_stamps[(begin - 1 + lane) * tiles_of_plane(l) + tile] = (u32)(l.step + 2);
}

#endif
