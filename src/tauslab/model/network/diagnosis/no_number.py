"""The formula that gave no number, where that ended a trajectory.

Laws are computed on the host, from where the trajectory was last seen: at later times, and in
states that reactions can reach from there.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import chain

import numpy as np

from tauslab.base.option_names import opt
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    draws_in,
    looks_back,
    substitute,
    symbols,
    to_text,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.network.network import Event, Network

_TIMES = 256  # between the last sample and the next, at which laws are computed
_HALVINGS = 30  # of the time between two of them
_STATES = 400  # that reactions reach, in which they are computed
_LONGEST = 60  # characters of a formula that are shown
_MOST_NAMES = 4
_LITTLE = 1e-6  # of the largest amount: what equations may have instead of nothing


def no_number(
    network: Network, values: Mapping[str, float], time: float, until: float, *, equations: bool
) -> str:
    """Name the reaction, rule or event that gives no number, and when; empty if none does.

    Parameters
    ----------
    values
        Of all names, at `time`, where the trajectory was last seen; it ended by `until`.
    equations
        Whether amounts are real numbers, and rates may be below 0.
    """
    laws = _Laws(network)
    if gone := _vanished(laws, {**values, "time": time}, until - time):
        return gone
    return next(chain(_later(laws, values, time, until, equations=equations),
                      _reached(laws, values, time, equations=equations)), "")  # fmt: skip


def _vanished(laws: _Laws, values: Mapping[str, float], span: float) -> str:
    """Name a compartment whose size falls to 0 within a span of time, at the rate that it has."""
    rates = laws.network.rates
    for name in {one.compartment or "" for one in laws.network.species.values()} & rates.keys():
        if values[name] + span * laws.value(rates[name], values) <= 0:
            return f"after time {values['time']:.4g}, the size of compartment {name} falls to 0"
    return ""


class _Laws:
    """Laws of a network, and what is wrong with them in a state."""

    def __init__(self, network: Network) -> None:
        self.network = network
        self.rules = network.rule_expressions()
        self.own: list[
            tuple[str, Expression, bool]
        ] = []  # name, formula, whether it may be below 0
        for reaction in network.reactions:
            self.own.append((f"reaction {reaction.name}", reaction.law, False))
        for name, tree in network.rates.items():
            self.own.append((f"the rate rule for {name}", tree, True))

    def wrong(self, values: Mapping[str, float], *, negative: bool) -> Iterator[str]:
        """Yield a sentence on each value that is no number, or below 0 where it may not be."""
        for name, tree, any_sign in self.own:
            value = self.value(tree, values)
            if not math.isfinite(value):
                yield f"{name}: {self.reason(tree, values)}"
            elif value < 0 and not (negative or any_sign):
                yield (
                    f"{name}: its propensity {_short(tree)} is {value:.6g}; {opt('net_laws')} lets "
                    "reactions go backwards while they are negative"
                )

    def of_events(self, values: Mapping[str, float], *, negative: bool) -> Iterator[str]:
        """Values that events would set and that are none."""
        for event in self.network.events:
            if isinstance(event, Event):
                due = bool(self.value(event.trigger, values))
            else:
                due = values["time"] >= self.value(event.time, values)
            if not due:
                continue
            for name, tree in event.assignments.items():
                value = self.value(tree, values)
                if not math.isfinite(value):
                    yield f"event {event.name}: {self.reason(tree, values)}"
                elif value < 0 and not negative and name not in self.network.rates:
                    yield f"event {event.name}: it sets {name} to {value:.6g}"

    def value(self, tree: Expression, values: Mapping[str, float]) -> float:
        """Value of a formula; 0 for what has none on the host."""
        whole = substitute(tree, self.rules)
        return 0.0 if draws_in(whole) or looks_back(whole) else evaluate(whole, values)

    def reason(self, tree: Expression, values: Mapping[str, float]) -> str:
        """The innermost part that is no number, and the rule in which it stands."""
        where = ""
        while True:
            if isinstance(tree, Symbol) and tree.name in self.rules:
                where, tree = f"rule {tree.name}: ", self.network.rules[tree.name].expression
                continue
            parts = tree.arguments if isinstance(tree, Call) else ()
            if isinstance(tree, Call) and tree.function == "if" and len(parts) == 3:
                holds = self.value(parts[0], values)
                chosen = parts[1 if holds and not math.isnan(holds) else 2]
                if isinstance(chosen, Number) and math.isnan(chosen.value):
                    return f"{where}no condition of its piecewise holds, and it has no otherwise"
                parts = (chosen,)
            inner = next((p for p in parts if not math.isfinite(self.value(p, values))), None)
            if inner is None:
                return (
                    f"{where}{_short(tree)} is {self.value(tree, values):g}{_given(tree, values)}"
                )
            tree = inner

    def reached(self, values: Mapping[str, float]) -> Iterator[Mapping[str, float]]:
        """States that reactions reach, the nearest first."""
        species = [name for name, one in self.network.species.items() if not one.fixed]
        seen = {tuple(values[name] for name in species)}
        states = [dict(values)]
        for state in states:
            yield state
            for reaction in self.network.reactions:
                if len(states) >= _STATES or not self.value(reaction.law, state) > 0:
                    continue
                changed = {**state, **{
                    name: state[name] + by
                    for name, by in reaction.net_change().items()
                    if name in species
                }}  # fmt: skip
                key = tuple(changed[name] for name in species)
                if key not in seen and min(key) >= 0:
                    seen.add(key)
                    states.append(changed)


def _later(
    laws: _Laws, values: Mapping[str, float], time: float, until: float, *, equations: bool
) -> Iterator[str]:
    """Yield what becomes wrong as the time goes on, in the same state."""

    def at(t: float) -> str:
        there = {**values, "time": t}
        looks = (laws.wrong(there, negative=equations), laws.of_events(there, negative=equations))
        return next(chain(*looks), "")

    good = time
    for t in np.linspace(time, until, _TIMES + 1).tolist():
        if reason := at(t):
            yield f"at time {_first(at, good, t):.6g}, {reason}"
        good = t


def _reached(
    laws: _Laws, values: Mapping[str, float], time: float, *, equations: bool
) -> Iterator[str]:
    """Yield what is wrong in other states."""
    states = laws.reached({**values, "time": time})
    if equations:
        amounts = {name: values[name] for name in laws.network.species}
        little = _LITTLE * max(map(abs, amounts.values()), default=0.0)
        gone = {name: 0.0 for name, amount in amounts.items() if abs(amount) <= little}
        states = iter([{**values, **gone, "time": time}])
    for state in states:
        for reason in laws.wrong(state, negative=equations):
            yield f"after time {time:.4g}, {reason}"


def _first(at: Callable[[float], str], good: float, bad: float) -> float:
    """Return the time from which on something is wrong."""
    for _ in range(_HALVINGS):
        middle = good + (bad - good) / 2
        good, bad = (good, middle) if at(middle) else (middle, bad)
    return bad


def _short(tree: Expression) -> str:
    text = to_text(tree)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _given(tree: Expression, values: Mapping[str, float]) -> str:
    """The values that a formula has been computed with."""
    known = [f"{name} = {values[name]:.6g}" for name in sorted(symbols(tree) & values.keys())]
    return f", where {', '.join(known[:_MOST_NAMES])}" if known else ""
