// Who is copied how often: weights are added one after the other, and each particle finds its place in these sums.
//
// The sums are those of doubles that are added in order, rounded at each step, as the host adds them. Long rows are
// cut into pieces that are added beside each other with the same bits: while a sum s stays between 2^e and 2^(e+1) it
// is a whole number S of units 2^(e-52), and adding a weight adds a whole number to S that is the same for every S, or,
// where the weight lies between two units, for every even and every odd S. Two whole numbers say what a piece does, and
// two what a group of pieces does.
#include "particles/blocks.h"
#include "particles/words.h"

constexpr i64 PIECE = 256;                              // weights
constexpr i64 GROUP = 64;                               // pieces
constexpr i64 TOGETHER = LANES_OF_BLOCK > 1 ? 16 : 64;  // particles that one item places
constexpr int BATCH = 16;  // weights that a thread loads together, as loads take long
constexpr i32 LARGEST_EXPONENT = 900;

struct AncestorArguments {
    i64 rows, n;
    i64 whole;         // weights of a row, of which n are here
    i64 first, made;   // particles of a row that become copies of these: first .. first + made - 1
    i64 base;          // what ancestors are counted from: the number of the first weight
    double start;      // sum of the weights of a row before these
    double *ends;      // [rows]: sum up to the last of these; where particles find places: of all
    const u8 *chosen;  // [rows]
    const double *shares;  // [particle]
    double *ladder;        // [particle]: sums of the weights up to this one
    double *starts;        // [rows, pieces]: about the sum before a piece; then the sum
    i64 *even, *odd;  // [rows, pieces]: what a piece adds to an even and to an odd number of units
    double *group_starts;         // [rows, groups]: of groups, as `starts`
    i64 *group_even, *group_odd;  // [rows, groups]
    u64 seed;                     // of the key
    i64 purpose, group;           // its other half; number of the first row
    i64 stratified;               // a uniform number for each particle, or one for all of a row
    const i64 *numbers;           // [rows]: how many resamplings there were
    i64 *ancestors;               // [rows, made]
};

DEVICE i64 pieces_of(i64 n) {
    return (n + PIECE - 1) / PIECE;
}

DEVICE i64 groups_of(i64 n) {
    return (pieces_of(n) + GROUP - 1) / GROUP;
}

// Pieces begin .. end - 1 of a row, of an item.
struct Group {
    i64 row, begin, end;
};

DEVICE Group group_of(i64 item, i64 n) {
    const i64 groups = groups_of(n), pieces = pieces_of(n), row = item / groups;
    const i64 begin = (item - row * groups) * GROUP;
    return {row, begin, begin + GROUP < pieces ? begin + GROUP : pieces};
}

DEVICE i64 smaller(i64 a, i64 b) {
    return a < b ? a : b;
}

// Goes through weights begin .. end - 1 in order, and through zeros up to a whole batch.
template <class Take>
DEVICE void each_weight(const double *shares, i64 begin, i64 end, const Take &take) {
    for (i64 first = begin; first < end; first += BATCH) {
        double own[BATCH];
    UNROLL for (int i = 0; i < BATCH; ++i) own[i] = first + i < end ? shares[first + i] : 0.0;
        UNROLL for (int i = 0; i < BATCH; ++i) take(first + i, own[i]);
    }
}

DEVICE i32 exponent_of_sum(double s) {
    return (i32)(as_bits(s) >> 52) - 1023;
}

DEVICE bool adds_as_whole(double s) {
    const i32 exponent = exponent_of_sum(s);
    return exponent > -LARGEST_EXPONENT && exponent < LARGEST_EXPONENT;
}

// Short rows, or a device whose threads run apart.
KERNEL(add_in_order, const AncestorArguments a) {
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) {
        if (!a.chosen[row]) continue;
        const double *const shares = a.shares + row * a.n;
        double *const ladder = a.ladder + row * a.n;
        double sum = a.start;
        for (i64 i = 0; i < a.n; ++i) {
            sum += shares[i];
            ladder[i] = sum;
        }
        a.ends[row] = sum;
    }
}

