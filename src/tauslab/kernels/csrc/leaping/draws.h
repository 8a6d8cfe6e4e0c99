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
    u32 left = channels.word[0], following = WORDS > 1 ? channels.word[WORDS > 1] : 0;
    int word = 0;

    DEVICE_MEMBER explicit Taken(const Channels &all) : channels(all) { go_on(); }
    DEVICE_MEMBER bool some() const { return left != 0; }
    DEVICE_MEMBER int channel() const { return word * 32 + highest(); }
    DEVICE_MEMBER void next(u32 taken) {
        left ^= taken << highest();
        go_on();
    }

  private:
    DEVICE_MEMBER int highest() const { return 31 - leading_zeros(left); }
    DEVICE_MEMBER void go_on() {
        if constexpr (WORDS == 2) {  // in registers
            const bool over = left == 0;
            left = over ? following : left;
            following = over ? 0 : following;
            word = over ? 1 : word;
        } else if constexpr (WORDS > 2) {
            while (left == 0 && word < WORDS - 1) left = channels.word[++word];
        }
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

constexpr i64 IMPOSSIBLE = -3;  // in place of a number: the mean is beyond what can be drawn

// What estimates leave open of an attempt with a mean of 24 or more, and the number after the last: the number,
// FAILED or IMPOSSIBLE.
DEVICE_SELDOM i64 large_apart(double mean, Philox4 bits, u32 attempt) {
    if (mean > POISSON_LARGEST_MEAN) return IMPOSSIBLE;
    i64 number;
    if (poisson_rejection(mean, bits, number)) return number;
    return attempt == POISSON_ATTEMPTS - 1 ? (i64)mean : FAILED;
}

// Turns means into numbers of firings; false if a mean is beyond what can be drawn. First the large ones, then the
// others: lanes that draw by different methods would wait for each other.
template <class Cells>
DEVICE bool draw_firings(const Cells &cells, const PhiloxSeries &series, const PhiloxKeys &keys,
                         const Drawn &drawn) {
    u32 possible = 1, attempt = 0;
    for (Taken large(drawn.large); large.some();) {  // a lane goes on when its own attempt succeeds
        const int j = large.channel();
        const Philox4 bits = LeapBits{series, keys, (u32)j}(attempt);
        const int estimate = ESTIMATES_FIRST ? estimated_rejection(cells[j], bits) : OPEN;
        u32 found = estimate >= 0;
        if (found) {
            cells[j] = cell_of((i64)(u32)estimate);
        } else if (!LIKELY((estimate != OPEN) & (attempt != POISSON_ATTEMPTS - 1))) {
            const i64 number = large_apart(cells[j], bits, attempt);
            found = number != FAILED;
            possible &= number != IMPOSSIBLE;
            if (found) cells[j] = cell_of(number > 0 ? number : 0);
        }
        attempt = found ? 0 : attempt + 1;
        large.next(found);
    }
    for (Taken small(drawn.small); small.some(); small.next(1)) {
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
