// Random numbers with the distributions of SBML's package distrib (Level 3 Version 1 Release 1): the
// same bits from every compiler and on every device. A value that a distribution has no meaning for
// (a negative deviation, bounds in the wrong order) gives NaN, which ends the trajectory.
//
// A call of a `draw_` function is one draw of the trajectory's stream, or several where it rejects.
// A draw has 256 blocks of 128 random bits: attempt 0, 1, ... of the function. Bounds of truncated
// laws are inclusive. Standard references: Devroye 1986; those of single methods stand beside them.
//
// The parameters are named as in the specification of the package.
#pragma once

#include "random/binomial.h"

constexpr double TWO_PI = 0x1.921fb54442d18p+2, HALF_PI = 0x1.921fb54442d18p+0;
// A truncated law that is rejected so often has no number left: NaN. The probability is below 1e-40.
constexpr int MOST_REJECTIONS = 1000;

// The draws of one trajectory, and the number of the next: draw d has the numbers 256 d .. 256 d + 255
// of STREAM_DRAWS.
struct Draws {
    const PhiloxKeys *keys;
    u64 trajectory;
    u32 point;
    u64 next;
};

DEVICE void start_draws(Draws &draws, const PhiloxKeys &keys, const Place &place) {
    draws = {&keys, place.trajectory, place.point, 0};
}

struct DrawBits {
    const Draws &draws;
    u64 number;

    DEVICE_MEMBER Philox4 operator()(u32 attempt) const {
        const u64 at = number * 256 + attempt;
        const PhiloxSeries series =
            draw_series(*draws.keys, STREAM_DRAWS, draws.trajectory, draws.point, at);
        return philox_draw(series, *draws.keys, (u32)at);
    }
};

DEVICE DrawBits next_draw(Draws &draws) {
    return {draws, draws.next++};
}

DEVICE double in_bounds(double value, double low, double high) {
    return tl_min(tl_max(value, low), high);
}

// ---------------------------------------------------------------- standard numbers

// A standard normal number (Box and Muller 1958); at most 8.5 in size, since it has 52 bits.
DEVICE double normal_of(const Philox4 &bits) {
    const double radius = SQRT(2.0 * tl_exponential(unit_open_low(bits.x0, bits.x1)));
    return radius * tl_cos(TWO_PI * unit_half_open(bits.x2, bits.x3));
}

DEVICE double uniform_of(const Philox4 &bits) {
    return unit_half_open(bits.x0, bits.x1);
}

DEVICE double exponential_of(const Philox4 &bits) {
    return tl_exponential(unit_open_low(bits.x0, bits.x1));
}

// An exponential number of mean 1 in [low, high], where low >= 0, by inversion.
DEVICE double exponential_within(double low, double high, double u) {
    return low - tl_log1p(u * tl_expm1(low - high));
}

// A standard normal number in [low, high] (Robert 1995, "Simulation of truncated normal variables").
SHARED_LAW double normal_within(Draws &draws, double low, double high) {
    if (!(low <= high)) return tl_nan();
    if (low == high) return low;
    const bool mirrored = high <= 0;
    if (mirrored) {
        const double other = -low;
        low = -high, high = other;
    }
    const double sign = mirrored ? -1.0 : 1.0, width = high - low;
    if (low < 0) {  // at least 0.49 of what the hat holds
        for (int turn = 0; turn < MOST_REJECTIONS; ++turn) {
            const Philox4 bits = next_draw(draws)(0);
            if (width > 2.5) {
                const double x = normal_of(bits);
                if (x >= low && x <= high) return x;
                continue;
            }
            const double x = FMA(unit_half_open(bits.x0, bits.x1), width, low);
            if (2.0 * tl_exponential(unit_open_low(bits.x2, bits.x3)) >= x * x)
                return in_bounds(x, low, high);
        }
        return tl_nan();
    }
    // A tail: an exponential hat of the best rate, or a constant where the interval is short.
    const double root = SQRT(FMA(low, low, 4.0));
    const double rate = 0.5 * (low + root);
    const double turns = 3.2974425414002564 / (low + root);  // 2 sqrt(e) / ...
    const bool is_short = width < turns * tl_exp(0.25 * low * (low - root));
    for (int turn = 0; turn < MOST_REJECTIONS; ++turn) {
        const Philox4 bits = next_draw(draws)(0);
        const double limit = 2.0 * tl_exponential(unit_open_low(bits.x2, bits.x3));
        if (is_short) {
            const double more = unit_half_open(bits.x0, bits.x1) * width;
            if (limit >= more * FMA(2.0, low, more)) return sign * in_bounds(low + more, low, high);
            continue;
        }
        const double x = low + exponential_of(bits) / rate;
        const double miss = x - rate;
        if (limit >= miss * miss && x <= high) return sign * x;
    }
    return tl_nan();
}

