// Hops along x, then y, in one tile of one plane, by one warp.
//
// The lanes of a warp lie side by side along x and go up along y together. What hops between lanes
// travels by shuffles, what hops along y waits in registers, so no warp waits for another. The
// sites beside a row are looked at before, those of 16 rows at a time. Sites of up to PAIR_SLOTS
// particles, of which no more than a word's hop to a side, are moved in registers; a row that has
// others goes through the block's memory and `gather`.
#pragma once

#include "rdme_plane.h"

#if defined(LANES_SIDE_BY_SIDE) && STRIPS
#define STRIPS_OF_LANES 1

constexpr int STRIP = 32;  // lanes of a warp, and sites of a tile along x
constexpr int STRIP_ROWS = TILE_Y + 2;
constexpr int PAIR_GROUPS = PAIR_SLOTS / GROUP;
constexpr int LAST_ROWS = 4;  // that are kept; a power of two, three are asked for
constexpr u32 MANY = ~0u;     // in place of a word of particles: see the site itself

// Memory of a warp.
struct StripWork {
    u32 beside[2 * STRIP_ROWS];  // what hops in from the sites left and right of each row
    Site row[STRIP + 2];         // a row that `gather` moves along x
    SlotMoves row_moves[STRIP + 2];
    Site after_x[LAST_ROWS][STRIP];
    u32 y_moves[LAST_ROWS][STRIP];  // as in Parting
};

// A tile, and the lane's part of it.
struct Strip {
    PlaneTile t;
    int lane, x, width;
    bool inside;  // whether the plane has the lane's x
    bool split;   // whether upper halves of site numbers differ within the plane
    PhiloxSeries series;

    // Where the site of a row lies in its plane, or -1.
    DEVICE_MEMBER int place(int row) const {
        int y = t.y0 + row - 1;
        if (!brought_inside(y, t.ny, face_kind(2) == PERIODIC)) return -1;
        return inside ? y * t.nx + x : -1;
    }

    DEVICE_MEMBER u64 site(int in_plane) const { return t.first_site + (u64)in_plane; }
};

// The draw that serves the first group along x and y.
DEVICE Philox4 strip_draw(const LatticeStream &s, const Strip &strip, u64 site) {
    PhiloxSeries series = strip.series;
    if (strip.split)
        series = philox_series(s.keys, lattice_c1((u32)(site >> 32), PURPOSE_XY, 0, 0), s.c2, s.c3);
    return philox_draw(series, s.keys, (u32)site);
}

// The given slots of a site's first two words, where they fit into one.
DEVICE u32 word_of(const Site &site, u32 slots, const u32 *packing) {
    const Packed found = packed(site, slots, packing);
    return found.bits > 32 ? MANY : (u32)found.particles;
}

// Bits that the particles of a word take; there are no gaps.
DEVICE u32 bits_of(u32 particles) {
    constexpr u32 LAST = SLOT_BITS - 1;
    return (32 - (u32)leading_zeros(particles) + LAST) & ~LAST;
}

// Who hops of a site's first two words. Of the second, only where any site of the warp has one.
struct PairHops {
    Parting first, second;

    DEVICE_MEMBER u32 moves() const { return first.moves | second.moves << PER_WORD; }
};

DEVICE Moves unpacked(u32 moves) {
    return {moves & 0xffff, moves >> 16};
}

// How a word of four slots parts. Flags are minus one or zero, and so are counted backwards.
DEVICE Parting parting_of(const Lattice &l, GroupHops hops) {
    constexpr u32 SIZES = 0x80402010;  // of an entry times 1, 2, 4, 8
    const i32 at = dot_bytes(hops.stays, SIZES) + 16 * dot_bytes(hops.upward, SIZES);
    return *(const Parting *)((const u8 *)(l.partings + PARTINGS - 1) + at);
}

// What leaves a site of up to PAIR_SLOTS particles, each side without gaps; what stays.
struct Parted {
    u32 minus, plus;
    u64 stayed;
    u32 bits;   // that `stayed` takes
    bool lost;  // whether `minus` or `plus` is more than a word
};

// `more`: whether any site of the warp has particles beyond the first word.
DEVICE Parted part(const Site &site, const PairHops &hops, bool more) {
    const u32 stayed = SELECT_BYTES(site.word[0], 0, hops.first.stayed);
    Parted p = {SELECT_BYTES(site.word[0], 0, hops.first.minus),
                SELECT_BYTES(site.word[0], 0, hops.first.plus), stayed, bits_of(stayed), false};
    if (more) {
        const u32 minus = hops.first.minus >> 16, plus = hops.first.plus >> 16;
        p.lost = minus + (hops.second.minus >> 16) > 32 || plus + (hops.second.plus >> 16) > 32;
        p.minus |= (u32)moved_up(SELECT_BYTES(site.word[1], 0, hops.second.minus), minus);
        p.plus |= (u32)moved_up(SELECT_BYTES(site.word[1], 0, hops.second.plus), plus);
        const u32 after = SELECT_BYTES(site.word[1], 0, hops.second.stayed);
        const u32 before = hops.first.stayed >> 16;  // the first word is full where there is a second
        p.stayed |= moved_up(after, before);
        p.bits = after ? before + bits_of(after) : p.bits;
    }
    return p;
}

