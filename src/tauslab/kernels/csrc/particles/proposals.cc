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
    const double *over_spread;    // [N_PARAMETERS]: 1 over it
    const double *roots;          // [N_PARAMETERS, N_PARAMETERS, stride]: lower triangles
    const double *over;           // [N_PARAMETERS, stride]: 1 over their diagonals
    const double *logs;           // [stride]: of a weight over the size of its root
    double *largest, *sums;       // [places]: the largest logarithm, and the sum over it
};

// Places of an item, which share what is loaded of a centre.
constexpr int PLACES = LANES_OF_BLOCK > 1 ? 4 : 1;

// Logarithms of what the centres from `first` on add at each place.
DEVICE void logs_at(const ProposalArguments &a, const double *const (&place)[PLACES], i64 first,
                    double (&x)[PLACES][OF_LANE]) {
    UNROLL for (int t = 0; t < PLACES; ++t) {
        double solved[N_PARAMETERS][OF_LANE], square[OF_LANE] = {};
        UNROLL for (int row = 0; row < N_PARAMETERS; ++row) {
            const double *const centre = a.centre + row * a.stride + first;
            const double *const roots = a.roots + row * N_PARAMETERS * a.stride + first;
            const double *const over = a.over + row * a.stride + first;
            double(&rest)[OF_LANE] = solved[row];
            LANE_LOOP for (int i = 0; i < OF_LANE; ++i) rest[i] =
                divided_by_any(place[t][row] - centre[i], a.spread[row], a.over_spread[row]);
            UNROLL for (int column = 0; column < row; ++column) {
                LANE_LOOP for (int i = 0; i < OF_LANE; ++i) rest[i] -=
                    roots[column * a.stride + i] * solved[column][i];
            }
            LANE_LOOP for (int i = 0; i < OF_LANE; ++i) {
                rest[i] = divided_by_any(rest[i], roots[row * a.stride + i], over[i]);
                square[i] += rest[i] * rest[i];
            }
        }
        LANE_LOOP for (int i = 0; i < OF_LANE; ++i) x[t][i] = a.logs[first + i] - 0.5 * square[i];
    }
}

KERNEL(add_proposals, const ProposalArguments a) {
    const i64 lane = GLOBAL_ID % LANES_OF_BLOCK, blocks = blocks_of(a.centres);
    for (i64 item = GLOBAL_ID / LANES_OF_BLOCK; item * PLACES < a.places;
         item += GLOBAL_SIZE / LANES_OF_BLOCK) {
        const double *place[PLACES];
        UNROLL for (int t = 0; t < PLACES; ++t) {
            const i64 number = item * PLACES + t;
            place[t] = a.place + (number < a.places ? number : a.places - 1) * N_PARAMETERS;
        }
        // A compiler vectorises loops over lanes that each do one thing.
        double x[PLACES][OF_LANE], most[PLACES][OF_LANE], largest[PLACES];
        UNROLL for (int t = 0; t < PLACES; ++t) {
            LANE_LOOP for (int i = 0; i < OF_LANE; ++i) most[t][i] = -tl_infinity();
        }
        for (i64 block = 0; block < blocks; ++block) {
            logs_at(a, place, block * IN_BLOCK + lane, x);
            UNROLL for (int t = 0; t < PLACES; ++t) {
                LANE_LOOP for (int i = 0; i < OF_LANE; ++i) most[t][i] =
                    x[t][i] > most[t][i] ? x[t][i] : most[t][i];
            }
        }
        UNROLL for (int t = 0; t < PLACES; ++t) {
            double own = most[t][0];
            for (int i = 1; i < OF_LANE; ++i) own = most[t][i] > own ? most[t][i] : own;
            largest[t] = largest_of_lanes(own);
        }
        // Sums of whole subtrees that wait for their neighbours, by level.
        double waiting[LEVELS][PLACES];
        for (i64 block = 0; block < blocks; ++block) {
            const i64 first = block * IN_BLOCK + lane, size = a.centres - first;
            logs_at(a, place, first, x);
            UNROLL for (int t = 0; t < PLACES; ++t) {
                LANE_LOOP for (int i = 0; i < OF_LANE; ++i) {
                    const double less = x[t][i] - largest[t];
                    x[t][i] = less > LEAST ? less : LEAST;
                }
                LANE_LOOP for (int i = 0; i < OF_LANE; ++i) x[t][i] = host_exp(x[t][i]);
                for (i64 i = size > 0 ? size : 0; i < OF_LANE; ++i) x[t][i] = 0.0;
                double sum = sum_by_halves(x[t], IN_BLOCK);
                int level = 0;
                for (; block >> level & 1; ++level) sum = waiting[level][t] + sum;
                waiting[level][t] = sum;
            }
        }
        // Partial sums without a partner are added in order of their level, the smallest first.
        int lowest = 0;
        while (!(blocks >> lowest & 1)) ++lowest;
        for (int t = 0; t < PLACES && lane == 0; ++t) {
            const i64 number = item * PLACES + t;
            double sum = waiting[lowest][t];
            for (int level = lowest + 1; blocks >> level; ++level)
                if (blocks >> level & 1) sum = waiting[level][t] + sum;
            if (number >= a.places) continue;
            a.largest[number] = largest[t];
            a.sums[number] = sum;
        }
    }
}
