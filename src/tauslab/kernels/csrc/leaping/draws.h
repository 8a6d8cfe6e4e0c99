// The Poisson numbers of a leap: channels with large means draw for themselves, the others together.
#pragma once

#include "leaping/leaps.h"
#include "model.h"
#include "random/poisson.h"

constexpr bool GROUPED = N_CHANNELS > FEW_CHANNELS;
constexpr u32 GROUP = N_CHANNELS, PLACES = N_CHANNELS + 1;  // addresses of the group's draws
constexpr int WORDS = (N_CHANNELS + 31) / 32;

// A set of channels, a bit for each.
struct Channels {
    u32 word[WORDS];
};

// Channels of word number `word` of a set, 32 but in the last.
DEVICE constexpr int channels_of(int word) {
    return N_CHANNELS - 32 * word < 32 ? N_CHANNELS - 32 * word : 32;
}

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

    // Those of a word that do not.
    DEVICE_MEMBER u32 others(int word) const {
        return ~(large.word[word] | small.word[word]) & 0xffffffffu >> (32 - channels_of(word));
    }
};

// Turns propensities into means. `drawn` gets the channels that draw for themselves. Returns the sum of the
// other means.
template <class Cells>
DEVICE double split_means(const Cells &cells, double tau, Drawn &drawn) {
    double rest = 0;
    UNROLL for (int word = 0; word < WORDS; ++word) {
        u32 alone = 0, large = 0;
        UNROLL_SOME for (int i = 0; i < channels_of(word); ++i) {
            double &cell = cells[word * 32 + i];
            const double mean = cell * tau;
            const bool is_alone = GROUPED ? mean >= SMALL_MEAN : mean > 0;
            const bool is_large = (i32)high_word(mean) >= (i32)high_word(POISSON_REJECTION_MEAN);
            alone |= (u32)is_alone << i, large |= (u32)is_large << i;
            cell = is_alone || !GROUPED ? mean : small_cell(mean);
            if (GROUPED && !is_alone) rest += cell;
        }
        drawn.large.word[word] = large, drawn.small.word[word] = alone & ~large;
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

// Turns means into numbers of firings, and adds them to `fired`; false if a mean is beyond what can be drawn. First the
// large ones, then the others: lanes that draw by different methods would wait for each other.
template <class Cells>
DEVICE bool draw_firings(const Cells &cells, const PhiloxSeries &series, const PhiloxKeys &keys,
                         const Drawn &drawn, u64 &fired) {
    u32 possible = 1, attempt = 0;
    for (Taken large(drawn.large); large.some();) {  // a lane goes on when its own attempt succeeds
        const int j = large.channel();
        const Philox4 bits = LeapBits{series, keys, (u32)j}(attempt);
        const int estimate = ESTIMATES_FIRST ? estimated_rejection(cells[j], bits) : OPEN;
        u32 found = estimate >= 0;
        if (found) {
            cells[j] = cell_of((i64)(u32)estimate);
            fired += (u32)estimate;
        } else if (!LIKELY((estimate != OPEN) & (attempt != POISSON_ATTEMPTS - 1))) {
            const i64 number = large_apart(cells[j], bits, attempt);
            found = number != FAILED;
            possible &= number != IMPOSSIBLE;
            const i64 firings = number > 0 ? number : 0;
            if (found) cells[j] = cell_of(firings);
            fired += (u64)firings;
        }
        attempt = found ? 0 : attempt + 1;
        large.next(found);
    }
    for (Taken small(drawn.small); small.some(); small.next(1)) {
        const int j = small.channel();
        const i64 number = poisson_below(cells[j], LeapBits{series, keys, (u32)j}(0));
        cells[j] = cell_of(number);
        fired += (u64)number;
    }
    return possible;
}

// Adds firings to the cells of other channels, `above` of them, PICKS at most: each to the channel in whose part of
// the sum of means its target lies.
template <class Cells>
DEVICE void pick_channels(const Cells &cells, const Drawn &drawn, const double *targets, int above) {
    double sum = 0;
    for (int word = 0; above > 0; ++word) {
        for (u32 left = drawn.others(word); left && above > 0; left &= left - 1) {
            double &cell = cells[word * 32 + lowest_bit(left)];
            sum += small_cell(cell);
            int still = 0;
            UNROLL for (int i = 0; i < PICKS; ++i) still += sum <= targets[i];
            if (still < above) cell = from_bits(as_bits(cell) + (u64)(above - still));
            above = still;
        }
    }
}

// Turns the other means into numbers of firings, and adds them to `fired`; `small` is their sum. False if there are too
// many.
template <class Cells>
DEVICE bool draw_group(const Cells &cells, const PhiloxSeries &series, const PhiloxKeys &keys,
                       double small, const Drawn &drawn, u64 &fired) {
    u32 others = 0;
    for (int word = 0; word < WORDS; ++word) others |= drawn.others(word);
    if (!others) return true;
    i64 number = small > 0 ? poisson(small, LeapBits{series, keys, GROUP}) : 0;
    if (number > MOST_PICKS) return false;
    fired += (u64)number;
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
        pick_channels(cells, drawn, targets, number < PICKS ? (int)number : PICKS);
    }
    UNROLL for (int word = 0; word < WORDS; ++word) {
        const u32 here = drawn.others(word);
        UNROLL_SOME for (int i = 0; i < channels_of(word); ++i) {
            double &cell = cells[word * 32 + i];
            if (here >> i & 1) cell = from_bits(as_bits(cell) & FIRINGS_OF_SMALL);
        }
    }
    return true;
}

// Draws and applies the firings of half of a leap, with the propensities in `cells`. `extra`, if not
// negative, is a channel that fires once more. Returns the outcome of `apply_firings`, and adds to `fired`.
template <class Count, class Cells>
DEVICE int fire_half(Count *x, const Cells &cells, double time, int extra,
                     const PhiloxSeries &series, const PhiloxKeys &keys, u64 &fired) {
    Drawn drawn;
    const double small = split_means(cells, time, drawn);
    bool possible = !GROUPED || draw_group(cells, series, keys, small, drawn, fired);
    possible &= draw_firings(cells, series, keys, drawn, fired);
    if (extra >= 0) {
        cells[extra] = cell_of(number_of(cells[extra]) + 1);
        ++fired;
    }
    return apply_firings(x, cells) | (possible ? FITS : TOO_LARGE);
}