// Puts together what stayed and what came; the bits of all, which are lost beyond 64.
DEVICE u32 put_together(u64 stayed, u32 bits, u32 from_below, u32 from_above, u64 &to) {
    const u32 two = bits + bits_of(from_below);
    to = stayed | moved_up(from_below, bits) | moved_up(from_above, two);
    return two + bits_of(from_above);
}

DEVICE void make_pair(Site &site, u64 particles) {
    make_empty(site);
    site.word[0] = (u32)particles;
    site.word[1] = (u32)(particles >> 32);
}

DEVICE bool any_in_warp(bool condition) {
    return LANES_BALLOT(STRIP, condition) != 0;
}

// Adds who hops of the groups behind those of a pair. `content` lies in the block's memory.
DEVICE_SHARED void decide_beyond_pair(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                                      const Site &content, Sides sides, Moves &moves) {
    NO_UNROLL for (int g = PAIR_GROUPS; g < GROUPS && particle_of(content.word, g, 0); ++g)
        decide_group(l, s, site, axis, content.word, g, hop_bits(s, site, g, axis), sides, moves);
}

// The second group's draw of a row, made when the first of both axes asks for it.
struct SecondDraw {
    bool made;
    u64 x, y;

    DEVICE_MEMBER void make(const LatticeStream &s, u64 site) {
        if (made) return;
        const Philox4 bits = lattice_draw(s, site, PURPOSE_XY, 1, 0);
        x = joined(bits.x0, bits.x1);
        y = joined(bits.x2, bits.x3);
        made = true;
    }
};

// The site beside a row, left or right, and who hops of it along x.
DEVICE_SHARED void look_at(const Lattice &l, const LatticeStream &s, const Strip &strip, int row,
                           int side, Site &content, Moves &moves) {
    moves = {0, 0};
    int y = strip.t.y0 + row - 1, x = side ? strip.t.x0 + strip.width : strip.t.x0 - 1;
    const bool there = brought_inside(y, strip.t.ny, face_kind(2) == PERIODIC);
    if (!brought_inside(x, strip.t.nx, face_kind(4) == PERIODIC) || !there) {
        make_empty(content);
        return;
    }
    const int in_plane = y * strip.t.nx + x;
    const i64 index = strip.t.first_index + in_plane;
    content = l.state[index];
    if (is_empty(content)) return;
    const u64 site = strip.site(in_plane);
    moves = decide(l, s, site, 0, content, hop_bits(s, site, 0, 0),
                   sides_of(l, index, x, strip.t.nx, 1, 4));
}

// What hops into all rows from left and right; whether any is MANY.
DEVICE_SHARED bool look_beside(const Lattice &l, const LatticeStream &s, const Strip &strip,
                               StripWork &work) {
    bool many = false;
    NO_UNROLL for (int i = strip.lane; i < 2 * STRIP_ROWS; i += STRIP) {
        Moves moves;
        Site &content = work.row[strip.lane];
        look_at(l, s, strip, i / 2, i % 2, content, moves);
        const u32 coming = i % 2 ? moves.minus : moves.plus;
        work.beside[i] = in_pair(coming) ? word_of(content, coming, l.packing) : MANY;
        many = many || work.beside[i] == MANY;
    }
    return any_in_warp(many);
}

// Moves a row along x that does not fit registers, into `to`. All lanes of the warp.
DEVICE_SHARED void gather_row(const Lattice &l, const LatticeStream &s, const Strip &strip, int row,
                              int in_plane, const Site &content, Moves moves, Sides sides,
                              StripWork &work, Site &to) {
    const int at = strip.lane + 1;
    LANES_BARRIER(STRIP);
    work.row[at] = content;
    if (!is_pair(content))
        decide_beyond_pair(l, s, strip.site(in_plane), 0, work.row[at], sides, moves);
    work.row_moves[at] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
    LANES_BARRIER(STRIP);
    if (strip.lane < 2) {
        const int beside = strip.lane ? strip.width + 1 : 0;
        Moves hops;
        look_at(l, s, strip, row, strip.lane, work.row[beside], hops);
        work.row_moves[beside] = {(SlotBits)hops.minus, (SlotBits)hops.plus};
    }
    LANES_BARRIER(STRIP);
    if (in_plane < 0) {
        make_empty(to);
    } else {
        const bool mine = row > 0 && row <= TILE_Y && strip.t.y0 + row <= strip.t.ny;
        const u64 site = strip.site(in_plane);
        const SpillHere spill = {l, strip.t.tile, site, SPILL_X, mine};
        gather(l, s, work.row[at], moves.minus | moves.plus, work.row[at - 1],
               work.row_moves[at - 1].plus, work.row[at + 1], work.row_moves[at + 1].minus, site,
               strip.t.first_index + in_plane, strip.x, strip.t.nx, 4, spill, to);
    }
    LANES_BARRIER(STRIP);
}