// A gamma number of scale 1 (Marsaglia and Tsang 2000, "A simple method for generating gamma variables").
SHARED_LAW double gamma_of(Draws &draws, double shape) {
    if (!(shape > 0 && shape < tl_infinity())) return tl_nan();
    const DrawBits bits = next_draw(draws);
    const double d = (shape < 1 ? shape + 1.0 : shape) - 1.0 / 3.0;
    const double c = 1.0 / SQRT(9.0 * d);
    double value = d;  // an attempt fails with 0.05 at most: all with 1e-80
    for (u32 attempt = 0; attempt < 64; ++attempt) {
        const double x = normal_of(bits(2 * attempt));
        const double root = FMA(c, x, 1.0);
        if (!(root > 0)) continue;
        const double v = root * root * root;
        const double limit = exponential_of(bits(2 * attempt + 1));
        if (-limit < 0.5 * x * x + d * (1.0 - v + tl_log(v))) {
            value = d * v;
            break;
        }
    }
    if (shape < 1) value *= tl_exp(-exponential_of(bits(128)) / shape);
    return value;
}

// How far the logarithm of the gamma density of scale 1 is below that at `top`.
DEVICE double gamma_miss(double shape, double x, double top) {
    return (x - top) - (shape == 1.0 ? 0.0 : (shape - 1.0) * tl_log(x / top));
}

// A gamma number of scale 1 in [low, high]: rejection from whichever hat is close to the law there.
SHARED_LAW double gamma_within(Draws &draws, double shape, double low, double high) {
    if (!(shape > 0 && shape < tl_infinity())) return tl_nan();
    low = tl_max(low, 0.0);
    if (!(low <= high) || !(low < tl_infinity())) return tl_nan();
    if (low == high) return low;
    const double mode = tl_max(shape - 1.0, 0.0), deviation = SQRT(shape);
    // With shape < 1 the density falls as x^(shape - 1) exp(-x), mostly by the first below 1.
    const bool falls = shape < 1;
    const bool in_tail = falls ? low >= 1.0 : low >= mode + deviation;
    const bool in_head = !falls && high <= mode - deviation;
    const bool is_narrow = !falls && !in_tail && !in_head && high - low < 2.0 * deviation;
    // Below 1 the hat of a falling law is x^(shape - 1), above exp(-x), with these shares.
    const double start = falls ? tl_exp(shape * tl_log(low)) : 0.0, middle = tl_min(high, 1.0);
    const double end = falls ? tl_exp(shape * tl_log(middle)) : 0.0;
    const double below = falls && low < 1 ? (end - start) / shape : 0.0;
    const double above = falls && high > 1 ? -tl_exp(-1.0) * tl_expm1(1.0 - high) : 0.0;
    const double top = in_bounds(mode, low, high);
    const double slope = in_tail   ? 1.0 - (falls ? 0.0 : (shape - 1.0) / low)
                         : in_head ? (shape - 1.0) / high - 1.0
                                   : 0.0;
    for (int turn = 0; turn < MOST_REJECTIONS; ++turn) {
        if (!falls && !in_tail && !in_head && !is_narrow) {
            const double x = gamma_of(draws, shape);
            if (x >= low && x <= high) return x;
            continue;
        }
        const DrawBits bits = next_draw(draws);
        const double u = uniform_of(bits(0)), limit = exponential_of(bits(1));
        double x, miss;
        if (in_tail) {
            const double more = exponential_within(0.0, slope * (high - low), u) / slope;
            x = low + more;
            miss =
                falls ? (1.0 - shape) * tl_log(x / low) : gamma_miss(shape, x, low) - slope * more;
        } else if (in_head) {
            const double less = exponential_within(0.0, slope * (high - low), u) / slope;
            x = high - less;
            miss = x > 0 ? gamma_miss(shape, x, high) - slope * less : tl_infinity();
        } else if (is_narrow) {
            x = FMA(u, high - low, low);
            miss = x > 0 ? gamma_miss(shape, x, top) : shape > 1 ? tl_infinity() : 0.0;
        } else {
            const double share = u * (below + above);
            if (share < below) {
                x = tl_exp(tl_log(FMA(share / below, end - start, start)) / shape);
                miss = x;
            } else {
                const double from = tl_max(low, 1.0);
                x = exponential_within(from, high, uniform_of(bits(2)));
                miss = (1.0 - shape) * tl_log(x);
            }
        }
        if (limit >= miss) return in_bounds(x, low, high);
    }
    return tl_nan();
}

