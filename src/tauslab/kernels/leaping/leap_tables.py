"""Writes the functions of `leap_parts` as loops over tables, for GPUs and larger networks.

The numbers are the same. Text for every reaction takes a compiler seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from tauslab.kernels.backends.base import Style
from tauslab.kernels.leaping.codegen import (
    CRITICAL_FIRINGS,
    NO_RATES_AT_A_TIME,
    changes_of,
    channels,
    leap_sizes,
    order_statements,
)
from tauslab.kernels.network.codegen import lane_table, propensity_at, unrolled_header
from tauslab.kernels.network.lowering import LoweredNetwork


def leap_parts_in_tables(
    network: LoweredNetwork, bounds: str = "", *, counts: bool = False
) -> list[str]:
    """Sizes, tables and functions; `bounds` as in `leap_parts`.

    With `counts` there is what exact firings read too.
    """
    together = channels(network)
    lost = [[(i, -by) for i, by in r.change if by < 0] for r in network.reactions]
    turnover = [changes_of(network, i) for i in range(len(network.species))]
    changed = [i for i, changes in enumerate(turnover) if changes]
    orders = [order_statements(network, i) for i in changed]
    kinds = list(dict.fromkeys(order for order in orders if order))
    kind_of = {None: -1, "": len(kinds)} | {text: k for k, text in enumerate(kinds)}
    number = [kind_of[order] for order in orders]
    flat = [change for i in changed for change in turnover[i]]
    tables = [
        lane_table("int", "CHANNEL_AT", _starts(together)),
        lane_table("int", "MEMBER", [j for reactions in together for j in reactions]),
        lane_table("int", "LOST_AT", _starts(lost)),
        lane_table("int", "LOST", [i for each in lost for i, _ in each]),
        lane_table("int", "FEW", [by * CRITICAL_FIRINGS for each in lost for _, by in each]),
        lane_table("int", "CHANGING", changed),
        lane_table("int", "ORDER_OF", number),
        lane_table("int", "TURNOVER_AT", _starts([turnover[i] for i in changed])),
        lane_table("int", "TURNOVER_OF", [channel for channel, _ in flat]),
        lane_table("int", "TURNOVER_BY", [by for _, by in flat]),
    ]
    cases = "".join(f"    case {k}: {{\n{text}    }} break;\n" for k, text in enumerate(kinds))
    changes = [reaction.change for reaction in network.reactions]
    if counts:
        tables += [
            lane_table("int", "CHANGE_AT", _starts(changes)),
            lane_table("int", "CHANGED", [i for change in changes for i, _ in change]),
            lane_table("i32", "CHANGED_BY", [by for change in changes for _, by in change]),
        ]
    functions = _FUNCTIONS.format(
        few=CRITICAL_FIRINGS,
        changing=len(changed),
        first_order=len(kinds),
        cases=cases,
        bounds=bounds,
    )
    return [leap_sizes(network), *tables, functions]


def _starts(groups: Sequence[Sequence[object]]) -> list[int]:
    return [0, *accumulate(map(len, groups))]


_FUNCTIONS = """\
// Whether a reactant lasts for few firings.
template <class Counts>
DEVICE_SHARED bool critical_at(int reaction, const Counts &x) {{
    const Rate &rate = RATES[reaction];
    if (rate.lost[0] >= 0)
        return (rate.lost[0] > 0 && x[rate.first] < rate.lost[0] * {few}) ||
               (rate.lost[1] > 0 && x[rate.second] < rate.lost[1] * {few});
    bool few = false;
    NO_UNROLL for (int k = LOST_AT[reaction]; k < LOST_AT[reaction + 1]; ++k)
        few |= x[LOST[k]] < FEW[k];
    return few;
}}

// The sum of a number of each reaction of a channel.
template <class Number>
DEVICE double sum_of(int channel, const Number &number) {{
    if (N_CHANNELS == N_REACTIONS) return number(channel);
    const int first = CHANNEL_AT[channel], end = CHANNEL_AT[channel + 1];
    double sum = number(MEMBER[first]);
    NO_UNROLL for (int k = first + 1; k < end; ++k) sum += number(MEMBER[k]);
    return sum;
}}

// The order of the highest reaction that reads a species.
template <class Count>
DEVICE_SHARED double order_at([[maybe_unused]] int kind, [[maybe_unused]] double count,
                              [[maybe_unused]] Count *x, [[maybe_unused]] const double *c) {{
    typedef double Real;
    Real order = 1.0;
    switch (kind) {{
{cases}    default: break;
    }}
    return order;
}}

