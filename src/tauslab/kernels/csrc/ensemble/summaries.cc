// Numbers that summarise a trajectory, from the sample buffer of a launch: one work item is one
// trajectory, whose samples it reads in order of time, so that no sum can change its shape.
//
// A quantity is a column of counts [rows, n_times, n_columns], or of real values where `counts` is
// null. A sample that was not taken (a negative count) or is not finite makes a summary NaN,
// unless the answer was found before it. Definitions and sources: docs/summaries.md.
#include "math/basic.h"
#include "device/prelude.h"

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

DEVICE Trace trace_of(const i32 *counts, const double *reals, i64 row, i64 n_times, i64 n_columns,
                      i64 column) {
    const i64 first = row * n_times * n_columns + column;
    return {counts ? counts + first : nullptr, counts ? nullptr : reals + first, n_columns};
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
KERNEL(oscillation, const i32 *counts, const double *reals, i64 rows, i64 n_times, i64 n_columns,
       i64 column, i64 begin, i64 end, double spacing, i64 what, double *out) {
    for (i64 row = GLOBAL_ID; row < rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(counts, reals, row, n_times, n_columns, column);
        const double mean = mean_of(y, begin, end);
        double square = 0;
        for (i64 k = begin; k < end; ++k) square = FMA(y[k] - mean, y[k] - mean, square);
        const double variance = square / (double)(end - begin);
        if (!(variance >= 0)) {
            out[row] = tl_nan();
            continue;
        }
        Peak peak = {0, 0};
        if (variance > 0) peak = first_peak(y, begin, end, mean, variance);
        const bool found = peak.height >= LEAST_PEAK;
        if (what == PERIOD)
            out[row] = found ? peak.lag * spacing : tl_nan();
        else
            out[row] = found ? 0.5 * mean_swing(y, begin, end, SQRT(variance)) : 0;
    }
}

// Time of the first sample at or above `level` (direction 1), at or below it (-1), or on the other
// side of it than the first sample (0).
KERNEL(first_passage, const i32 *counts, const double *reals, i64 rows, i64 n_times, i64 n_columns,
       i64 column, const double *times, double level, i64 direction, double *out) {
    for (i64 row = GLOBAL_ID; row < rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(counts, reals, row, n_times, n_columns, column);
        const bool up = direction > 0 || (direction == 0 && y[0] < level);
        double passed = tl_nan();
        for (i64 k = 0; k < n_times; ++k) {
            const double v = y[k];
            if (is_nan(v)) break;
            if (up ? v >= level : v <= level) {
                passed = times[k];
                break;
            }
        }
        out[row] = passed;
    }
}

// Time of the first sample from which on all are 0.
KERNEL(extinction, const i32 *counts, const double *reals, i64 rows, i64 n_times, i64 n_columns,
       i64 column, const double *times, double *out) {
    for (i64 row = GLOBAL_ID; row < rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(counts, reals, row, n_times, n_columns, column);
        i64 k = n_times;
        while (k > 0 && y[k - 1] == 0) --k;
        out[row] = k < n_times ? times[k] : tl_nan();
    }
}

// Time above `level` from sample `begin` to sample `end` - 1; a state holds until the next sample.
KERNEL(time_above, const i32 *counts, const double *reals, i64 rows, i64 n_times, i64 n_columns,
       i64 column, i64 begin, i64 end, const double *times, double level, double *out) {
    for (i64 row = GLOBAL_ID; row < rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(counts, reals, row, n_times, n_columns, column);
        double sum = 0;
        bool missing = is_nan(y[end - 1]);
        for (i64 k = begin; k + 1 < end; ++k) {
            const double v = y[k];
            missing = missing || is_nan(v);
            if (v > level) sum += times[k + 1] - times[k];
        }
        out[row] = missing ? tl_nan() : sum;
    }
}

enum Statistic { MEAN, MAXIMUM, MINIMUM };

// Computed from samples begin .. end - 1.
KERNEL(statistic, const i32 *counts, const double *reals, i64 rows, i64 n_times, i64 n_columns,
       i64 column, i64 begin, i64 end, i64 what, double *out) {
    for (i64 row = GLOBAL_ID; row < rows; row += GLOBAL_SIZE) {
        const Trace y = trace_of(counts, reals, row, n_times, n_columns, column);
        double value = y[begin];
        if (what == MEAN) value = mean_of(y, begin, end);
        for (i64 k = begin + 1; what != MEAN && k < end; ++k)
            value = what == MAXIMUM ? tl_max(value, y[k]) : tl_min(value, y[k]);
        out[row] = canonical(value);
    }
}
