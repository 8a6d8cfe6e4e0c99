"""Times at which steps must end, because of jumps and pulses that depend on the time alone."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.option_names import opt, warn
from tauslab.model.expressions.expression import (
    DRAWS,
    Call,
    Expression,
    Symbol,
    bottom_up,
    call,
    symbols,
    to_text,
    with_arguments,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.network.diagnosis.moving_pulses import times_of_pulses
from tauslab.model.network.diagnosis.narrow_windows import ends_of_windows
from tauslab.model.network.diagnosis.time_breaks import (
    TimeBreaks,
    has_pulse,
    linear_changes,
    names_beside_time,
    pulses_that_vary,
    set_or_drawn,
    smooth_parts_that_move,
    time_breaks,
    unchanged_species,
    uses_time,
    with_clocks,
)
from tauslab.model.network.network import Network

_LONGEST = 60  # characters of an expression that are shown
_LOOKED_AT = 8  # trajectories that are searched for pulses
_PASSED_OVER = "and steps may pass over short pulses of it: compare the time itself with numbers"


class _Timed(Protocol):
    @property
    def times(self) -> FloatArray: ...


def breaks_of(
    network: Network,
    options: _Timed,
    values: Mapping[str, float],
    varying: Collection[str],
    rows: Mapping[str, Any],
    *,
    reals: Collection[str] | None = (),
    thinned: bool = False,
    followed: bool = True,
) -> TimeBreaks:
    """Find expressions of the time alone that jump, bend or have a pulse.

    A warning names what jumps at times that are not known here, because they differ between
    trajectories or are too many, or has pulses at such times unless rates are `thinned` or
    `moving_breaks` are `followed`; of equations also pulses between linear relations. Another
    names triggers that hold at instants which are not known. Amounts of `reals` are not rounded to
    counts; None: equations, all of whose amounts are real.
    """
    end = float(options.times[-1])
    lost = depending(network, set(varying))
    if not (end > 0 and uses_time(with_clocks(network))):
        return TimeBreaks()
    amounts = network.initial_amounts(values, negative=True)
    result = _breaks_until(
        network, values, amounts, lost, end, None if thinned else rows,
        reals=reals, followed=followed,
    )  # fmt: skip
    if reals is None and not followed:
        result = replace(result, unknown=(*result.unknown, *pulses_that_vary(network, lost)))
    if result.unknown:
        warn(
            f"{network.name}: {_shown(result.unknown)} jumps or has pulses, at times that are too "
            f"many or differ between trajectories, {_PASSED_OVER}, use events, or give "
            f"{opt('times')} as dense as the pulses are short"
        )
    for part in result.hiding:
        warn(
            f"{network.name}: {_shown([part])} may hold for intervals too short to be detected "
            "before a trajectory, and steps may pass over these: compare the time itself with "
            "numbers"
        )
    for name, part in result.missed:
        warn(
            f"{network.name}: the trigger of event {name} needs {_shown([part])}, which holds at "
            "single instants that are not known before a trajectory: the event may not come; "
            "compare by <, <=, > or >="
        )
    return result


def moving_breaks(
    network: Network,
    values: Mapping[str, float],
    varying: Collection[str],
    *,
    reals: Collection[str] | None = (),
) -> list[Expression]:
    """Times at which steps end, as formulas of values that events set or that differ.

    These are of smooth pulses (`times_of_pulses`) and of narrow windows of clocks that events set;
    of equations (`reals` is None) also of pulses between linear relations, at which other methods
    stop anyway.
    """
    lost = depending(network, {*varying}) if varying else set[str]()
    result = ends_of_windows(network, values, lost) if network.rates else []
    moving = lost | set_or_drawn(network)
    if not moving or not uses_time(with_clocks(network)):
        return result
    amounts = network.initial_amounts(values, negative=True)
    whole = {**values, **_unchanged(network, amounts, reals)}
    known = {name: value for name, value in whole.items() if name not in lost}
    parts = smooth_parts_that_move(with_clocks(network, lost), whole.keys(), moving)
    result += [t for part in parts for t in times_of_pulses(part, moving, known)]
    if reals is None:
        result += [t for times in pulses_that_vary(network, moving).values() for t in times]
    return list(dict.fromkeys(result))


class BreaksAhead:
    """Breaks of runs without a known end: particles, and cells that divide.

    The search reaches to a power of two, so that breaks depend on the time of an advance alone, not
    on earlier advances.

    Attributes
    ----------
    names
        On which breaks depend, with the time; none without breaks.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        moving, scaling = names_beside_time(with_clocks(network))
        self.names = _behind(network, moving)
        self._unread = scaling - self.names
        self._moved: set[str] = set()
        self._key: object = None
        self._times: Sequence[float] = ()

    def put(self, names: Collection[str]) -> None:
        """Note amounts that were replaced: breaks by a clock among them come at other times.

        The stops stay as they are, and a warning names the clock.
        """
        rates = self._network.rates
        if rates and (new := rates.keys() & {*names} - self._moved):
            self._moved |= new
            self._key = None

    def stops(self, start: float, end: float, rows: Mapping[str, Any]) -> list[float]:
        """Breaks between `start` and `end`, and `end`.

        Parameters
        ----------
        rows
            Values by name in place of those of the model: one for all, or an array.
        """
        if not self.names or not end > start:
            return [end]
        part, exponent = math.frexp(end)
        until = end if part == 0.5 else math.ldexp(1.0, exponent)
        own = {name: row for name, row in rows.items() if name in self.names}
        first = {name: float(np.ravel(row)[0]) for name, row in own.items()}
        varying = sorted(name for name, row in own.items() if np.ndim(row))
        key = until, [(name, first[name]) for name in first if name not in varying], varying
        if key != self._key:
            self._key, self._times = key, self._look(until, first, varying, own)
        inside = slice(bisect_right(self._times, start), bisect_left(self._times, end))
        return [*self._times[inside], end]

    def _look(
        self,
        end: float,
        first: Mapping[str, float],
        varying: Collection[str],
        rows: Mapping[str, Any],
    ) -> Sequence[float]:
        """Breaks up to `end` by the values of the first particle, without what varies."""
        network = self._network
        kinds = network.parameters, network.species
        own, amounts = ({n: v for n, v in first.items() if n in kind} for kind in kinds)
        values = network.parameter_values(own)
        amounts = network.initial_amounts(values, amounts, negative=True)
        # Amounts of these may be drawn or replaced: no step ends at their pulses.
        loose = unchanged_species(network) - {*network.constant_species()}
        lost = depending(network, {*varying, *self._unread, *loose})
        result = _breaks_until(network, values, amounts, lost, end, rows)
        instants = result.instants if network.events else ()  # an instant does not change a rate
        unseen = [*result.unknown, *result.hiding, *(part for _, part in result.missed), *instants]
        if self._moved:
            lost = depending(network, {*lost, *self._moved})
            unseen += _breaks_until(network, values, amounts, lost, end, rows).unknown
        if loose:
            parts = _breaks_until(network, values, amounts, loose, end, {}, followed=False).unknown
            unseen += [part for part in parts if symbols(part) & loose]
        if unseen:
            warn(
                f"{network.name}: {_shown(unseen)} jumps or has pulses at times that particles do "
                f"not know, {_PASSED_OVER}, use events, or advance in steps as short as the pulses"
            )
        return result.times


