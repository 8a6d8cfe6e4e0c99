// Whole steps of a lattice on one device in which few sites hold particles: the same steps as `rdme_steps`
// (lattice/rdme.cc), with the same draws and so the same bits. A warp goes through a tile, and its lanes through
// those sites of it that hold particles.
//
// All blocks run at the same time, and meet at two barriers in each step: when particles have hopped along x and y,
// and at its end.
#include "lattice/column.h"
#include "lattice/sparse/hops.h"

// The number of the tile above or below in the plane given, or -1.
DEVICE i64 tile_in_plane(const Lattice &l, i64 plane, i64 tile_of_plane) {
    return plane < 0 ? -1 : plane * tiles_of_plane(l) + tile_of_plane;
}

// The three planes that a tile is built from.
struct SparseLayers {
    i64 below, above;              // tiles; -1: none
    i64 first_below, first_above;  // where the planes begin
    bool some_wait;                // particles wait in the tile
};

DEVICE SparseLayers sparse_layers(const Lattice &l, const PlaneTile &t) {
    const i64 below = plane_below(l, t.plane), above = plane_above(l, t.plane),
              in_plane = t.tile - t.plane * tiles_of_plane(l), sites = l.ny * l.nx;
    return {tile_in_plane(l, below, in_plane), tile_in_plane(l, above, in_plane), below * sites,
            above * sites, *(volatile i32 *)tile_head(l, l.step & 1, t.tile) >= 0};
}

// The site that is there, or an empty one.
DEVICE void take_held(const Site *sites, i64 index, bool held, Site &to) {
    if (held)
        to = sites[index];
    else
        make_empty(to);
}

// Sites of the tile that are looked at: those that hold particles, or that some hop into, or where some may
// wait. Others that held particles before the step become empty.
DEVICE void find_reached(const Lattice &l, const SparseRows &rows, const SparseTile &tile,
                         const SparseLayers &layers, SparseWork &work) {
    const PlaneTile &t = tile.t;
    NO_UNROLL for (int r = tile.first + tile.lane; r < tile.end; r += TILE_LANES) {
        const i64 at = t.tile * TILE_Y + r;
        const u32 own = rows.moved[at];
        const u32 below = layers.below < 0 ? 0 : rows.plus[layers.below * TILE_Y + r];
        const u32 above = layers.above < 0 ? 0 : rows.minus[layers.above * TILE_Y + r];
        const u32 reached = layers.some_wait ? low_bits(tile.width) : own | below | above;
        work.after_y.row[r] = own, work.minus[r] = above, work.plus[r] = below;
        work.held.row[r] = reached;
        work.after_x.row[r] = 0;
        const i64 first = t.first_index + (t.y0 + r) * t.nx + t.x0;
        NO_UNROLL for (u32 left = rows.held[at] & ~reached; left; left &= left - 1)
            make_empty(l.state[first + lowest_bit(left)]);
    }
}

// One site after its hops along x and y; returns whether it holds particles then.
DEVICE bool finish_reached(const Lattice &l, const LatticeStream &s, const SparseTile &tile,
                           const SparseLayers &layers, int r, int c, SparseWork &work) {
    const PlaneTile &t = tile.t;
    const int in_plane = (t.y0 + r) * t.nx + t.x0 + c;
    const i64 index = t.first_index + in_plane, index_below = layers.first_below + in_plane,
              index_above = layers.first_above + in_plane;
    const int type = N_REACTIONS > 0 ? type_at(l, index) : 0;
    const bool held = work.after_y.row[r] >> c & 1, comes_up = work.plus[r] >> c & 1,
               comes_down = work.minus[r] >> c & 1;
    const SlotMoves none = {0, 0}, own_moves = held ? l.z_moves[index] : none;
    const u32 from_below = comes_up ? l.z_moves[index_below].plus : 0,
              from_above = comes_down ? l.z_moves[index_above].minus : 0;
    Site own, &below = work.gathered[0][tile.lane], &above = work.gathered[1][tile.lane],
              &content = work.gathered[2][tile.lane];
    take_held(l.moved, index, held, own);
    take_held(l.moved, index_below, comes_up, below);
    take_held(l.moved, index_above, comes_down, above);
    return finish_gathered(l, s, t, in_plane, type, layers.some_wait, own, own_moves, below,
                           from_below, above, from_above, content);
}

DEVICE void prefetch_listed(const Lattice &l, const SparseTile &tile, u16 entry) {
    const PlaneTile &t = tile.t;
    const i64 index =
        t.first_index + (t.y0 + (entry >> 5)) * t.nx + t.x0 + (entry & 31);
    PREFETCH(l.moved + index);
    PREFETCH(l.z_moves + index);
}