// About the sum of a piece.
KERNEL(guess_pieces, const AncestorArguments a) {
    const i64 pieces = pieces_of(a.n);
    for (i64 item = GLOBAL_ID; item < a.rows * pieces; item += GLOBAL_SIZE) {
        const i64 row = item / pieces, begin = (item - row * pieces) * PIECE;
        const i64 end = begin + PIECE < a.n ? begin + PIECE : a.n;
        double sum = 0.0;
        each_weight(a.shares + row * a.n, begin, end, [&](i64, double own) { sum += own; });
        a.starts[item] = sum;
    }
}

// About the sum of a group.
KERNEL(guess_groups, const AncestorArguments a) {
    for (i64 item = GLOBAL_ID; item < a.rows * groups_of(a.n); item += GLOBAL_SIZE) {
        const Group group = group_of(item, a.n);
        const double *const pieces = a.starts + group.row * pieces_of(a.n);
        double sum = 0.0;
        for (i64 i = group.begin; i < group.end; ++i) sum += pieces[i];
        a.group_starts[item] = sum;
    }
}

// About the sums before groups.
KERNEL(guess_row, const AncestorArguments a) {
    const i64 groups = groups_of(a.n);
    for (i64 row = GLOBAL_ID; row < a.rows; row += GLOBAL_SIZE) {
        double sum = a.start;
        for (i64 i = row * groups; i < (row + 1) * groups; ++i) {
            const double own = a.group_starts[i];
            a.group_starts[i] = sum;
            sum += own;
        }
    }
}

// About the sums before pieces.
KERNEL(guess_starts, const AncestorArguments a) {
    for (i64 item = GLOBAL_ID; item < a.rows * groups_of(a.n); item += GLOBAL_SIZE) {
        const Group group = group_of(item, a.n);
        double *const starts = a.starts + group.row * pieces_of(a.n);
        double sum = a.group_starts[item];
        for (i64 i = group.begin; i < group.end; ++i) {
            const double own = starts[i];
            starts[i] = sum;
            sum += own;
        }
    }
}

// What each piece adds to sums as large as the guess.
KERNEL(count_units, const AncestorArguments a) {
    const i64 pieces = pieces_of(a.n);
    for (i64 item = GLOBAL_ID; item < a.rows * pieces; item += GLOBAL_SIZE) {
        const i64 row = item / pieces, begin = (item - row * pieces) * PIECE;
        const i64 end = begin + PIECE < a.n ? begin + PIECE : a.n;
        i64 even = 0, odd = 0;
        const double guess = a.starts[item];
        if (!(a.chosen[row] && adds_as_whole(guess))) {
            a.even[item] = -1;
            continue;
        }
        const double units = power_of_two(52 - exponent_of_sum(guess));
        bool fits = true;
        each_weight(a.shares + row * a.n, begin, end, [&](i64, double own) {
            const double given = own * units;
            fits = fits && given < 0x1p53;
            const i64 whole = fits ? (i64)given : 0;
            const double rest = given - (double)whole;
            const i64 up = rest > 0.5;
            const bool tie = rest == 0.5;
            even += whole + (tie ? (even + whole) & 1 : up);
            odd += whole + (tie ? (odd + whole + 1) & 1 : up);
        });
        a.even[item] = fits ? even : -1;
        a.odd[item] = odd;
    }
}

// What each group adds, where all its pieces are of one power of two.
KERNEL(join_units, const AncestorArguments a) {
    for (i64 item = GLOBAL_ID; item < a.rows * groups_of(a.n); item += GLOBAL_SIZE) {
        const Group group = group_of(item, a.n);
        const i64 first = group.row * pieces_of(a.n);
        const i32 exponent = exponent_of_sum(a.starts[first + group.begin]);
        i64 even = 0, odd = 0;
        for (i64 i = first + group.begin; i < first + group.end; ++i) {
            const i64 own_even = a.even[i], own_odd = a.odd[i];
            even += even & 1 ? own_odd : own_even;
            odd += odd & 1 ? own_even : own_odd;
            const bool whole = own_even >= 0 && exponent_of_sum(a.starts[i]) == exponent;
            if (!whole || even >= (1ll << 53) || odd >= (1ll << 53)) {
                even = -1;
                break;
            }
        }
        a.group_even[item] = even;
        a.group_odd[item] = odd;
    }
}

