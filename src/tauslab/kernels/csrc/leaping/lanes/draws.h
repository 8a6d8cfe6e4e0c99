// The Poisson numbers of half of a leap on SIMD lanes: the same as those of leaping/draws.h.
//
// A channel's numbers are drawn on all lanes together where most lanes draw by the same method. Others, and attempts
// that failed, are put in lists, from which vectors are filled.
#pragma once

#include "leaping/lanes/firings.h"
#include "leaping/draws.h"
#include "simd/poisson.h"

constexpr int NUMBERS = N_CHANNELS + (GROUPED ? 1 : 0);  // the last is that of the group
constexpr int MANY_LANES = (SIMD_LANES + 1) / 2;         // from here on all lanes draw together

// What half of a leap draws.
struct HalfLeap {
    SeriesOnLanes series;
    Real mean[NUMBERS], number[NUMBERS];
};

// Attempts at single numbers.
struct Attempts {
    struct Attempt {
        u32 channel, lane, attempt;
    };
    Attempt listed[NUMBERS * SIMD_LANES];
    int count = 0;

    DEVICE_MEMBER void add(u32 channel, u32 lanes, u32 attempt) {
        for (; lanes; lanes &= lanes - 1)
            listed[count++] = {channel, (u32)lowest_bit(lanes), attempt};
    }
};

// How trajectories of a thread draw.
struct Drawing {
    KeysOnLanes keys;
    LogColumns log_table;

    template <int COUNT>
    DEVICE_MEMBER void draw(const SeriesOnLanes &series, u32 first, DrawsOnLanes *draws) const {
        const auto same = [&](int) -> const SeriesOnLanes & { return series; };
        const auto next = [&](int i) { return on_lanes((u64)first + (u64)i); };
        draw_together<COUNT>(same, next, keys, draws);
    }
};

// Makes attempts of the list's end, as many as there are lanes; those that fail are put back with the next number.
template <bool REJECTION>
DEVICE_SELDOM void make_attempts(const Drawing &with, HalfLeap &half, Attempts &attempts) {
    while (attempts.count > 0) {
        const int size = attempts.count < SIMD_LANES ? attempts.count : SIMD_LANES;
        const Attempts::Attempt *const listed = attempts.listed + (attempts.count - size);
        Attempts::Attempt made[SIMD_LANES];
        SeriesOnLanes series = {};
        Real mean = {};
        Words number = {};
        for (int i = 0; i < size; ++i) {
            const auto [channel, lane, attempt] = made[i] = listed[i];
            at<double>(mean, i) = at<double>(half.mean[channel], (int)lane);
            at<u64>(number, i) = channel * POISSON_ATTEMPTS + attempt;
            at<u64>(series.x2, i) = at<u64>(half.series.x2, (int)lane);
            at<u64>(series.x0, i) = at<u64>(half.series.x0, (int)lane);
            at<u64>(series.x2_next, i) = at<u64>(half.series.x2_next, (int)lane);
            at<u64>(series.x3_next, i) = at<u64>(half.series.x3_next, (int)lane);
        }
        attempts.count -= size;
        const u32 wanted = (1u << size) - 1;
        DrawsOnLanes draw;
        draw_together<1>([&](int) -> const SeriesOnLanes & { return series; },
                         [&](int) { return number; }, with.keys, &draw);
        Real result;
        u32 found = wanted;
        if constexpr (REJECTION)
            poisson_rejection<1>(with.log_table, &mean, &draw, &wanted, &result, &found);
        else
            poisson_inversion<1>(&mean, &draw.waiting, &wanted, &result);
        for (int i = 0; i < size; ++i) {
            const auto [channel, lane, attempt] = made[i];
            double &cell = at<double>(half.number[channel], (int)lane);
            if (found >> i & 1)
                cell = at<double>(result, i);
            else if (attempt == POISSON_ATTEMPTS - 1)
                cell = (double)(i64)at<double>(mean, i);
            else
                attempts.add(channel, 1u << lane, attempt + 1);
        }
    }
}

// Channels that many lanes draw by the same method.
struct Together {
    u32 channel[NUMBERS + 1], lanes[NUMBERS + 1];
    int count = 0;

    DEVICE_MEMBER void add(u32 number, u32 here) {
        channel[count] = number, lanes[count] = here, ++count;
    }
};

