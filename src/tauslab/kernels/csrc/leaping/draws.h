// The Poisson numbers of a leap: channels with large means draw for themselves, the others together.
#pragma once

#include "leaping/leaps.h"
#include "model.h"
#include "random/poisson.h"
#include "device/prelude.h"

constexpr bool GROUPED = N_CHANNELS > FEW_CHANNELS;
constexpr u32 GROUP = N_CHANNELS, PLACES = N_CHANNELS + 1;  // addresses of the group's draws
constexpr int WORDS = (N_CHANNELS + 63) / 64;

// Channels that draw for themselves, a bit for each, and those with a mean of 24 or more among them.
struct Drawn {
    u64 alone[WORDS], large[WORDS];
};

// Turns propensities into means. `drawn` gets the channels that draw for themselves. Returns the sum of the
// other means.
template <class Cells>
DEVICE double split_means(const Cells &cells, double tau, Drawn &drawn) {
    double small = 0;
    for (int word = 0; word < WORDS; ++word) drawn.alone[word] = drawn.large[word] = 0;
    UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j) {
        const double mean = cells[j] * tau;
        const bool alone = GROUPED ? mean >= SMALL_MEAN : mean > 0;
        const bool large = (i32)high_word(mean) >= (i32)high_word(POISSON_REJECTION_MEAN);
        drawn.alone[j / 64] |= (u64)alone << j % 64;
        drawn.large[j / 64] |= (u64)large << j % 64;
        cells[j] = alone || !GROUPED ? mean : small_cell(mean);
        if (GROUPED && !alone) small += cells[j];
    }
    return small;
}

// Turns means into numbers of firings; false if a mean is beyond what can be drawn. First the large ones, then the
// others: lanes that draw by different methods would wait for each other.
template <class Cells>
DEVICE bool draw_firings(const Cells &cells, const PhiloxSeries &series, const PhiloxKeys &keys,
                         const Drawn &drawn) {
    bool possible = true;
    for (int word = 0; word < WORDS; ++word) {
        u64 left = drawn.large[word];
        u32 attempt = 0;
        while (left) {  // a lane goes on when its own attempt succeeds
            const int j = word * 64 + lowest_bit(left);
            const double mean = cells[j];
            const Philox4 bits = LeapBits{series, keys, (u32)j}(attempt);
            i64 number = 0;
            bool found = true;
            if (mean > POISSON_LARGEST_MEAN)
                possible = false;
            else
                found = poisson_above(mean, bits, attempt, number);
            ++attempt;
            if (found) cells[j] = cell_of(number), left &= left - 1, attempt = 0;
        }
    }
    for (int word = 0; word < WORDS; ++word) {
        u64 left = drawn.alone[word] & ~drawn.large[word];
        for (; left; left &= left - 1) {
            const int j = word * 64 + lowest_bit(left);
            cells[j] = cell_of(poisson_below(cells[j], LeapBits{series, keys, (u32)j}(0)));
        }
    }
    return possible;
}

// Turns the other means into numbers of firings; `small` is their sum. False if it is too large.
template <class Cells>
DEVICE bool draw_group(const Cells &cells, const PhiloxSeries &series, const PhiloxKeys &keys,
                       double small, const Drawn &drawn) {
    i64 number = small > 0 ? poisson(small, LeapBits{series, keys, GROUP}) : 0;
    if (number > MOST_PICKS) return false;
    const LeapBits bits = {series, keys, PLACES};
    for (u32 pair = 0; number > 0; number -= PICKS) {
        double targets[PICKS];  // below the sum, or never reached
        UNROLL for (int i = 0; i < PICKS; i += 2, ++pair) {
            const Philox4 words = bits(pair);
            const double first = unit_half_open(words.x0, words.x1) * small;
            const double second = unit_half_open(words.x2, words.x3) * small;
            targets[i] = i < number ? first : -1.0;
            targets[i + 1] = i + 1 < number ? second : -1.0;
        }
        double sum = 0;
        int above = number < PICKS ? (int)number : PICKS;
        for (int j = 0; above > 0; ++j) {
            if (drawn.alone[j / 64] >> j % 64 & 1) continue;
            const u64 cell = as_bits(cells[j]);
            sum += small_cell(cells[j]);
            int still = 0;
            UNROLL for (int i = 0; i < PICKS; ++i) still += sum <= targets[i];
            if (still < above) cells[j] = from_bits(cell + (u64)(above - still));
            above = still;
        }
    }
    UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j)
        if (!(drawn.alone[j / 64] >> j % 64 & 1))
            cells[j] = from_bits(as_bits(cells[j]) & FIRINGS_OF_SMALL);
    return true;
}

// Draws and applies the firings of half of a leap, with the propensities in `cells`. `extra`, if not
// negative, is a channel that fires once more. Returns the outcome of `apply_firings`, and adds to `fired`.
template <class Count, class Cells>
DEVICE int fire_half(Count *x, const Cells &cells, double time, int extra,
                     const PhiloxSeries &series, const PhiloxKeys &keys, u64 &fired) {
    Drawn drawn;
    const double small = split_means(cells, time, drawn);
    bool possible = !GROUPED || draw_group(cells, series, keys, small, drawn);
    possible &= draw_firings(cells, series, keys, drawn);
    if (extra >= 0) cells[extra] = cell_of(number_of(cells[extra]) + 1);
    UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j) fired += (u64)number_of(cells[j]);
    return apply_firings(x, cells) | (possible ? FITS : TOO_LARGE);
}
