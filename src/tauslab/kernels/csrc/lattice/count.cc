// Counts the particles of a lattice, and its tiles that hold some.
//
// It has no sizes of a model but those of a site, so that all models with such sites share what is compiled.
#include "lattice/counting.h"

constexpr int MOST_THREADS = 512;  // of a block

struct CountArguments {
    LatticeCountArguments lattice;
    i64 n_types, n_species, n_reactions;
};

BLOCK_KERNEL(MOST_THREADS, 1, rdme_count, const CountArguments a) {
    SHARED u32 bins[MOST_BINS];
    const CountSizes sizes = {(int)a.n_types, (int)a.n_species, (int)a.n_reactions};
    count_lattice(sizes, a.lattice, bins, BLOCK_ID, BLOCKS);
}

struct FilledTilesArguments {
    const Site *sites;  // [planes, ny, nx]
    i64 planes, ny, nx;
    i64 tile_y, tile_x;
    u64 *counts;  // [planes], zeros at first
};

// A thread looks at a tile up to its first particle.
BLOCK_KERNEL(MOST_THREADS, 1, rdme_filled_tiles, const FilledTilesArguments a) {
    const i64 across = (a.nx + a.tile_x - 1) / a.tile_x,
              tiles = (a.ny + a.tile_y - 1) / a.tile_y * across;
    for (i64 i = BLOCK_ID * BLOCK_THREADS + THREAD_ID; i < a.planes * tiles;
         i += BLOCKS * BLOCK_THREADS) {
        const i64 plane = i / tiles, y = (i % tiles) / across * a.tile_y, x = i % across * a.tile_x;
        const i64 end_y = y + a.tile_y < a.ny ? y + a.tile_y : a.ny;
        const i64 end_x = x + a.tile_x < a.nx ? x + a.tile_x : a.nx;
        bool filled = false;
        for (i64 row = y; row < end_y && !filled; ++row)
            for (i64 at = x; at < end_x && !filled; ++at)
                filled = !is_empty(a.sites[(plane * a.ny + row) * a.nx + at]);
        if (filled) atomic_add(a.counts + plane, 1);
    }
}
