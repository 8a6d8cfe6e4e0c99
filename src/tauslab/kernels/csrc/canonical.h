// The one shape of floating-point reductions: 32 virtual lanes, butterfly sum and Kogge-Stone scan.
// A single thread loops over the lanes; a warp gets the same bits with shuffles.
#pragma once

#include "prelude.h"

constexpr int LANES = 32;

// Array of one thread inside an allocation that all threads share.
template <class T>
struct ThreadArray {
    T *base;
    i64 stride;
    DEVICE_MEMBER T &operator[](i64 i) const { return base[i * stride]; }
};

// Sum of 32 values; `group` reads value `i` of the group.
template <class Group>
DEVICE double butterfly_sum(const Group &group, i64 begin) {
    double lane[LANES / 2];
    UNROLL for (int i = 0; i < 16; ++i) lane[i] = group[begin + i] + group[begin + i + 16];
    UNROLL for (int i = 0; i < 8; ++i) lane[i] = lane[i] + lane[i + 8];
    UNROLL for (int i = 0; i < 4; ++i) lane[i] = lane[i] + lane[i + 4];
    UNROLL for (int i = 0; i < 2; ++i) lane[i] = lane[i] + lane[i + 2];
    return lane[0] + lane[1];
}

template <int DISTANCE>
DEVICE void scan_step(double *prefix) {
    UNROLL for (int i = LANES - 1; i >= DISTANCE; --i) prefix[i] += prefix[i - DISTANCE];
}

// First of 32 values whose inclusive prefix sum exceeds `target`; then `target` is what is left for
// that value. If rounding leaves none, the last value that is not zero.
template <class Group>
DEVICE int first_above(const Group &group, i64 begin, double &target) {
    double prefix[LANES];
    UNROLL for (int i = 0; i < LANES; ++i) prefix[i] = group[begin + i];
    scan_step<1>(prefix);
    scan_step<2>(prefix);
    scan_step<4>(prefix);
    scan_step<8>(prefix);
    scan_step<16>(prefix);
    int chosen = 0;
    bool found = false;
    double before = 0;
    UNROLL for (int i = 0; i < LANES; ++i) {
        const bool here = !found && prefix[i] > target;
        if (here || (!found && group[begin + i] > 0)) {
            chosen = i;
            before = i > 0 ? prefix[i - 1] : 0.0;
        }
        found = found || here;
    }
    target = target > before ? target - before : 0.0;
    return chosen;
}