def _breaks_until(
    network: Network,
    values: Mapping[str, float],
    amounts: Mapping[str, float],
    lost: Collection[str],
    end: float,
    rows: Mapping[str, Any] | None,
    *,
    reals: Collection[str] | None = (),
    followed: bool = True,
) -> TimeBreaks:
    """Breaks from 0 to `end` by the values of all but what is `lost`.

    Expressions that have a pulse with some of the `rows` of differing values are unknown too.
    """
    whole = {**values, **_unchanged(network, amounts, reals)}
    known = {name: value for name, value in whole.items() if name not in lost}
    clocked = with_clocks(network, lost)
    result = time_breaks(clocked, known, end)
    held = set_or_drawn(network)
    moving = {*held, *(lost if rows is not None else ())}  # of thinned rates events' names alone
    if moving:
        begun = whole | {name: amounts[name] for name in held}
        for name, tree in network.drawn_amounts().items():
            begun[name] = evaluate(bottom_up(tree, _middle), {"time": 0.0, **values, **begun})
        each = [begun, *(begun | one for one in _some(network, rows or {}))]
        more = [
            part
            for part in smooth_parts_that_move(clocked, whole.keys(), moving)
            if not (followed and times_of_pulses(part, moving, known))
            and has_pulse(part, each, end)
        ]
        result = replace(result, unknown=(*result.unknown, *more))
    own = linear_changes(clocked, known) - linear_changes(network, known)
    times = {*result.times, *(t for t in own if 0 < t < end)}
    clocks = [name for name in network.rates if name in lost]
    if clocks and clocked != (every := with_clocks(network)):  # whose start differs
        known_here = linear_changes(network, whole) | times
        pulses = {*time_breaks(every, whole, end).times} - known_here
        changes = [t for t in linear_changes(every, whole) - known_here if 0 < t < end]
        if pulses or len(changes) > 1:  # one alone lasts: no step passes over it
            result = replace(result, unknown=(*result.unknown, Symbol(clocks[0])))
    return replace(result, times=tuple(sorted(times)))


