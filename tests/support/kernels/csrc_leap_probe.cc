// Calls the generated parts of a leap for given states, so that they can be compared with formulas.
#include "leaping/leaps.h"
#include "model.h"
#include "device/prelude.h"

// counts [n, species]; limits [n]; leaping [n, channels]
KERNEL(leap_probe, const i32 *counts, i64 n, double epsilon, double *limits, double *leaping) {
    for (i64 item = GLOBAL_ID; item < n; item += GLOBAL_SIZE) {
        i32 x[N_SPECIES] = {};
        double c[N_CONSTANTS + 1] = {};
        for (int i = 0; i < N_SPECIES; ++i) x[i] = counts[item * N_SPECIES + i];
        const LaneArray cells = {leaping + item * N_CHANNELS};
        limits[item] = plan_leap(x, c, cells, tolerance_of(epsilon)).limit.time();
    }
}
