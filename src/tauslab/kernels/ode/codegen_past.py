"""Text of `model.h` for ODE kernels whose equations look back: sizes, lags, a test of delays."""

from __future__ import annotations

from typing import Protocol

from tauslab.kernels.network.codegen import literal
from tauslab.kernels.ode.graph import RUNNING, ExpressionGraph
from tauslab.kernels.ode.lowering import OdeSystem

PAST_INCLUDES = "#define HAS_PAST\n"
# Jumps are followed from one derivative to the next up to this one, or as long as their images
# are not more than so many.
_HIGHEST_ORDER, _MOST_IMAGES = 5, 1100


class PastWriter(Protocol):
    """The part of `tauslab.kernels.ode.codegen.CodeWriter` that is used."""

    graph: ExpressionGraph
    constants: dict[int, int]
    lookups: dict[int, int]

    def expression(self, node: int) -> tuple[str, str]:
        """Statements of a node, and its text."""


def history_words(system: OdeSystem, length: int) -> int:
    """Doubles of a trajectory's history: as csrc/ode/past/history.h has them."""
    return length * (3 + 5 * len(system.delayed)) if system.looks_back else 0


def past_functions(system: OdeSystem, writer: PastWriter, length: int) -> str:
    """Sizes of the history, lags of lookups, and whether a delay is below 0."""
    tests = []
    for wait in system.waits:
        lines, value = writer.expression(wait)
        tests.append(f"    {{\n{lines}        if ({value} < least) return true;\n    }}\n")
    still = {
        number: writer.graph.nodes[ago].arguments[1]
        for ago, number in writer.lookups.items()
        if writer.graph.stages[writer.graph.nodes[ago].arguments[1]] < RUNNING
    }
    lags = "".join(
        f"        case {number}: return {_constant(writer, lag)};\n"
        for number, lag in sorted(still.items())
    )
    moving = ""
    for ago, number in [pair for pair in writer.lookups.items() if pair[1] not in still]:
        lines, value = writer.expression(ago)
        moving += f"        case {number}: {{\n{lines}        return {value};\n        }}\n"
    count = len(writer.lookups)
    flags = ", ".join(str(int(number in still)) for number in range(count)) or "0"
    variables = ", ".join(map(str, system.delayed)) or "0"
    return (
        f"constexpr int N_DELAYED = {len(system.delayed)};\n"
        f"TABLE int DELAYED[{max(1, len(system.delayed))}] = {{{variables}}};\n"
        f"constexpr int N_LOOKUPS = {count};\n"
        f"TABLE bool IS_CONSTANT_LAG[{max(1, count)}] = {{{flags}}};\n"
        f"constexpr int HIGHEST_ORDER = {_highest_order(len(still))};\n"
        f"constexpr i64 HISTORY_LENGTH = {length};\n"
        f"constexpr double DELAY_SLACK = {literal(system.slack)};\n"
        "// How far a lookup goes back, if that is a constant of the trajectory.\n"
        "template <class Constants>\n"
        "DEVICE_SHARED double constant_lag(int lookup, [[maybe_unused]] const Constants &c) {\n"
        f"    switch (lookup) {{\n{lags}        default: return 0;\n    }}\n}}\n"
        "// The time that a lookup reads in a state, if its lag moves.\n"
        "template <class State, class Constants>\n"
        "DEVICE_SHARED double moving_time(int lookup, [[maybe_unused]] const State &x,\n"
        "    [[maybe_unused]] const Constants &c, [[maybe_unused]] double t) {\n"
        f"    switch (lookup) {{\n{moving}        default: return 0;\n    }}\n}}\n"
        "// Whether a delay is below `least`.\n"
        "template <class State, class Constants>\n"
        "DEVICE_SHARED bool delays_below([[maybe_unused]] double least, "
        "[[maybe_unused]] const State &x,\n"
        "    [[maybe_unused]] const Constants &c, [[maybe_unused]] double t) {\n"
        f"{''.join(tests)}    return false;\n}}\n"
    )


def _constant(writer: PastWriter, node: int) -> str:
    value = writer.graph.value_of(node)
    if value is not None:
        return literal(value)
    return f"c[{writer.constants.setdefault(node, len(writer.constants))}]"


def _highest_order(lags: int) -> int:
    """Up to which derivative the images of a jump are followed: all of them, if lags are few."""
    order = _HIGHEST_ORDER
    while order > 1 and lags**order > _MOST_IMAGES:
        order -= 1
    return order
