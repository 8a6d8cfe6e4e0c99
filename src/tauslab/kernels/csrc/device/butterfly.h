// The one shape of floating-point reductions: 32 virtual lanes, added as a butterfly. Here a single
// thread loops over the lanes; team/team.h gets the same bits from a warp with shuffles.
//
// Lanes from `WIDTH` on, a power of two, are zero: x + 0 is x, so their part of the butterfly can
// be left out without changing a bit. `Value` gives the number of a lane by call, and where the
// prelude has `Octet`, eight numbers at a time, those of 8 lanes from `lane` on, by `octet(lane)`.
#pragma once

#include "device/prelude.h"

constexpr int LANES = 32;

// Partial sums of a butterfly: the total is `at[1]`, and the two halves of `at[size + i]` are
// `at[2 * size + i]` and `at[3 * size + i]`. The lanes themselves are not kept.
template <int WIDTH, class Value>
struct Butterfly {
    const Value &value;
    double at[WIDTH];

    DEVICE_MEMBER explicit Butterfly(const Value &lanes) : value(lanes) {
        if constexpr (WIDTH > 1) {
#ifdef HAS_OCTETS
            if constexpr (WIDTH >= 16) {
                Octet sums[WIDTH / 8];
                LANE_LOOP for (int i = 0; i < WIDTH / 8; ++i) sums[i] = value.octet(8 * i);
                fold_octets<WIDTH / 16>(sums);
                fold<4>();
                return;
            }
#endif
            LANE_LOOP for (int i = 0; i < WIDTH / 2; ++i) at[WIDTH / 2 + i] =
                value(i) + value(i + WIDTH / 2);
            fold<WIDTH / 4>();
        }
    }

    DEVICE_MEMBER double total() const { return WIDTH == 1 ? value(0) : at[WIDTH == 1 ? 0 : 1]; }

    // A lane with a positive number, chosen with a probability proportional to it when `target` is
    // uniform from 0 to the total; then `target` is what is left for that lane. Where rounding
    // would leave the target in an empty half, the other half is taken.
    DEVICE_MEMBER int choose(double &target) const {
        int lane = 0;
        UNROLL for (int size = 1; size < WIDTH; size *= 2) {
            const bool last = 2 * size == WIDTH;
            const double left = last ? value(lane) : at[2 * size + lane];
            const double right = last ? value(lane + size) : at[3 * size + lane];
            const bool go_right = (target >= left) & (right > 0);
            target -= go_right ? left : 0.0;
            lane += go_right ? size : 0;
        }
        return lane;
    }

   private:
    template <int SIZE>
    DEVICE_MEMBER void fold() {
        if constexpr (SIZE > 0) {
            LANE_LOOP for (int i = 0; i < SIZE; ++i) at[SIZE + i] =
                at[2 * SIZE + i] + at[3 * SIZE + i];
            fold<SIZE / 2>();
        }
    }

#ifdef HAS_OCTETS
    template <int COUNT>
    DEVICE_MEMBER void fold_octets(Octet *sums) {
        if constexpr (COUNT > 0) {
            LANE_LOOP for (int i = 0; i < COUNT; ++i) {
                sums[i] = sums[i] + sums[i + COUNT];
                store_octet(&at[8 * (COUNT + i)], sums[i]);
            }
            fold_octets<COUNT / 2>(sums);
        }
    }
#endif
};

// The total of a butterfly alone.
template <int WIDTH, class Value>
DEVICE double canonical_sum(const Value &value) {
#ifdef HAS_OCTETS
    if constexpr (WIDTH == 8)
        return octet_total(value.octet(0));
    else if constexpr (WIDTH == 16)
        return octet_total(value.octet(0) + value.octet(8));
    else if constexpr (WIDTH == 32)
        return octet_total((value.octet(0) + value.octet(16)) + (value.octet(8) + value.octet(24)));
    else
#endif
        return Butterfly<WIDTH, Value>(value).total();
}
