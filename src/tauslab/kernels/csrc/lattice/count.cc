// Counts the particles of a lattice.
#include "lattice/counting.h"

BLOCK_KERNEL(TILE_THREADS, 1, rdme_count, const LatticeCountArguments a) {
    count_lattice(a, BLOCK_ID, BLOCKS);
}
