"""Writes `model.h` for leaps of networks with events: how far they may go before a trigger changes.

A leap ends at times that are known before. Relations that reactions or equations can change, in
triggers and in times at which relations change, bound it: `bound` of csrc/leaping/crossing.h.
"""

from __future__ import annotations

from tauslab.kernels.backends.base import Style
from tauslab.kernels.events.codegen import events_header, in_tables
from tauslab.kernels.events.watched import Margin, Watched
from tauslab.kernels.leaping.codegen import channels, leap_parts, leaps_in_tables
from tauslab.kernels.network.codegen import LawWriter
from tauslab.kernels.network.lowering import LoweredNetwork, counts_in

# Text for every reaction takes a CPU's compiler half a minute for twice as many.
_MOST_WRITTEN = 160


def event_leap_header(network: LoweredNetwork, style: Style) -> str:
    """`model.h` for `tau_events`: that of exact simulation, and leaps."""
    assert network.dynamics is not None
    margins = list(Watched(network).margins())
    moves = str(network.dynamics.moves).lower()
    tables = in_tables(network, style) or len(network.reactions) > _MOST_WRITTEN
    bounds = _bounds(network, margins)
    if tables:
        leaps = leaps_in_tables(network, bounds)
    else:
        leaps = [*leap_parts(network, "double", bounds), _channel_propensities(network)]
    return "\n".join(
        [
            events_header(network, in_tables=tables),
            f"// Whether anything moves between events.\nconstexpr bool MOVES = {moves};\n",
            _margin_functions(network, margins),
            *leaps,
            _relations_stay(margins),
        ]
    )


def _margin_functions(network: LoweredNetwork, margins: list[Margin]) -> str:
    names = {id(law): f"shared_{k}(x, c)" for k, law in enumerate(network.shared)}
    writer = LawWriter("x", names)
    text = ""
    for k, margin in enumerate(margins):
        if margin.law is None:
            continue
        statements, value = writer.read(margin.law)
        text += (
            f"DEVICE_SHARED double margin_{k}([[maybe_unused]] const double *x,\n"
            f"    [[maybe_unused]] const double *c) {{\n{statements}    return {value};\n}}\n"
        )
    return "// Differences that are 0 where a trigger may change.\n" + text


def _bounds(network: LoweredNetwork, margins: list[Margin]) -> str:
    """Statements that end a leap before a trigger changes."""
    text = ""
    for k, margin in enumerate(margins):
        if margin.law is None:
            text += f"    if ({margin.guard}) plan.limit.bound(0.0, 1.0);\n"
            continue
        part = 0.5 if margin.moves or margin.at_time else 1.0
        text += (
            f"    if ({margin.guard}) {{\n"
            f"        const double margin = margin_{k}(x, c);\n"
            f"        Crossing crossing = crossing_of(margin, {part});\n"
        )
        reads = counts_in(margin.law)
        for channel, reactions in enumerate(channels(network)):
            change = network.reactions[reactions[0]].change
            if not reads & {index for index, _ in change}:
                continue
            there = "".join(f"x[{i}] += {by}; " for i, by in change)
            back = "".join(f"x[{i}] -= {by}; " for i, by in change)
            text += (
                f"        {there.rstrip()}\n"
                f"        const double change_{channel} = margin_{k}(x, c) - margin;\n"
                f"        {back.rstrip()}\n"
                f"        crossing.add(leaping[{channel}], change_{channel});\n"
            )
        if margin.at_time:
            text += "        plan.limit.bound(0.5 * magnitude(margin), 1.0);\n"
        text += "        crossing.bound(plan.limit);\n    }\n"
    return text


def _channel_propensities(network: LoweredNetwork) -> str:
    lines = ""
    for i, reactions in enumerate(channels(network)):
        terms = [f"(critical_{j}(x) ? 0.0 : propensity_{j}(x, c))" for j in reactions]
        lines += f"    all[{i}] = {' + '.join(terms)};\n"
    return (
        "// Propensities to leap with.\n"
        "DEVICE_SHARED void channel_propensities([[maybe_unused]] const double *x,\n"
        f"    [[maybe_unused]] const double *c, double *all) {{\n{lines}}}\n"
    )


def _relations_stay(margins: list[Margin]) -> str:
    """Return whether what moves by itself keeps clear of changes of triggers, from x to y."""
    lines = ""
    for k, margin in enumerate(margins):
        if margin.law is not None and margin.moves:
            lines += (
                f"    if ({margin.guard} && !(magnitude(margin_{k}(y, c) - margin_{k}(x, c)) <=\n"
                f"        0.5 * magnitude(margin_{k}(x, c)))) return false;\n"
            )
    return (
        "// Whether relations are at most half-way to a change after what moves by itself went "
        "from x to y.\n"
        "DEVICE_SHARED bool relations_stay([[maybe_unused]] const double *x,\n"
        "    [[maybe_unused]] const double *y, [[maybe_unused]] const double *c) {\n"
        f"{lines}    return true;\n}}\n"
    )
