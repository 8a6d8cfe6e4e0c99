// Hops along x and y of a block's lines, and who hops along z.
#pragma once

#include "lattice/lines/line.h"

// The bits of the second group of slots along x and y, drawn when the first axis asks for them.
struct SecondOfLine {
    bool made;
    u64 x, y;

    DEVICE_MEMBER u64 bits(const LatticeStream &s, u64 site, int axis) {
        if (!made) {
            const Philox4 bits = lattice_draw(s, site, PURPOSE_XY, 1, 0);
            x = joined(bits.x0, bits.x1);
            y = joined(bits.x2, bits.x3);
            made = true;
        }
        return axis ? y : x;
    }
};

struct SecondAlongZ {
    DEVICE_MEMBER u64 bits(const LatticeStream &s, u64 site, int axis) const {
        return hop_bits(s, site, 1, axis);
    }
};

// The site before a line (`side` 0) or behind it; -1 where there is none.
DEVICE int site_beside(const Lattice &l, const Line &line, int side) {
    const int nx = (int)l.nx, x = side ? line.x + LANES : line.x - 1;
    if (side ? x < nx : x >= 0) return line.first + x - line.x;
    if (face_kind(4) != PERIODIC) return -1;
    return line.first - line.x + (side ? 0 : nx - 1);
}

// Draws of lattice_draw(), index 0, whose addresses differ in the site alone.
struct LineDraws {
    LatticeStream s;
    PhiloxSeries series;

    DEVICE_MEMBER Philox4 of(int index) const { return philox_draw(series, s.keys, (u32)index); }
};

DEVICE LineDraws line_draws(const Lattice &l, u64 step, u32 purpose) {
    const LatticeStream s = lattice_stream(l.seed, step, (u32)l.replica);
    return {s, philox_series(s.keys, lattice_c1(0, purpose, 0, 0), s.c2, s.c3)};
}

// Draws the bits of a step for hops along x and y in the lines of a warp, and for the sites beside them.
DEVICE_SHARED void draw_along_xy(const Lattice &l, u64 step, const OwnLines &lines, int warp,
                                 int lane, LinesWork &work) {
    const LineDraws draws = line_draws(l, step, PURPOSE_XY);
    NO_UNROLL for (int i = warp; i < lines.all; i += LINE_WARPS) {
        const Philox4 x = draws.of(work.lines[i].first + lane);
        work.xy_bits[i % DRAWN_LINES][lane] = {{(u32)x.x0, (u32)x.x1, (u32)x.x2, (u32)x.x3}};
    }
    NO_UNROLL for (int i = lane;; i += LANES) {
        const int place = warp + i / 2 * LINE_WARPS;
        if (place >= lines.all) break;
        const Philox4 x = draws.of(site_beside(l, work.lines[place], i % 2));
        work.beside_bits[place % DRAWN_LINES][i % 2] = joined(x.x0, x.x1);
    }
}

// The same for hops along z and reactions.
DEVICE_SHARED void draw_along_z(const Lattice &l, u64 step, const OwnLines &lines, int warp,
                                int lane, LinesWork &work) {
    const LineDraws draws = line_draws(l, step, PURPOSE_Z);
    NO_UNROLL for (int i = warp; i < lines.own; i += LINE_WARPS) {
        const Philox4 x = draws.of(work.lines[i].first + lane);
        work.z_bits[i % DRAWN_LINES][lane] = joined(x.x0, x.x1);
        work.upper[step & 1][i][lane] = (u32)x.x2;
    }
}

// Who hops along x from a site that holds particles; `first` are its bits.
DEVICE Moves moves_along_x(const Lattice &l, const LatticeStream &s, int index, const Site &content,
                           u64 first) {
    const int nx = (int)l.nx;
    return decide(l, s, (u64)index, 0, content, first,
                  sides_of(l, index, index % nx, nx, 1, 4));
}

// Finds who hops into the lines of a warp from the sites beside them; a lane for each.
DEVICE_SHARED void look_beside(const Lattice &l, const LatticeStream &s, const OwnLines &lines,
                               int warp, int lane, LinesWork &work) {
    NO_UNROLL for (int i = lane;; i += LANES) {
        const int place = warp + i / 2 * LINE_WARPS;
        if (place >= lines.all) break;
        const int index = site_beside(l, work.lines[place], i % 2);
        Part coming = 0;
        if (index >= 0) {
            const Site content = l.state[index];
            if (!is_empty(content)) {
                const u64 first = DRAWS_LINES_AHEAD ? work.beside_bits[place % DRAWN_LINES][i % 2]
                                                    : hop_bits(s, (u64)index, 0, 0);
                const Moves moves = moves_along_x(l, s, index, content, first);
                const u32 slots = i % 2 ? moves.minus : moves.plus;
                coming = slots >> HELD_SLOTS ? MANY_PART : packed_part(content, slots, l.packing);
            }
        }
        work.beside[place][i % 2] = coming;
    }
    LANES_BARRIER(LANES);
}

