// Pieces of the run, in each of which rates that follow the time have constant bounds (kernels/network/thinning.py).
//
// Pieces are the nodes of a binary tree: node 1 is the whole run, nodes 2 n and 2 n + 1 are the parts of node n. The words
// of a node are its last time, its limit, and bounds. A trajectory uses the bounds of one node, from any time in it. While
// the total propensity is above the limit of the node, the trajectory moves to the part in which it is: rejected
// candidates cost more than the ends of pieces. Behind the end of a node it moves to the next one, or to one that begins
// there and has at least twice the limit that is needed. The limit of a leaf is infinite.
//
// Which bounds are used depends on the past alone, so that thinning remains exact.
#pragma once

#include "ensemble/stepping.h"
#include "model.h"

constexpr int LIMIT_AT = PIECE_AT + 1;

DEVICE const double *words_of(const double *tree, i32 node) {
    return tree + (i64)(node - 1) * PIECE_WORDS;
}

DEVICE void load_piece(const double *tree, i32 node, double *c) {
    load<PIECE_WORDS>(c + PIECE_AT, words_of(tree, node));
}

// Moves to the parts of the node, at time t, until the total of bounds `a0` is within the limit. `total` computes it.
template <class Total>
DEVICE double refined(const double *tree, i32 &node, double t, double a0, double *c,
                      const Total &total) {
    NO_UNROLL while (a0 > c[LIMIT_AT]) {
        node *= 2;
        if (t > words_of(tree, node)[0]) ++node;
        load_piece(tree, node, c);
        a0 = total();
    }
    return a0;
}

// Moves behind the end of the node, to time t; the total of its bounds.
template <class Total>
DEVICE double next_piece(const double *tree, i32 &node, double t, double *c, const Total &total) {
    load_piece(tree, ++node, c);
    double a0 = total();
    if (a0 > c[LIMIT_AT]) return refined(tree, node, t, a0, c, total);
    // The first part of a node begins with it.
    NO_UNROLL while (node % 2 == 0) {
        load_piece(tree, node / 2, c);
        const double coarser = total();
        const bool fits = 2 * coarser <= c[LIMIT_AT];
        if (fits) node /= 2, a0 = coarser;
        if (fits) continue;
        load_piece(tree, node, c);
        a0 = total();
        break;
    }
    return a0;
}
