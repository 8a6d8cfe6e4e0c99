// Unknown parameters and initial values, drawn once a trajectory in a stream of their own.
//
// Draw number j belongs to prior number j; draw TABLE_DRAW chooses the row of the table.
#pragma once

#include "math/math.h"
#include "random/streams.h"

enum PriorKind {
    PRIOR_UNIFORM = 0,
    PRIOR_LOG_UNIFORM = 1,
    PRIOR_NORMAL = 2,
    PRIOR_LOG_NORMAL = 3,
    PRIOR_TABLE = 4
};

constexpr u32 TABLE_DRAW = 0x80000000u;
constexpr double TWO_PI = 0x1.921fb54442d18p+2;

// Each prior is four numbers: which input, its kind, and two more. Uniform: lower end and width;
// log-uniform the same of the logarithm; normal: mean and deviation, log-normal the same of the
// logarithm; table: the column.
struct Priors {
    const double *prior;  // [count, 4]
    i64 count;
    const double *table;  // [rows, columns]
    i64 rows, columns;
};

// Standard normal, by Box and Muller (1958).
DEVICE double standard_normal(const Philox4 &bits) {
    const double radius = SQRT(-2.0 * tl_log(unit_open_low(bits.x0, bits.x1)));
    return radius * tl_cos(TWO_PI * unit_half_open(bits.x2, bits.x3));
}

DEVICE double drawn_value(const double *prior, const Philox4 &bits, const double *table_row) {
    const int kind = (int)prior[1];
    if (kind == PRIOR_TABLE) return table_row[(i64)prior[2]];
    const bool normal = kind == PRIOR_NORMAL || kind == PRIOR_LOG_NORMAL;
    const double unit = normal ? standard_normal(bits) : unit_half_open(bits.x0, bits.x1);
    const double value = FMA(unit, prior[3], prior[2]);
    return kind == PRIOR_LOG_UNIFORM || kind == PRIOR_LOG_NORMAL ? tl_exp(value) : value;
}

// Replaces inputs by what is drawn; `drawn`, if it is not null, takes value j at j * stride.
DEVICE void draw_inputs(const Priors &priors, const PhiloxKeys &keys, const Place &place, double *p,
                        double *drawn, i64 stride) {
    if (priors.count == 0) return;
    const PhiloxSeries series =
        draw_series(keys, STREAM_ODE_SAMPLE, place.trajectory, place.point, 0);
    const double *table_row = priors.table;
    if (priors.rows > 0) {
        const Philox4 bits = philox_draw(series, keys, TABLE_DRAW);
        const i64 row = (i64)(unit_half_open(bits.x0, bits.x1) * (double)priors.rows);
        table_row += row * priors.columns;
    }
    for (i64 j = 0; j < priors.count; ++j) {
        const Philox4 bits = philox_draw(series, keys, (u32)j);
        const double value = drawn_value(priors.prior + 4 * j, bits, table_row);
        p[(i64)priors.prior[4 * j]] = value;
        if (drawn) drawn[j * stride] = value;
    }
}
