// Hops along x, then y, in a tile of one plane: a warp goes up the tile row by row, its lanes side by side along x.
//
//     row r      was loaded when row r - 1 had moved along x, and moves along x: lanes exchange what leaves them
//                then the lane decides who hops along y        (above)
//     row r - 1  is stored: what stayed in it                  (stayed)
//                           who came from row r - 2            (from_below)
//                           who comes from row r               (above.minus)
//
// No warp waits for another. Sites left and right of the tile are looked at before, those of 16 rows at a
// time. Sites are moved in registers (lattice/registers.h). At a row of which a site
// does not fit them the warp stops, goes through the block's memory and `gather`, and then goes on: what
// it knows waits in memory, so that no register is kept for what is seldom done.
#pragma once

#include "lattice/registers.h"

#if WARP_TILES

constexpr int WARP_TILE_ROWS = TILE_Y + 2;
constexpr int ROWS_AHEAD =
    4;  // that memory is asked for, so that a row comes soon when it is loaded
constexpr u32 LAST_ROWS =
    4;  // rows that are kept: three are read, and a power of two is quick to index

// Who hops in from the sites left and right of a row, and TOO_MANY if that is not all.
struct alignas(16) Beside {
    u32 left, right, too_many, unused;
};

// What a lane knows when its warp comes to row `row`.
struct alignas(8) BetweenRows {
    Slots stayed;  // in row `row - 1`
    u32 bits;
    u32 from_below, below_bits;  // from row `row - 2`
    u32 plus, plus_bits;         // from row `row - 1`
    u32 filled;                  // 0 only if all sites that are stored are empty
    u32 size;                    // bits of the site of row `row - 2`
};

// Memory of a warp.
struct WarpTileWork {
    Beside beside[WARP_TILE_ROWS];
    BetweenRows between[WARP_LANES];
    Site after_x[LAST_ROWS][WARP_LANES];  // the last rows: WORDS of each site
    i32 whole_row
        [LAST_ROWS];  // the last row that went through memory, of which all words are there
    Site row[WARP_LANES + 2];  // a row that `gather` moves along x
    SlotMoves row_moves[WARP_LANES + 2];
};

// A tile, as one lane sees it.
struct WarpTile {
    PlaneTile t;
    int lane, x, width;

    // Whether the x of the lane lies in the plane.
    DEVICE_MEMBER bool inside() const { return x < t.nx; }

    // The y of a row, or -1 where the plane has none.
    DEVICE_MEMBER int y_of(int row) const {
        int y = t.y0 + row - 1;
        if (face_kind(2) == PERIODIC) {
            y += y < 0 ? t.ny : 0;
            y -= y == t.ny ? t.ny : 0;
        }
        return (u32)y < (u32)t.ny ? y : -1;
    }

    // Index within the plane of the site of this lane in a row, or -1.
    DEVICE_MEMBER int place(int row) const {
        const int y = y_of(row);
        return inside() && y >= 0 ? y * t.nx + x : -1;
    }

    DEVICE_MEMBER u64 site(int in_plane) const { return t.first_site + (u64)in_plane; }
};

DEVICE WarpTile warp_tile_of(const Lattice &l, i64 number) {
    const PlaneTile t = plane_tile(l, number);
    const int lane = THREAD_ID % WARP_LANES;
    const int width = t.nx - t.x0 < WARP_LANES ? t.nx - t.x0 : WARP_LANES;
    return {t, lane, t.x0 + lane, width};
}

// The bits of the other groups of a row, drawn when the first axis asks for them.
struct FurtherDraws {
    int made;  // groups that are drawn along x
    u64 y[WORDS > 2 ? WORDS - 1 : 1];

    DEVICE_MEMBER u64 bits(const LatticeStream &s, u64 site, int axis, int group) {
        if (axis == 1 && group <= made) return y[group - 1];
        const Philox4 bits = lattice_draw(s, site, PURPOSE_XY, (u32)group, 0);
        if (axis == 1) return joined(bits.x2, bits.x3);
        y[group - 1] = joined(bits.x2, bits.x3);
        made = group;
        return joined(bits.x0, bits.x1);
    }
};