// What comes from a site along x.
DEVICE Portion portion_along_x(const Lattice &l, const LatticeStream &s, const Line &line, int x,
                               int side, Part part) {
    if (part != MANY_PART) return portion_of(part);
    const int nx = (int)l.nx, from = (side ? x + 1 : x - 1) + nx;
    Portion portion;
    const int index = line.first - line.x + from % nx;
    portion.site = l.state[index];
    const Moves moves = moves_along_x(l, s, index, portion.site, hop_bits(s, (u64)index, 0, 0));
    portion.slots = side ? moves.minus : moves.plus;
    return portion;
}

// A site after its hops along x that did not fit registers.
DEVICE_SHARED void gather_along_x(const Lattice &l, const LatticeStream &s, const LineBuffers &b,
                                  const Line &line, const LineSite &at, bool own, const Split &split,
                                  Part left, Part right, Site &to, Held &moved) {
    u32 leaving = 0;
    if (split.plus == MANY_PART) {
        to = l.state[at.index];
        const Moves moves = moves_along_x(l, s, at.index, to, hop_bits(s, (u64)at.index, 0, 0));
        leaving = moves.minus | moves.plus;
    } else {
        make_site(to, split.stayed);
    }
    const SpillHere spill = {l, tile_of_site(l, at.index), (u64)at.index, SPILL_X, own};
    join_one_by_one(l, portion_along_x(l, s, line, at.x, 0, left),
                    portion_along_x(l, s, line, at.x, 1, right), spill, leaving, to);
    b.after_x[at.index] = to;
    moved = held_of(to);
}

// Hops along x of a line, and who leaves it along y.
DEVICE_SHARED void hop_along_x(const Lattice &l, const LineDraws &draws, const LineBuffers &b, bool own,
                        int place, int lane, const Site &content, LinesWork &work) {
    const LatticeStream &s = draws.s;
    const Line &line = work.lines[place];
    const LineSite at = line_site(l, line, lane);
    const u64 site = (u32)at.index;
    u64 x_bits, y_bits;
    if (DRAWS_LINES_AHEAD) {
        const DrawnBits drawn = work.xy_bits[place % DRAWN_LINES][lane];
        x_bits = joined(drawn.word[0], drawn.word[1]);
        y_bits = joined(drawn.word[2], drawn.word[3]);
    } else {
        const Philox4 bits = draws.of(at.index);
        x_bits = joined(bits.x0, bits.x1);
        y_bits = joined(bits.x2, bits.x3);
    }
    SecondOfLine second = {false, 0, 0};
    const bool many = has_more(content);
    bool more = any_in_warp(has_second_group(held_of(content)));
    Split split = split_site(l, s, site, 0, content, x_bits, more, second,
                             sides_in_line(work, place, lane, 0));
    if (many) split.minus = split.plus = MANY_PART;
    Part left = LANES_READ(LANES, split.plus, lane - 1);
    Part right = LANES_READ(LANES, split.minus, lane + 1);
    if (lane == 0 || at.x == 0) left = work.beside[place][0];
    if (lane == LANES - 1 || at.x == (int)l.nx - 1) right = work.beside[place][1];
    if (!at.inside) left = right = 0;  // MANY_PART is no particles to look up
    Held moved;
    const u32 all = join(split, left, right, moved);
    bool gathered = !is_whole(all, split.plus, left, right) && at.inside, beyond = false;
    if (gathered) {
        Site &to = work.of_thread[THREAD_ID];
        gather_along_x(l, s, b, line, at, own, split, left, right, to, moved);
        beyond = has_more(to);
    }
    Site after;
    make_site(after, moved);
    more = any_in_warp(has_second_group(moved));
    const Sides sides = sides_in_line(work, place, lane, 1);
    split = split_site(l, s, site, 1, after, y_bits, more, second, sides);
    if (at.inside && (split.plus == MANY_PART || split.minus == MANY_PART || beyond)) {
        if (!gathered) b.after_x[at.index] = after;
        Moves moves = unpacked(split.moves);
        if (beyond)
            moves = decide(l, s, site, 1, work.of_thread[THREAD_ID], y_bits, sides);
        b.y_moves[at.index] = moves;
        split.minus = split.plus = MANY_PART;
    }
    work.minus[place][lane] = at.inside ? split.minus : 0;
    work.plus[place][lane] = at.inside ? split.plus : 0;
    if (!own) return;
    work.low[place][lane] = split.stayed.low;
    if (!OF_BYTES) work.high[OF_BYTES ? 0 : place][lane] = split.stayed.high;
    work.count[place][lane] = (u8)(split.bits / SLOT_BITS);
}

