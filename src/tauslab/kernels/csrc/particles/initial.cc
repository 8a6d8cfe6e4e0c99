// Initial counts of a species, by inverting its distribution function.
#include "particles/words.h"

struct InitialArguments {
    i64 rows, first;       // particles of this device; number of the first one
    i64 size, group;       // particles of a group; number of the group of particle 0
    u64 seed;              // of the key
    i64 purpose, number;   // its other half; which of the distributions this is
    const double *ladder;  // [length]: sums of probabilities
    i64 length, last;      // the largest count that has one
    i32 *counts;           // [rows, stride], of which `column` is drawn
    i64 stride, column;
};

KERNEL(draw_initial, const InitialArguments a) {
    const double total = a.ladder[a.length - 1];
    for (i64 i = GLOBAL_ID; i < a.rows; i += GLOBAL_SIZE) {
        const i64 group = (a.first + i) / a.size, place = a.first + i - group * a.size;
        const u64 word =
            random_word(a.seed, (u64)a.purpose, (u64)a.number, (u64)(a.group + group), place);
        const double wanted = fraction_of(word) * total;
        i64 low = 0, high = a.length;
        while (low < high) {
            const i64 middle = (low + high) / 2;
            if (a.ladder[middle] > wanted)
                high = middle;
            else
                low = middle + 1;
        }
        a.counts[i * a.stride + a.column] = (i32)(low < a.last ? low : a.last);
    }
}
