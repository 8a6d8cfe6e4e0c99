"""Writes tables of a network for leaps in loops, csrc/leaping/loops.h.

Code without loops takes compilers longer than in proportion to the number of reactions, and a
multiprocessor keeps little of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tauslab.kernels.leaping.channels import (
    CRITICAL_FIRINGS,
    changes_of,
    channels,
    orders_of,
    readers_of,
)
from tauslab.kernels.network.codegen import literal
from tauslab.kernels.network.lowering import Constant, LoweredNetwork, LoweredReaction
from tauslab.model.expressions.expression import Number

_NEVER = -(2**31)  # no count is below it


def leap_loops(network: LoweredNetwork, count: str = "i32", bounds: str = "") -> str:
    """Tables and small functions for `csrc/leaping/loops.h`, and its inclusion.

    Parameters
    ----------
    count
        The type of the elements of a state.
    bounds
        Statements that shorten ``plan.limit`` further.
    """
    state = f"[[maybe_unused]] {count} *x,\n    [[maybe_unused]] const double *c"
    read = state.replace(count, f"const {count}", 1)
    return "\n".join(
        [
            _propensities(network, read),
            _losses(network),
            _channels(network),
            _turnover(network),
            _orders(network, state),
            _changes(network),
            _bound_further(state, bounds),
            '#include "leaping/loops.h"\n',
        ]
    )


def _bound_further(state: str, bounds: str) -> str:
    return (
        f"template <class Cells>\nDEVICE void bound_further({state},\n"
        "    [[maybe_unused]] const Cells &leaping, [[maybe_unused]] Plan &plan) {\n"
        f"{bounds}}}\n"
    )


def _table(kind: str, name: str, rows: Iterable[str]) -> str:
    texts = list(rows)
    return f"TABLE {kind} {name}[{len(texts)}] = {{{', '.join(texts)}}};\n"


def _padded(values: Sequence[int], length: int, by: int) -> str:
    return f"{{{', '.join(map(str, [*values, *[by] * (length - len(values))]))}}}"


def _propensities(network: LoweredNetwork, state: str) -> str:
    """Mass action by its form, with a rate constant and species from a table; others by number."""
    forms: dict[tuple[object, ...], int] = {}
    most = max([1, *(len(reaction.orders) for reaction in network.reactions)])
    rows, cases = [], []
    for j, reaction in enumerate(network.reactions):
        rate, number, species = 0.0, 0, [index for index, _ in reaction.orders]
        if _in_table(reaction):
            constant = reaction.constant
            known = isinstance(constant, Number)
            rate = constant.value if isinstance(constant, Number) else 0.0
            number = constant.index if isinstance(constant, Constant) else 0
            form: tuple[object, ...] = (known, tuple(order for _, order in reaction.orders))
            text = _mass_action(reaction, "row.rate" if known else "c[row.constant]")
        else:
            form, text, species = (j,), f"propensity_{j}(x, c)", []
        if form not in forms:
            forms[form] = len(forms)
            cases.append(f"        case {forms[form]}: return {text};\n")
        of = _padded(species, most, 0)
        rows.append(f"{{{literal(rate)}, {number}, {forms[form]}, {of}}}")
    return (
        "// Rate constant, or its number among the constants of a trajectory, form and species.\n"
        f"struct Propensity {{\n    double rate;\n    u16 constant, form, of[{most}];\n}};\n"
        f"{_table('Propensity', 'PROPENSITY', rows)}"
        f"DEVICE double propensity_at(int reaction, {state}) {{\n"
        "    [[maybe_unused]] const Propensity &row = PROPENSITY[reaction];\n"
        f"    switch (PROPENSITY[reaction].form) {{\n{''.join(cases)}"
        "        default: return 0;\n    }\n}\n"
    )


def _in_table(reaction: LoweredReaction) -> bool:
    constant = reaction.constant
    refused = isinstance(constant, Number) and constant.value < 0
    return reaction.law is None and not reaction.needs and not refused


def _mass_action(reaction: LoweredReaction, rate: str) -> str:
    """As `tauslab.kernels.network.codegen` writes it."""
    factors = [
        f"quantity(x[row.of[{k}]])" if taken == 0 else f"(quantity(x[row.of[{k}]]) - {taken}.0)"
        for k, (_, order) in enumerate(reaction.orders)
        for taken in range(order)
    ]
    return f"{rate} * ({' * '.join(factors)})" if factors else rate


def _losses(network: LoweredNetwork) -> str:
    """Reactants of which a firing takes some, and the count below which they are few."""
    lost = [[(i, -by) for i, by in r.change if by < 0] for r in network.reactions]
    most = max([1, *map(len, lost)])
    rows = (
        f"{{{_padded([i for i, _ in one], most, 0)}, "
        f"{_padded([CRITICAL_FIRINGS * by for _, by in one], most, _NEVER + 1)}}}"
        for one in lost
    )
    return (
        f"constexpr int MOST_LOST = {most};\n"
        f"struct Lost {{\n    u16 of[{most}];\n    i32 few[{most}];\n}};\n"
        f"{_table('Lost', 'LOST', rows)}"
    )


def _channels(network: LoweredNetwork) -> str:
    """Reactions of each channel."""
    all_ = channels(network)
    starts = [sum(map(len, all_[:i])) for i in range(len(all_) + 1)]
    reactions = [str(j) for one in all_ for j in one]
    return _table("u16", "CHANNEL_AT", map(str, starts)) + _table("u16", "REACTION", reactions)


def _turnover(network: LoweredNetwork) -> str:
    """Changes of species by channels; the species that change, and those that bound a leap."""
    changing: list[str] = []
    bounding: list[str] = []
    rows: list[str] = []
    for i in range(len(network.species)):
        changes = changes_of(network, i)
        span = f"{i}, {len(rows)}, {len(rows) + len(changes)}"
        rows += [f"{{{channel}, {by}}}" for channel, by in changes]
        if changes:
            changing.append(f"{{{span}, 0}}")
        if changes and readers_of(network, i):
            bounding.append(f"{{{span}, {_kinds(network).index(_kind(network, i))}}}")
    return (
        "struct Turning {\n    u16 channel;\n    i32 by;\n};\n"
        f"{_table('Turning', 'TURNOVER', rows)}"
        "struct Changing {\n    u16 species, first, end, orders;\n};\n"
        f"constexpr int N_CHANGING = {len(changing)}, N_BOUNDING = {len(bounding)};\n"
        f"{_table('Changing', 'CHANGING', changing)}"
        f"{_table('Changing', 'BOUNDING', bounding or ['{0, 0, 0, 0}'])}"
    )


def _kind(network: LoweredNetwork, species: int) -> str:
    """Statements that make the order of a species; none where it is 1."""
    return "".join(orders_of(network, species, lambda formula: formula))


def _kinds(network: LoweredNetwork) -> list[str]:
    read = (i for i in range(len(network.species)) if readers_of(network, i))
    return list(dict.fromkeys(["", *(_kind(network, i) for i in read)]))


def _orders(network: LoweredNetwork, state: str) -> str:
    cases = "".join(
        f"        case {k}: {{\n{statements}            break;\n        }}\n"
        for k, statements in enumerate(_kinds(network))
        if statements
    )
    return (
        "// The order of the highest reaction that reads a species.\n"
        f"DEVICE double order_of(int kind, [[maybe_unused]] double count, {state}) {{\n"
        "    typedef double Real;\n    Real order = 1.0;\n"
        f"    switch (kind) {{\n{cases}        default: break;\n    }}\n    return order;\n}}\n"
    )


def _changes(network: LoweredNetwork) -> str:
    """What each reaction changes; the rest of a row adds nothing to species 0."""
    most = max([1, *(len(reaction.change) for reaction in network.reactions)])
    rows = (
        f"{{{_padded([i for i, _ in r.change], most, 0)}, "
        f"{_padded([by for _, by in r.change], most, 0)}}}"
        for r in network.reactions
    )
    return (
        f"constexpr int MOST_CHANGED = {most};\n"
        f"struct Changed {{\n    u16 of[{most}];\n    i32 by[{most}];\n}};\n"
        f"{_table('Changed', 'CHANGED', rows).replace('TABLE', 'TABLE_OF_LANES', 1)}"
    )
