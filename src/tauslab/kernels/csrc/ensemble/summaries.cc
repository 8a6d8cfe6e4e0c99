// Numbers that summarise a trajectory, from the sample buffer of a launch: one work item is one
// trajectory, whose samples it reads in order of time, so that no sum can change its shape.
//
// A quantity is a column of counts [rows, n_times, n_columns], or of real values where `counts` is
// null. A sample that was not taken (a negative count) or is not finite makes a summary NaN,
// unless the answer was found before it. Definitions and sources: docs/run.md.
#include "math/basic.h"

// What all these kernels are given; each reads what it needs of the last part.
struct SummaryArguments {
    const i32 *counts;    // [rows, n_times, n_columns]; null for real values
    const double *reals;  // the same
    i64 rows, n_times, n_columns;
    i64 column;   // which quantity
    double *out;  // [rows]

    i64 begin, end;       // samples begin .. end - 1 are looked at
    const double *times;  // [n_times]
    double spacing;       // of the samples in time
    double level;         // threshold
    i64 direction;        // of a passage: 1 up, -1 down, 0 away from where it begins
    i64 what;             // an Oscillation or a Statistic
};

struct Trace {
    const i32 *counts;
    const double *reals;
    i64 stride;

    // NaN where there is none; infinite values too.
    DEVICE_MEMBER double operator[](i64 k) const {
        if (counts) {
            const i32 x = counts[k * stride];
            return x < 0 ? tl_nan() : (double)x;
        }
        const double y = reals[k * stride];
        return y - y == 0 ? y : tl_nan();
    }
};

DEVICE Trace trace_of(const SummaryArguments &a, i64 row) {
    const i64 first = row * a.n_times * a.n_columns + a.column;
    return {a.counts ? a.counts + first : nullptr, a.counts ? nullptr : a.reals + first,
            a.n_columns};
}

DEVICE double canonical(double x) {
    return is_nan(x) ? tl_nan() : x;
}

DEVICE double mean_of(const Trace &y, i64 begin, i64 end) {
    double sum = 0;
    for (i64 k = begin; k < end; ++k) sum += y[k];
    return sum / (double)(end - begin);
}

constexpr int LAGS_AT_ONCE = 8;  // their sums stay in registers, and share what they load

// Sums over k of c[k] * c[k + lag + j], for j below LAGS_AT_ONCE, where c = y - mean.
DEVICE void lagged_products(const Trace &y, i64 begin, i64 end, double mean, i64 lag,
                            double *sums) {
    double ahead[LAGS_AT_ONCE];
    UNROLL for (int j = 0; j < LAGS_AT_ONCE; ++j) {
        const i64 k = begin + lag + j - 1;
        sums[j] = 0;
        ahead[j] = k < end ? y[k] - mean : 0;
    }
    for (i64 k = begin; k + lag < end; ++k) {
        const double c = y[k] - mean;
        const i64 next = k + lag + LAGS_AT_ONCE - 1;
        UNROLL for (int j = 0; j + 1 < LAGS_AT_ONCE; ++j) ahead[j] = ahead[j + 1];
        ahead[LAGS_AT_ONCE - 1] = next < end ? y[next] - mean : 0;
        UNROLL for (int j = 0; j < LAGS_AT_ONCE; ++j) sums[j] = FMA(c, ahead[j], sums[j]);
    }
}

constexpr double LEAST_PEAK = 0.3;  // of the autocorrelation function of an oscillation
constexpr double LEAST_TURN = 0.15;  // by which it must leave a turning point, or noise made it

// The first peak of the autocorrelation function, at positive values and after its first negative
// one; the height is 0 if there is none. Lags are in samples.
struct Peak {
    double height, lag;
};

// Takes the function lag by lag, r[0] = 1 aside.
struct PeakSearch {
    bool fallen, rising, ended;
    double low, best, before, after, previous;
    i64 at;

    DEVICE_MEMBER void take(i64 lag, double r) {
        if (at > 0 && lag == at + 1) after = r;
        fallen = fallen || r < 0;
        if (fallen && !rising) {
            if (r < low) low = r;
            rising = r - low >= LEAST_TURN;
        }
        if (rising && r > best) {
            best = r, at = lag, before = previous;
        } else if (rising && best - r >= LEAST_TURN) {
            ended = best > 0;
            rising = false, low = r;
            if (!ended) best = -1, at = 0;
        }
        previous = r;
    }
};