// ---------------------------------------------------------------- whole numbers

DEVICE double whole_or_nan(i64 number) {
    return number < 0 ? tl_nan() : (double)number;
}

// The probability of k + 1 over that of k.
struct PoissonLaw {
    double mean;

    DEVICE_MEMBER double spread() const { return SQRT(mean); }
    DEVICE_MEMBER double up(double k) const { return mean / (k + 1.0); }
    DEVICE_MEMBER double of(Draws &draws) const {
        return whole_or_nan(poisson(mean, next_draw(draws)));
    }
};

struct BinomialLaw {
    double trials, probability, mean;

    DEVICE_MEMBER double spread() const { return SQRT(mean * (1.0 - probability)); }
    DEVICE_MEMBER double up(double k) const {
        return (trials - k) / (k + 1.0) * (probability / (1.0 - probability));
    }
    DEVICE_MEMBER double of(Draws &draws) const {
        return whole_or_nan(binomial((i64)trials, probability, next_draw(draws)));
    }
};

// A whole number of the law in [low, high]: by rejection where that holds much of the law, else by
// inversion, which sums probabilities outwards from the largest.
template <class Law>
SHARED_LAW double whole_within(Draws &draws, const Law &law, double low, double high) {
    low = tl_ceil(tl_max(low, 0.0)), high = tl_floor(high);
    if (!(low <= high) || !(low < tl_infinity())) return tl_nan();
    if (low == high) return low;
    const double spread = law.spread();
    const double from = tl_max(low, law.mean - 2.0 * spread);
    const double to = tl_min(high, law.mean + 2.0 * spread);
    if (spread >= 3.0 && to - from >= spread) {
        for (int turn = 0; turn < MOST_REJECTIONS; ++turn) {
            const double k = law.of(draws);
            if (!(k == k) || (k >= low && k <= high)) return k;
        }
        return tl_nan();
    }
    const double top = in_bounds(tl_floor(law.mean), low, high);
    double sum = 1.0, weight = 1.0;
    for (double k = top; k < high && weight > 0x1p-70 * sum; k += 1.0) sum += weight *= law.up(k);
    weight = 1.0;
    for (double k = top; k > low && weight > 0x1p-70 * sum; k -= 1.0)
        sum += weight *= 1.0 / law.up(k - 1.0);
    double left = uniform_of(next_draw(draws)(0)) * sum - 1.0;
    if (left < 0) return top;
    weight = 1.0;
    for (double k = top; k < high && weight > 0x1p-70 * sum; k += 1.0) {
        left -= weight *= law.up(k);
        if (left < 0) return k + 1.0;
    }
    weight = 1.0;
    double last = top;
    for (double k = top; k > low && weight > 0x1p-70 * sum; k -= 1.0) {
        left -= weight *= 1.0 / law.up(k - 1.0);
        last = k - 1.0;
        if (left < 0) return last;
    }
    return last;
}

