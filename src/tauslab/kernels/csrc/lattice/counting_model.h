// Counts the particles of a lattice in a kernel that has its model's header.
#pragma once

#include "lattice/counting.h"

constexpr CountSizes SIZES = {N_TYPES, N_SPECIES, N_REACTIONS};
// A histogram in the block's memory, where it is small enough.
constexpr int BLOCK_BINS = N_TYPES * N_SPECIES <= MOST_BINS ? N_TYPES * N_SPECIES : 1;
