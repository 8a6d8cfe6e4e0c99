// Hops along x, then along y, of the sites of a tile that hold particles, by one warp.
//
// Lanes first divide the sites that hold particles, then those that hold particles after the hops along x
// or may get some along y, and so on. Memory of the warp has ROOM for so many sites. A tile that holds more
// is done in parts of fewer rows, each with its own rim.
#pragma once

#include "lattice/sparse/rows.h"

// A CPU has room for all.
constexpr int SITES_AHEAD = TILE_LANES == 1 ? 8 : 0;  // whose memory is loaded before they come
constexpr bool KEEPS_BITS = TILE_LANES == 1;          // a warp draws again, since some lane has to
constexpr int ROOM = TILE_LANES == 1 ? RIM_Y * RIM_X : MOST_HELD;
static_assert(3 * RIM_X <= ROOM && TILE_LANES <= ROOM, "one row and its rim have room");

// Memory of a warp.
struct SparseWork {
    SiteSet held, after_x, after_y;
    u32 minus[RIM_Y], plus[RIM_Y];  // sites from which particles hop along z
    u16 list[TILE_SITES > ROOM ? TILE_SITES : ROOM];
    union {
        // Sites that hold particles, and those that some have come into along x.
        struct {
            Site before[ROOM], after_x[ROOM];
        } sites;
        Site gathered[3][TILE_LANES];  // of each lane: below and above its site, and there
    };
    SlotMoves x_moves[ROOM], y_moves[ROOM];
    u64 y_bits[KEEPS_BITS ? ROOM : 1];  // of sites that held particles, for hops along y
    Site none;                          // an empty site
};

DEVICE void start_work(SparseWork &work, int lane) {
    if (lane == 0) make_empty(work.none);
    TILE_BARRIER();
}

// A neighbour that hops into a site.
struct Incoming {
    const Site *site;
    SlotMoves moves;
};

DEVICE Incoming incoming(const SparseWork &work, const SiteSet &set, const Site *sites,
                         const SlotMoves *moves, int r, int c) {
    if (!set.has(r, c)) return {&work.none, {0, 0}};
    const int at = set.place(r, c);
    return {sites + at, moves[at]};
}

// Where site `j` of the list lies in its plane.
DEVICE int place_of_listed(const SparseTile &tile, const SparseWork &work, int j) {
    int y, x;
    tile.coordinates(work.list[j] >> 5, work.list[j] & 31, y, x);
    return y * tile.t.nx + x;
}

// Decides who hops along x in the rows of `work.held`, and notes which sites that reaches.
DEVICE void decide_along_x(const Lattice &l, const LatticeStream &s, const SparseTile &tile, int n,
                           SparseWork &work) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int j = tile.lane; j < n; j += TILE_LANES) {
        if (SITES_AHEAD && j + SITES_AHEAD < n)
            PREFETCH(l.state + t.first_index + place_of_listed(tile, work, j + SITES_AHEAD));
        const int r = work.list[j] >> 5, c = work.list[j] & 31;
        int y, x;
        tile.coordinates(r, c, y, x);
        const int in_plane = y * t.nx + x;
        const i64 index = t.first_index + in_plane;
        const u64 site = t.first_site + (u64)in_plane;
        work.sites.before[j] = l.state[index];
        const Philox4 bits = lattice_draw(s, site, PURPOSE_XY, 0, 0);
        if (KEEPS_BITS) work.y_bits[j] = joined(bits.x2, bits.x3);
        const Moves moves = decide(l, s, site, 0, work.sites.before[j], joined(bits.x0, bits.x1),
                                   sides_of(l, index, x, t.nx, 1, 4));
        work.x_moves[j] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
        const u32 own = 1u << c;
        or_in_block(work.after_x.row + r,
                    (own | (moves.minus ? own >> 1 : 0) | (moves.plus ? own << 1 : 0)) &
                        tile.columns());
    }
}

// Moves along x, and decides who hops along y. Rows of the tile that are done here are first + 1 .. end.
DEVICE void move_along_x(const Lattice &l, const LatticeStream &s, const SparseTile &tile,
                         int first, int end, int n, SparseWork &work) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int j = tile.lane; j < n; j += TILE_LANES) {
        const int r = work.list[j] >> 5, c = work.list[j] & 31;
        int y, x;
        tile.coordinates(r, c, y, x);
        const int in_plane = y * t.nx + x;
        const i64 index = t.first_index + in_plane;
        const u64 site = t.first_site + (u64)in_plane;
        const SpillHere spill = {l, t.tile, site, SPILL_X, r > first && r <= end};
        const Incoming own =
            incoming(work, work.held, work.sites.before, work.x_moves, r, c);
        const Incoming left =
            incoming(work, work.held, work.sites.before, work.x_moves, r, c - 1);
        const Incoming right =
            incoming(work, work.held, work.sites.before, work.x_moves, r, c + 1);
        Site &to = work.sites.after_x[j];
        gather(l, s, *own.site, (u32)(own.moves.minus | own.moves.plus), *left.site,
               left.moves.plus, *right.site, right.moves.minus, site, index, x, t.nx, 4, spill, to);
        Moves moves = {0, 0};
        if (!is_empty(to)) {
            const bool drawn = KEEPS_BITS && work.held.has(r, c);
            moves = decide(l, s, site, 1, to,
                           drawn ? work.y_bits[work.held.place(r, c)] : hop_bits(s, site, 0, 1),
                           sides_of(l, index, y, t.ny, l.nx, 2));
            const u32 bit = 1u << c;
            if (r > first && r <= end) or_in_block(work.after_y.row + r, bit);
            if (moves.minus && r - 1 > first) or_in_block(work.after_y.row + r - 1, bit);
            if (moves.plus && r + 1 <= end) or_in_block(work.after_y.row + r + 1, bit);
        }
        work.y_moves[j] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
    }
}