// Loads a row's site, or none.
DEVICE Site load_site(const Lattice &l, const Strip &strip, int in_plane) {
    Site site;
    if (in_plane >= 0)
        site = l.state[strip.t.first_index + in_plane];
    else
        make_empty(site);
    return site;
}

// The same where one group fills both words.
DEVICE PairHops pair_in_group(Moves moves, const u32 *packing) {
    return {parting_of(moves.minus, moves.plus, packing),
            parting_of(moves.minus >> PER_WORD, moves.plus >> PER_WORD, packing)};
}

// Who hops of a site's first two words. `first` are the bits of group 0, `second` has those of 1.
DEVICE PairHops decide_pair(const Lattice &l, const LatticeStream &s, const Strip &strip, int axis,
                            int in_plane, const Site &content, u64 first, bool more,
                            SecondDraw &second, Sides sides) {
    const u64 site = strip.site(in_plane);
    const GroupHops hops = hops_of(l, s, site, axis, content.word, 0, first, sides);
    if (PAIR_GROUPS == 1) return pair_in_group(moves_of(hops), l.packing);
    PairHops pair = {parting_of(l, hops), {0, 0, 0, 0}};
    if (more) {
        second.make(s, site);
        pair.second = parting_of(l, hops_of(l, s, site, axis, content.word, 1,
                                            axis ? second.y : second.x, sides));
    }
    return pair;
}

// Moves row `row` along x, and says who hops along y: in `work`, and parted.
DEVICE Parted climb_row(const Lattice &l, const LatticeStream &s, const Strip &strip, int row,
                        int in_plane, const Site &content, bool many_beside, StripWork &work) {
    const int kept = row % LAST_ROWS;
    const i64 index = strip.t.first_index + in_plane;
    const bool there = in_plane >= 0;
    Sides along_x = {0, 0}, along_y = {0, 0};
    if (N_TYPES > 1 || face_kind(4) != PERIODIC)
        if (there) along_x = sides_of(l, index, strip.x, strip.t.nx, 1, 4);
    const Philox4 bits = strip_draw(s, strip, strip.site(in_plane));
    SecondDraw second = {false, 0, 0};
    bool more = any_in_warp(content.word[1] != 0);
    PairHops hops = decide_pair(l, s, strip, 0, in_plane, content, joined(bits.x0, bits.x1), more,
                                second, along_x);
    Parted parted = part(content, hops, more);
    u32 left = LANES_READ(STRIP, parted.plus, (strip.lane - 1) & (STRIP - 1));
    u32 right = LANES_READ(STRIP, parted.minus, (strip.lane + 1) & (STRIP - 1));
    if (strip.lane == 0) left = work.beside[2 * row];
    if (strip.lane == strip.width - 1) right = work.beside[2 * row + 1];
    u64 moved;
    bool gathers = put_together(parted.stayed, parted.bits, left, right, moved) > 64;
    if (more) gathers = gathers || parted.lost || !is_pair(content);
    if (many_beside) gathers = gathers || left == MANY || right == MANY;
    Site to;
    make_pair(to, moved);
    const bool gathered = any_in_warp(there && gathers);
    if (gathered) {
        gather_row(l, s, strip, row, in_plane, content, unpacked(hops.moves()), along_x, work,
                   work.after_x[kept][strip.lane]);
        to = work.after_x[kept][strip.lane];
    } else {
        work.after_x[kept][strip.lane] = to;
    }
    if (N_TYPES > 1 || face_kind(2) != PERIODIC)
        if (there) along_y = sides_of(l, index, (int)((u32)in_plane / (u32)strip.t.nx), strip.t.ny,
                                      l.nx, 2);
    more = any_in_warp(to.word[1] != 0);
    hops = decide_pair(l, s, strip, 1, in_plane, to, joined(bits.x2, bits.x3), more, second,
                       along_y);
    work.y_moves[kept][strip.lane] = hops.moves();
    parted = part(to, hops, more);
    if (gathered && !is_pair(to)) {
        Moves moves = unpacked(hops.moves());
        decide_beyond_pair(l, s, strip.site(in_plane), 1, work.after_x[kept][strip.lane], along_y,
                           moves);
        work.y_moves[kept][strip.lane] = moves.minus | moves.plus << 16;
        parted.lost = true;
    }
    return parted;
}