// Loads the site left or right of a row, and decides who hops from it along x.
DEVICE_SHARED void load_neighbour(const Lattice &l, const LatticeStream &s,
                                  const WarpTile &warp_tile, int row, int side, Site &content,
                                  Moves &moves) {
    const PlaneTile &t = warp_tile.t;
    moves = {0, 0};
    int y = t.y0 + row - 1, x = side ? t.x0 + warp_tile.width : t.x0 - 1;
    const bool there = brought_inside(y, t.ny, face_kind(2) == PERIODIC);
    if (!brought_inside(x, t.nx, face_kind(4) == PERIODIC) || !there) {
        make_empty(content);
        return;
    }
    const int in_plane = y * t.nx + x;
    const i64 index = t.first_index + in_plane;
    content = l.state[index];
    if (is_empty(content)) return;
    const u64 site = warp_tile.site(in_plane);
    moves =
        decide(l, s, site, 0, content, hop_bits(s, site, 0, 0), sides_of(l, index, x, t.nx, 1, 4));
}

// A site beside a tile.
struct SiteBeside {
    int x, in_plane;
    bool there;
};

// Site `i` beside a tile: those of a row left and right follow each other.
DEVICE SiteBeside site_beside(const WarpTile &warp_tile, int i, int rows) {
    const PlaneTile &t = warp_tile.t;
    int y = t.y0 + i / 2 - 1, x = i % 2 ? t.x0 + warp_tile.width : t.x0 - 1;
    const bool in_x = brought_inside(x, t.nx, face_kind(4) == PERIODIC);
    const bool in_y = brought_inside(y, t.ny, face_kind(2) == PERIODIC);
    const bool there = in_x && in_y && i < 2 * rows;
    return {x, there ? y * t.nx + x : 0, there};
}

// Asks for what a warp reads first of a tile.
DEVICE_SHARED void ask_for_tile(const Lattice &l, const WarpTile &warp_tile, int rows) {
    const Site *const from = l.state + warp_tile.t.first_index;
    NO_UNROLL for (int i = warp_tile.lane; i < 2 * rows; i += WARP_LANES) {
        const SiteBeside beside = site_beside(warp_tile, i, rows);
        if (beside.there) PREFETCH_FOR_ALL(from + beside.in_plane);
    }
    UNROLL for (int row = 0; row < ROWS_AHEAD; ++row) {
        const int in_plane = row < rows ? warp_tile.place(row) : -1;
        if (in_plane >= 0) PREFETCH_FOR_ALL(from + in_plane);
    }
}

// Finds who hops into all rows from left and right.
DEVICE_SHARED void look_beside(const Lattice &l, const LatticeStream &s, const WarpTile &warp_tile,
                               int rows, WarpTileWork &work) {
    const PlaneTile &t = warp_tile.t;
    NO_UNROLL for (int first = 0; first < 2 * rows; first += WARP_LANES) {
        const int i = first + warp_tile.lane, row = i / 2, side = i % 2;
        const SiteBeside place = site_beside(warp_tile, i, rows);
        const int in_plane = place.in_plane;
        Site content;
        make_empty(content);
        Sides sides = {0, 0};
        if (place.there) {
            content = l.state[t.first_index + in_plane];
            sides = sides_of(l, t.first_index + in_plane, place.x, t.nx, 1, 4);
        }
        const u64 site = warp_tile.site(in_plane);
        FurtherDraws further;
        const SplitSite split = decide_and_split<true>(
            l, s, site, 0, content.word, used_bits(content.word[0]), hop_bits(s, site, 0, 0),
            any_in_warp(content.word[1] != 0), is_larger(content), further, sides);
        const u32 too_many =
            LANES_BALLOT(WARP_LANES, (side ? split.minus_bits : split.plus_bits) > 32);
        if (i < 2 * rows) {
            Beside &beside = work.beside[row];
            (side ? beside.right : beside.left) = side ? split.minus : split.plus;
            if (!side) beside.too_many = too_many >> warp_tile.lane & 3 ? TOO_MANY : 0;
        }
    }
}

