// Counts the particles of a lattice, and its tiles that hold some.
#include "lattice/counting.h"

BLOCK_KERNEL(TILE_THREADS, 1, rdme_count, const LatticeCountArguments a) {
    SHARED u32 bins[BLOCK_BINS];
    count_lattice(a, bins, BLOCK_ID, BLOCKS);
}

struct FilledTilesArguments {
    const Site *sites;  // [planes, ny, nx]
    i64 planes, ny, nx;
    u64 *counts;  // [planes], zeros at first
};

// A thread looks at a tile up to its first particle.
BLOCK_KERNEL(TILE_THREADS, 1, rdme_filled_tiles, const FilledTilesArguments a) {
    const i64 across = (a.nx + TILE_X - 1) / TILE_X, tiles = (a.ny + TILE_Y - 1) / TILE_Y * across;
    for (i64 i = BLOCK_ID * BLOCK_THREADS + THREAD_ID; i < a.planes * tiles;
         i += BLOCKS * BLOCK_THREADS) {
        const i64 plane = i / tiles, y = (i % tiles) / across * TILE_Y, x = i % across * TILE_X;
        const i64 end_y = y + TILE_Y < a.ny ? y + TILE_Y : a.ny;
        const i64 end_x = x + TILE_X < a.nx ? x + TILE_X : a.nx;
        bool filled = false;
        for (i64 row = y; row < end_y && !filled; ++row)
            for (i64 at = x; at < end_x && !filled; ++at)
                filled = !is_empty(a.sites[(plane * a.ny + row) * a.nx + at]);
        if (filled) atomic_add(a.counts + plane, 1);
    }
}
