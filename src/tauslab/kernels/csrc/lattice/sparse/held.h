// What is done with the words of a sparse lattice beside its steps: they are found, and sites are counted by them.
#pragma once

#include "lattice/counting.h"
#include "lattice/sparse/rows.h"

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
            count_site(l.state[index], type_at(l, index) * N_SPECIES, bins, counts);
        }
    }
}

// What is counted after so many steps, into a row of counts.
DEVICE LatticeCountArguments counted_now(const Lattice &l, u64 steps, u64 *row) {
    return {l.state, l.types, l.planes * l.ny * l.nx, l.fired, l.waiting, l.work, l.capacity,
            (i64)steps & 1, 0, row};
}