DEVICE_SHARED void finish_piece(const Lattice &l, const LatticeStream &s,
                                const SparseRows &rows, const SparseTile &tile,
                                SparseWork &work) {
    const SparseLayers layers = sparse_layers(l, tile.t);
    TILE_BARRIER();
    find_reached(l, rows, tile, layers, work);
    TILE_BARRIER();
    const int n =
        list_sites(work.held, tile.first, tile.end, TILE_SITES, work.list, tile.lane);
    TILE_BARRIER();
    NO_UNROLL for (int j = tile.lane; j < n; j += TILE_LANES) {
        if (SITES_AHEAD && j + SITES_AHEAD < n) prefetch_listed(l, tile, work.list[j + SITES_AHEAD]);
        const int r = work.list[j] >> 5, c = work.list[j] & 31;
        if (finish_reached(l, s, tile, layers, r, c, work))
            or_in_block(work.after_x.row + r, 1u << c);
    }
    TILE_BARRIER();
    NO_UNROLL for (int r = tile.first + tile.lane; r < tile.end; r += TILE_LANES)
        rows.held[tile.t.tile * TILE_Y + r] = (u16)work.after_x.row[r];
}

struct SparseStepArguments {
    LatticeArguments lattice;
    SlotMoves *z_moves;  // see Lattice
    u16 *rows;           // [4, plane, tile, row]: SparseRows
    i64 anew;            // whether `rows` does not say yet which sites hold particles
    i64 parts;           // of a tile, each for a warp: 1 or 2
    i64 steps;
    const i64 *marks;  // the lattice is counted after so many steps, ascending, ...
    i64 n_marks;
    u64 *counts;  // ... into a row each, as count_rest() of lattice/counting.h says
    i64 columns;  // of a row
};

// Hops along x and y in a piece of a tile.
DEVICE_SHARED void hop_in_tile(const Lattice &l, const LatticeStream &s, const SparseRows &rows,
                               const SparseTile &tile, SparseWork &work) {
    if (tile.lane == 0 && tile.first == 0) *tile_head(l, (l.step + 1) & 1, tile.t.tile) = -1;
    hop_in_piece(l, s, rows.held, tile, InLattice{rows}, work);
}

BLOCK_KERNEL(SPARSE_THREADS, SPARSE_BLOCKS, rdme_sparse_steps,
             const SparseStepArguments arguments) {
    SHARED SparseWork of_warps[SPARSE_THREADS / 32];
    SHARED u32 bins[BLOCK_BINS];
    LATTICE_IN_BLOCK(l, arguments.lattice);
    REACTIONS_IN_BLOCK(l);
    l.z_moves = arguments.z_moves;
    const int warp = THREAD_ID / TILE_LANES, lane = THREAD_ID % TILE_LANES;
    SparseWork &work = of_warps[warp];
    start_work(work, lane);
    BARRIER();
    const SparseRows rows = sparse_rows(l, arguments.rows);
    const i64 pieces = l.planes * tiles_of_plane(l) * arguments.parts;
    // Threads of a CPU take tiles side by side. Those of a GPU's warps are far apart, to spread the work.
    const i64 warps = BLOCKS * (BLOCK_THREADS / TILE_LANES), by = TILE_LANES == 1 ? 1 : warps;
    const i64 first = TILE_LANES == 1 ? pieces * BLOCK_ID / warps : BLOCK_ID + BLOCKS * warp;
    const i64 end = TILE_LANES == 1 ? pieces * (BLOCK_ID + 1) / warps : pieces;
    const int parts = (int)arguments.parts;
    const SparseTile own = sparse_piece(l, first, parts, lane);
    u32 arrivals = 0;
    i64 mark = 0, next = arguments.n_marks > 0 ? arguments.marks[0] : -1;
    if (arguments.anew) {
    NO_UNROLL for (i64 i = first; i < end; i += by)
            find_held(l, l.state, rows.held, sparse_piece(l, i, parts, lane));
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
    }
    NO_UNROLL for (i64 n = 0; n < arguments.steps; ++n, ++l.step) {
        const LatticeStream s = lattice_stream(l.seed, l.step, (u32)l.replica);
        if (BLOCK_ID == 0 && THREAD_ID == 0) l.work[WAITING_0 + ((l.step + 1) & 1)] = 0;
        NO_UNROLL for (i64 i = first; i < end; i += by)
            hop_in_tile(l, s, rows, i == first ? own : sparse_piece(l, i, parts, lane), work);
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
        NO_UNROLL for (i64 i = first; i < end; i += by)
            finish_piece(l, s, rows, i == first ? own : sparse_piece(l, i, parts, lane), work);
        const bool counts = n + 1 == next;
        if (counts) {
            clear_bins(SIZES, bins);
            BARRIER();
            u64 *const row = arguments.counts + mark * arguments.columns;
            NO_UNROLL for (i64 i = first; i < end; i += by)
                count_piece(l, rows.held, i == first ? own : sparse_piece(l, i, parts, lane), bins, row);
        }
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
        if (!counts) continue;
        count_rest(SIZES, counted_now(l, l.step + 1, arguments.counts + mark * arguments.columns), bins,
                   BLOCK_ID, BLOCKS, l.work[WAITING_0 + ((l.step + 1) & 1)]);
        ++mark;
        next = mark < arguments.n_marks ? arguments.marks[mark] : -1;
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
    }
}