// A sum to which `even` or `odd` units are added, in few steps; negative where it leaves its power of two.
DEVICE double in_units(double sum, double guess, i64 even, i64 odd) {
    const i32 exponent = exponent_of_sum(sum);
    if (even < 0 || exponent != exponent_of_sum(guess)) return -1.0;
    const i64 units = (i64)(sum * power_of_two(52 - exponent));
    const i64 after = units + (units & 1 ? odd : even);
    return after < (1ll << 53) ? (double)after * power_of_two(exponent - 52) : -1.0;
}

// The sum after weights begin .. end - 1. Lanes of a warp load them, and what pieces and groups add, together; all
// then go through them in order.
DEVICE double after_weights(const AncestorArguments &a, i64 begin, i64 end, double sum, i64 lane) {
    for (i64 first = begin; first < end; first += LANES_OF_BLOCK) {
        const double own = first + lane < end ? a.shares[first + lane] : 0.0;
        UNROLL for (int i = 0; i < LANES_OF_BLOCK; ++i) sum += BLOCK_READ(own, i);
    }
    return sum;
}

// The sum after pieces begin .. end - 1 of a row; the sums before them are stored if `kept`.
DEVICE double after_pieces(const AncestorArguments &a, i64 row, i64 begin, i64 end, double sum,
                           i64 lane, bool kept) {
    const i64 pieces = row * pieces_of(a.n);
    for (i64 first = begin; first < end; first += LANES_OF_BLOCK) {
        const i64 at = pieces + (first + lane < end ? first + lane : first);
        const double guess = a.starts[at];
        const i64 even = a.even[at], odd = a.odd[at];
        const i64 last = first + LANES_OF_BLOCK < end ? first + LANES_OF_BLOCK : end;
        double own = sum;
        for (i64 i = first; i < last; ++i) {
            if (i == first + lane) own = sum;
            const double found = in_units(sum, BLOCK_READ(guess, i - first),
                                          BLOCK_READ(even, i - first), BLOCK_READ(odd, i - first));
            const i64 behind = (i + 1) * PIECE < a.n ? (i + 1) * PIECE : a.n;
            sum = found >= 0.0
                      ? found
                      : after_weights(a, row * a.n + i * PIECE, row * a.n + behind, sum, lane);
        }
        if (kept && first + lane < last) a.starts[pieces + first + lane] = own;
    }
    return sum;
}

// The sums before groups, to the bit, from group to group.
KERNEL(find_row, const AncestorArguments a) {
    const i64 groups = groups_of(a.n), lane = GLOBAL_ID % LANES_OF_BLOCK;
    for (i64 row = GLOBAL_ID / LANES_OF_BLOCK; row < a.rows; row += GLOBAL_SIZE / LANES_OF_BLOCK) {
        if (!a.chosen[row]) continue;
        double sum = a.start;
        for (i64 first = 0; first < groups; first += LANES_OF_BLOCK) {
            const i64 at = row * groups + (first + lane < groups ? first + lane : first);
            const double guess = a.starts[row * pieces_of(a.n) + (at - row * groups) * GROUP];
            const i64 even = a.group_even[at], odd = a.group_odd[at];
            const i64 last = first + LANES_OF_BLOCK < groups ? first + LANES_OF_BLOCK : groups;
            double own = sum;
            for (i64 i = first; i < last; ++i) {
                if (i == first + lane) own = sum;
                const double found =
                    in_units(sum, BLOCK_READ(guess, i - first), BLOCK_READ(even, i - first),
                             BLOCK_READ(odd, i - first));
                sum = found >= 0.0 ? found
                                   : after_pieces(a, row, i * GROUP, smaller((i + 1) * GROUP, pieces_of(a.n)),
                                                  sum, lane, false);
            }
            if (first + lane < last) a.group_starts[row * groups + first + lane] = own;
        }
        if (lane == 0) a.ends[row] = sum;
    }
}

