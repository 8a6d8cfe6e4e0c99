// Counts the particles of a lattice.
#include "lattice/counting.h"

BLOCK_KERNEL(TILE_THREADS, 1, rdme_count, const LatticeCountArguments a) {
    SHARED u32 bins[BLOCK_BINS];
    count_lattice(a, bins, BLOCK_ID, BLOCKS);
}