// What stayed in a site of a line, as `Split` has it.
DEVICE Split stayed_in_line(const LinesWork &work, int place, int lane) {
    Split split = {0, 0, {work.low[place][lane], OF_BYTES ? 0 : work.high[OF_BYTES ? 0 : place][lane]},
                   work.count[place][lane] * (u32)SLOT_BITS, 0};
    return split;
}

// What comes from a neighbour along y, at the place of its line.
DEVICE Portion portion_along_y(const LineBuffers &b, const LinesWork &work, int place, int lane,
                               bool from_above, Part part) {
    if (part != MANY_PART) return portion_of(part);
    const int index = work.lines[place].first + lane;
    Portion portion;
    portion.site = b.after_x[index];
    portion.slots = from_above ? b.y_moves[index].minus : b.y_moves[index].plus;
    return portion;
}

// Hops along y of a line of the block, and who leaves it along z.
DEVICE_SHARED void hop_along_y(const Lattice &l, const LineDraws &draws, const LineBuffers &b,
                        const OwnLines &lines, int place, int lane, LinesWork &work) {
    const LatticeStream &s = draws.s;
    const Line &line = work.lines[place];
    const LineSite at = line_site(l, line, lane);
    const u64 site = (u32)at.index;
    u64 z_bits;
    if (DRAWS_LINES_AHEAD) {
        z_bits = work.z_bits[place % DRAWN_LINES][lane];
    } else {
        const Philox4 bits = draws.of(at.index);
        z_bits = joined(bits.x0, bits.x1);
        work.upper[l.step & 1][place][lane] = (u32)bits.x2;
    }
    const Part below = work.plus[line.below][lane], above = work.minus[line.above][lane],
               own = work.plus[place][lane];
    Held moved;
    const u32 all = join(stayed_in_line(work, place, lane), below, above, moved);
    bool gathered = !is_whole(all, own, below, above) && at.inside, beyond = false;
    if (gathered) {
        Site &to = work.of_thread[THREAD_ID];
        u32 leaving = 0;
        if (own == MANY_PART) {
            to = b.after_x[at.index];
            leaving = b.y_moves[at.index].minus | b.y_moves[at.index].plus;
        } else {
            make_site(to, stayed_in_line(work, place, lane).stayed);
        }
        const SpillHere spill = {l, tile_of_site(l, at.index), site, SPILL_Y, true};
        join_one_by_one(l, portion_along_y(b, work, line.below, lane, false, below),
                        portion_along_y(b, work, line.above, lane, true, above), spill, leaving, to);
        l.moved[at.index] = to;
        moved = held_of(to);
        beyond = has_more(to);
    }
    Site after;
    make_site(after, moved);
    const bool more = any_in_warp(has_second_group(moved));
    SecondAlongZ second;
    const Sides sides = sides_in_line(work, place, lane, 2);
    Split split = split_site(l, s, site, 2, after, z_bits, more, second, sides);
    if (at.inside && (split.plus == MANY_PART || split.minus == MANY_PART || beyond)) {
        if (!gathered) l.moved[at.index] = after;
        Moves moves = unpacked(split.moves);
        if (beyond)
            moves = decide(l, s, site, 2, work.of_thread[THREAD_ID], z_bits, sides);
        b.z_moves[at.index] = moves;
        split.minus = split.plus = MANY_PART;
    }
    const int out = (lines.first + place) * LANES + lane;
    b.minus_out[out] = at.inside ? split.minus : 0;
    b.plus_out[out] = at.inside ? split.plus : 0;
    work.low[place][lane] = split.stayed.low;
    if (!OF_BYTES) work.high[OF_BYTES ? 0 : place][lane] = split.stayed.high;
    work.count[place][lane] = split.plus == MANY_PART ? (u8)0xff : (u8)(split.bits / SLOT_BITS);
}