// Moves a row that does not fit registers along x, from memory into `work`. All lanes of the warp call it.
DEVICE_SHARED void move_row_again(const Lattice &l, const LatticeStream &s,
                                  const WarpTile &warp_tile, int row, WarpTileWork &work) {
    const PlaneTile &t = warp_tile.t;
    const int at = warp_tile.lane + 1, in_plane = warp_tile.place(row);
    const u64 site = warp_tile.site(in_plane);
    Moves moves = {0, 0};
    make_empty(work.row[at]);
    if (in_plane >= 0) {
        work.row[at] = l.state[t.first_index + in_plane];
        if (!is_empty(work.row[at]))
            moves = decide(l, s, site, 0, work.row[at], hop_bits(s, site, 0, 0),
                           sides_of(l, t.first_index + in_plane, warp_tile.x, t.nx, 1, 4));
    }
    work.row_moves[at] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
    LANES_BARRIER(WARP_LANES);
    if (warp_tile.lane < 2) {
        const int beside = warp_tile.lane ? warp_tile.width + 1 : 0;
        Moves hops;
        load_neighbour(l, s, warp_tile, row, warp_tile.lane, work.row[beside], hops);
        work.row_moves[beside] = {(SlotBits)hops.minus, (SlotBits)hops.plus};
    }
    LANES_BARRIER(WARP_LANES);
    Site &to = work.after_x[(u32)row % LAST_ROWS][warp_tile.lane];
    make_empty(to);
    if (in_plane >= 0) {
        const bool mine = row > 0 && row <= TILE_Y && t.y0 + row <= t.ny;
        const SpillHere spill = {l, t.tile, site, SPILL_X, mine};
        gather(l, s, work.row[at], moves.minus | moves.plus, work.row[at - 1],
               work.row_moves[at - 1].plus, work.row[at + 1], work.row_moves[at + 1].minus, site,
               t.first_index + in_plane, warp_tile.x, t.nx, 4, spill, to);
    }
    if (warp_tile.lane == 0) work.whole_row[(u32)row % LAST_ROWS] = row;
    LANES_BARRIER(WARP_LANES);
}

// A site of one of the last rows, and who hops from it along y.
DEVICE_SHARED Moves decide_along_y(const Lattice &l, const LatticeStream &s,
                                   const WarpTile &warp_tile, int row, const WarpTileWork &work,
                                   Site &content) {
    content = work.after_x[(u32)row % LAST_ROWS][warp_tile.lane];
    if (work.whole_row[(u32)row % LAST_ROWS] != row) make_site(content, slots_in(content));
    if (is_empty(content)) return {0, 0};
    const int y = warp_tile.y_of(row), in_plane = warp_tile.place(row);
    const u64 site = warp_tile.site(in_plane);
    return decide(l, s, site, 1, content, hop_bits(s, site, 0, 1),
                  sides_of(l, warp_tile.t.first_index + in_plane, y, warp_tile.t.ny, l.nx, 2));
}

// Moves a lane's site of row `row` along y, from memory, and stores it; returns its first word.
DEVICE_SHARED u32 move_site_again(const Lattice &l, const LatticeStream &s,
                                  const WarpTile &warp_tile, int row, const WarpTileWork &work) {
    const PlaneTile &t = warp_tile.t;
    Site content[3], to;
    Moves moves[3];
    NO_UNROLL for (int i = 0; i < 3; ++i)
        moves[i] = decide_along_y(l, s, warp_tile, row - 1 + i, work, content[i]);
    const int in_plane = warp_tile.place(row);
    const u64 site = warp_tile.site(in_plane);
    const SpillHere spill = {l, t.tile, site, SPILL_Y, true};
    gather(l, s, content[1], moves[1].minus | moves[1].plus, content[0], moves[0].plus, content[2],
           moves[2].minus, site, t.first_index + in_plane, t.y0 + row - 1, t.ny, 2, spill, to);
    l.moved[t.first_index + in_plane] = to;
    return to.word[0];
}

// A tile on its way up, as one lane sees it. Lanes beyond the plane do what the last lane within does, and store
// nothing.
struct WayUp {
    int last;                 // row
    int first_built;          // row at which the first site is stored
    int x, y_below, y_above;  // of the first and the last row; a row that does not exist is empty
    const Site *from;         // the plane's sites
    Site *to;

    DEVICE_MEMBER int y(const PlaneTile &t, int row) const {
        return row == 0 ? y_below : row == last ? y_above : t.y0 + row - 1;
    }

    // Where to find a row, or another in place of one that does not exist.
    DEVICE_MEMBER int place(const PlaneTile &t, int row) const {
        const int found = y(t, row);
        return (found < 0 ? 0 : found) * t.nx + x;
    }

