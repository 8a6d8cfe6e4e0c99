// Hops along z of a block's lines, reactions, and particles that waited.
#pragma once

#include "lattice/lines/hops.h"

// What comes from a neighbour along z, at a site of its line.
DEVICE Portion portion_along_z(const Lattice &l, const LineBuffers &b, int line, int lane,
                               bool from_over, Part part) {
    if (part != MANY_PART) return portion_of(part);
    const int index = b.lines[line].first + lane;
    Portion portion;
    portion.site = l.moved[index];
    portion.slots = from_over ? b.z_moves[index].minus : b.z_moves[index].plus;
    return portion;
}

// Whether a bound on the probability tells that nothing reacts in a site of `n` particles.
DEVICE bool nothing_reacts(const Lattice &l, int type, u32 upper, u32 n) {
    if (N_REACTIONS == 0 || (N_ZEROTH == 0 && n == 0)) return true;
    const u32 *bounds = l.bounds + 2 * ROW * type;
    return REACTION_PASSES == 1 && upper > bounds[0] + (u64)(n * n) * bounds[1];
}

struct PartsAlongZ {
    Part under, over;  // who comes from there
};

DEVICE PartsAlongZ load_parts(const LineBuffers &b, const Line &line, int lane) {
    PartsAlongZ parts = {0, 0};
    if (line.under >= 0) parts.under = b.plus_out[line.under * LANES + lane];
    if (line.over >= 0) parts.over = b.minus_out[line.over * LANES + lane];
    return parts;
}

// Finishes a site in which more happens than hops, or which did not fit registers.
DEVICE_SHARED void finish_site_of_line(const Lattice &l, const LatticeStream &s,
                                       const LineBuffers &b, const Line &line, int lane, int index,
                                       int type, bool some_wait, bool whole, const Held &built,
                                       u32 bits, const Split &own, bool own_many, PartsAlongZ parts,
                                       Site &to) {
    const i64 tile = tile_of_site(l, index);
    const SpillHere spill = {l, tile, (u64)index, SPILL_Z, true};
    int n = (int)bits / SLOT_BITS;
    if (whole) {
        make_site(to, built);
    } else {
        u32 leaving = 0;
        if (own_many) {
            to = l.moved[index];
            leaving = b.z_moves[index].minus | b.z_moves[index].plus;
        } else {
            make_site(to, own.stayed);
        }
        n = join_one_by_one(l, portion_along_z(l, b, line.under, lane, false, parts.under),
                            portion_along_z(l, b, line.over, lane, true, parts.over), spill,
                            leaving, to);
    }
    finish_site_of_type(l, s, spill, l.state_stamps + tile, index, type, some_wait, false, 0, n,
                        to);
}

// The rest of the step in a line of the block.
DEVICE void finish_line(const Lattice &l, const LatticeStream &s, const LineBuffers &b, int place,
                        int lane, bool some_wait, PartsAlongZ parts, LinesWork &work) {
    const Line &line = work.lines[place];
    const LineSite at = line_site(l, line, lane);
    const Split own = stayed_in_line(work, place, lane);
    const bool many = work.count[place][lane] == 0xff;
    Held built;
    const u32 bits = join(own, parts.under, parts.over, built);
    const bool whole = is_whole(bits, many ? MANY_PART : 0, parts.under, parts.over);
    const int type = type_in_line(work, place, lane);
    const bool still =
        whole && !some_wait &&
        nothing_reacts(l, type, work.upper[l.step & 1][place][lane], bits / SLOT_BITS);
    if (!at.inside) return;
    if (LIKELY(still)) {
        Site to;
        make_site(to, built);
        l.state[at.index] = to;
    } else {
        finish_site_of_line(l, s, b, line, lane, at.index, type, some_wait, whole, built, bits, own,
                            many, parts, work.of_thread[THREAD_ID]);
    }
}