def _unchanged(
    network: Network, amounts: Mapping[str, float], reals: Collection[str] | None
) -> dict[str, float]:
    """Amounts of species that nothing changes, rounded where a method simulates counts of them."""
    names = unchanged_species(network)
    real = names if reals is None else {*network.constant_species(), *reals}
    return {name: amounts[name] if name in real else float(round(amounts[name])) for name in names}


def _middle(tree: Expression, parts: list[Expression]) -> Expression:
    """A tree with a value in the middle of a distribution in place of a draw."""
    if not (isinstance(tree, Call) and tree.function in DRAWS):
        return with_arguments(tree, parts)
    if len(parts) > 2 or tree.function == "uniform":  # bounds come last
        return call("div", call("add", *parts[-2:]), 2.0)
    if tree.function in ("gamma", "binomial"):
        return call("mul", *parts)
    if tree.function == "exponential":
        return call("div", 1.0, parts[0])
    return call("exp", parts[0]) if tree.function == "lognormal" else parts[0]


def _some(network: Network, rows: Mapping[str, Any]) -> list[dict[str, float]]:
    """Values of all parameters in some of the rows."""
    own = {n: np.ravel(row) for n, row in rows.items() if n in network.parameters and np.ndim(row)}
    size = max(map(len, own.values()), default=0)
    numbers = np.unique(np.linspace(0, size - 1, _LOOKED_AT).round().astype(int)) if size else ()
    return [network.parameter_values({n: float(row[i]) for n, row in own.items()}) for i in numbers]


def _shown(parts: Sequence[Expression]) -> str:
    text = to_text(parts[0])
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _behind(network: Network, names: Collection[str]) -> set[str]:
    """Names, and those from which their values are computed."""
    trees = _computed(network)
    result, new = {*names}, {*names}
    while new := {n for name in new if name in trees for n in symbols(trees[name])} - result:
        result |= new
    return result


def depending(network: Network, varying: set[str]) -> set[str]:
    """Names that vary, and parameters, rules and amounts that are computed from them."""
    trees = _computed(network)
    while True:
        more = {n for n, tree in trees.items() if n not in varying and symbols(tree) & varying}
        if not more:
            return varying
        varying |= more


def _computed(network: Network) -> dict[str, Expression]:
    """Expressions of parameters and rules, and of the initial amounts of species."""
    initial = {name: one.initial for name, one in network.species.items()}
    return {**network.parameters, **network.rule_expressions(), **initial}