    // Where row `row - 1` is to be stored.
    DEVICE_MEMBER int place_before(const PlaneTile &t, int row) const {
        return (t.y0 + row - 2) * t.nx + x;
    }

    DEVICE_MEMBER bool exists(int row) const {
        if (face_kind(2) == PERIODIC) return true;
        return !(row == 0 && y_below < 0) && !(row == last && y_above < 0);
    }
};

// Decides about the hops along y of row `row`, of which a site has `used` bits, stores row `row - 1`, at `before`,
// and takes up what row `row + 1` needs to know.
DEVICE void row_along_y(const Lattice &l, const LatticeStream &s, const WayUp &way, int row,
                        u64 site, Sides sides, Site *before, const Slots &moved, u32 used,
                        bool larger, u64 first, FurtherDraws &further, BetweenRows &between) {
    u32 words[WORDS];
    UNROLL for (int w = 0; w < WORDS; ++w) words[w] = moved.word(w);
    const SplitSite above = decide_and_split<false>(
        l, s, site, 1, words, used, first, any_in_warp(words[1] != 0), larger, further, sides);
    const Slots all =
        join_slots(between.stayed, between.bits, between.from_below, between.below_bits, above.minus);
    between.size = 0;
    if (row >= way.first_built) {
        Site stored;
        make_site(stored, all);
        *before = stored;
        between.filled |= stored.word[0];
        between.size = between.bits + between.below_bits + above.minus_bits;
    }
    between.from_below = between.plus;
    between.below_bits = between.plus_bits;
    between.plus = above.plus;
    between.plus_bits = above.plus_bits;
    between.stayed = above.stayed;
    between.bits = above.bits;
}

DEVICE Sides sides_along_x(const Lattice &l, const PlaneTile &t, const WayUp &way, int here) {
    if (N_TYPES == 1 && face_kind(4) == PERIODIC) return {0, 0};
    return sides_of(l, t.first_index + here, way.x, t.nx, 1, 4);
}

DEVICE Sides sides_along_y(const Lattice &l, const PlaneTile &t, const WayUp &way, int row, int here) {
    if (N_TYPES == 1 && face_kind(2) == PERIODIC) return {0, 0};
    const int y = way.y(t, row);
    return sides_of(l, t.first_index + here, y < 0 ? 0 : y, t.ny, l.nx, 2);
}

// Goes up the tile from row `row` until a site does not fit registers; returns at which row. The upper halves of
// the plane's site numbers are `high`.
DEVICE int go_up(const Lattice &l, const LatticeStream &s, const PlaneTile &t, const WayUp &way,
                 u32 high, int lane, int last_lane, int row, WarpTileWork &work) {
    const PhiloxSeries series =
        philox_series(s.keys, lattice_c1(high, PURPOSE_XY, 0, 0), s.c2, s.c3);
    const u32 first_site = (u32)t.first_site, sites = kept((u32)(t.ny * t.nx));
    BetweenRows between = work.between[lane];
    int place = way.place(t, row);
    // Where row `row + 1` lies; where the plane ends, so many sites too far.
    u32 ahead = (u32)((t.y0 + row) * t.nx + way.x);
    Site content;
    make_empty(content);
    if (way.exists(row)) content = way.from[place];
    Site *const to = kept(way.to - 2 * t.nx);
    const Site *const later = kept(way.from + (ROWS_AHEAD - 1) * t.nx);
    const int last_later = way.last - ROWS_AHEAD;
    NO_UNROLL for (; row <= way.last; ++row) {
        if (row < last_later) PREFETCH_FOR_ALL(later + (int)ahead);
        const int here = place;
        const u32 low = first_site + (u32)here;
        const u64 site = (u64)high << 32 | low;
        const Philox4 draw = philox_draw(series, s.keys, low);
        FurtherDraws further;
        further.made = 0;
        const SplitSite along_x = decide_and_split<true>(
            l, s, site, 0, content.word, used_bits(content.word[0]), joined(draw.x0, draw.x1),
            any_in_warp(content.word[1] != 0), is_larger(content), further,
            sides_along_x(l, t, way, here));
        const Beside beside = work.beside[row];
        u32 left = LANES_READ_BEFORE(WARP_LANES, along_x.plus);
        u32 right = LANES_READ_BEHIND(WARP_LANES, along_x.minus);
        left = lane == 0 ? beside.left : left;
        right = lane == last_lane ? beside.right : right;
        const u32 left_bits = used_bits(left);
        const Slots moved = join_slots(along_x.stayed, along_x.bits, left, left_bits, right);
        const u32 used = along_x.bits + left_bits + used_bits(right);
        if (any_in_warp(used + beside.too_many > MOST_BITS || between.size > MOST_BITS)) break;
        if (row < way.last) {
            place = (int)(ahead < sites ? ahead : ahead - sites);
            content = way.from[place];
            if (!way.exists(row + 1)) make_empty(content);
        }
        put_slots(work.after_x[(u32)row % LAST_ROWS][lane], moved);
        row_along_y(l, s, way, row, site, sides_along_y(l, t, way, row, here), to + (int)ahead,
                    moved, used, false, joined(draw.x2, draw.x3), further, between);
        ahead += (u32)t.nx;
    }
    work.between[lane] = between;
    return row;
}