// ---------------------------------------------------------------- the distributions

SHARED_LAW double draw_uniform(Draws &draws, double min, double max) {
    if (!(min <= max)) return tl_nan();
    return in_bounds(FMA(uniform_of(next_draw(draws)(0)), max - min, min), min, max);
}

SHARED_LAW double draw_normal(Draws &draws, double mean, double stdev) {
    if (!(stdev >= 0)) return tl_nan();
    return FMA(stdev, normal_of(next_draw(draws)(0)), mean);
}

SHARED_LAW double draw_normal(Draws &draws, double mean, double stdev, double low, double high) {
    if (!(stdev >= 0 && low <= high)) return tl_nan();
    if (stdev == 0) return mean >= low && mean <= high ? mean : tl_nan();
    const double z = normal_within(draws, (low - mean) / stdev, (high - mean) / stdev);
    return in_bounds(FMA(stdev, z, mean), low, high);
}

SHARED_LAW double draw_bernoulli(Draws &draws, double probability) {
    if (!(probability >= 0 && probability <= 1)) return tl_nan();
    return uniform_of(next_draw(draws)(0)) < probability ? 1.0 : 0.0;
}

SHARED_LAW double draw_binomial(Draws &draws, double trials, double probability) {
    if (!(trials >= 0 && trials <= 0x1p50 && trials == tl_floor(trials))) return tl_nan();
    return whole_or_nan(binomial((i64)trials, probability, next_draw(draws)));
}

SHARED_LAW double draw_binomial(Draws &draws, double trials, double probability, double low,
                                double high) {
    if (!(trials >= 0 && trials <= 0x1p50 && trials == tl_floor(trials))) return tl_nan();
    if (!(probability >= 0 && probability <= 1)) return tl_nan();
    if (probability == 0 || probability == 1) {
        const double sure = probability * trials;
        return sure >= low && sure <= high ? sure : tl_nan();
    }
    const BinomialLaw law = {trials, probability, trials * probability};
    return whole_within(draws, law, low, tl_min(high, trials));
}

SHARED_LAW double draw_cauchy(Draws &draws, double location, double scale) {
    if (!(scale >= 0)) return tl_nan();
    const double u = uniform_of(next_draw(draws)(0)) - 0.5;
    return FMA(scale, tl_tan(0.5 * TWO_PI * u), location);
}

DEVICE double draw_cauchy(Draws &draws, double scale) {
    return draw_cauchy(draws, 0.0, scale);
}

SHARED_LAW double draw_cauchy(Draws &draws, double location, double scale, double low,
                              double high) {
    if (!(scale > 0 && low <= high)) return tl_nan();
    const double a = (low - location) / scale, b = (high - location) / scale;
    const double u = uniform_of(next_draw(draws)(0));
    double x;
    if (a >= 1.0 || b <= -1.0) {  // by 1 / x, whose angle keeps its digits far from the middle
        const double from = tl_atan(1.0 / a), to = tl_atan(1.0 / b);
        x = 1.0 / tl_tan(FMA(u, to - from, from));
    } else {
        const double from = tl_atan(a), to = tl_atan(b);
        x = tl_tan(FMA(u, to - from, from));
    }
    return in_bounds(FMA(scale, x, location), low, high);
}

SHARED_LAW double draw_gamma(Draws &draws, double shape, double scale) {
    if (!(scale > 0)) return tl_nan();
    return scale * gamma_of(draws, shape);
}

SHARED_LAW double draw_gamma(Draws &draws, double shape, double scale, double low, double high) {
    if (!(scale > 0 && low <= high)) return tl_nan();
    return in_bounds(scale * gamma_within(draws, shape, low / scale, high / scale), low, high);
}