DEVICE Peak first_peak(const Trace &y, i64 begin, i64 end, double mean, double variance) {
    const i64 size = end - begin, last = size / 2;
    PeakSearch search = {false, false, false, 1, -1, 0, 0, 1, 0};
    for (i64 lag = 1; lag <= last && !search.ended; lag += LAGS_AT_ONCE) {
        double sums[LAGS_AT_ONCE];
        lagged_products(y, begin, end, mean, lag, sums);
        UNROLL for (int j = 0; j < LAGS_AT_ONCE; ++j) {
            if (search.ended || lag + j > last) continue;
            search.take(lag + j, sums[j] / (double)(size - lag - j) / variance);
        }
    }
    if (search.at == 0 || search.at == last) return {0, 0};
    // The top of the parabola through the highest value and its neighbours.
    const double best = search.best;
    const double bend = search.before - 2 * best + search.after;
    return {best, (double)search.at + 0.5 * (search.before - search.after) / bend};
}

// Mean distance between a peak and the trough next to it. A turning point counts once the trace
// has moved away from it by `least`; the first, which the start may have cut, does not count.
DEVICE double mean_swing(const Trace &y, i64 begin, i64 end, double least) {
    double low = y[begin], high = low, turned = 0, total = 0;
    i64 found = 0;
    int direction = 0;
    for (i64 k = begin; k < end; ++k) {
        const double v = y[k];
        if (v > high) high = v;
        if (v < low) low = v;
        double turn = 0;
        if (direction >= 0 && high - v >= least) {
            turn = high, low = v, direction = -1;
        } else if (direction <= 0 && v - low >= least) {
            turn = low, high = v, direction = 1;
        } else {
            continue;
        }
        if (found > 1) total += tl_abs(turn - turned);
        turned = turn;
        ++found;
    }
    return found > 2 ? total / (double)(found - 2) : 0;
}

enum Oscillation { AMPLITUDE, PERIOD };

// Samples begin .. end - 1 lie `spacing` apart.
KERNEL(oscillation, const SummaryArguments a) {
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(a, row);
        const double mean = mean_of(y, a.begin, a.end);
        double square = 0;
        for (i64 k = a.begin; k < a.end; ++k) square = FMA(y[k] - mean, y[k] - mean, square);
        const double variance = square / (double)(a.end - a.begin);
        if (!(variance >= 0)) {
            a.out[row] = tl_nan();
            continue;
        }
        Peak peak = {0, 0};
        if (variance > 0) peak = first_peak(y, a.begin, a.end, mean, variance);
        const bool found = peak.height >= LEAST_PEAK;
        if (a.what == PERIOD)
            a.out[row] = found ? peak.lag * a.spacing : tl_nan();
        else
            a.out[row] = found ? 0.5 * mean_swing(y, a.begin, a.end, SQRT(variance)) : 0;
    }
}

// Time of the first sample at or above `level` (direction 1), at or below it (-1), or on the other
// side of it than the first sample (0).
KERNEL(first_passage, const SummaryArguments a) {
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(a, row);
        const bool up = a.direction > 0 || (a.direction == 0 && y[0] < a.level);
        double passed = tl_nan();
        for (i64 k = 0; k < a.n_times; ++k) {
            const double v = y[k];
            if (is_nan(v)) break;
            if (up ? v >= a.level : v <= a.level) {
                passed = a.times[k];
                break;
            }
        }
        a.out[row] = passed;
    }
}

// Time of the first sample from which on all are 0.
KERNEL(extinction, const SummaryArguments a) {
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(a, row);
        i64 k = a.n_times;
        while (k > 0 && y[k - 1] == 0) --k;
        a.out[row] = k < a.n_times ? a.times[k] : tl_nan();
    }
}

// Time above `level` from sample `begin` to sample `end` - 1; a state holds until the next sample.
KERNEL(time_above, const SummaryArguments a) {
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(a, row);
        double sum = 0;
        bool missing = is_nan(y[a.end - 1]);
        for (i64 k = a.begin; k + 1 < a.end; ++k) {
            const double v = y[k];
            missing = missing || is_nan(v);
            if (v > a.level) sum += a.times[k + 1] - a.times[k];
        }
        a.out[row] = missing ? tl_nan() : sum;
    }
}

enum Statistic { MEAN, MAXIMUM, MINIMUM };

// Computed from samples begin .. end - 1.
KERNEL(statistic, const SummaryArguments a) {
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(a, row);
        double value = y[a.begin];
        if (a.what == MEAN) value = mean_of(y, a.begin, a.end);
        for (i64 k = a.begin + 1; a.what != MEAN && k < a.end; ++k)
            value = a.what == MAXIMUM ? tl_max(value, y[k]) : tl_min(value, y[k]);
        a.out[row] = canonical(value);
    }
}
