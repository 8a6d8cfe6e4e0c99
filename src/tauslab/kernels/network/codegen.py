"""Writes `model.h`: the only generated text.  Sizes, propensities, state change, records.

Two forms share the expressions.  *Unrolled*: every reaction is straight-line code on local arrays.
*Tables*: mass action is read from arrays (see `tauslab.kernels.network.tables`), and only laws
that are not mass action become code, in one switch.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise

from tauslab.base.errors import ModelError
from tauslab.kernels.backends.base import Style
from tauslab.kernels.network.lowering import (
    Constant,
    Count,
    Law,
    LoweredNetwork,
    LoweredReaction,
    Operation,
    Thinning,
    arguments_of,
    operations_first,
)
from tauslab.model.expressions.expression import Number, parts_first

_HEADER = "// Generated from the model: its sizes, propensities, state change and records.\n"
_INCLUDES = (
    '#pragma once\n#include "ensemble/rate_laws.h"\n'
    '#include "math/math.h"\n#include "device/prelude.h"\n'
)
# Of networks with events in tables, whether they draw: their laws read doubles, counts too.
_EVENTS_INCLUDED = tuple(
    f'#include "events/{"" if draws else "no_"}draws.h"\n#define HAS_EVENTS 1\n'
    "DEVICE double quantity(double value) {\n    return value;\n}\n"
    for draws in (False, True)
)
_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_COMPARE = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
_LOGIC = {"and": "&&", "or": "||", "xor": "!="}
_LARGEST_UNROLLED_POWER = 16
_LARGEST_WEIGHT = 2.0**21  # of all counts in a sum together, so that it stays below 2^53
_WRITTEN_OUT = 1024  # parts of a law that is one expression, whatever it shares
_MOST_TAILS = 2  # of which firings are written apart
_MOST_COPIED = 64  # laws of a network with events in tables
_OF_CODE = -2  # in place of a column: the propensity is code
_MOST_PARTS = 2_000_000  # that laws become together where they share parts


def unrolled_header(
    network: LoweredNetwork, style: Style, *, literals: int = 0, lanes: int = 1
) -> str:
    """`model.h` for the unrolled kernels.

    Parameters
    ----------
    literals
        Long literals of laws that are named at most, for a kernel that keeps them behind the
        constants.
    lanes
        Lanes of a warp that run one trajectory. With several, firings of the last reactions compute
        what they change alone: few trajectories wait for each other then.
    """
    values, names = _long_literals(network, literals)
    if network.thinning is not None:
        names |= names_of_time(network)
    writer = LawWriter("x", names)
    parts = [_HEADER, _INCLUDES, _sizes(network), _numbers(values)]
    parts += [_propensity(j, reaction, writer) for j, reaction in enumerate(network.reactions)]
    parts += [check_constants(network), _all_propensities(network)]
    parts += [_fire_together(network), _events_before_overflow(network)]
    parts.append(f"constexpr int LANES_OF_TRAJECTORY = {lanes};\n")
    tails = tails_of(network) if lanes > 1 else []
    parts.append(_fire_branches(network) if style.branches else _fire_selects(network, tails))
    parts.append(_before_first(network, fires_all=not style.branches))
    parts += [_propensities_now(network, writer), records(network, writer)]
    return "\n".join(parts)


def names_of_time(network: LoweredNetwork) -> dict[int, str]:
    """The time where a network is thinned: a constant that changes, behind those of a piece."""
    assert network.thinning is not None
    time, name = Count(len(network.species)), f"c[{network.loaded - 1}]"
    laws = [*network.thinning.factors, *(law for _, law in network.observables)]
    return {id(part): name for law in laws for part in operations_first(law) if part == time}


def pieces_of(network: LoweredNetwork) -> str:
    """Positions of the thinning pieces and the time in the arrays of a kernel."""
    thinning = network.thinning
    return (
        "// Pieces of the run stand behind the constants of a row (ensemble/pieces.h). Behind the\n"
        "// piece that is loaded is what a trajectory computes, the time last.\n"
        f"constexpr bool IS_THINNED = {str(thinning is not None).lower()};\n"
        f"constexpr int PIECE_AT = {len(network.constants)};\n"
        f"constexpr int PIECE_WORDS = {0 if thinning is None else thinning.words};\n"
        f"constexpr int TIME_AT = {0 if thinning is None else network.loaded - 1};\n"
    )


def factors_now(
    network: LoweredNetwork, writer: LawWriter, count: str
) -> tuple[str, dict[int, str]]:
    """Statements that compute the factors of rates, and their names by the identity of parts."""
    assert network.thinning is not None
    lines = ""
    for k, factor in enumerate(network.thinning.factors):
        statements, value = writer.read(factor)
        lines += f"    Quantity<{count}> now_{k};\n"
        lines += f"    {{\n{statements}    now_{k} = same<{count}>({value});\n    }}\n"
    return lines, named_factors(network.thinning, "now_{}")


def named_factors(thinning: Thinning, name: str) -> dict[int, str]:
    """Names of factors by the identity of parts of rates; `name` gets the number of a factor."""
    index = {factor: k for k, factor in enumerate(thinning.factors)}
    laws = [reaction.law for reaction in thinning.rates if reaction.law is not None]
    parts = (part for law in laws for part in operations_first(law))
    return {id(part): name.format(index[part]) for part in parts if part in index}


def _propensities_now(network: LoweredNetwork, writer: LawWriter) -> str:
    """Cumulative propensities at a time, in place of bounds; the last, which is theirs, stays."""
    lines = ""
    if network.thinning is not None:
        lines, names = factors_now(network, writer, "Count")
        inside = LawWriter(writer.state, {**writer.names, **names})
        for j, rate in enumerate(network.thinning.rates):
            statements, value = "", f"propensity_{j}(x, c)"
            if rate is not network.reactions[j]:
                statements, value = guarded_propensity(rate, inside)
            before = f"cumulative[{j - 1}] + " if j else ""
            lines += f"    {{\n{statements}    const auto now = same<Count>({value});\n"
            lines += f"    cumulative[{j}] = {before}now;\n    }}\n"
    return (
        f"{pieces_of(network)}"
        "template <class Count>\n"
        "DEVICE void propensities_now([[maybe_unused]] const Count *x,\n"
        "    [[maybe_unused]] const Quantity<Count> *c,\n"
        "    [[maybe_unused]] Quantity<Count> *cumulative) {\n"
        f"{lines}}}\n"
    )


def table_header(
    network: LoweredNetwork,
    constants: str,
    team: int,
    *,
    pilot: bool = False,
    events: Callable[[dict[int, str]], str] | None = None,
) -> str:
    """`model.h` for the table-driven kernels: sizes, places of tables, and laws that are code.

    Parameters
    ----------
    constants
        Places of tables and sizes, as C++ (`tauslab.kernels.network.tables.TableBook.header`).
    team
        Threads that run one trajectory.
    pilot
        Count how often each reaction fires, with random numbers of the pilot's own.
    events
        Writes what is to be said of events, given the calls of laws that others share: of a
        network of `tauslab.kernels.events.large.behind_counts`.
    """
    names: dict[int, str] = {}
    calls: dict[int, str] = {}  # the same for events, whose state has the tables
    writer = LawWriter("x", names)
    functions = []
    rows = itertools.count(len(network.observables))
    for k, law in enumerate(network.shared):
        if weighted_sum(law) is not None:
            row = next(rows)
            names[id(law)] = f"weighted(tables, {row}, x)"
            calls[id(law)] = f"weighted(x.tables, {row}, x)"
        elif not writer.repeats(law):  # what repeats becomes parts of the laws that use it
            functions.append(_function(f"SHARED_LAW double shared_{k}(", law_text(law, "x", names)))
            names[id(law)] = f"shared_{k}(x, c, tables)"
            calls[id(law)] = f"shared_{k}(x, c, x.tables)"
    laws = [
        _case(j, *guarded_propensity(reaction, writer))
        for j, reaction in enumerate(network.reactions)
        if reaction.law is not None
    ]
    observables = [
        _case(k, *writer.read(law))
        for k, (_, law) in enumerate(network.observables)
        if weighted_sum(law) is None
    ]
    return "\n".join(
        [
            _HEADER,
            _INCLUDES,
            *([] if events is None else [_EVENTS_INCLUDED[network.draws]]),
            f"#define TEAM_THREADS {team}\n",
            f"constexpr bool IS_PILOT = {str(pilot).lower()};\n",
            _sizes(network),
            constants,
            *functions,
            _switch("general_propensity", laws, _kind_of_laws(laws, events=events is not None)),
            _switch("general_observable", observables),
            *([] if events is None else [events(calls), _rates_now(network, writer)]),
        ]
    )


def _rates_now(network: LoweredNetwork, writer: LawWriter) -> str:
    """Propensities at the time of reactions that follow it, in place of bounds."""
    rates = () if network.thinning is None else network.thinning.rates
    cases = [
        _case(j, *guarded_propensity(rate, writer))
        for j, rate in enumerate(rates)
        if rate is not network.reactions[j]
    ]
    return pieces_of(network) + _switch("propensity_now", cases, "DEVICE_SELDOM")


def weighted_sums(network: LoweredNetwork) -> list[dict[int, float]]:
    """Rows that the table kernels sum: a row for each observable, then shared rules.

    The row of an observable that is no weighted sum is empty.
    """
    rows = [weighted_sum(law) or {} for _, law in network.observables]
    return rows + [sums for law in network.shared if (sums := weighted_sum(law)) is not None]


def _function(head: str, value: str) -> str:
    """A function of counts, constants and tables."""
    return (
        "template <class Counts, class Tables>\n"
        f"{head}[[maybe_unused]] const Counts &x, [[maybe_unused]] const double *c,\n"
        f"    [[maybe_unused]] const Tables &tables) {{\n    return {value};\n}}\n"
    )


def _case(number: int, statements: str, value: str) -> str:
    if not statements:
        return f"        case {number}: return {value};\n"
    return f"        case {number}: {{\n{statements}            return {value};\n        }}\n"


def _kind_of_laws(laws: list[str], *, events: bool) -> str:
    """Qualifier of rate laws: many of a network with events are compiled once."""
    return "DEVICE_SELDOM" if events and len(laws) > _MOST_COPIED else "DEVICE"


def _switch(name: str, cases: list[str], kind: str = "DEVICE") -> str:
    """A function that picks one of many laws at run time."""
    return (
        "template <class Counts, class Tables>\n"
        f"{kind} double {name}([[maybe_unused]] int number, [[maybe_unused]] const Counts &x,\n"
        "                     [[maybe_unused]] const double *c,\n"
        "                     [[maybe_unused]] const Tables &tables) {\n"
        f"    switch (number) {{\n{''.join(cases)}        default: return 0;\n    }}\n}}\n"
    )


def weighted_sum(law: Law) -> dict[int, float] | None:
    """Weights of a sum of counts that is exact in any order of addition, or None.

    Weights are whole and so small that no sum of 31-bit counts passes 2^53.
    """
    weights: dict[int, float] = {}
    times = {id(law): 1}  # how often a part is added
    for term in reversed(parts_first(law, _summands)):
        occurs, weight = times[id(term)], 1.0
        if isinstance(term, Operation) and term.function == "add":
            for part in term.arguments:
                times[id(part)] = times.get(id(part), 0) + occurs
            continue
        counted = term
        if isinstance(term, Operation) and term.function == "mul":
            factor, counted = term.arguments
            if not isinstance(factor, Number):
                return None
            weight = factor.value
        if not isinstance(counted, Count) or weight != weight // 1 or weight < 0:
            return None
        if occurs > _LARGEST_WEIGHT:
            return None
        weights[counted.index] = weights.get(counted.index, 0.0) + weight * occurs
    return weights if sum(weights.values()) <= _LARGEST_WEIGHT else None


def _summands(law: Law) -> tuple[Law, ...]:
    return law.arguments if isinstance(law, Operation) and law.function == "add" else ()


class LawWriter:
    """C++ of lowered laws, in which a part that occurs many times is computed once.

    A law is one expression, with every part written where it occurs, unless that is much longer
    than its parts: then each of those that occur more than once becomes a constant before it. The
    numbers are the same.

    Parameters
    ----------
    state
        The expression that is indexed by species number.
    names
        Calls that stand for parts which laws share, by identity; may grow.
    """

    def __init__(self, state: str, names: Mapping[int, str] | None = None) -> None:
        self.state = state
        self.names: Mapping[int, str] = {} if names is None else names
        self._sizes: dict[int, int] = {}  # operations, a call as many as what it calls
        self._parts = 0

    def repeats(self, law: Law) -> bool:
        """Return whether computing each part as often as it occurs takes much longer than once."""
        for part in operations_first(law, self._sizes):
            self._sizes[id(part)] = 1 + sum(self._sizes[id(a)] for a in self._arguments(part))
        written = self._sizes[id(law)]
        if written <= _WRITTEN_OUT:
            return False
        once = parts_first(
            law, lambda part: arguments_of(part) if self._sizes[id(part)] > 1 else ()
        )
        return written > 4 * len(once)

    def read(self, law: Law) -> tuple[str, str]:
        """Statements, and the expression that uses what they define.

        Raises
        ------
        ModelError
            Laws become more parts than any compiler takes.
        """
        if id(law) in self.names or not self.repeats(law):
            return "", law_text(law, self.state, self.names)
        order = self._distinct(law)
        self._parts += len(order)
        if self._parts > _MOST_PARTS:
            raise ModelError(
                f"rate laws that share parts are more than {_MOST_PARTS} operations together, "
                "which is the limit"
            )
        uses = Counter(id(part) for node in order for part in self._arguments(node))
        names = dict(self.names)
        lines: list[str] = []
        for node in order:
            called = id(node) in self.names or isinstance(node, Operation)
            if uses[id(node)] > 1 and called:
                name = f"part_{len(lines)}"
                text = law_text(node, self.state, names)
                lines.append(f"            const auto {name} = {text};\n")
                names[id(node)] = name
        return "".join(lines), law_text(law, self.state, names)

    def _arguments(self, law: Law) -> tuple[Law, ...]:
        return () if id(law) in self.names else arguments_of(law)

    def _distinct(self, law: Law) -> list[Law]:
        return parts_first(law, self._arguments)


def literal(value: float) -> str:
    """A C++ literal with exactly the bits of `value`."""
    if math.isnan(value):
        return "from_bits(0x7ff8000000000000ull)"
    if math.isinf(value):
        return f"from_bits(0x{'7' if value > 0 else 'f'}ff0000000000000ull)"
    text = repr(value)
    return f"({text})" if text.startswith("-") else text


def law_text(law: Law, state: str, names: Mapping[int, str] | None = None) -> str:
    """C++ for a lowered law; `state` is the expression that is indexed by species number.

    `names` has the calls that stand for parts which laws share, by identity.
    """
    if names and id(law) in names:
        return names[id(law)]
    if isinstance(law, Number):
        return literal(law.value)
    if isinstance(law, Count):
        return f"quantity({state}[{law.index}])"
    if isinstance(law, Constant):
        return f"c[{law.index}]"
    return _operation(law, state, names)


def _operation(law: Operation, state: str, names: Mapping[int, str] | None) -> str:
    name = law.function
    if name == "pow" and isinstance(law.arguments[1], Number):
        power = law.arguments[1].value
        if abs(power) <= _LARGEST_UNROLLED_POWER and power == int(power):
            return f"tl_whole_power<{int(power)}>({law_text(law.arguments[0], state, names)})"
    if name == "bound":  # of a factor in a piece of the run: `Thinning`
        place = law.arguments[1]
        assert isinstance(place, Number)
        return f"{state}.bound({int(place.value)})"
    if name == "if":
        condition, yes, no = law.arguments
        chosen = (law_text(yes, state, names), law_text(no, state, names))
        return f"({_condition(condition, state, names)} ? {chosen[0]} : {chosen[1]})"
    if name in _COMPARE or name in _LOGIC or name == "not":
        return f"({_condition(law, state, names)} ? 1.0 : 0.0)"
    arguments = [law_text(a, state, names) for a in law.arguments]
    if name in _INFIX:
        return f"({arguments[0]} {_INFIX[name]} {arguments[1]})"
    if name == "neg":
        return f"(-{arguments[0]})"
    if name == "sqrt":
        return f"square_root({arguments[0]})"
    return f"tl_{name}({', '.join(arguments)})"


def _condition(law: Law, state: str, names: Mapping[int, str] | None) -> str:
    if isinstance(law, Operation) and not (names and id(law) in names):
        if law.function in _COMPARE:
            left, right = (law_text(a, state, names) for a in law.arguments)
            return f"({left} {_COMPARE[law.function]} {right})"
        if law.function in _LOGIC:
            left, right = (_condition(a, state, names) for a in law.arguments)
            return f"({left} {_LOGIC[law.function]} {right})"
        if law.function == "not":
            return f"({_condition(law.arguments[0], state, names)} == 0)"
    return f"({law_text(law, state, names)} != 0.0)"


def _sizes(network: LoweredNetwork) -> str:
    return (
        f"constexpr int N_SPECIES = {len(network.species)};\n"
        f"constexpr int N_REACTIONS = {len(network.reactions)};\n"
        f"constexpr int N_CONSTANTS = {network.loaded};\n"
        f"constexpr int N_LAWS = {sum(r.law is not None for r in network.reactions)};\n"
        f"constexpr int N_RECORDED = {len(network.recorded)};\n"
        f"constexpr int N_OBSERVABLES = {len(network.observables)};\n"
    )


def _long_literals(network: LoweredNetwork, most: int) -> tuple[list[float], dict[int, str]]:
    """Numbers of reactions that one instruction does not hold, and the places that nodes get."""
    values: list[float] = []
    names: dict[int, str] = {}
    for reaction in network.reactions:
        law = reaction.constant if reaction.law is None else reaction.law
        assert law is not None
        for part in parts_first(law, arguments_of):
            if not isinstance(part, Number) or not struct.pack("<d", part.value)[:4].strip(b"\0"):
                continue
            if part.value not in values:
                if len(values) == most:
                    continue
                values.append(part.value)
            names[id(part)] = f"c[{network.loaded + values.index(part.value)}]"
    return values, names


def _numbers(values: list[float]) -> str:
    texts = ", ".join(literal(value) for value in values or [0.0])
    return (
        f"constexpr int N_LITERALS = {len(values)};\n"
        "struct Literals {\n    double of[N_LITERALS + 1];\n};\n"
        f"TABLE Literals LITERALS = {{{{{texts}}}}};\n"
    )


def _mass_action(reaction: LoweredReaction, state: str, names: Mapping[int, str]) -> str:
    assert reaction.constant is not None
    factors = [
        f"quantity({state}[{index}])" if taken == 0 else f"(quantity({state}[{index}]) - {taken}.0)"
        for index, order in reaction.orders
        for taken in range(order)
    ]
    constant = law_text(reaction.constant, state, names)
    return f"{constant} * ({' * '.join(factors)})" if factors else constant


def guarded_propensity(reaction: LoweredReaction, writer: LawWriter) -> tuple[str, str]:
    """Statements and the propensity; one that may be negative turns into NaN.

    That ends the trajectory.
    """
    statements = ""
    if reaction.law is None:
        text = _mass_action(reaction, writer.state, writer.names)
    else:
        statements, text = writer.read(reaction.law)
    constant = reaction.constant
    if reaction.law is not None or (isinstance(constant, Number) and constant.value < 0):
        text = f"not_negative({text})"
    if reaction.needs:
        state = writer.state
        enough = " && ".join(f"{state}[{index}] >= {count}" for index, count in reaction.needs)
        text = f"({enough} ? {text} : 0.0)"
    return statements, text


def _propensity(j: int, reaction: LoweredReaction, writer: LawWriter) -> str:
    statements, value = guarded_propensity(reaction, writer)
    return (
        "template <class Count>\n"
        f"DEVICE Quantity<Count> propensity_{j}([[maybe_unused]] const Count *x,\n"
        "    [[maybe_unused]] const Quantity<Count> *c) {\n"
        f"{statements}    return same<Count>({value});\n}}\n"
    )


def propensity_at(network: LoweredNetwork) -> str:
    """The propensity of a reaction by its number: mass action of two molecules from a table."""
    rows, cases = [], ""
    for j, reaction in enumerate(network.reactions):
        row = _mass_action_row(reaction)
        if row is None:
            cases += f"        case {j}: return propensity_{j}(x, c);\n"
        rows.append(row or f"{{0.0, 0.0, {_OF_CODE}, -1, -1, {{-1, 0}}}}")
    return (
        "// constant * (x[first] * (x[second] - taken)), without what is -1. A constant of\n"
        f"// the row has a column; {_OF_CODE} is for laws that are code. Firings lose `lost` of\n"
        "// these two, and of others if the first is negative.\n"
        "struct Rate {\n    double constant, taken;\n    int column, first, second, lost[2];\n};\n"
        f"{lane_table('Rate', 'RATES', rows)}"
        "template <class Count>\n"
        "DEVICE_SHARED double propensity_at(int reaction, const Count *x,\n"
        "    [[maybe_unused]] const double *c) {\n"
        "    const Rate &rate = RATES[reaction];\n"
        f"    if (rate.column == {_OF_CODE}) {{\n        switch (reaction) {{\n{cases}"
        "        default: return 0.0;\n        }\n    }\n"
        "    const double constant = rate.column < 0 ? rate.constant : c[rate.column];\n"
        "    const double first = rate.first < 0 ? 1.0 : quantity(x[rate.first]);\n"
        "    const double second =\n"
        "        rate.second < 0 ? 1.0 : quantity(x[rate.second]) - rate.taken;\n"
        "    return constant * (first * second);\n}\n"
    )


def is_tabled(reaction: LoweredReaction) -> bool:
    """Return whether `propensity_at` reads all of the propensity from its table."""
    return _mass_action_row(reaction) is not None


def _mass_action_row(reaction: LoweredReaction) -> str | None:
    """The row of mass action of at most two molecules; None for what is code."""
    read = [(i, taken) for i, order in reaction.orders for taken in range(order)]
    constant = reaction.constant
    if reaction.law is not None or reaction.needs or constant is None or len(read) > 2:
        return None
    if isinstance(constant, Number) and not constant.value >= 0:
        return None
    if isinstance(constant, Number):
        value, column = literal(constant.value), -1
    else:
        value, column = "0.0", constant.index
    (first, _), (second, taken), *_ = (*read, (-1, 0), (-1, 0))
    lost = {i: -by for i, by in reaction.change if by < 0}
    each = (lost.pop(first, 0), lost.pop(second, 0))
    losses = f"{{{-1 if lost else each[0]}, {each[1]}}}"
    return f"{{{value}, {taken}.0, {column}, {first}, {second}, {losses}}}"


def lane_table(kind: str, name: str, values: Sequence[object]) -> str:
    """A table that lanes of a warp read in different places."""
    listed = ", ".join(map(str, values)) or "0"
    return f"LANE_TABLE {kind} {name}[{max(1, len(values))}] = {{{listed}}};\n"


def check_constants(network: LoweredNetwork) -> str:
    """The function that refuses negative rate constants."""
    constants = [r.constant for r in network.reactions]
    indices = sorted({c.index for c in constants if isinstance(c, Constant)})
    lines = [f"    c[{i}] = not_negative(c[{i}]);\n" for i in indices]
    return (
        "// Rate constants of mass action, once per trajectory.\n"
        f"DEVICE void check_constants([[maybe_unused]] double *c) {{\n{''.join(lines)}}}\n"
    )


def _all_propensities(network: LoweredNetwork) -> str:
    lines = [f"    a[{j}] = propensity_{j}(x, c);\n" for j in range(len(network.reactions))]
    return (
        "template <class Count>\n"
        "DEVICE void all_propensities([[maybe_unused]] const Count *x,\n"
        "    [[maybe_unused]] const Quantity<Count> *c, Quantity<Count> *a,\n"
        "    Quantity<Count> *cumulative) {\n"
        f"{''.join(lines)}{_cumulate(range(len(network.reactions)))}}}\n"
    )


def _cumulate(reactions: Iterable[int]) -> str:
    return "".join(
        f"    cumulative[{j}] = {f'cumulative[{j - 1}] + ' if j else ''}a[{j}];\n"
        for j in reactions
    )


def _fire_together(network: LoweredNetwork) -> str:
    """Fire without a branch, and without the reaction's number.

    Every count starts from the change of reaction 0; where a cumulative propensity is passed and
    the next reaction changes the count otherwise, its change is chosen.  All is recomputed.
    """
    chosen, applied = _change_counts(network, 0)
    return (
        "template <class Count>\n"
        "DEVICE void fire_together([[maybe_unused]] Quantity<Count> target, Count *x,\n"
        "    const Quantity<Count> *c, Quantity<Count> *a, Quantity<Count> *cumulative) {\n"
        f"{chosen}{applied}    all_propensities(x, c, a, cumulative);\n}}\n"
    )


def _change_counts(network: LoweredNetwork, first: int) -> tuple[str, str]:
    """Choose changes of counts, and apply them, if what fires is reaction `first` or behind it."""
    changes = [dict(reaction.change) for reaction in network.reactions[first:]]
    changed = _changed(network, first)
    lines = [f"    Count by_{i} = whole<Count>({changes[0].get(i, 0)});\n" for i in changed]
    for j, (before, after) in enumerate(pairwise(changes), first):
        steps = [(i, after.get(i, 0)) for i in changed if after.get(i, 0) != before.get(i, 0)]
        lines += [
            f"    by_{i} = cumulative[{j}] <= target ? whole<Count>({by}) : by_{i};\n"
            for i, by in steps
        ]
    applied = [f"    x[{i}] = plus(x[{i}], by_{i});\n" for i in changed]
    return "".join(lines), "".join(applied)


def tails_of(network: LoweredNetwork) -> list[tuple[int, int]]:
    """Last reactions whose firings leave many propensities as they are, from the last on.

    Pairs (first, changed): reactions from `first` on change propensities from `changed` on. How
    often a reaction fires is not known, so what counts is the work that all of them together save.
    """
    n, result = len(network.reactions), list[tuple[int, int]]()
    if network.thinning is not None:  # sums there are those of rates at the last time
        return result
    changed = [min(touched, default=n) for touched in network.touched()]
    # The first reaction from which on all change propensities from j on.
    least = [1 + max((k for k in range(n) if changed[k] < j), default=0) for j in range(n)]
    before = 0
    while len(result) < _MOST_TAILS:
        saved = [(j - before) * (n - least[j]) for j in range(n)]
        most = max(saved, default=0)
        if 2 * most <= n:
            break
        before = saved.index(most)
        result.insert(0, (least[before], before))
    return result


def _fire_selects(network: LoweredNetwork, tails: Sequence[tuple[int, int]] = ()) -> str:
    """Fire without a branch but for `tails`, and return whether a count passed its limit."""
    text = ""
    for first, changed in tails:
        again = range(changed, len(network.reactions))
        lines = "".join(f"    a[{j}] = propensity_{j}(x, c);\n" for j in again)
        chosen, applied = _change_counts(network, first)
        # What is done here may not move: changes are chosen while the branch is decided.
        pinned = "".join(f'    LOADED_HERE(by_{i}, "r");\n' for i in _changed(network, first))
        text += (
            f"    {{\n    typedef i32 Count;\n{chosen}{pinned if not text else ''}"
            f"    if (cumulative[{first - 1}] <= target) {{\n{applied}"
            f'    LOADED_HERE(target, "d");\n    meanwhile();\n{lines}{_cumulate(again)}'
            f"    return {_signs(network, first)};\n    }}\n    }}\n"
        )
    return (
        "// Returns a negative number if a count passed 2147483647.\n"
        "template <class Meanwhile = Nothing>\n"
        "DEVICE i32 fire([[maybe_unused]] double target, i32 *x, const double *c, double *a, "
        "double *cumulative,\n"
        "                const Meanwhile &meanwhile = {}) {\n"
        f"{text}    meanwhile();\n    fire_together(target, x, c, a, cumulative);\n"
        f"    return {_signs(network, 0)};\n}}\n"
    )


def _signs(network: LoweredNetwork, first: int) -> str:
    """A number that is negative if a count is which reactions from `first` on change."""
    return " | ".join(f"x[{i}]" for i in _changed(network, first)) or "0"


def _changed(network: LoweredNetwork, first: int) -> list[int]:
    """Species that reactions from `first` on change."""
    return sorted({i for reaction in network.reactions[first:] for i, _ in reaction.change})


def _before_first(network: LoweredNetwork, *, fires_all: bool) -> str:
    """Start of a trajectory by a firing, where `fire` computes all propensities."""
    lines = [f"    x[{i}] = plus(x[{i}], {-by});\n" for i, by in network.reactions[0].change]
    return (
        f"constexpr bool FIRES_ALL = {str(fires_all).lower()};\n"
        "// Counts from which the first reaction leads to these.\n"
        f"DEVICE void before_first([[maybe_unused]] i32 *x) {{\n{''.join(lines)}}}\n"
    )


def _events_before_overflow(network: LoweredNetwork) -> str:
    """Number of firings that are possible before a count could pass its limit."""
    growth: dict[int, int] = {}
    for reaction in network.reactions:
        for i, by in reaction.change:
            growth[i] = max(growth.get(i, 0), by)
    lines = [
        f"    least = fewer_events(least, x[{i}], {by});\n" for i, by in growth.items() if by > 0
    ]
    return (
        "// Events in which no count can pass 2147483647; negative if one did.\n"
        "template <class State>\n"
        "DEVICE i64 events_before_overflow([[maybe_unused]] const State &x) {\n"
        f"    i64 least = 1ll << 62;\n{''.join(lines)}    return least;\n}}\n"
    )


def _fire_branches(network: LoweredNetwork) -> str:
    """Fire in one branch per reaction that recomputes only what depends on the change."""
    cases = []
    for j, (reaction, touched) in enumerate(zip(network.reactions, network.touched(), strict=True)):
        body = [f"x[{i}] = plus(x[{i}], {by});" for i, by in reaction.change]
        body += [f"a[{r}] = propensity_{r}(x, c);" for r in touched]
        signs = " | ".join(f"x[{i}]" for i, _ in reaction.change) or "0"
        body.append(f"signs = {signs};")
        # Where rates are thinned, sums are those of rates at the last time, not of bounds.
        first = touched[0] if touched and network.thinning is None else 0
        sums = _cumulate(range(first, len(network.reactions))) if touched else ""
        lines = "".join(f"        {line}\n" for line in body)
        cases.append(f"    case {j}:\n{lines}{sums}        break;\n")
    return (
        "// Returns a negative number if a count passed 2147483647.\n"
        "template <class Meanwhile = Nothing>\n"
        "DEVICE i32 fire(double target, i32 *x, [[maybe_unused]] const double *c, "
        "[[maybe_unused]] double *a,\n"
        "                [[maybe_unused]] double *cumulative, const Meanwhile &meanwhile = {}) {\n"
        "    meanwhile();\n    i32 signs = 0;\n"
        "    switch (first_above<N_REACTIONS>(cumulative, target)) {\n"
        f"{''.join(cases)}    }}\n    return signs;\n}}\n"
    )


def records(
    network: LoweredNetwork, writer: LawWriter, count: str = "", *, in_tables: bool = False
) -> str:
    """Functions that write recorded counts and observables; `count` casts where counts are real."""
    table = ""
    counts = "".join(f"    out[{k}] = {count}x[{i}];\n" for k, i in enumerate(network.recorded))
    if in_tables:
        table = lane_table("int", "RECORDED", network.recorded)
        loop = "UNROLL_SOME for (int k = 0; k < N_RECORDED; ++k)"
        counts = f"    {loop} out[k] = {count}x[RECORDED[k]];\n"
    values = ""
    for k, (_, law) in enumerate(network.observables):
        statements, value = writer.read(law)
        line = f"    out[{k}] = {value};\n"
        values += f"    {{\n{statements}{line}    }}\n" if statements else line
    return (
        f"{table}template <class State>\n"
        "DEVICE void record_counts([[maybe_unused]] const State &x, [[maybe_unused]] i32 *out) {\n"
        f"{counts}}}\n\n"
        "template <class State, class Constants>\n"
        "DEVICE void record_observables([[maybe_unused]] const State &x,\n"
        "                               [[maybe_unused]] const Constants &c,\n"
        "                               [[maybe_unused]] double *out) {\n"
        f"{values}}}\n"
    )
