// How trajectories of a launch ended, in few numbers.
#include "device/prelude.h"

struct StatusArguments {
    i64 rows;
    const u8 *status;  // [rows]
    u8 *largest;       // [items]: of rows so far apart
};

constexpr i64 EACH = 64;

KERNEL(largest_status, const StatusArguments a) {
    const i64 items = (a.rows + EACH - 1) / EACH;
    for (i64 item = GLOBAL_ID; item < items; item += GLOBAL_SIZE) {
        u8 largest = 0;
        for (i64 i = item; i < a.rows; i += items)
            largest = a.status[i] > largest ? a.status[i] : largest;
        a.largest[item] = largest;
    }
}