// Moves along y, stores the sites, and decides who hops along z.
DEVICE void move_along_y(const Lattice &l, const LatticeStream &s, const SparseTile &tile, int n,
                         SparseWork &work) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int j = tile.lane; j < n; j += TILE_LANES) {
        const int r = work.list[j] >> 5, c = work.list[j] & 31, y = t.y0 + r - 1,
                  x = t.x0 + c - 1, in_plane = y * t.nx + x;
        const i64 index = t.first_index + in_plane;
        const u64 site = t.first_site + (u64)in_plane;
        const SpillHere spill = {l, t.tile, site, SPILL_Y, true};
        const Incoming own =
            incoming(work, work.after_x, work.sites.after_x, work.y_moves, r, c);
        const Incoming below =
            incoming(work, work.after_x, work.sites.after_x, work.y_moves, r - 1, c);
        const Incoming above =
            incoming(work, work.after_x, work.sites.after_x, work.y_moves, r + 1, c);
        Site &to = work.sites.before[tile.lane];  // what is left of the hops along x is not read
        gather(l, s, *own.site, (u32)(own.moves.minus | own.moves.plus), *below.site,
               below.moves.plus, *above.site, above.moves.minus, site, index, y, t.ny, 2, spill,
               to);
        if (is_empty(to)) continue;
        l.moved[index] = to;
        const Moves moves = decide(l, s, site, 2, to, hop_bits(s, site, 0, 2),
                                   sides_along_z(l, t.plane, index));
        l.z_moves[index] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
        const u32 bit = 1u << c;
        or_in_block(work.held.row + r, bit);
        if (moves.minus) or_in_block(work.minus + r, bit);
        if (moves.plus) or_in_block(work.plus + r, bit);
    }
}

// Types of the sites below and above those that hold particles, which hops along z look at last.
DEVICE void prefetch_types(const Lattice &l, const SparseTile &tile, int first, int end,
                           const SparseWork &work) {
    if (N_TYPES == 1 || TILE_LANES == 1) return;
    const PlaneTile &t = tile.t;
    const i64 planes[2] = {plane_below(l, t.plane), plane_above(l, t.plane)};
    NO_UNROLL for (int r = first + 1 + tile.lane; r <= end; r += TILE_LANES) {
        if (!work.held.row[r]) continue;
        const int in_plane = (t.y0 + r - 1) * t.nx + t.x0;
        for (int i = 0; i < 2; ++i)
            if (planes[i] >= 0) PREFETCH(l.types + planes[i] * l.ny * l.nx + in_plane);
    }
}

// Rows first .. end - 1 of the tile. False, and nothing is done, if memory of the warp has no room for
// them.
DEVICE_SHARED bool hop_in_rows(const Lattice &l, const LatticeStream &s, const SparseRows &rows,
                               const SparseTile &tile, int first, int end, SparseWork &work) {
    const int last = end + 2;  // behind the rim
    TILE_BARRIER();
    NO_UNROLL for (int r = first + tile.lane; r < last; r += TILE_LANES) {
        work.held.row[r] = held_in_row(l, rows, tile, r);
        work.after_x.row[r] = work.after_y.row[r] = work.minus[r] = work.plus[r] = 0;
    }
    prefetch_types(l, tile, first, end, work);
    TILE_BARRIER();
    int n = number_sites(work.held, first, last, tile.lane);
    if (n > ROOM) return false;
    if (n > 0) {
        list_sites(work.held, first, last, work.list, tile.lane);
        TILE_BARRIER();
        decide_along_x(l, s, tile, n, work);
        TILE_BARRIER();
        n = number_sites(work.after_x, first, last, tile.lane);
        if (n > ROOM) return false;
        list_sites(work.after_x, first, last, work.list, tile.lane);
        TILE_BARRIER();
        move_along_x(l, s, tile, first, end, n, work);
        TILE_BARRIER();
        n = number_sites(work.after_y, first + 1, end + 1, tile.lane);
        list_sites(work.after_y, first + 1, end + 1, work.list, tile.lane);
        NO_UNROLL for (int r = first + tile.lane; r < last; r += TILE_LANES) work.held.row[r] = 0;
        TILE_BARRIER();
        move_along_y(l, s, tile, n, work);
        TILE_BARRIER();
    }
    NO_UNROLL for (int r = first + 1 + tile.lane; r <= end; r += TILE_LANES) {
        const i64 at = tile.t.tile * TILE_Y + r - 1;
        rows.moved[at] = (u16)(work.held.row[r] >> 1);
        rows.minus[at] = (u16)(work.minus[r] >> 1);
        rows.plus[at] = (u16)(work.plus[r] >> 1);
    }
    return true;
}

// Hops along x and y, in as few parts as find room.
DEVICE_SHARED void hop_in_piece(const Lattice &l, const LatticeStream &s, const SparseRows &rows,
                                const SparseTile &tile, SparseWork &work) {
    if (tile.lane == 0 && tile.first == 0) *tile_head(l, (l.step + 1) & 1, tile.t.tile) = -1;
    int rows_each = tile.end - tile.first;
    for (int first = tile.first; first < tile.end;) {
        const int end = first + rows_each < tile.end ? first + rows_each : tile.end;
        if (hop_in_rows(l, s, rows, tile, first, end, work))
            first = end;
        else
            rows_each = (rows_each + 1) / 2;
    }
}
