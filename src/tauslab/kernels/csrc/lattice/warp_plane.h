// Hops along x, then along y, in one tile of one plane, by one warp.
//
// The lanes of a warp hold 32 sites side by side along x, and go through the rows of the tile along y.
//
//     row + 1     is loaded ahead
//     row         moves along x: shuffles carry particles between lanes; then it decides about y
//     row - 1     is complete: its hops along y came from row - 2 (in registers) and from row
//
// No warp waits for another. Sites left and right of the tile are looked at before, those of 16 rows at a
// time. Sites of up to PAIR_SLOTS particles are moved in registers (lattice/registers.h). A row with a
// larger site goes through the block's memory and `gather`.
#pragma once

#include "lattice/registers.h"

#if WARP_TILES

constexpr int WARP_TILE_ROWS = TILE_Y + 2;
constexpr int LAST_ROWS =
    4;  // rows that are kept: three are read, and a power of two is quick to index

// Memory of a warp.
struct WarpTileWork {
    u32 beside[2 * WARP_TILE_ROWS];  // who hops in from the sites left and right of each row
    Site row[WARP_LANES + 2];        // a row that `gather` moves along x
    SlotMoves row_moves[WARP_LANES + 2];
    Site after_x[LAST_ROWS][WARP_LANES];
    u32 y_moves[LAST_ROWS][WARP_LANES];  // as in SlotSelectors
};

// A lane's place in the tile, and rare properties of the tile, as bits.
enum LaneRole : u32 {
    INSIDE = 1,      // the x of the lane lies in the plane
    FIRST_LANE = 2,  // the first, and below the last, of the lanes that lie in the plane
    LAST_LANE = 4,
    SPLIT = 8,     // the upper halves of site numbers differ within the plane
    TOP_TILE = 16  // the plane ends at the upper side of this tile
};

// A tile, as one lane sees it.
struct WarpTile {
    PlaneTile t;
    int lane, x, width;
    u32 role;
    PhiloxSeries series;
    const Site *from;  // the plane's sites
    Site *to;

    // Index within the plane of the site of this lane in a row, or -1.
    DEVICE_MEMBER int place(int row) const {
        int y = t.y0 + row - 1;
        if (face_kind(2) == PERIODIC) {
            y += y < 0 ? t.ny : 0;
            y -= y == t.ny ? t.ny : 0;
        }
        return role & INSIDE && (u32)y < (u32)t.ny ? y * t.nx + x : -1;
    }

    // Whether this lane has a site at that index.
    DEVICE_MEMBER bool has(int in_plane) const { return in_plane >= 0 && role & INSIDE; }

    DEVICE_MEMBER u64 site(int in_plane) const { return t.first_site + (u64)in_plane; }
};

// Draws the bits of the first group of slots, for hops along x and along y.
DEVICE Philox4 warp_tile_draw(const LatticeStream &s, const WarpTile &warp_tile, u64 site) {
    if (LIKELY(!(warp_tile.role & SPLIT))) return philox_draw(warp_tile.series, s.keys, (u32)site);
    return lattice_draw(s, site, PURPOSE_XY, 0, 0);
}

// Decides about the groups behind the first two words, and adds their hops. `content` lies in the block's
// memory.
DEVICE_SHARED void decide_beyond_pair(const Lattice &l, const LatticeStream &s, u64 site, int axis,
                                      const Site &content, Sides sides, Moves &moves) {
    NO_UNROLL for (int g = PAIR_GROUPS; g < GROUPS && particle_of(content.word, g, 0); ++g)
        decide_group(l, s, site, axis, content.word, g, hop_bits(s, site, g, axis), sides, moves);
}

