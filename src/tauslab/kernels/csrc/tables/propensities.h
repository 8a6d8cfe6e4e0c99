// The state of a trajectory of a large network, and propensities of reactions from tables.
#pragma once

#include "ensemble/rate_laws.h"
#include "tables/network_tables.h"
#include "team/team.h"

// Whole numbers of terms; narrow ones are proved to do by `kernels/exact/tree_pdm.py`.
#if WIDE_WHOLE
typedef i64 Whole;
#else
typedef i32 Whole;
#endif

// Whole numbers of a trajectory. The first SHARED_WHOLE of them are in shared memory.
struct WholeNumbers {
    Whole *fast;
    TeamArray<Whole> rest;  // from the first on
    DEVICE_MEMBER Whole &operator[](i64 i) const {
        if (SHARED_WHOLE == N_WHOLE) return fast[(u32)i];
        return SHARED_WHOLE > 0 && i < SHARED_WHOLE ? fast[(u32)i] : rest[i];
    }
};

// Counts of a trajectory, each the first of WORDS_OF_COUNT words where a team runs it.
struct CountArray {
    i32 *base;
    DEVICE_MEMBER i32 &operator[](i64 i) const {
        return TEAM_THREADS == 1 ? base[i * TEAM_STRIDE] : base[(u32)i * WORDS_OF_COUNT];
    }
};

// The state of a trajectory. In a network with events quantities that hold any number are behind the counts, and
// behind these the time.
struct State {
    CountArray x;
    WholeNumbers n;         // of terms, and of runs of 32 partners
    TeamArray<double> v;    // sums, see `kernels/exact/forest.py` for their places
    TeamArray<double> top;  // those from FAST_PLACE on: in shared memory, or where the others are
    const double *c;        // constants of the row
#ifdef HAS_EVENTS
    TeamArray<double> reals;
    double time;
    const double *bound;  // of rates that follow the time, in a piece of the run
#endif
};

#ifdef HAS_EVENTS
// The state as laws read it.
struct Quantities {
    const State &s;
    const Tables &tables;
    DEVICE_MEMBER double operator[](i64 i) const {
        return i < N_GIVEN ? (double)s.x[i] : i < N_GIVEN + N_REALS ? s.reals[i - N_GIVEN] : s.time;
    }
    DEVICE_MEMBER double bound(int i) const { return s.bound[i]; }
};

DEVICE Quantities quantities_of(const Tables &tables, const State &s) {
    return {s, tables};
}
#else
constexpr i64 N_GIVEN = N_SPECIES;  // counts that a trajectory starts from

DEVICE const CountArray &quantities_of(const Tables &, const State &s) {
    return s.x;
}
#endif

// The form of a reaction's propensity, in the last word of its record. Other values are a number of species, 0
// to 2: the propensity is a constant times their counts.
enum Law : i32 { HOMODIMER = 3, LONGER = 4 };

// The constant of a reaction; events may change a quantity that it is multiplied by.
template <class Counts>
DEVICE double constant_in(double literal, i32 source, [[maybe_unused]] const Counts &x,
                          const double *c) {
#ifdef HAS_EVENTS
    if (source <= QUANTITY_CONSTANT) return not_negative(literal * x[QUANTITY_CONSTANT - source]);
#endif
    return constant_of(source, literal, c);
}

// Propensity of reaction j from its law, or its rows of orders and of least counts.
template <class Counts>
DEVICE double longer_propensity(const Tables &tables, i32 j, i32 source, const Counts &x,
                                const double *c) {
    if (source == GENERAL_LAW) return general_propensity(j, x, c, tables);
    for (i32 i = tables.at(AT_NEED_ROW, j); i < tables.at(AT_NEED_ROW, j + 1); ++i)
        if (x[tables.at(AT_NEED_SPECIES, i)] < tables.at(AT_NEED_COUNT, i)) return 0.0;
    double product = 1.0;
    for (i32 i = tables.at(AT_ORDER_ROW, j); i < tables.at(AT_ORDER_ROW, j + 1); ++i) {
        const double count = (double)x[tables.at(AT_ORDER_SPECIES, i)];
        for (i32 taken = 0; taken < tables.at(AT_ORDER_COUNT, i); ++taken)
            product = product * (count - (double)taken);
    }
    return constant_of(source, tables.real[AT_LITERAL + j], c) * product;
}

// Propensity of a constant and the counts that its kind asks for.
DEVICE double short_propensity(i32 kind, double constant, double first, double second) {
    if (kind == 0) return constant;
    return constant * (kind == 1 ? first : first * (kind == 2 ? second : first - 1.0));
}

template <class Counts>
DEVICE double propensity(const Tables &tables, i32 j, const Counts &x, const double *c) {
    const IntQuad law = tables.quad(AT_LAW, j);
    double literal = tables.real[AT_LITERAL + j];
    LOADED_HERE(literal, "d");
    if (HAS_LONGER && law.d == LONGER) return longer_propensity(tables, j, law.a, x, c);
    const double constant = constant_in(literal, law.a, x, c);
    if (law.d == 0) return constant;
    const double first = (double)x[law.b], second = (double)x[law.c];
    return short_propensity(law.d, constant, first, second);
}
