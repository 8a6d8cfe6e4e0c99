// Cells that divide: the row of a mother has been copied, and each of the two rows takes its part of it. Both
// rows draw the same numbers, so that none needs the other.
#include "random/binomial.h"

// What becomes of a species. Numbers are those of kernels/events/divide.py.
enum Share : u8 {
    BINOMIAL_SHARE = 0,  // each molecule goes to the first daughter with a probability
    EVEN_SHARE = 1,      // half and half, and an odd one to either
    COPIED = 2,          // both have all
    ALL_TO_FIRST = 3,
    PART_SHARE = 4  // a quantity: its part of it
};

struct DivideArguments {
    const PhiloxKeys *keys;
    i64 rows, words, species;  // of `kept`, which has the values of species first
    const u8 *side;            // [rows]: 0 does not divide, 1 is the first daughter, 2 the second
    const i64 *mother;         // [rows]: number of the division
    const double *part;        // [rows]: of the first daughter
    const u8 *share;           // [species]: a Share
    i64 halt;                  // the quantity that halted the mother
    double *kept;              // [rows, words]
};

KERNEL(divide_cells, const DivideArguments a) {
    const PhiloxKeys &keys = *a.keys;
    for (i64 item = GLOBAL_ID; item < a.rows * a.species; item += GLOBAL_SIZE) {
        const i64 row = item / a.species, s = item - row * a.species;
        const u8 side = a.side[row];
        if (side == 0) continue;
        double &x = a.kept[row * a.words + s];
        if (s == a.halt) {
            x = 0;
            continue;
        }
        const u8 share = a.share[s];
        if (share == COPIED) continue;
        const PhiloxSeries series = draw_series(keys, STREAM_DIVISION, (u64)a.mother[row], 0, 0);
        const LeapBits bits = {series, keys, (u32)s};
        double first = x;
        if (share == PART_SHARE) {
            first = a.part[row] * x;
        } else if (share == BINOMIAL_SHARE) {
            first = (double)binomial((i64)x, a.part[row], bits);
        } else if (share == EVEN_SHARE) {
            const i64 count = (i64)x;
            first = (double)(count / 2 + (count % 2) * (i64)((u32)bits(0).x0 & 1u));
        }
        x = side == 1 ? first : x - first;
    }
}
