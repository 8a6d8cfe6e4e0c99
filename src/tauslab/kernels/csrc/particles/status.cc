// How trajectories of a launch ended, in few numbers.
#include "device/prelude.h"

struct StatusArguments {
    i64 rows;
    const u8 *status;  // [rows]
    u8 *largest;       // [blocks of EACH rows]
};

constexpr i64 EACH = 1024;

KERNEL(largest_status, const StatusArguments a) {
    const i64 items = (a.rows + EACH - 1) / EACH;
    for (i64 item = GLOBAL_ID; item < items; item += GLOBAL_SIZE) {
        const i64 end = (item + 1) * EACH < a.rows ? (item + 1) * EACH : a.rows;
        u8 largest = 0;
        for (i64 i = item * EACH; i < end; ++i)
            largest = a.status[i] > largest ? a.status[i] : largest;
        a.largest[item] = largest;
    }
}