// Moves along y what does not fit registers, into `to`: row `row` of the three last ones.
DEVICE_SHARED void gather_column(const Lattice &l, const LatticeStream &s, const Strip &strip,
                                 int row, int in_plane, const StripWork &work, Site &to) {
    const int below = (row - 1) % LAST_ROWS, own = row % LAST_ROWS, above = (row + 1) % LAST_ROWS;
    const int i = strip.lane;
    const u64 site = strip.site(in_plane);
    const SpillHere spill = {l, strip.t.tile, site, SPILL_Y, true};
    const Moves moves = unpacked(work.y_moves[own][i]);
    gather(l, s, work.after_x[own][i], moves.minus | moves.plus, work.after_x[below][i],
           unpacked(work.y_moves[below][i]).plus, work.after_x[above][i],
           unpacked(work.y_moves[above][i]).minus, site, strip.t.first_index + in_plane,
           strip.t.y0 + row - 1, strip.t.ny, 2, spill, to);
}

// Whether the tile or one of the eight around it holds particles: a lane looks at one.
DEVICE bool strip_is_reached(const Lattice &l, const Strip &strip) {
    const PlaneTile &t = strip.t;
    const int along_x = tiles_along_x(l), along_y = tiles_along_y(l), i = strip.lane;
    const u32 *stamps = l.state_stamps + t.plane * tiles_of_plane(l);
    bool reached = l.always && l.always[t.tile] & 1;
    int y = t.y0 / TILE_Y + i / 3 - 1, x = t.x0 / TILE_X + i % 3 - 1;
    if (i < 9 && brought_inside(y, along_y, face_kind(2) == PERIODIC) &&
        brought_inside(x, along_x, face_kind(4) == PERIODIC))
        reached = reached || stamps[y * along_x + x] == (u32)(l.step + 1);
    return any_in_warp(reached);
}

// Tile `number` of all planes.
DEVICE_SHARED void hop_in_strip(const Lattice &l, const LatticeStream &s, i64 number,
                                        StripWork &work) {
    const PlaneTile t = plane_tile(l, number);
    const int lane = THREAD_ID % STRIP, x = t.x0 + lane;
    const u64 last_site = t.first_site + (u64)(t.ny * t.nx - 1);
    const u32 high = (u32)(t.first_site >> 32);
    const Strip strip = {t, lane, x, t.nx - t.x0 < STRIP ? t.nx - t.x0 : STRIP, x < t.nx,
                         (u32)(last_site >> 32) != high,
                         philox_series(s.keys, lattice_c1(high, PURPOSE_XY, 0, 0), s.c2, s.c3)};
    if (lane == 0) *tile_head(l, (l.step + 1) & 1, number) = -1;
    if (!strip_is_reached(l, strip)) {
        if (l.moved_stamps[number] == (u32)l.step)
            for (int row = 1; row <= TILE_Y && t.y0 + row <= t.ny; ++row)
                if (strip.inside) make_empty(l.moved[t.first_index + strip.place(row)]);
        return;
    }
    LANES_BARRIER(STRIP);
    const bool many_beside = look_beside(l, s, strip, work);
    LANES_BARRIER(STRIP);
    u32 filled = 0, lost = 0;                // of the last rows, this one's in bit 0
    u32 from_below = 0, plus = 0, bits = 0;  // of rows `row - 2` and `row - 1`
    u64 stayed = 0;
    int own_place = -1;
    int place = strip.place(0);
    Site next = load_site(l, strip, place);
    NO_UNROLL for (int row = 0; row < STRIP_ROWS; ++row) {
        const Site content = next;
        const int here = place;
        place = strip.place(row + 1);
        next = load_site(l, strip, row + 1 < STRIP_ROWS ? place : -1);
        const Parted above = climb_row(l, s, strip, row, here, content, many_beside, work);
        lost = lost << 1 | above.lost;
        if (row >= 2 && t.y0 + row - 2 < t.ny && strip.inside) {
            u64 moved;
            const u32 all = put_together(stayed, bits, from_below, above.minus, moved);
            Site to;
            make_pair(to, moved);
            if (all > 64 || lost & 7) {
                gather_column(l, s, strip, row - 1, own_place, work, work.row[lane + 1]);
                to = work.row[lane + 1];
            }
            l.moved[t.first_index + own_place] = to;
            filled |= to.word[0];
        }
        from_below = plus;
        plus = above.plus;
        stayed = above.stayed;
        bits = above.bits;
        own_place = here;
    }
    if (any_in_warp(filled != 0) && lane == 0) l.moved_stamps[number] = (u32)(l.step + 1);
}

#endif