// The sums before pieces, to the bit.
KERNEL(find_starts, const AncestorArguments a) {
    const i64 lane = GLOBAL_ID % LANES_OF_BLOCK;
    for (i64 item = GLOBAL_ID / LANES_OF_BLOCK; item < a.rows * groups_of(a.n);
         item += GLOBAL_SIZE / LANES_OF_BLOCK) {
        const Group group = group_of(item, a.n);
        if (!a.chosen[group.row]) continue;
        after_pieces(a, group.row, group.begin, group.end, a.group_starts[item], lane, true);
    }
}

// The sums within pieces.
KERNEL(add_pieces, const AncestorArguments a) {
    const i64 pieces = pieces_of(a.n);
    for (i64 item = GLOBAL_ID; item < a.rows * pieces; item += GLOBAL_SIZE) {
        const i64 row = item / pieces, begin = (item - row * pieces) * PIECE;
        const i64 end = begin + PIECE < a.n ? begin + PIECE : a.n;
        if (!a.chosen[row]) continue;
        double sum = a.starts[item];
        each_weight(a.shares + row * a.n, begin, end, [&](i64 i, double own) {
            sum += own;
            if (i < end) a.ladder[row * a.n + i] = sum;
        });
    }
}

DEVICE double uniform_of(const AncestorArguments &a, i64 row, i64 i) {
    return fraction_of(
        random_word(a.seed, (u64)a.purpose, (u64)a.numbers[row], (u64)(a.group + row), i));
}

// The first of begin .. n - 1 whose sum is above a place; n where none is.
DEVICE i64 first_above(const double *ladder, i64 begin, i64 n, double place) {
    i64 low = begin, step = 1;
    while (low + step <= n && !(ladder[low + step - 1] > place)) {
        low += step;
        step *= 2;
    }
    i64 high = low + step < n ? low + step : n;  // below `low` none is above
    while (low < high) {
        const i64 middle = (low + high) / 2;
        if (ladder[middle] > place)
            high = middle;
        else
            low = middle + 1;
    }
    return low;
}

KERNEL(find_ancestors, const AncestorArguments a) {
    const i64 each = (a.made + TOGETHER - 1) / TOGETHER;
    for (i64 item = GLOBAL_ID; item < a.rows * each; item += GLOBAL_SIZE) {
        const i64 row = item / each, begin = (item - row * each) * TOGETHER,
                  base = a.base + row * a.n;
        const i64 end = begin + TOGETHER < a.made ? begin + TOGETHER : a.made;
        i64 *const ancestors = a.ancestors + row * a.made;
        // Rows in which nothing weighs are asked for before the host knows it, and nobody takes the answer.
        if (!(a.chosen[row] && a.ends[row] > 0.0)) {
            for (i64 i = begin; i < end; ++i) ancestors[i] = base + i;
            continue;
        }
        const double *const ladder = a.ladder + row * a.n;
        const double total = a.ends[row];
        double uniform = uniform_of(a, row, 0);
        i64 at = 0;
        for (i64 i = begin; i < end; ++i) {
            const i64 particle = a.first + i;
            if (a.stratified) uniform = uniform_of(a, row, particle);
            const double place = ((double)particle + uniform) / (double)a.whole * total;
            at = first_above(ladder, at, a.n, place);
            i64 found = at;
            if (found == a.n) {  // rounded to the end
                do --found;
                while (!(a.shares[row * a.n + found] > 0.0));
                at = a.n;
            }
            ancestors[i] = base + found;
        }
    }
}
