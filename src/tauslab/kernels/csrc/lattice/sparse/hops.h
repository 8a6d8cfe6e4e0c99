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
    SiteSet held;
    FoundSites after_x, after_y;
    u32 minus[RIM_Y], plus[RIM_Y];  // sites from which particles hop along z
    u16 list[TILE_SITES > ROOM ? TILE_SITES : ROOM];
    u16 list_x[TILE_LANES == 1 ? 1 : ROOM];  // of the sites after the hops along x, by a warp
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

template <class Set>
DEVICE Incoming incoming(const SparseWork &work, const Set &set, const Site *sites,
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

// How a tile lies in the lattice: where its site types are, and where it is put after its hops along x and y.
struct InLattice {
    const SparseRows &rows;

    // Rows of types towards the sites beside one, in row r and column c of the tile with its rim.
    DEVICE_MEMBER Sides along_x(const Lattice &l, const SparseTile &tile, int, int, i64 index, int x,
                                const SparseWork &) const {
        return sides_of(l, index, x, tile.t.nx, 1, 4);
    }

    DEVICE_MEMBER Sides along_y(const Lattice &l, const SparseTile &tile, int, int, i64 index, int y,
                                const SparseWork &) const {
        return sides_of(l, index, y, tile.t.ny, l.nx, 2);
    }

    DEVICE_MEMBER Sides along_z(const Lattice &l, const SparseTile &tile, int, int, i64 index,
                                const SparseWork &) const {
        return sides_along_z(l, tile.t.plane, index);
    }

    // Which sites of row `r` of the tile with its rim hold particles, of all words `held`.
    DEVICE_MEMBER u32 held_in(const Lattice &l, const u16 *held, const SparseTile &tile, int r,
                              const SparseWork &) const {
        return held_in_row(l, held, tile, r);
    }

    // Words of the tile with its rim have come, for rows first .. end - 1 of it.
    DEVICE_MEMBER void begin(const Lattice &l, const SparseTile &tile, int first, int end, SparseWork &work) const {
        prefetch_types(l, tile, first, end, work);
    }

    // `n` sites of rows first .. end - 1 are to be put.
    DEVICE_MEMBER void begin_to_put(const SparseTile &, int, int, int, SparseWork &) const {}

    // Memory for site `j` of them while it is made.
    DEVICE_MEMBER Site &room(const SparseTile &tile, int, SparseWork &work) const {
        return work.sites.before[tile.lane];  // what is left of the hops along x is not read
    }

    // The site, in row r and column c of the tile, when it is made, and who then hops along z.
    DEVICE_MEMBER void put(const Lattice &l, int, int, i64 index, const Site &to) const { l.moved[index] = to; }

    DEVICE_MEMBER void put_moves(const Lattice &l, int, int, int, i64 index, SlotMoves moves, SparseWork &) const {
        l.z_moves[index] = moves;
    }

    DEVICE_MEMBER void put_row(const SparseTile &tile, int r, u16 moved, u16 minus, u16 plus,
                               SparseWork &) const {
        const i64 at = tile.t.tile * TILE_Y + r;
        rows.moved[at] = moved, rows.minus[at] = minus, rows.plus[at] = plus;
    }

    // For what finds no slot in a site of the tile, or of its rim.
    DEVICE_MEMBER SpillHere spill(const Lattice &l, const SparseTile &tile, u64 site, u32 pass, bool mine,
                                  SparseWork &) const {
        return {l, tile.t.tile, site, pass, mine};
    }
};

// Decides who hops along x in the rows of `work.held`, and notes which sites that reaches; returns how many.
template <class In, class Work>
DEVICE int decide_along_x(const Lattice &l, const LatticeStream &s, const SparseTile &tile, int n,
                          const In &in, Work &work) {
    const PlaneTile &t = tile.t;
    int reached = 0;
    NO_UNROLL for (int from = 0; from < n; from += TILE_LANES) {
        const int j = TILE_LANES == 1 ? from : from + tile.lane;
        Finding finding = {0, 0, 0, 0, 1};
        if (j < n) {
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
            const Moves moves = decide(l, s, site, 0, work.sites.before[j],
                                       joined(bits.x0, bits.x1),
                                       in.along_x(l, tile, r, c, index, x, work));
            work.x_moves[j] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
            const u32 own = 1u << c, sites = (own | (moves.minus ? own >> 1 : 0) |
                                              (moves.plus ? own << 1 : 0)) &
                                             tile.columns();
            const u32 first = sites & ~or_in_block(work.after_x.row + r, sites);
            finding.which = first << 1 >> c & 7, finding.r = r, finding.c = c - 1;
        }
        reached = list_found(work.after_x, finding, reached, ROOM, work.list_x, tile.lane);
    }
    return reached;
}

// Puts site (r, c) into the set if `there`; returns whether it is there for the first time.
DEVICE bool find_site(FoundSites &set, int r, int c, bool there) {
    return there && !(or_in_block(set.row + r, 1u << c) >> c & 1);
}

// Moves along x, and decides who hops along y; returns how many sites that reaches. Rows of the tile that are done
// here are first + 1 .. end.
template <class In, class Work>
DEVICE int move_along_x(const Lattice &l, const LatticeStream &s, const SparseTile &tile, int first,
                        int end, int n, const In &in, Work &work) {
    const PlaneTile &t = tile.t;
    const u16 *const list = TILE_LANES == 1 ? work.list : work.list_x;
    int reached = 0;
    NO_UNROLL for (int from = 0; from < n; from += TILE_LANES) {
        const int j = TILE_LANES == 1 ? from : from + tile.lane;
        Finding finding = {0, 0, 0, 1, 0};
        if (j < n) {
            const int r = list[j] >> 5, c = list[j] & 31;
            int y, x;
            tile.coordinates(r, c, y, x);
            const int in_plane = y * t.nx + x;
            const i64 index = t.first_index + in_plane;
            const u64 site = t.first_site + (u64)in_plane;
            const auto spill = in.spill(l, tile, site, SPILL_X, r > first && r <= end, work);
            const Incoming own =
                incoming(work, work.held, work.sites.before, work.x_moves, r, c);
            const Incoming left =
                incoming(work, work.held, work.sites.before, work.x_moves, r, c - 1);
            const Incoming right =
                incoming(work, work.held, work.sites.before, work.x_moves, r, c + 1);
            Site &to = work.sites.after_x[j];
            gather(l, s, *own.site, (u32)(own.moves.minus | own.moves.plus), *left.site,
                   left.moves.plus, *right.site, right.moves.minus, site, index, x, t.nx, 4, spill,
                   to);
            Moves moves = {0, 0};
            if (!is_empty(to)) {
                const bool drawn = KEEPS_BITS && work.held.has(r, c);
                moves = decide(l, s, site, 1, to,
                               drawn ? work.y_bits[work.held.place(r, c)] : hop_bits(s, site, 0, 1),
                               in.along_y(l, tile, r, c, index, y, work));
                FoundSites &set = work.after_y;
                const bool here = find_site(set, r, c, r > first && r <= end);
                const bool below = find_site(set, r - 1, c, moves.minus && r - 1 > first);
                const bool above = find_site(set, r + 1, c, moves.plus && r + 1 <= end);
                finding.which = (u32)below | (u32)here << 1 | (u32)above << 2;
                finding.r = r - 1, finding.c = c;
            }
            work.y_moves[j] = {(SlotBits)moves.minus, (SlotBits)moves.plus};
        }
        reached = list_found(work.after_y, finding, reached, TILE_SITES, work.list, tile.lane);
    }
    return reached;
}

// Moves along y, puts the sites away, and decides who hops along z.
template <class In, class Work>
DEVICE void move_along_y(const Lattice &l, const LatticeStream &s, const SparseTile &tile, int n,
                         const In &in, Work &work) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int j = tile.lane; j < n; j += TILE_LANES) {
        const int r = work.list[j] >> 5, c = work.list[j] & 31, y = t.y0 + r - 1,
                  x = t.x0 + c - 1, in_plane = y * t.nx + x;
        const i64 index = t.first_index + in_plane;
        const u64 site = t.first_site + (u64)in_plane;
        const auto spill = in.spill(l, tile, site, SPILL_Y, true, work);
        const Incoming own =
            incoming(work, work.after_x, work.sites.after_x, work.y_moves, r, c);
        const Incoming below =
            incoming(work, work.after_x, work.sites.after_x, work.y_moves, r - 1, c);
        const Incoming above =
            incoming(work, work.after_x, work.sites.after_x, work.y_moves, r + 1, c);
        Site &to = in.room(tile, j, work);
        gather(l, s, *own.site, (u32)(own.moves.minus | own.moves.plus), *below.site,
               below.moves.plus, *above.site, above.moves.minus, site, index, y, t.ny, 2, spill,
               to);
        if (is_empty(to)) continue;
        in.put(l, r - 1, c - 1, index, to);
        const Moves moves = decide(l, s, site, 2, to, hop_bits(s, site, 0, 2),
                                   in.along_z(l, tile, r, c, index, work));
        in.put_moves(l, j, r - 1, c - 1, index, {(SlotBits)moves.minus, (SlotBits)moves.plus},
                       work);
        const u32 bit = 1u << c;
        or_in_block(work.held.row + r, bit);
        if (moves.minus) or_in_block(work.minus + r, bit);
        if (moves.plus) or_in_block(work.plus + r, bit);
    }
}

