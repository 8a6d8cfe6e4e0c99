// Whole steps of a lattice on one device in which few sites hold particles: the same steps as `rdme_steps`
// (lattice/rdme.cc), with the same draws and so the same bits. A warp goes through a tile, and its lanes through
// those sites of it that hold particles.
//
// All blocks run at the same time, and meet at two barriers in each step: when particles have hopped along x and y,
// and at its end.
#include "lattice/sparse/finish.h"
#include "lattice/sparse/held.h"

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
            clear_bins(bins);
            BARRIER();
            u64 *const row = arguments.counts + mark * arguments.columns;
            NO_UNROLL for (i64 i = first; i < end; i += by)
                count_piece(l, rows.held, i == first ? own : sparse_piece(l, i, parts, lane), bins, row);
        }
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
        if (!counts) continue;
        count_rest(counted_now(l, l.step + 1, arguments.counts + mark * arguments.columns), bins,
                   BLOCK_ID, BLOCKS, l.work[WAITING_0 + ((l.step + 1) & 1)]);
        ++mark;
        next = mark < arguments.n_marks ? arguments.marks[mark] : -1;
        grid_barrier(l.work + BARRIER_CELL, BLOCKS, arrivals);
    }
}
