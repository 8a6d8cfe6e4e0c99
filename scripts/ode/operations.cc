// Every operation of generated equations alone in a kernel, to count the instructions that it
// becomes (count_operations.py). Never run.
#include "model.h"  // says what Real is
#include "math/both_precisions.h"

#define OPERATION(name, result) \
    KERNEL(operation_##name, Real *out, const Real *in) { \
        [[maybe_unused]] const Real a = in[0], b = in[1], c = in[2]; \
        out[0] = (Real)(result); \
    }

OPERATION(add, a + b)
OPERATION(sub, a - b)
OPERATION(mul, a *b)
OPERATION(fused, fused(a, b, c))
OPERATION(div, a / b)
OPERATION(reciprocal, reciprocal(a))
OPERATION(sqrt, root(a))
OPERATION(compare, a < b)
OPERATION(if, a != 0 ? b : c)
OPERATION(exp, tl_exp(a))
OPERATION(log, tl_log(a))
OPERATION(log10, tl_log10(a))
OPERATION(cbrt, tl_cbrt(a))
OPERATION(abs, tl_abs(a))
OPERATION(floor, tl_floor(a))
OPERATION(ceil, tl_ceil(a))
OPERATION(sin, tl_sin(a))
OPERATION(cos, tl_cos(a))
OPERATION(tan, tl_tan(a))
OPERATION(asin, tl_asin(a))
OPERATION(acos, tl_acos(a))
OPERATION(atan, tl_atan(a))
OPERATION(sinh, tl_sinh(a))
OPERATION(cosh, tl_cosh(a))
OPERATION(tanh, tl_tanh(a))
OPERATION(pow, tl_pow(a, b))
OPERATION(min, tl_min(a, b))
OPERATION(max, tl_max(a, b))
