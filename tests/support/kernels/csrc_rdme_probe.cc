// Decisions of the lattice kernels for chosen random bits, for tests.
#include "lattice/site/react.h"

// Whether a reaction with sum of propensities x happens, for `n` numbers of 64 bits.
KERNEL(probe_happens, i64 n, double x, const u64 *bits, u8 *out) {
    for (i64 i = GLOBAL_ID; i < n; i += GLOBAL_SIZE) out[i] = happens(bits[i], x);
}