DEVICE double draw_chisquare(Draws &draws, double degrees) {
    return draw_gamma(draws, 0.5 * degrees, 2.0);
}

DEVICE double draw_chisquare(Draws &draws, double degrees, double low, double high) {
    return draw_gamma(draws, 0.5 * degrees, 2.0, low, high);
}

SHARED_LAW double draw_exponential(Draws &draws, double rate) {
    if (!(rate > 0)) return tl_nan();
    return exponential_of(next_draw(draws)(0)) / rate;
}

SHARED_LAW double draw_exponential(Draws &draws, double rate, double low, double high) {
    low = tl_max(low, 0.0);
    if (!(rate > 0 && low <= high && low < tl_infinity())) return tl_nan();
    const double u = uniform_of(next_draw(draws)(0));
    return in_bounds(low - tl_log1p(u * tl_expm1(rate * (low - high))) / rate, low, high);
}

SHARED_LAW double draw_laplace(Draws &draws, double location, double scale) {
    if (!(scale >= 0)) return tl_nan();
    const Philox4 bits = next_draw(draws)(0);
    const double size = scale * exponential_of(bits);
    return unit_half_open(bits.x2, bits.x3) < 0.5 ? location - size : location + size;
}

DEVICE double draw_laplace(Draws &draws, double scale) {
    return draw_laplace(draws, 0.0, scale);
}

SHARED_LAW double draw_laplace(Draws &draws, double location, double scale, double low,
                               double high) {
    if (!(scale > 0 && low <= high)) return tl_nan();
    const double a = (low - location) / scale, b = (high - location) / scale;
    if (!(a < tl_infinity() && b > -tl_infinity())) return tl_nan();
    const Philox4 bits = next_draw(draws)(0);
    const double u = unit_half_open(bits.x0, bits.x1), side = unit_half_open(bits.x2, bits.x3);
    double x;
    if (a >= 0) {
        x = exponential_within(a, b, u);
    } else if (b <= 0) {
        x = -exponential_within(-b, -a, u);
    } else {
        const double left = -tl_expm1(a), right = -tl_expm1(-b);
        x = side * (left + right) < left ? -exponential_within(0.0, -a, u)
                                         : exponential_within(0.0, b, u);
    }
    return in_bounds(FMA(scale, x, location), low, high);
}

SHARED_LAW double draw_lognormal(Draws &draws, double mean, double stdev) {
    return tl_exp(draw_normal(draws, mean, stdev));
}

SHARED_LAW double draw_lognormal(Draws &draws, double mean, double stdev, double low, double high) {
    low = tl_max(low, 0.0);
    if (!(low <= high)) return tl_nan();
    const double logarithm = draw_normal(draws, mean, stdev, tl_log(low), tl_log(high));
    return in_bounds(tl_exp(logarithm), low, high);
}

SHARED_LAW double draw_poisson(Draws &draws, double rate) {
    return whole_or_nan(poisson(rate, next_draw(draws)));
}

SHARED_LAW double draw_poisson(Draws &draws, double rate, double low, double high) {
    if (!(rate >= 0 && rate <= POISSON_LARGEST_MEAN)) return tl_nan();
    if (rate == 0) return low <= 0 && high >= 0 ? 0.0 : tl_nan();
    const PoissonLaw law = {rate};
    return whole_within(draws, law, low, high);
}

SHARED_LAW double draw_rayleigh(Draws &draws, double scale) {
    if (!(scale >= 0)) return tl_nan();
    return scale * SQRT(2.0 * exponential_of(next_draw(draws)(0)));
}

SHARED_LAW double draw_rayleigh(Draws &draws, double scale, double low, double high) {
    low = tl_max(low, 0.0);
    if (!(scale > 0 && low <= high && low < tl_infinity())) return tl_nan();
    const double a = low / scale, b = high / scale;
    const double energy =
        exponential_within(0.5 * a * a, 0.5 * b * b, uniform_of(next_draw(draws)(0)));
    return in_bounds(scale * SQRT(2.0 * energy), low, high);
}