// Rows first .. end - 1 of the tile. False, and nothing is done, if memory of the warp has no room for
// them.
template <class In, class Work>
DEVICE_SHARED bool hop_in_rows(const Lattice &l, const LatticeStream &s, const u16 *held,
                               const SparseTile &tile, int first, int end, In &in, Work &work) {
    const int last = end + 2;  // behind the rim
    TILE_BARRIER();
    NO_UNROLL for (int r = first + tile.lane; r < last; r += TILE_LANES) {
        work.held.row[r] = in.held_in(l, held, tile, r, work);
        work.after_x.row[r] = work.after_y.row[r] = work.minus[r] = work.plus[r] = 0;
    }
    TILE_BARRIER();
    in.begin(l, tile, first, end, work);
    int n = list_sites(work.held, first, last, ROOM, work.list, tile.lane);
    if (n > ROOM) return false;
    if (n > 0) {
        TILE_BARRIER();
        n = decide_along_x(l, s, tile, n, in, work);
        n = end_list(work.after_x, first, last, ROOM, work.list, n);
        if (n > ROOM) return false;
        TILE_BARRIER();
        n = move_along_x(l, s, tile, first, end, n, in, work);
        TILE_BARRIER();
        n = end_list(work.after_y, first + 1, end + 1, TILE_SITES, work.list, n);
        NO_UNROLL for (int r = first + tile.lane; r < last; r += TILE_LANES) work.held.row[r] = 0;
        in.begin_to_put(tile, first, end, n, work);
        TILE_BARRIER();
        move_along_y(l, s, tile, n, in, work);
        TILE_BARRIER();
    }
    NO_UNROLL for (int r = first + 1 + tile.lane; r <= end; r += TILE_LANES)
        in.put_row(tile, r - 1, (u16)(work.held.row[r] >> 1), (u16)(work.minus[r] >> 1),
                     (u16)(work.plus[r] >> 1), work);
    return true;
}

// Hops along x and y, in as few parts as find room.
template <class In, class Work>
DEVICE_SHARED void hop_in_piece(const Lattice &l, const LatticeStream &s, const u16 *held,
                                const SparseTile &tile, In in, Work &work) {
    int rows_each = tile.end - tile.first;
    for (int first = tile.first; first < tile.end;) {
        const int end = first + rows_each < tile.end ? first + rows_each : tile.end;
        if (hop_in_rows(l, s, held, tile, first, end, in, work))
            first = end;
        else
            rows_each = (rows_each + 1) / 2;
    }
}
