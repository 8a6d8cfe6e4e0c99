// Rows of 32-bit words in another order: row `i` of `to` becomes row `ancestors[i]` of `from`.
#include "device/prelude.h"

KERNEL(gather_rows, const u32 *from, const i64 *ancestors, i64 rows, i64 words, u32 *to) {
    for (i64 item = GLOBAL_ID; item < rows * words; item += GLOBAL_SIZE) {
        const i64 row = item / words;
        to[item] = from[ancestors[row] * words + (item - row * words)];
    }
}
