// A network in tables, for kernels that are not unrolled.
#pragma once

#include "model.h"
#include "device/prelude.h"

// In place of the index of a constant of the row.
constexpr i32 GENERAL_LAW = -1;
constexpr i32 LITERAL_CONSTANT = -2;
constexpr i32 QUANTITY_CONSTANT =
    -3;  // less the number of a quantity that the literal is multiplied by

// Numbers of entries have 31 bits (`kernels/network/tables.py`).
struct Tables {
    ReadOnly<i32> whole;  // addressed by the constants AT_... of model.h
    ReadOnly<double> real;

    DEVICE_MEMBER i32 at(i64 where, i64 i) const { return whole[where + (u32)i]; }

    // Record i of two or four numbers.
    DEVICE_MEMBER IntPair pair(i64 where, i64 i) const {
        return load_pair(whole + where + 2 * (i64)(u32)i);
    }
    DEVICE_MEMBER IntQuad quad(i64 where, i64 i) const {
        return load_quad(whole + where + 4 * (i64)(u32)i);
    }
};

// A sum of counts with whole weights, exact in any order.
template <class Counts>
DEVICE double weighted(const Tables &tables, i64 row, const Counts &x) {
    double sum = 0;
    for (i32 j = tables.at(AT_SUM_ROW, row); j < tables.at(AT_SUM_ROW, row + 1); ++j)
        sum += tables.real[AT_SUM_WEIGHT + j] * (double)x[tables.at(AT_SUM_SPECIES, j)];
    return sum;
}

DEVICE double constant_of(i32 source, double literal, const double *c) {
    if (N_CONSTANTS == 0) return literal;
    return source == LITERAL_CONSTANT ? literal : c[source];
}
