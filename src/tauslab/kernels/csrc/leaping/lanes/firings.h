// Numbers of firings on SIMD lanes, as generated code reads and applies them. This header comes before `model.h`, whose
// templates call what is here.
#pragma once

#include "simd/laws.h"
#include "leaping/leaps.h"

// Up to this mean, sums of firings are exact as doubles.
constexpr double LARGEST_MEAN_ON_LANES = 0x1p36;

struct Firings {
    Real number;
};

DEVICE Real number_of(const Firings &firings) {
    return firings.number;
}

struct FiringsOfChannels {
    const Real *number;
    DEVICE_MEMBER Firings operator[](int channel) const { return {number[channel]}; }
};

// Propensities of channels.
struct CellsOnLanes {
    Real *cell;
    DEVICE_MEMBER Real &operator[](int channel) const { return cell[channel]; }
};

// Where a count fell below 0 or passed its limit: these lanes leap again, alone.
template <>
struct OutcomeFor<Real> {
    typedef Mask type;
};

DEVICE void add(Real &count, const Real &change, Mask &outcome) {
    count += change;
    outcome |= (count < 0.0) | (count > 2147483647.0);
}
