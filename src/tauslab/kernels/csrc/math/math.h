// Elementary functions with the same bits from every compiler and on every device.
//
// Only IEEE + - * / and square root, explicit fused multiply-add and integer operations are used,
// and contraction is off in all compilers (-ffp-contract=off, --fmad=false). Names are `tl_` and
// the name in C. Special values are those of C (NaN in, NaN out; tl_min and tl_max too), and every
// NaN is 0x7ff8000000000000. Errors are measured in docs/developers/portable-math.md.
#pragma once

#include "math/exp.h"
#include "math/trig.h"
