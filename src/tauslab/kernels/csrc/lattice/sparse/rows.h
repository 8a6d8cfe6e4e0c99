// Sets of a tile's sites, a word for each row of sites, and the sites of a set in a list.
//
// Where few sites hold particles, the lanes of a warp divide these sites instead of the tile. Words of 16
// bits say which they are, bit x - x0 of word y - y0:
//
//     row of the tile     . . # . . . . # . . . . . . . .      word 0x0084
//     with its rim      # . . # . . . . # . . . . . . . . .    column 0 is left of the tile
//
// In a tile with its rim, row r is that of y = y0 + r - 1, and column c that of x = x0 + c - 1.
#pragma once

#include "lattice/counting_model.h"
#include "lattice/plane.h"

static_assert(RIM_X <= 32 && RIM_Y <= 32 && TILE_X <= 16, "a row of sites is a word");

#ifdef LANES_SIDE_BY_SIDE
constexpr int TILE_LANES = 32;
#define TILE_BARRIER() LANES_BARRIER(TILE_LANES)
#else
constexpr int TILE_LANES = 1;
#define TILE_BARRIER()
#endif

// Of all tiles, [plane, tile, row]: sites that hold particles after a step; that hold particles after the
// hops along x and y; those of them from which particles then hop to the plane below, and above.
struct SparseRows {
    u16 *held, *moved, *minus, *plus;
};

DEVICE SparseRows sparse_rows(const Lattice &l, u16 *rows) {
    const i64 each = l.planes * tiles_of_plane(l) * TILE_Y;
    return {rows, rows + each, rows + 2 * each, rows + 3 * each};
}

struct SiteSet {
    u32 row[RIM_Y];
    u16 before[RIM_Y];  // how many sites of the set lie in earlier rows

    DEVICE_MEMBER bool has(int r, int c) const { return row[r] >> c & 1; }

    // The place of a site of the set in the list of its sites.
    DEVICE_MEMBER int place(int r, int c) const { return before[r] + popc(row[r] & low_bits(c)); }
};

// A site of a tile with its rim, as lists name it.
DEVICE u16 entry_of(int r, int c) {
    return (u16)(r << 5 | c);
}

struct LaneSum {
    int before, all;  // of the lanes before this one; of all
};

DEVICE LaneSum sum_of_lanes(int own, int lane) {
#ifdef LANES_SIDE_BY_SIDE
    int sum = own;
    UNROLL for (int distance = 1; distance < TILE_LANES; distance *= 2) {
        const int other = LANES_READ(TILE_LANES, sum, lane - distance);
        sum += lane >= distance ? other : 0;
    }
    return {sum - own, LANES_READ(TILE_LANES, sum, TILE_LANES - 1)};
#else
    static_cast<void>(lane);
    return {0, own};
#endif
}

DEVICE void list_row(int r, u32 left, u16 *to) {
    NO_UNROLL for (; left; left &= left - 1) *to++ = entry_of(r, lowest_bit(left));
}

// Counts the sites of the set in rows first .. end - 1, numbers them, and lists them if there are `most` or fewer.
// All lanes call it. A thread of a CPU, which goes through all rows, first looks whether there are any.
DEVICE int list_sites(SiteSet &set, int first, int end, int most, u16 *list, int lane) {
    int all = 0;
    NO_UNROLL for (int from = first; from < end; from += TILE_LANES) {
        const int r = from + lane;
        const u32 row = r < end ? set.row[r] : 0;
        const LaneSum sum = sum_of_lanes(popc(row), lane);
        const int before = all + sum.before;
        if (r < end) set.before[r] = (u16)before;
        all += sum.all;
        if (TILE_LANES > 1 && all <= most) list_row(r, row, list + before);
    }
    if (TILE_LANES > 1 || all == 0 || all > most) return all;
    NO_UNROLL for (int r = first; r < end; ++r) list_row(r, set.row[r], list + set.before[r]);
    return all;
}

// A set of sites that are found one after the other. Lanes of a warp list them as they find them. A thread of a CPU
// lists them by rows in the end, since it goes through memory in this order.
#ifdef LANES_SIDE_BY_SIDE
struct FoundSites {
    u32 row[RIM_Y];
    u8 at[RIM_Y * RIM_X];  // places of sites of the set in the list

    DEVICE_MEMBER bool has(int r, int c) const { return row[r] >> c & 1; }
    DEVICE_MEMBER int place(int r, int c) const { return at[r * RIM_X + c]; }
};
#else
typedef SiteSet FoundSites;
#endif

// Up to three sites that a lane finds: site i is in row r + i * down and column c + i * right.
struct Finding {
    u32 which;  // bit i: site i
    int r, c, down, right;
};