// The bits of the second group of a row, drawn when the first axis asks for them.
struct SecondDraw {
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

// Loads the site left or right of a row, and decides who hops from it along x.
DEVICE_SHARED void load_neighbour(const Lattice &l, const LatticeStream &s, const WarpTile &warp_tile, int row,
                           int side, Site &content, Moves &moves) {
    moves = {0, 0};
    int y = warp_tile.t.y0 + row - 1, x = side ? warp_tile.t.x0 + warp_tile.width : warp_tile.t.x0 - 1;
    const bool there = brought_inside(y, warp_tile.t.ny, face_kind(2) == PERIODIC);
    if (!brought_inside(x, warp_tile.t.nx, face_kind(4) == PERIODIC) || !there) {
        make_empty(content);
        return;
    }
    const int in_plane = y * warp_tile.t.nx + x;
    const i64 index = warp_tile.t.first_index + in_plane;
    content = l.state[index];
    if (is_empty(content)) return;
    const u64 site = warp_tile.site(in_plane);
    moves = decide(l, s, site, 0, content, hop_bits(s, site, 0, 0),
                   sides_of(l, index, x, warp_tile.t.nx, 1, 4));
}

// Finds who hops into all rows from left and right.
DEVICE_SHARED void load_neighbours(const Lattice &l, const LatticeStream &s, const WarpTile &warp_tile,
                               WarpTileWork &work) {
    NO_UNROLL for (int i = warp_tile.lane; i < 2 * WARP_TILE_ROWS; i += WARP_LANES) {
        Moves moves;
        Site &content = work.row[warp_tile.lane];
        load_neighbour(l, s, warp_tile, i / 2, i % 2, content, moves);
        const u32 coming = i % 2 ? moves.minus : moves.plus;
        work.beside[i] = in_pair(coming) ? packed_word(content, coming, l.packing) : MANY;
    }
}

// Moves a row that does not fit registers along x, into `to`. All lanes of the warp call it.
DEVICE_SHARED void gather_row(const Lattice &l, const LatticeStream &s, const WarpTile &warp_tile, int row,
                              int in_plane, const Site &content, Moves moves, Sides sides,
                              WarpTileWork &work, Site &to) {
    const int at = warp_tile.lane + 1;
    LANES_BARRIER(WARP_LANES);
    work.row[at] = content;
    if (!is_pair(content))
        decide_beyond_pair(l, s, warp_tile.site(in_plane), 0, work.row[at], sides, moves);
    work.row_moves[at] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
    LANES_BARRIER(WARP_LANES);
    if (warp_tile.lane < 2) {
        const int beside = warp_tile.lane ? warp_tile.width + 1 : 0;
        Moves hops;
        load_neighbour(l, s, warp_tile, row, warp_tile.lane, work.row[beside], hops);
        work.row_moves[beside] = {(SlotBits)hops.minus, (SlotBits)hops.plus};
    }
    LANES_BARRIER(WARP_LANES);
    if (!warp_tile.has(in_plane)) {
        make_empty(to);
    } else {
        const bool mine = row > 0 && row <= TILE_Y && warp_tile.t.y0 + row <= warp_tile.t.ny;
        const u64 site = warp_tile.site(in_plane);
        const SpillHere spill = {l, warp_tile.t.tile, site, SPILL_X, mine};
        gather(l, s, work.row[at], moves.minus | moves.plus, work.row[at - 1],
               work.row_moves[at - 1].plus, work.row[at + 1], work.row_moves[at + 1].minus, site,
               warp_tile.t.first_index + in_plane, warp_tile.x, warp_tile.t.nx, 4, spill, to);
    }
    LANES_BARRIER(WARP_LANES);
}

// Loads the site of this lane in a row; it is empty outside of the plane.
DEVICE Site load_site(const WarpTile &warp_tile, int in_plane) {
    Site site;
    if (warp_tile.has(in_plane))
        site = warp_tile.from[in_plane];
    else
        make_empty(site);
    return site;
}

// A site after its hops along x, and the random bits for its hops along y.
struct AlongX {
    Site to;
    bool gathered;  // in the block's memory; only then a site may have more than two words
    u64 y_bits;
    SecondDraw second;
};

// Moves row `row` along x. The result is also kept in `work`.
DEVICE AlongX row_along_x(const Lattice &l, const LatticeStream &s, const WarpTile &warp_tile, int row,
                          int in_plane, const Site &content, WarpTileWork &work) {
    const u64 site = warp_tile.site(in_plane);
    Sides sides = {0, 0};
    if (N_TYPES > 1 || face_kind(4) != PERIODIC)
        if (warp_tile.has(in_plane))
            sides = sides_of(l, warp_tile.t.first_index + in_plane, warp_tile.x, warp_tile.t.nx, 1, 4);
    const Philox4 bits = warp_tile_draw(s, warp_tile, site);
    AlongX row_along;
    row_along.y_bits = joined(bits.x2, bits.x3);
    row_along.second.made = false;
    const bool more = any_in_warp(content.word[1] != 0);
    const SplitSite split_site = decide_and_split(l, s, site, 0, content, joined(bits.x0, bits.x1), more,
                                          row_along.second, sides);
    u32 left = LANES_READ(WARP_LANES, split_site.plus, warp_tile.lane - 1);
    u32 right = LANES_READ(WARP_LANES, split_site.minus, warp_tile.lane + 1);
    if (warp_tile.role & FIRST_LANE) left = work.beside[2 * row];
    if (warp_tile.role & LAST_LANE) right = work.beside[2 * row + 1];
    u64 moved;
    const u32 all = join_slots(split_site.stayed, split_site.bits, left, right, moved);
    const bool gathers = !is_complete(all, split_site.plus, left, right);
    make_pair(row_along.to, moved);
    Site &to = work.after_x[row % LAST_ROWS][warp_tile.lane];
    row_along.gathered = any_in_warp(gathers && warp_tile.role & INSIDE);
    if (row_along.gathered) {
        gather_row(l, s, warp_tile, row, in_plane, content, unpacked(split_site.moves), sides, work, to);
        row_along.to = to;
    } else {
        to = row_along.to;
    }
    return row_along;
}

// Decides who hops along y, splits the site, and keeps the hops in `work`.
DEVICE SplitSite row_along_y(const Lattice &l, const LatticeStream &s, const WarpTile &warp_tile, int row,
                          int in_plane, AlongX &along_x, WarpTileWork &work) {
    const u64 site = warp_tile.site(in_plane);
    Sides sides = {0, 0};
    if (N_TYPES > 1 || face_kind(2) != PERIODIC)
        if (warp_tile.has(in_plane))
            sides = sides_of(l, warp_tile.t.first_index + in_plane,
                             (int)((u32)in_plane / (u32)warp_tile.t.nx), warp_tile.t.ny, l.nx, 2);
    const Site &content = along_x.to;
    const bool more = any_in_warp(content.word[1] != 0);
    SplitSite split_site = decide_and_split(l, s, site, 1, content, along_x.y_bits, more, along_x.second,
                                    sides);
    if (along_x.gathered && !is_pair(content)) {
        Moves moves = unpacked(split_site.moves);
        decide_beyond_pair(l, s, site, 1, work.after_x[row % LAST_ROWS][warp_tile.lane], sides, moves);
        split_site.moves = moves.minus | moves.plus << 16;
    }
    work.y_moves[row % LAST_ROWS][warp_tile.lane] = split_site.moves;
    return split_site;
}

// Moves row `row`, the middle one of the last three, along y into `to`, where registers do not hold it.
DEVICE_SHARED void gather_column(const Lattice &l, const LatticeStream &s, const WarpTile &warp_tile,
                                 int row, int in_plane, const WarpTileWork &work, Site &to) {
    const int below = (row - 1) % LAST_ROWS, own = row % LAST_ROWS, above = (row + 1) % LAST_ROWS;
    const int i = warp_tile.lane;
    const u64 site = warp_tile.site(in_plane);
    const SpillHere spill = {l, warp_tile.t.tile, site, SPILL_Y, true};
    const Moves moves = unpacked(work.y_moves[own][i]);
    gather(l, s, work.after_x[own][i], moves.minus | moves.plus, work.after_x[below][i],
           unpacked(work.y_moves[below][i]).plus, work.after_x[above][i],
           unpacked(work.y_moves[above][i]).minus, site, warp_tile.t.first_index + in_plane,
           warp_tile.t.y0 + row - 1, warp_tile.t.ny, 2, spill, to);
}

// Whether the tile or one of the eight around it holds particles. Each of nine lanes looks at one tile.
DEVICE bool warp_tile_is_reached(const Lattice &l, const WarpTile &warp_tile) {
    const PlaneTile &t = warp_tile.t;
    const int along_x = tiles_along_x(l), along_y = tiles_along_y(l), i = warp_tile.lane;
    const u32 *stamps = l.state_stamps + t.plane * tiles_of_plane(l);
    bool reached = l.always && l.always[t.tile] & 1;
    int y = t.y0 / TILE_Y + i / 3 - 1, x = t.x0 / TILE_X + i % 3 - 1;
    if (i < 9 && brought_inside(y, along_y, face_kind(2) == PERIODIC) &&
        brought_inside(x, along_x, face_kind(4) == PERIODIC))
        reached = reached || stamps[y * along_x + x] == (u32)(l.step + 1);
    return any_in_warp(reached);
}

// Hops in tile `number`, counted through all planes.
DEVICE_SHARED void hop_in_warp_tile(const Lattice &l, const LatticeStream &s, i64 number,
                                WarpTileWork &of_warp) {
    const PlaneTile t = plane_tile(l, number);
    WarpTileWork &work = *kept_in_block(&of_warp);
    const int lane = THREAD_ID % WARP_LANES, x = t.x0 + lane;
    const u64 last_site = t.first_site + (u64)(t.ny * t.nx - 1);
    const u32 high = (u32)(t.first_site >> 32);
    const int width = t.nx - t.x0 < WARP_LANES ? t.nx - t.x0 : WARP_LANES;
    WarpTile warp_tile = {t,
                   lane,
                   x,
                   width,
                   (x < t.nx ? INSIDE : 0) | (lane == 0 ? FIRST_LANE : 0) |
                       (lane == width - 1 ? LAST_LANE : 0) |
                       ((u32)(last_site >> 32) != high ? SPLIT : 0) |
                       (t.ny - t.y0 <= TILE_Y ? TOP_TILE : 0),
                   philox_series(s.keys, lattice_c1(high, PURPOSE_XY, 0, 0), s.c2, s.c3),
                   kept(l.state + t.first_index),
                   kept(l.moved + t.first_index)};
    if (lane == 0) *tile_head(l, (l.step + 1) & 1, number) = -1;
    if (!warp_tile_is_reached(l, warp_tile)) {
        if (l.moved_stamps[number] == (u32)l.step)
            for (int row = 1; row <= TILE_Y && t.y0 + row <= t.ny; ++row)
                if (warp_tile.role & INSIDE) make_empty(warp_tile.to[warp_tile.place(row)]);
        return;
    }
    LANES_BARRIER(WARP_LANES);
    warp_tile.role = kept(warp_tile.role);
    load_neighbours(l, s, warp_tile, work);
    LANES_BARRIER(WARP_LANES);
    u32 filled = 0;
    u32 from_below = 0, plus = 0, bits = 0;  // from row `row - 2`, and from row `row - 1`
    u64 stayed = 0;
    const int last = (int)kept((u32)(t.ny - t.y0 < TILE_Y ? t.ny - t.y0 : TILE_Y) + 1);
    int place = warp_tile.place(0), above_place = warp_tile.place(1);
    Site next = load_site(warp_tile, place);  // loaded a row ahead, so that its latency is hidden
    NO_UNROLL for (int row = 0; row <= last; ++row) {
        const Site content = next;
        const int here = place;
        place = above_place;
        above_place += t.nx;
        if (row + 1 == last && warp_tile.role & TOP_TILE) place = warp_tile.place(last);
        next = load_site(warp_tile, row < last ? place : -1);
        AlongX along_x = row_along_x(l, s, warp_tile, row, here, content, work);
        const SplitSite above = row_along_y(l, s, warp_tile, row, here, along_x, work);
        if (row >= 2 && warp_tile.role & INSIDE) {
            u64 moved;
            const u32 all = join_slots(stayed, bits, from_below, above.minus, moved);
            Site to;
            make_pair(to, moved);
            const int own_place = above_place - 3 * t.nx;
            if (!is_complete(all, plus, from_below, above.minus)) {
                gather_column(l, s, warp_tile, row - 1, own_place, work, work.row[lane + 1]);
                to = work.row[lane + 1];
            }
            warp_tile.to[own_place] = to;
            filled |= to.word[0];
        }
        from_below = plus;
        plus = above.plus;
        stayed = above.stayed;
        bits = above.bits;
    }
    if (any_in_warp(filled != 0) && lane == 0) l.moved_stamps[number] = (u32)(l.step + 1);
}

#endif
