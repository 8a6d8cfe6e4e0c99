// What is known of firings to come (Anderson 2008). Over its own internal time, the integral of its
// propensity, a channel fires as a Poisson process of unit rate that depends on nothing else. A leap
// that is rejected has shown how many firings lie in a stretch of it: that stays true, so it is kept
// as segments (length, number), of which later leaps take the first part. Firings lie in a segment
// uniformly and independently: a part of it holds a binomial number.
#pragma once

#include "random/binomial.h"
#include "leaping/leaps.h"
#include "model.h"
#include "device/prelude.h"

// Segments of a channel at most, and how many a rejection may add: both halves of the leap, or the way
// to a critical event and that event. A leap whose rejection could not be kept is not tried.
constexpr int SEGMENTS = 8, SEGMENTS_ADDED = 2;

// A number for each channel, in a lane's memory.
struct Row {
    double *cell;
    DEVICE_MEMBER double &operator[](int channel) const { return cell[channel * THREAD_STRIDE]; }
};

// The next firing of a channel, in internal time from now: `inner` of it in the first segment that
// has firings, or beyond all segments.
struct Firing {
    double internal, inner;
};

// A lane's memory: rows of propensities, of firings that are known, of numbers of segments, of
// propensities for the second half of a leap and of firings in the first; then the lengths and numbers
// of segments, the nearest last. Of channels with a negative propensity the next firing is waited for.
struct Ahead {
    static constexpr i64 LENGTH = (5 + 2 * SEGMENTS) * (i64)N_CHANNELS;
    double *memory;
    int channels = 0;  // that have segments

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

    // Whether one more rejection could be kept.
    DEVICE_MEMBER bool has_room() const {
        i64 most = 0;
        for (int j = 0; j < N_CHANNELS && channels > 0; ++j)
            most = segments(j) > most ? segments(j) : most;
        return most + SEGMENTS_ADDED <= SEGMENTS;
    }

    // Puts a segment before all others; empty ones that follow each other are one.
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

    // Takes the stretch `extent` from the segments and returns its number of firings. What reaches
    // beyond the segments is left in `extent`.
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

    // As `take`, for a stretch that is known to have no firings.
    DEVICE_MEMBER void pass(int j, double extent) {
        i64 size = segments(j);
        for (; size > 0 && length(j, size - 1) <= extent; --size) {
            if (number_of(number(j, size - 1)) > 0) break;
            extent -= length(j, size - 1);
        }
        resize(j, size);
        if (size > 0) length(j, size - 1) = larger(length(j, size - 1) - extent, 0.0);
    }

    // The first of the firings to come, of a channel with segments; u in (0, 1] is its random number.
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

    // Takes all up to the firing that `next` found.
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
