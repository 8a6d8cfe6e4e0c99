// Rows of 32-bit words in another order: row `i` of `to` becomes row `ancestors[i]` of `source`, or its only row.
#include "device/prelude.h"

struct GatherArguments {
    const void *source;    // [any, words]
    const i64 *ancestors;  // [rows]; null: 0 each
    i64 rows, words;       // of 32 bits
    void *to;              // [rows, words]
};

KERNEL(gather_rows, const GatherArguments a) {
    const i64 words = a.words;
    const u32 *const from = (const u32 *)a.source;
    u32 *const to = (u32 *)a.to;
    for (i64 item = GLOBAL_ID; item < a.rows * words; item += GLOBAL_SIZE) {
        const i64 row = item / words;
        const i64 first = a.ancestors ? a.ancestors[row] * words : 0;
        to[item] = from[first + (item - row * words)];
    }
}