// Lists what the lanes have found and put into the set for the first time; returns how many sites it has then.
// All lanes call it. Sites from place `most` on are only counted.
DEVICE int list_found(FoundSites &set, const Finding &finding, int n, int most, u16 *list,
                      int lane) {
#ifdef LANES_SIDE_BY_SIDE
    const u32 which = finding.which, earlier = low_bits(lane);
    const int own = popc(which);
    const u32 odd = LANES_BALLOT(TILE_LANES, own & 1), more = LANES_BALLOT(TILE_LANES, own >> 1);
    int place = n + popc(odd & earlier) + 2 * popc(more & earlier);
    UNROLL for (int i = 0; i < 3; ++i) {
        const int r = finding.r + i * finding.down, c = finding.c + i * finding.right;
        if (which >> i & 1 && place < most) {
            list[place] = entry_of(r, c);
            set.at[r * RIM_X + c] = (u8)place;
        }
        place += which >> i & 1;
    }
    return n + popc(odd) + 2 * popc(more);
#else
    static_cast<void>(set), static_cast<void>(finding), static_cast<void>(most);
    static_cast<void>(list), static_cast<void>(lane);
    return n;
#endif
}

// Ends the list of rows first .. end - 1 of such a set; returns how many sites it has.
DEVICE int end_list(FoundSites &set, int first, int end, int most, u16 *list, int n) {
#ifdef LANES_SIDE_BY_SIDE
    static_cast<void>(set), static_cast<void>(first), static_cast<void>(end);
    static_cast<void>(most), static_cast<void>(list);
    return n;
#else
    static_cast<void>(n);
    return list_sites(set, first, end, most, list, 0);
#endif
}

// Rows first .. end - 1 of a tile, as a lane of their warp sees them.
struct SparseTile {
    PlaneTile t;
    int first, end;  // of rows that lie in the plane
    int width;       // of what lies in the plane
    int lane;

    // The coordinates of a site of the tile or of its rim; false where there is none.
    DEVICE_MEMBER bool coordinates(int r, int c, int &y, int &x) const {
        y = t.y0 + r - 1, x = t.x0 + c - 1;
        const bool there = brought_inside(y, t.ny, face_kind(2) == PERIODIC);
        return brought_inside(x, t.nx, face_kind(4) == PERIODIC) && there;
    }

    // Columns of the tile itself, in a row with its rim.
    DEVICE_MEMBER u32 columns() const { return low_bits(width) << 1; }
};

// Piece `number` of the tiles of all planes, each of which is cut into `parts`.
DEVICE SparseTile sparse_piece(const Lattice &l, i64 number, int parts, int lane) {
    const int tile = (int)((u32)number / (u32)parts), part = (int)number - tile * parts;
    const PlaneTile t = plane_tile(l, tile);
    const int height = t.ny - t.y0 < TILE_Y ? t.ny - t.y0 : TILE_Y,
              first = TILE_Y * part / parts, end = TILE_Y * (part + 1) / parts;
    return {t, first, end < height ? end : height,
            t.nx - t.x0 < TILE_X ? t.nx - t.x0 : TILE_X, lane};
}

// The place of the word of a row of sites, of the tile that holds site (y, x).
DEVICE i64 word_at(const Lattice &l, i64 plane, int y, int x) {
    const i64 tile =
        plane * tiles_of_plane(l) + y / TILE_Y * tiles_along_x(l) + x / TILE_X;
    return tile * TILE_Y + y % TILE_Y;
}

// Which sites of row `r` of a tile, with its rim, hold particles.
DEVICE u32 held_in_row(const Lattice &l, const u16 *rows, const SparseTile &tile, int r) {
    const PlaneTile &t = tile.t;
    int y, x;
    if (!tile.coordinates(r, 1, y, x)) return 0;
    u32 held = (u32)rows[word_at(l, t.plane, y, x)] << 1;
    if (tile.coordinates(r, 0, y, x))
        held |= (u32)rows[word_at(l, t.plane, y, x)] >> x % TILE_X & 1;
    if (tile.coordinates(r, tile.width + 1, y, x))
        held |= ((u32)rows[word_at(l, t.plane, y, x)] >> x % TILE_X & 1) << (tile.width + 1);
    return held;
}

// Finds the sites of a piece that hold particles.
DEVICE void find_held(const Lattice &l, const Site *sites, u16 *rows, const SparseTile &tile) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int r = tile.first + tile.lane; r < tile.end; r += TILE_LANES) {
        u32 held = 0;
        NO_UNROLL for (int c = 0; c < tile.width; ++c)
            if (!is_empty(sites[site_index(l, t.plane, t.y0 + r, t.x0 + c)])) held |= 1u << c;
        rows[t.tile * TILE_Y + r] = (u16)held;
    }
}

// Counts the sites of a piece that hold particles. A lane takes the rows that it noted.
DEVICE void count_piece(const Lattice &l, const u16 *rows, const SparseTile &tile, u32 *bins,
                        u64 *counts) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int r = tile.first + tile.lane; r < tile.end; r += TILE_LANES) {
        const i64 first = site_index(l, t.plane, t.y0 + r, t.x0);
        NO_UNROLL for (u32 left = rows[t.tile * TILE_Y + r]; left; left &= left - 1) {
            const i64 index = first + lowest_bit(left);
            count_site(SIZES, l.state[index], type_at(l, index) * N_SPECIES, bins, counts);
        }
    }
}

// What is counted after so many steps, into a row of counts.
DEVICE LatticeCountArguments counted_now(const Lattice &l, u64 steps, u64 *row) {
    return {l.state, l.types, l.planes * l.ny * l.nx, l.fired, l.waiting, l.work, l.capacity,
            (i64)steps & 1, 0, row};
}