// The longest leap, and the propensities to leap with.
template <class Count, class Cells>
SHARED_LAW Plan plan_leap(Count *x, const double *c, const Cells &leaping,
                          const Tolerance &tolerance) {{
    Plan plan = {{0.0, 0.0, {{1.0, 0.0}}}};
    UNROLL_SOME for (int i = 0; i < N_CHANNELS; ++i)
        leaping[i] = sum_of(i, [&](int j) {{
            return share(propensity_at(j, x, c), critical_at(j, x), plan);
        }});
    NO_UNROLL for (int k = 0; k < {changing}; ++k) {{
        const int kind = ORDER_OF[k];
        if (kind < 0) continue;
        const double count = quantity(x[CHANGING[k]]);
        Turnover turnover = {{0, 0, 0}};
        NO_UNROLL for (int m = TURNOVER_AT[k]; m < TURNOVER_AT[k + 1]; ++m) {{
            const double propensity = leaping[TURNOVER_OF[m]], by = TURNOVER_BY[m];
            (by > 0 ? turnover.gain : turnover.loss) += magnitude(by) * propensity;
            turnover.variance += by * by * propensity;
        }}
        const AllowedOf<double> most = kind == {first_order}
            ? allowed_of(tolerance, count)
            : allowed_of(tolerance, count, order_at(kind, count, x, c));
        bound(most, turnover, plan.limit);
    }}
{bounds}    return plan;
}}

// Propensities for the second half of a leap, see `leap_parts`.
template <class Count, class Before, class First, class Cells>
SHARED_LAW bool second_half(const Count *x, const Before &before, const double *c,
                            const First &first, const Cells &leaping) {{
    double sum = 0;
    UNROLL_SOME for (int i = 0; i < N_CHANNELS; ++i) {{
        const double between = sum_of(
            i, [&](int j) {{ return critical_at(j, before) ? 0.0 : propensity_at(j, x, c); }});
        sum += between;
        leaping[i] = extrapolated((double)first[i], between);
    }}
    return sum >= 0 && sum < tl_infinity();
}}

// The channel of the critical reaction that fires, or -1.
template <class Count>
SHARED_LAW int choose_critical(const Count *x, const double *c, double target) {{
    double sum = 0;
    int chosen = -1;
    NO_UNROLL for (int i = 0; i < N_CHANNELS; ++i)
        NO_UNROLL for (int k = CHANNEL_AT[i]; k < CHANNEL_AT[i + 1]; ++k) {{
            const int j = MEMBER[k];
            if (critical_at(j, x)) choose(i, propensity_at(j, x, c), target, sum, chosen);
        }}
    return chosen;
}}

// Fires; tells whether a count fell below 0 or passed 2147483647.
template <class Count, class Cells>
SHARED_LAW OutcomeOf<Count> apply_firings(Count *x, const Cells &firings) {{
    OutcomeOf<Count> outcome = {{}};
    NO_UNROLL for (int k = 0; k < {changing}; ++k) {{
        i64 change = 0;
        NO_UNROLL for (int m = TURNOVER_AT[k]; m < TURNOVER_AT[k + 1]; ++m)
            change += TURNOVER_BY[m] * number_of(firings[TURNOVER_OF[m]]);
        add(x[CHANGING[k]], change, outcome);
    }}
    return outcome;
}}

// Propensities to leap with.
template <class Count>
DEVICE_SHARED void channel_propensities(const Count *x, const double *c, double *all) {{
    NO_UNROLL for (int i = 0; i < N_CHANNELS; ++i)
        all[i] = sum_of(
            i, [&](int j) {{ return critical_at(j, x) ? 0.0 : propensity_at(j, x, c); }});
}}
"""


def leap_header_in_tables(network: LoweredNetwork, style: Style) -> str:
    """`model.h` of `leap_header` with loops in place of text for every reaction."""
    return "\n".join(
        [
            unrolled_header(network, style), propensity_at(network), NO_RATES_AT_A_TIME,
            *leap_parts_in_tables(network, counts=True), _EXACT,
        ]
    )  # fmt: skip


_EXACT = """\
// What an exact event leaves for the next.
struct Exact {
    double sum;
    DEVICE_MEMBER double total() const { return sum; }
    DEVICE_MEMBER double total_now(const i32 *, const double *) { return sum; }
};

template <class Cells>
DEVICE void start_exact(i32 *x, const double *c, Exact &exact, const Cells &cells) {
    double sum = 0;
    UNROLL_SOME for (int j = 0; j < N_REACTIONS; ++j) sum += cells[j] = propensity_at(j, x, c);
    exact.sum = sum;
}

// Returns a negative number if a count passed 2147483647.
template <class Cells>
DEVICE i32 fire_exact(double target, i32 *x, const double *c, Exact &exact, const Cells &cells) {
    double sum = 0;
    int reaction = 0;
    UNROLL_SOME for (int j = 0; j < N_REACTIONS - 1; ++j) {
        sum += cells[j];
        reaction += sum <= target;
    }
    i32 signs = 0;
    NO_UNROLL for (int k = CHANGE_AT[reaction]; k < CHANGE_AT[reaction + 1]; ++k)
        signs |= x[CHANGED[k]] = plus(x[CHANGED[k]], CHANGED_BY[k]);
    start_exact(x, c, exact, cells);
    return signs;
}
"""
