"""Writes `model.h` for trajectories that share random numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tauslab.kernels.backends.base import Style
from tauslab.kernels.network.codegen import LawWriter, unrolled_header
from tauslab.kernels.network.lowering import Law, LoweredNetwork, LoweredReaction

Change = tuple[tuple[int, int], ...]


def coupled_header(network: LoweredNetwork, style: Style) -> str:
    """`model.h` for pairs: as of the direct method, and how a pair fires."""
    fire = _fire_branches(network) if style.branches else _fire_selects(network)
    return "\n".join(
        [
            unrolled_header(network, style),
            '#include "coupled/parts.h"\n',
            _pair_propensities(network),
            fire,
        ]
    )


def common_header(network: LoweredNetwork, style: Style) -> str:
    """`model.h` for common reaction paths: reactions are fired by their number."""
    fire = _number_branches(network) if style.branches else _number_selects(network)
    return "\n".join([unrolled_header(network, style), _every_propensity(network), fire])


@dataclass(frozen=True)
class Slopes:
    """Derivatives by parameters that are not zero for their form.

    `reactions` are (reaction, parameter, law), `outputs` (output, parameter, law).
    """

    parameters: int
    reactions: tuple[tuple[int, int, Law], ...]
    outputs: tuple[tuple[int, int, Law], ...]


def score_header(network: LoweredNetwork, slopes: Slopes, style: Style) -> str:
    """`model.h` for scores: derivatives of propensities, and of outputs by parameters in them."""
    writer = LawWriter("x")
    functions, rates = [], [f"    rates[{p}] = 0;\n" for p in range(slopes.parameters)]
    cases: dict[int, list[str]] = {}
    for number, (j, p, law) in enumerate(slopes.reactions):
        functions.append(_slope(number, *_guarded(network.reactions[j], law, writer)))
        rates.append(f"    rates[{p}] += seen(slope_{number}(x, c), a[{j}]);\n")
        cases.setdefault(j, []).append(f"        score[{p}] += slope_{number}(x, c) / a[{j}];\n")
    adds = []
    for number, (o, p, law) in enumerate(slopes.outputs, len(functions)):
        functions.append(_slope(number, *writer.read(law)))
        cell = p * len(network.observables) + o
        adds.append(f"    cell[{cell}] += slope_{number}(x, c);\n")
    events = "".join(f"    case {j}:\n{''.join(c)}        break;\n" for j, c in cases.items())
    return "\n".join(
        [
            unrolled_header(network, style),
            '#include "coupled/parts.h"\n',
            f"constexpr int N_PARAMETERS = {slopes.parameters};\n",
            *functions,
            f"{_SCORE_HEADS['rates']}{''.join(rates)}}}\n",
            _SCORE_HEADS["event"],
            f"    switch (reaction) {{\n{events}    default: break;\n    }}\n}}\n",
            f"{_SCORE_HEADS['outputs']}{''.join(adds)}}}\n",
        ]
    )


_STATE = "[[maybe_unused]] const i32 *x, [[maybe_unused]] const double *c"
_SCORE_HEADS = {
    "rates": "// Derivatives of the total propensity.\n"
    f"DEVICE void score_rates({_STATE},\n"
    "    [[maybe_unused]] const double *a, double *rates) {\n",
    "event": "// Adds those of the logarithm of the propensity of a reaction, which is above 0.\n"
    f"DEVICE void score_event([[maybe_unused]] int reaction, {_STATE},\n"
    "    [[maybe_unused]] const double *a, [[maybe_unused]] double *score) {\n",
    "outputs": "// Adds derivatives of outputs by parameters that stand in them.\n"
    f"DEVICE void add_output_slopes({_STATE}, [[maybe_unused]] double *cell) {{\n",
}


def _guarded(reaction: LoweredReaction, law: Law, writer: LawWriter) -> tuple[str, str]:
    """The derivative of a propensity, which is zero where that is for lack of molecules."""
    statements, text = writer.read(law)
    if reaction.needs:
        enough = " && ".join(f"x[{index}] >= {count}" for index, count in reaction.needs)
        text = f"({enough} ? {text} : 0.0)"
    return statements, text


def _slope(number: int, statements: str, value: str) -> str:
    return f"DEVICE double slope_{number}({_STATE}) {{\n{statements}    return {value};\n}}\n"


def _every_propensity(network: LoweredNetwork) -> str:
    lines = [f"    a[{j}] = propensity_{j}(x, c);\n" for j in range(len(network.reactions))]
    return (
        "DEVICE void every_propensity([[maybe_unused]] const i32 *x,\n"
        "    [[maybe_unused]] const double *c, double *a) {\n"
        f"{''.join(lines)}}}\n"
    )


def _pair_propensities(network: LoweredNetwork) -> str:
    count = len(network.reactions)
    lines = [_propensity(j, side) for j in range(count) for side in (0, 1)]
    return (
        "DEVICE void pair_propensities(const CoupledPair &pair) {\n"
        f"{''.join(f'    {line}' for line in lines)}{_cumulate(range(count))}}}\n"
    )


def _propensity(reaction: int, side: int) -> str:
    a, x, c = (("a", "x", "c"), ("b", "y", "d"))[side]
    return f"pair.{a}[{reaction}] = propensity_{reaction}((const i32 *)pair.{x}, pair.{c});\n"


def _cumulate(reactions: Iterable[int]) -> str:
    return "".join(
        f"    pair.cumulative[{j}] = {f'pair.cumulative[{j - 1}] + ' if j else ''}"
        f"larger(pair.a[{j}], pair.b[{j}]);\n"
        for j in reactions
    )


def _fire_branches(network: LoweredNetwork) -> str:
    """Fire in one branch per reaction, which recomputes what depends on the change."""
    cases = []
    for j, (reaction, touched) in enumerate(zip(network.reactions, network.touched(), strict=True)):
        below = f"target - pair.cumulative[{j - 1}]" if j else "target"
        body = f"        const Sides sides = sides_of({below}, pair.a[{j}], pair.b[{j}]);\n"
        for side, (state, fires) in enumerate((("x", "first"), ("y", "second"))):
            lines = [
                f"pair.{state}[{i}] = plus(pair.{state}[{i}], {by});\n" for i, by in reaction.change
            ]
            lines += [_propensity(r, side) for r in touched]
            inside = "".join(f"            {line}" for line in lines)
            body += f"        if (sides.{fires}) {{\n{inside}        }}\n"
        signs = " | ".join(f"pair.{s}[{i}]" for i, _ in reaction.change for s in "xy") or "0"
        sums = _cumulate(range(touched[0], len(network.reactions))) if touched else ""
        cases.append(
            f"    case {j}: {{\n{body}        signs = {signs};\n{sums}        break;\n    }}\n"
        )
    return (
        f"{_PAIR_HEAD}    i32 signs = 0;\n"
        "    switch (first_above<N_REACTIONS>(pair.cumulative, target)) {\n"
        f"{''.join(cases)}    }}\n    return signs;\n}}\n"
    )


def _fire_selects(network: LoweredNetwork) -> str:
    """Fire without a branch; all is recomputed."""
    changes = [dict(reaction.change) for reaction in network.reactions]
    changed = sorted(set().union(*changes))
    lines = ["double below = 0, first = pair.a[0], second = pair.b[0];\n"]
    lines += [f"i32 by_{i} = {changes[0].get(i, 0)};\n" for i in changed]
    for j in range(1, len(changes)):
        lines.append(f"const bool passed_{j} = pair.cumulative[{j - 1}] <= target;\n")
        chosen = {"below": f"pair.cumulative[{j - 1}]", "first": f"pair.a[{j}]",
                  "second": f"pair.b[{j}]"}  # fmt: skip
        chosen |= {f"by_{i}": str(changes[j].get(i, 0)) for i in changed
                   if changes[j].get(i, 0) != changes[j - 1].get(i, 0)}  # fmt: skip
        lines += [f"{name} = passed_{j} ? {value} : {name};\n" for name, value in chosen.items()]
    lines.append("const Sides sides = sides_of(target - below, first, second);\n")
    for i in changed:
        lines.append(f"pair.x[{i}] = plus(pair.x[{i}], sides.first ? by_{i} : 0);\n")
        lines.append(f"pair.y[{i}] = plus(pair.y[{i}], sides.second ? by_{i} : 0);\n")
    signs = " | ".join(f"pair.{s}[{i}]" for i in changed for s in "xy") or "0"
    body = "".join(f"    {line}" for line in lines)
    return f"{_PAIR_HEAD}{body}    pair_propensities(pair);\n    return {signs};\n}}\n"


_PAIR_HEAD = (
    "// Returns a negative number if a count passed 2147483647.\n"
    "DEVICE i32 fire_pair(double target, const CoupledPair &pair) {\n"
)
_NUMBER_HEAD = (
    "// Returns a negative number if a count passed 2147483647.\n"
    "DEVICE i32 fire_number([[maybe_unused]] int reaction, i32 *x, const double *c, double *a) {\n"
)


def _number_branches(network: LoweredNetwork) -> str:
    cases = []
    for j, (reaction, touched) in enumerate(zip(network.reactions, network.touched(), strict=True)):
        lines = [f"x[{i}] = plus(x[{i}], {by});" for i, by in reaction.change]
        lines += [f"a[{r}] = propensity_{r}((const i32 *)x, c);" for r in touched]
        lines.append(f"return {' | '.join(f'x[{i}]' for i, _ in reaction.change) or '0'};")
        body = "".join(f"        {line}\n" for line in lines)
        cases.append(f"    case {j}:\n{body}")
    return (
        f"{_NUMBER_HEAD}    switch (reaction) {{\n{''.join(cases)}    default: return 0;\n"
        "    }\n}\n"
    )


def _number_selects(network: LoweredNetwork) -> str:
    changes = [dict(reaction.change) for reaction in network.reactions]
    changed = sorted(set().union(*changes))
    lines = [f"i32 by_{i} = {changes[0].get(i, 0)};\n" for i in changed]
    lines += [
        f"by_{i} = reaction == {j} ? {change.get(i, 0)} : by_{i};\n"
        for j, change in enumerate(changes[1:], 1)
        for i in changed
        if change.get(i, 0) != changes[0].get(i, 0)
    ]
    lines += [f"x[{i}] = plus(x[{i}], by_{i});\n" for i in changed]
    body = "".join(f"    {line}" for line in lines)
    signs = " | ".join(f"x[{i}]" for i in changed) or "0"
    return f"{_NUMBER_HEAD}{body}    every_propensity(x, c, a);\n    return {signs};\n}}\n"
