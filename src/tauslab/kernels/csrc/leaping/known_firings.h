// Known firings: what rejected leaps have shown of the future (Anderson, J. Chem. Phys. 128, 054103, 2008).
//
//     paper              here
//     T_k                internal time of a channel: the integral of its propensity
//     Y_k                its unit-rate Poisson process over internal time
//     list of (T, C)     segments (length, number of firings), the differences of the paper's pairs
//     a_k * tau          `extent`, the stretch of internal time that a leap takes
//
// Over its internal time a channel fires as a Poisson process of unit rate, which depends on nothing
// else. A rejected leap has shown how many firings lie in a stretch of internal time. This stays true,
// so the stretch is kept as a segment, and later leaps take its first part. The firings of a segment
// are uniform and independent, so a part of it has a binomial number of them.
#pragma once

#include "random/binomial.h"
#include "leaping/leaps.h"
#include "model.h"

// The most segments of a channel, and how many a rejection may add: one for each half of the leap, or
// one up to a critical firing and one for that firing. A leap whose rejection could not be kept is not
// tried.
constexpr int SEGMENTS = 8, SEGMENTS_ADDED = 2;

// A number for each channel, in a lane's memory.
struct Row {
    double *cell;
    DEVICE_MEMBER double &operator[](int channel) const { return cell[channel * THREAD_STRIDE]; }
};

// The next firing of a channel. `internal` is the internal time from now. `inner` is the part of it that
// lies in the first segment with firings, or behind all segments.
struct Firing {
    double internal, inner;
};

// The memory of a lane, in rows with an element for each channel: propensities, known firings, numbers of
// segments, propensities for the second half of a leap, firings of the first half; then lengths and
// numbers of the segments, the nearest segment last. A channel with a negative propensity waits for its
// next firing.
struct Ahead {
    static constexpr i64 LENGTH = (5 + 2 * SEGMENTS) * (i64)N_CHANNELS;
    double *memory;
    int channels = 0;  // how many channels have segments

    DEVICE_MEMBER Row row(int index) const {
        return {memory + (i64)index * N_CHANNELS * THREAD_STRIDE};
    }
    DEVICE_MEMBER Row propensities() const { return row(0); }
    DEVICE_MEMBER Row known() const { return row(1); }
    DEVICE_MEMBER Row later() const { return row(3); }
    DEVICE_MEMBER Row earlier() const { return row(4); }
    DEVICE_MEMBER i64 segments(int j) const { return number_of(row(2)[j]); }
    DEVICE_MEMBER double &length(int j, i64 i) const { return row(5 + 2 * (int)i)[j]; }
    DEVICE_MEMBER double &number(int j, i64 i) const { return row(6 + 2 * (int)i)[j]; }

    DEVICE_MEMBER void clear() {
        channels = 0;
        for (int j = 0; j < N_CHANNELS; ++j) row(2)[j] = cell_of(0);
    }

    DEVICE_MEMBER void resize(int j, i64 size) {
        channels += (size > 0) - (segments(j) > 0);
        row(2)[j] = cell_of(size);
    }

    // Whether there is room to keep one more rejection.
    DEVICE_MEMBER bool has_room() const {
        i64 most = 0;
        for (int j = 0; j < N_CHANNELS && channels > 0; ++j)
            most = segments(j) > most ? segments(j) : most;
        return most + SEGMENTS_ADDED <= SEGMENTS;
    }

    // Puts a segment in front of all others. Neighbouring segments without firings become one.
    DEVICE_MEMBER void put(int j, double extent, i64 firings_in) {
        const i64 size = segments(j);
        if (size > 0 && firings_in == 0 && number_of(number(j, size - 1)) == 0) {
            length(j, size - 1) += extent;
            return;
        }
        length(j, size) = extent;
        number(j, size) = cell_of(firings_in);
        resize(j, size + 1);
    }

    // Takes the stretch `extent` from the segments, and returns its number of firings. `extent` becomes
    // what lies behind all segments.
    template <class Bits>
    DEVICE_MEMBER i64 take(int j, double &extent, const Bits &bits) {
        i64 size = segments(j), sum = 0;
        for (; size > 0 && length(j, size - 1) <= extent; --size) {
            extent -= length(j, size - 1);
            sum += number_of(number(j, size - 1));
        }
        resize(j, size);
        if (size == 0) return sum;
        const double whole = length(j, size - 1);
        const i64 all = number_of(number(j, size - 1));
        const i64 part = all > 0 ? binomial(all, extent / whole, bits) : 0;
        length(j, size - 1) = whole - extent;
        number(j, size - 1) = cell_of(all - part);
        extent = 0;
        return sum + part;
    }

    // As `take`, for a stretch without firings.
    DEVICE_MEMBER void pass(int j, double extent) {
        i64 size = segments(j);
        for (; size > 0 && length(j, size - 1) <= extent; --size) {
            if (number_of(number(j, size - 1)) > 0) break;
            extent -= length(j, size - 1);
        }
        resize(j, size);
        if (size > 0) length(j, size - 1) = larger(length(j, size - 1) - extent, 0.0);
    }

    // The next firing of a channel with segments; u in (0, 1] is its random number.
    DEVICE_MEMBER Firing next(int j, double u) const {
        double before = 0;
        i64 i = segments(j) - 1;
        for (; i >= 0 && number_of(number(j, i)) == 0; --i) before += length(j, i);
        const double waiting = tl_exponential(u);
        // The least of n uniform numbers is 1 - u^(1/n).
        const double inner =
            i < 0 ? waiting : -length(j, i) * tl_expm1(-waiting / (double)number_of(number(j, i)));
        return {before + inner, inner};
    }

    // Takes everything up to the firing that `next` found, and that firing.
    DEVICE_MEMBER void reach(int j, const Firing &firing) {
        i64 size = segments(j);
        while (size > 0 && number_of(number(j, size - 1)) == 0) --size;
        if (size > 0) {
            const i64 left = number_of(number(j, size - 1)) - 1;
            const double rest = larger(length(j, size - 1) - firing.inner, 0.0);
            length(j, size - 1) = rest;
            number(j, size - 1) = cell_of(left);
            size -= left == 0 && rest == 0;
        }
        resize(j, size);
    }
};
