// Densities of an observation in a state, by the kinds of analysis/filters/observing.py and with their bits.
#pragma once

#include "particles/portable.h"

enum Noise { NORMAL, LOGNORMAL, POISSON, NEGATIVE_BINOMIAL, BINOMIAL, STUDENT_T, GIVEN };

// A column of data in a row. Of the parameters each is one number, or one of each particle.
struct Observed {
    i32 kind, column;  // of counts, or -1 - k for row k of `values`
    double y;
    double log_factorial;  // of y, where it is a count
    double first, second;
    double
        log_first;    // of a `first` that is one number: its logarithm, the log-gamma of a negative
                      // binomial, the logarithm of the largest density of a t distribution
    double log_more;  // log-gamma of y + first, of a negative binomial
};

DEVICE double normal_density(const Observed &seen, double x, double sd, double log_sd) {
    double z = (seen.y - x) / sd;
    z *= z;
    z *= -0.5;
    z -= log_sd;
    z -= HALF_LOG_2PI;
    return z;
}

DEVICE double lognormal_density(const Observed &seen, double x, double sigma, double log_sigma) {
    if (seen.y <= 0.0) return -tl_infinity();
    const double log_y = host_log(seen.y);
    const double z = (log_y - host_log(x > 0.0 ? x : 1.0)) / sigma;
    const double density = -0.5 * (z * z) - log_sigma - log_y - HALF_LOG_2PI;
    return x > 0.0 ? density : -tl_infinity();
}

// A mean below 0, of a quantity that is negative, counts as 0; one that is no number stays so.
DEVICE double mean_or_0(double mean) {
    return mean < 0.0 ? 0.0 : mean;
}

DEVICE double poisson_density(const Observed &seen, double x, double scale, double background) {
    const double mean = mean_or_0(scale * x + background);
    if (seen.y == 0.0) return -mean;
    const double logs = seen.y * host_log(mean > 0.0 ? mean : 1.0) - mean - seen.log_factorial;
    return mean > 0.0 ? logs : -tl_infinity();
}

DEVICE double negative_binomial_density(const Observed &seen, double x, double size, double scale,
                                        double gamma_size, double gamma_more) {
    const double mean = mean_or_0(scale * x);
    const double none = -size * host_log(1.0 + mean / size);
    if (seen.y == 0.0) return none;
    const double share = mean > 0.0 ? mean / (size + mean) : 1.0;
    const double combinations = gamma_more - gamma_size - seen.log_factorial;
    return mean > 0.0 ? combinations + none + seen.y * host_log(share) : -tl_infinity();
}

DEVICE double binomial_density(const Observed &seen, double x, double p, double log_p) {
    const bool possible = x >= seen.y;
    const double left = possible ? x - seen.y : 0.0;
    const double combinations = host_log_gamma((possible ? x : seen.y) + 1.0) -
                                host_log_gamma(left + 1.0) - seen.log_factorial;
    double part = seen.y != 0.0 ? seen.y * log_p : 0.0;
    part = part + left * host_log(left > 0.0 ? 1.0 - p : 1.0);
    return possible ? combinations + part : -tl_infinity();
}

DEVICE double student_peak(double degrees, double scale) {
    const double gammas = host_log_gamma(0.5 * (degrees + 1.0)) - host_log_gamma(0.5 * degrees);
    return gammas - 0.5 * host_log(degrees) - HALF_LOG_PI - host_log(scale);
}

DEVICE double student_density(const Observed &seen, double x, double degrees, double scale,
                              double peak) {
    const double z = (seen.y - x) / scale;
    return peak - 0.5 * (degrees + 1.0) * host_log(1.0 + z * z / degrees);
}

// Of parameters that are one number for all particles.
DEVICE double density(const Observed &seen, double x) {
    switch (seen.kind) {
        case NORMAL:
            return normal_density(seen, x, seen.first, seen.log_first);
        case LOGNORMAL:
            return lognormal_density(seen, x, seen.first, seen.log_first);
        case POISSON:
            return poisson_density(seen, x, seen.first, seen.second);
        case NEGATIVE_BINOMIAL:
            return negative_binomial_density(seen, x, seen.first, seen.second, seen.log_first,
                                             seen.log_more);
        case STUDENT_T:
            return student_density(seen, x, seen.first, seen.second, seen.log_first);
        case BINOMIAL:
            return binomial_density(seen, x, seen.first, seen.log_first);
        default:
            return x;
    }
}

// Of parameters of this particle.
DEVICE_SELDOM double density_of_own(const Observed &seen, double x, double first, double second) {
    Observed own = seen;
    own.first = first;
    own.second = second;
    if (seen.kind == NEGATIVE_BINOMIAL) {
        own.log_first = host_log_gamma(first);
        own.log_more = host_log_gamma(seen.y + first);
    } else if (seen.kind == STUDENT_T) {
        own.log_first = student_peak(first, second);
    } else if (seen.kind != POISSON) {
        own.log_first = host_log(first);
    }
    return density(own, x);
}
