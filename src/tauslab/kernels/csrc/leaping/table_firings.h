// Exact firings between leaps, of reactions whose changes `model.h` has in tables: the bits of `_exact_in_cells` of
// kernels/leaping/codegen.py.
#pragma once

// The sum of the propensities, which an exact event updates and the next one reads.
struct Exact {
    double sum;
    DEVICE_MEMBER double total() const { return sum; }
    DEVICE_MEMBER double total_now(const i32 *, const double *) { return sum; }
};

template <class Cells>
DEVICE void start_exact(const i32 *x, const double *c, Exact &exact, const Cells &cells) {
    double sum = 0;
    UNROLL_SOME for (int j = 0; j < N_REACTIONS; ++j) sum += cells[j] = propensity_at(j, x, c);
    exact.sum = sum;
    RELOAD;
}

// Returns a negative number if a count passed 2147483647.
template <class Cells>
DEVICE i32 fire_exact(double target, i32 *x, const double *c, Exact &exact, const Cells &cells) {
    double sum = 0;
    int reaction = 0;
    UNROLL_SOME for (int j = 0; j < N_REACTIONS - 1; ++j) {
        sum += cells[j];
        reaction += sum <= target;
    }
    i32 signs = 0;
    NO_UNROLL for (int k = CHANGE_AT[reaction]; k < CHANGE_AT[reaction + 1]; ++k)
        signs |= x[CHANGED[k]] = plus(x[CHANGED[k]], CHANGED_BY[k]);
    start_exact(x, c, exact, cells);
    return signs;
}