// Draws channels together, two at a time.
template <bool REJECTION>
DEVICE void draw_pairs(const Drawing &with, HalfLeap &half, Together &channels) {
    if (channels.count % 2) channels.add(channels.channel[channels.count - 1], 0);
    NO_UNROLL for (int i = 0; i < channels.count; i += 2) {
        const u32 *const channel = channels.channel + i;
        u32 *const lanes = channels.lanes + i, found[2] = {lanes[0], lanes[1]};
        const Real means[2] = {half.mean[channel[0]], half.mean[channel[1]]};
        DrawsOnLanes draws[2];
        const auto same = [&](int) -> const SeriesOnLanes & { return half.series; };
        const auto first = [&](int k) { return on_lanes((u64)(channel[k] * POISSON_ATTEMPTS)); };
        draw_together<2>(same, first, with.keys, draws);
        Real numbers[2];
        if constexpr (REJECTION) {
            poisson_rejection<2>(with.log_table, means, draws, lanes, numbers, found);
        } else {
            const Real units[2] = {draws[0].waiting, draws[1].waiting};
            poisson_inversion<2>(means, units, lanes, numbers);
        }
        UNROLL for (int k = 0; k < 2; ++k) {
            half.number[channel[k]] = lanes_of(found[k]) ? numbers[k] : half.number[channel[k]];
            lanes[k] ^= found[k];  // those left have another attempt
        }
    }
}

// Numbers with the means of `half`, on the lanes with bits in `drawn`.
DEVICE void draw_numbers(const Drawing &with, HalfLeap &half, const u32 *drawn) {
    Attempts by_inversion, by_rejection;
    Together small, large;
    NO_UNROLL for (u32 j = 0; j < (u32)NUMBERS; ++j) {
        half.number[j] = Real{};
        if (!drawn[j]) continue;
        const u32 by_law = bits_of(half.mean[j] >= POISSON_REJECTION_MEAN) & drawn[j];
        const u32 by_sum = drawn[j] ^ by_law;
        if (popc(by_law) >= MANY_LANES)
            large.add(j, by_law);
        else
            by_rejection.add(j, by_law, 0);
        if (popc(by_sum) >= MANY_LANES)
            small.add(j, by_sum);
        else
            by_inversion.add(j, by_sum, 0);
    }
    draw_pairs<true>(with, half, large);
    draw_pairs<false>(with, half, small);
    for (int i = 0; i < large.count; ++i) by_rejection.add(large.channel[i], large.lanes[i], 1);
    if (by_inversion.count) make_attempts<false>(with, half, by_inversion);
    if (by_rejection.count) make_attempts<true>(with, half, by_rejection);
}

// Channels of the group's firings, whose number and sum of means are those of `half`; `means` are 0 for channels
// that draw for themselves.
DEVICE void choose_channels(const Drawing &with, HalfLeap &half, const Real *means) {
    Real left = half.number[NUMBERS - 1];
    const Real all = half.mean[NUMBERS - 1];
    for (u32 pair = 0; bits_of(left > 0.0); pair += PICKS / 2, left -= (double)PICKS) {
        DrawsOnLanes draws[PICKS / 2];
        with.draw<PICKS / 2>(half.series, PLACES * POISSON_ATTEMPTS + pair, draws);
        Real targets[PICKS];  // below the sum, or never reached
        UNROLL for (int i = 0; i < PICKS; i += 2) {
            targets[i] = left > (double)i ? (draws[i / 2].waiting - 1.0) * all : on_lanes(-1.0);
            targets[i + 1] = left > i + 1.0 ? (draws[i / 2].unit - 1.0) * all : on_lanes(-1.0);
        }
        const Real most = on_lanes((double)PICKS);
        Real sum = {}, above = left > 0.0 ? left < most ? left : most : Real{};
        for (int j = 0; bits_of(above > 0.0) && j < N_CHANNELS; ++j) {
            sum += means[j];
            Real still = {};
            UNROLL for (int i = 0; i < PICKS; ++i) still = sum <= targets[i] ? still + 1.0 : still;
            half.number[j] += above - still;
            above = still;
        }
    }
}

// Draws the firings of half of a leap of the lanes `here`, with the propensities in `cells`, into `half.number`.
// Returns the lanes whose numbers are not too large for this.
DEVICE u32 draw_half(const Drawing &with, HalfLeap &half, const Real *cells, Real time, u32 here) {
    u32 drawn[NUMBERS];
    Real means[N_CHANNELS], small = {};
    Mask fits = lanes_of(here);
    UNROLL for (int j = 0; j < N_CHANNELS; ++j) {
        const Real mean = cells[j] * time;
        const Mask alone = GROUPED ? mean >= SMALL_MEAN : mean > 0.0;
        half.mean[j] = mean;
        drawn[j] = bits_of(alone);
        fits &= mean <= LARGEST_MEAN_ON_LANES;
        if constexpr (GROUPED) {
            means[j] = alone ? Real{} : from_bits(as_bits(mean) & ~FIRINGS_OF_SMALL);
            small += means[j];
        }
    }
    here = bits_of(fits);
    if constexpr (GROUPED) {
        half.mean[N_CHANNELS] = small;
        drawn[N_CHANNELS] = bits_of(small > 0.0);
    }
    UNROLL for (int j = 0; j < NUMBERS; ++j) drawn[j] &= here;
    draw_numbers(with, half, drawn);
    if constexpr (GROUPED) {
        here &= bits_of(half.number[N_CHANNELS] <= (double)MOST_PICKS);
        half.number[N_CHANNELS] = lanes_of(here) ? half.number[N_CHANNELS] : Real{};
        choose_channels(with, half, means);
    }
    return here;
}
