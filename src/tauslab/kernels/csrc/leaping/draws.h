// The Poisson numbers of a leap: channels with large means draw for themselves, the others together.
#pragma once

#include "leaping/leaps.h"
#include "model.h"
#include "random/poisson.h"
#include "device/prelude.h"

constexpr bool GROUPED = N_CHANNELS > FEW_CHANNELS;
constexpr u32 GROUP = N_CHANNELS, PLACES = N_CHANNELS + 1;  // addresses of the group's draws
constexpr int WORDS = (N_CHANNELS + 31) / 32;

// A set of channels, a bit for each.
struct Channels {
    u32 word[WORDS];

    DEVICE_MEMBER void add(int channel, bool here) {
        word[channel / 32] |= (u32)here << channel % 32;
    }
    DEVICE_MEMBER bool has(int channel) const { return word[channel / 32] >> channel % 32 & 1; }
};

// Takes the channels of a set one after the other.
struct Taken {
    const Channels &channels;
    u32 left = channels.word[0];
    int word = 0;

    DEVICE_MEMBER explicit Taken(const Channels &all) : channels(all) { go_on(); }
    DEVICE_MEMBER bool some() const { return left != 0; }
    DEVICE_MEMBER int channel() const { return word * 32 + highest(); }
    DEVICE_MEMBER void next() {
        left ^= 1u << highest();
        go_on();
    }

   private:
    DEVICE_MEMBER int highest() const { return 31 - leading_zeros(left); }
    DEVICE_MEMBER void go_on() {
        while (left == 0 && word < WORDS - 1) left = channels.word[++word];
    }
};

// Channels that draw for themselves: with a mean of 24 or more, and others.
struct Drawn {
    Channels large, small;

    DEVICE_MEMBER bool has(int channel) const { return large.has(channel) || small.has(channel); }
};

// Turns propensities into means. `drawn` gets the channels that draw for themselves. Returns the sum of the
// other means.
template <class Cells>
DEVICE double split_means(const Cells &cells, double tau, Drawn &drawn) {
    double rest = 0;
    drawn = {};
    UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j) {
        const double mean = cells[j] * tau;
        const bool alone = GROUPED ? mean >= SMALL_MEAN : mean > 0;
        const bool large = (i32)high_word(mean) >= (i32)high_word(POISSON_REJECTION_MEAN);
        drawn.large.add(j, large);
        drawn.small.add(j, alone && !large);
        cells[j] = alone || !GROUPED ? mean : small_cell(mean);
        if (GROUPED && !alone) rest += cells[j];
    }
    return rest;
}

// Turns means into numbers of firings; false if a mean is beyond what can be drawn. First the large ones, then the
// others: lanes that draw by different methods would wait for each other.
template <class Cells>
DEVICE bool draw_firings(const Cells &cells, const PhiloxSeries &series, const PhiloxKeys &keys,
                         const Drawn &drawn) {
    bool possible = true;
    u32 attempt = 0;
    for (Taken large(drawn.large); large.some();) {  // a lane goes on when its own attempt succeeds
        const int j = large.channel();
        const double mean = cells[j];
        i64 number = poisson_above(mean, LeapBits{series, keys, (u32)j}(attempt));
        if (number == FAILED && ++attempt == POISSON_ATTEMPTS) number = (i64)mean;
        if (number == FAILED) continue;
        if (!LIKELY(mean <= POISSON_LARGEST_MEAN)) possible = false, number = 0;
        cells[j] = cell_of(number);
        attempt = 0;
        large.next();
    }
    for (Taken small(drawn.small); small.some(); small.next()) {
        const int j = small.channel();
        cells[j] = cell_of(poisson_below(cells[j], LeapBits{series, keys, (u32)j}(0)));
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
            if (drawn.has(j)) continue;
            const u64 cell = as_bits(cells[j]);
            sum += small_cell(cells[j]);
            int still = 0;
            UNROLL for (int i = 0; i < PICKS; ++i) still += sum <= targets[i];
            if (still < above) cells[j] = from_bits(cell + (u64)(above - still));
            above = still;
        }
    }
    UNROLL_SOME for (int j = 0; j < N_CHANNELS; ++j)
        if (!drawn.has(j))
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