// Goes up a row through memory; and before, puts together what did not fit registers.
DEVICE_SHARED void go_up_a_row(const Lattice &l, const LatticeStream &s, const WarpTile &warp_tile,
                               const WayUp &way, int row, WarpTileWork &work) {
    const PlaneTile &t = warp_tile.t;
    const int lane = warp_tile.lane;
    if (work.between[lane].size > MOST_BITS)
        work.between[lane].filled |= move_site_again(l, s, warp_tile, row - 2, work);
    LANES_BARRIER(WARP_LANES);
    if (row > way.last) return;
    move_row_again(l, s, warp_tile, row, work);
    BetweenRows between = work.between[lane];
    const Site &content = work.after_x[(u32)row % LAST_ROWS][lane];
    const u32 used = used_bits_of(content.word, used_bits(content.word[0]));
    const int here = way.place(t, row);
    const u64 site = warp_tile.site(here);
    FurtherDraws further;
    further.made = 0;
    row_along_y(l, s, way, row, site, sides_along_y(l, t, way, row, here),
                way.to + way.place_before(t, row), slots_in(content), used, is_larger(content),
                hop_bits(s, site, 0, 1), further, between);
    work.between[lane] = between;
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
    WarpTileWork &work = *kept_in_block(&of_warp);
    const WarpTile warp_tile = warp_tile_of(l, number);
    const PlaneTile &t = warp_tile.t;
    const int rows = t.ny - t.y0 < TILE_Y ? t.ny - t.y0 : TILE_Y;
    if (warp_tile.lane == 0) *tile_head(l, (l.step + 1) & 1, number) = -1;
    if (!warp_tile_is_reached(l, warp_tile)) {
        if (l.moved_stamps[number] == (u32)l.step && warp_tile.inside())
            for (int row = 1; row <= rows; ++row)
                make_empty(l.moved[t.first_index + warp_tile.place(row)]);
        return;
    }
    LANES_BARRIER(WARP_LANES);
    if (warp_tile.lane < (int)LAST_ROWS) work.whole_row[warp_tile.lane] = -1;
    work.between[warp_tile.lane] = {};
    ask_for_tile(l, warp_tile, rows + 2);
    look_beside(l, s, warp_tile, rows + 2, work);
    LANES_BARRIER(WARP_LANES);
    const u64 last_site = t.first_site + (u64)(t.ny * t.nx - 1);
    const u32 high = (u32)(t.first_site >> 32);
    const WayUp way = {(int)uniform((u32)rows + 1),
                       (int)kept(warp_tile.inside() ? 2u : (u32)WARP_TILE_ROWS),
                       warp_tile.inside() ? warp_tile.x : t.nx - 1,
                       warp_tile.y_of(0),
                       warp_tile.y_of(rows + 1),
                       kept(l.state + t.first_index),
                       kept(l.moved + t.first_index)};
    const int last_lane = (int)kept((u32)warp_tile.width - 1);
    const bool split = any_in_warp((u32)(last_site >> 32) != high);
    for (int row = 0; row <= way.last + 1; ++row) {
        if (!split) row = go_up(l, s, t, way, high, warp_tile.lane, last_lane, row, work);
        RELOAD;
        go_up_a_row(l, s, warp_tile, way, row, work);
        RELOAD;
    }
    if (any_in_warp(work.between[warp_tile.lane].filled != 0) && warp_tile.lane == 0)
        l.moved_stamps[number] = (u32)(l.step + 1);
}

#endif
