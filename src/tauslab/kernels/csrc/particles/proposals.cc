// Densities of proposals of approximate Bayesian computation: at each place the sum over normal kernels, one around
// each particle (Filippi and others 2013), in the tree of analysis/particles/sums.py.
//
//     Filippi and others 2013            here
//     theta, theta_i                     a place, a centre
//     K(theta | theta_i), w_i            exp(-square / 2) / size of its root, in `logs` with its weight
//     Cholesky root of Sigma_i           `roots`, of coordinates divided by `spread`
#include "model.h"
#include "particles/blocks.h"
#include "particles/portable.h"

constexpr double LEAST = -700.0;  // logarithm of a relative density that counts as 0
constexpr int LEVELS = 40;        // of a tree

// Centres are filled up to whole blocks.
struct ProposalArguments {
    i64 places, centres, stride;  // stride: centres with those that fill the last block
    const double *place;          // [places, N_PARAMETERS]
    const double *centre;         // [N_PARAMETERS, stride]
    const double *spread;         // [N_PARAMETERS]
    const double *roots;          // [N_PARAMETERS, N_PARAMETERS, stride]: lower triangles
    const double *logs;           // [stride]: of a weight over the size of its root
    double *largest, *sums;       // [places]: the largest logarithm, and the sum over it
};

// Logarithms of what the centres from `first` on add at a place.
DEVICE void logs_at(const ProposalArguments &a, const double *place, i64 first,
                    double (&x)[OF_LANE]) {
    double solved[N_PARAMETERS][OF_LANE], square[OF_LANE] = {};
    UNROLL for (int row = 0; row < N_PARAMETERS; ++row) {
        const double *const centre = a.centre + row * a.stride + first;
        const double *const roots = a.roots + row * N_PARAMETERS * a.stride + first;
        double(&rest)[OF_LANE] = solved[row];
        LANE_LOOP for (int i = 0; i < OF_LANE; ++i) rest[i] =
            (place[row] - centre[i]) / a.spread[row];
        UNROLL for (int column = 0; column < row; ++column) {
            LANE_LOOP for (int i = 0; i < OF_LANE; ++i) rest[i] -=
                roots[column * a.stride + i] * solved[column][i];
        }
        LANE_LOOP for (int i = 0; i < OF_LANE; ++i) {
            rest[i] /= roots[row * a.stride + i];
            square[i] += rest[i] * rest[i];
        }
    }
    LANE_LOOP for (int i = 0; i < OF_LANE; ++i) x[i] = a.logs[first + i] - 0.5 * square[i];
}

KERNEL(add_proposals, const ProposalArguments a) {
    const i64 lane = GLOBAL_ID % LANES_OF_BLOCK, blocks = blocks_of(a.centres);
    for (i64 item = GLOBAL_ID / LANES_OF_BLOCK; item < a.places;
         item += GLOBAL_SIZE / LANES_OF_BLOCK) {
        const double *const place = a.place + item * N_PARAMETERS;
        double x[OF_LANE], most[OF_LANE];
        LANE_LOOP for (int i = 0; i < OF_LANE; ++i) most[i] = -tl_infinity();
        for (i64 block = 0; block < blocks; ++block) {
            logs_at(a, place, block * IN_BLOCK + lane, x);
            LANE_LOOP for (int i = 0; i < OF_LANE; ++i) most[i] = x[i] > most[i] ? x[i] : most[i];
        }
        double largest = most[0];
        for (int i = 1; i < OF_LANE; ++i) largest = most[i] > largest ? most[i] : largest;
        largest = largest_of_lanes(largest);
        // Sums of whole subtrees that wait for their neighbours, by level.
        double waiting[LEVELS], sum = 0.0;
        for (i64 block = 0; block < blocks; ++block) {
            const i64 first = block * IN_BLOCK + lane, size = a.centres - first;
            logs_at(a, place, first, x);
            LANE_LOOP for (int i = 0; i < OF_LANE; ++i) {
                const double less = x[i] - largest;
                x[i] = less > LEAST ? less : LEAST;
            }
            LANE_LOOP for (int i = 0; i < OF_LANE; ++i) x[i] = host_exp(x[i]);
            for (i64 i = size > 0 ? size : 0; i < OF_LANE; ++i) x[i] = 0.0;
            sum = sum_by_halves(x, IN_BLOCK);
            int level = 0;
            for (; block >> level & 1; ++level) sum = waiting[level] + sum;
            waiting[level] = sum;
        }
        // Partial sums without a partner are added in order of their level, the smallest first.
        int level = 0;
        while (!(blocks >> level & 1)) ++level;
        sum = waiting[level];
        while (blocks >> ++level)
            if (blocks >> level & 1) sum = waiting[level] + sum;
        if (lane != 0) continue;
        a.largest[item] = largest;
        a.sums[item] = sum;
    }
}
