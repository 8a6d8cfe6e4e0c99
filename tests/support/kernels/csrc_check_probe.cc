// Calls the generated check of a leap, and what is known of firings to come, for tests.
#include "leaping/known_firings.h"
#include "leaping/leaps.h"
#include "model.h"
#include "device/prelude.h"

// counts [n, species]; firings [n, channels]; holds [n]; all [n, channels]
KERNEL(check_probe, const i32 *counts, i64 n, double epsilon, const i64 *firings, u8 *holds,
       double *all) {
    for (i64 item = GLOBAL_ID; item < n; item += GLOBAL_SIZE) {
        i32 x[N_SPECIES];
        double c[N_CONSTANTS + 1] = {}, cells[N_CHANNELS];
        for (int i = 0; i < N_SPECIES; ++i) x[i] = counts[item * N_SPECIES + i];
        for (int j = 0; j < N_CHANNELS; ++j) cells[j] = cell_of(firings[item * N_CHANNELS + j]);
        holds[item] = leap_holds(x, c, LaneArray{cells}, checked_tolerance_of(epsilon));
        channel_propensities(x, c, LaneArray{all + item * N_CHANNELS});
    }
}

// Channel 0: what steps of kind 0 (put), 1 (take), 2 (pass) and 3 (reach the next) with `extents`,
// numbers and random u leave and find; out [n, 3]: extent or time, number of firings, segments.
KERNEL(ahead_probe, const i64 *kinds, const double *extents, const i64 *numbers, const double *us,
       i64 n, double *memory, double *out) {
    if (GLOBAL_ID > 0) return;
    Ahead ahead = {memory};
    ahead.clear();
    u32 draws = 0;
    const auto bits = [&](u32 attempt) { return philox4x32_10(attempt, draws, 0, 0, 7, 0); };
    for (i64 i = 0; i < n; ++i, ++draws) {
        double extent = extents[i];
        i64 number = numbers[i];
        if (kinds[i] == 0) ahead.put(0, extent, number);
        if (kinds[i] == 1) number = ahead.take(0, extent, bits);
        if (kinds[i] == 2) ahead.pass(0, extent);
        if (kinds[i] == 3) {
            const Firing firing = ahead.next(0, us[i]);
            ahead.reach(0, firing);
            extent = firing.internal;
        }
        out[3 * i] = extent;
        out[3 * i + 1] = (double)number;
        out[3 * i + 2] = (double)ahead.segments(0);
    }
}
