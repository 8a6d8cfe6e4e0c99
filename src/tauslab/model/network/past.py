"""``delay(x, d)`` for exact trajectories: hidden species that hold what others were.

Between reactions counts stand still. So what a count x was d earlier, with a constant d, is a count
too: it starts as x does, and every change of x comes to it d later. Formulas then read that hidden
species, and reactions and events that change x apply the change once more when the delay is over.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import (
    PAST,
    Call,
    Expression,
    Number,
    Symbol,
    call,
    draws_in,
    looks_back,
    parts_first,
    substitute,
    symbols,
    to_text,
    with_arguments,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Species


@dataclass(frozen=True)
class Past:
    """Hidden species `name` holds what `species` was a `delay` ago; at the start, what it is."""

    name: str
    species: str
    delay: Expression


class _NotKeptError(ModelError):
    """A past that hidden species cannot hold."""


def with_pasts(network: Network, varying: Collection[str] = ()) -> tuple[Network, tuple[Past, ...]]:
    """A network that does not look back, with hidden species behind its own, and what they hold.

    Parameters
    ----------
    varying
        Parameters and species whose values differ from trajectory to trajectory.

    Raises
    ------
    ModelError
        A past that hidden species cannot hold: see `unkept_past`.
    """
    if not any(feature.kind == "delay" for feature in network.features):
        return network, ()
    return _Pasts(network, varying).rewritten()


def unkept_past(network: Network) -> str | None:
    """Return why hidden species cannot hold the past that a network reads; None if they can.

    They hold counts that events set, and reactions change at once, a constant delay ago.
    """
    try:
        with_pasts(network)
    except _NotKeptError as error:
        return str(error)
    except ModelError:
        return None  # a fault of the model, which others report
    return None


def pasts_read(network: Network) -> list[str]:
    """Return the pasts that a network reads, as formulas; none where species cannot hold them."""
    try:
        _, pasts = with_pasts(network)
    except ModelError:
        return []
    return [to_text(call(PAST, Symbol(past.species), past.delay)) for past in pasts]


class _Pasts:
    """Rewrites the formulas of a network, and collects the pasts that they read."""

    def __init__(self, network: Network, varying: Collection[str]) -> None:
        self._network = network
        self._rules = network.rule_expressions()
        self._rules_then: dict[tuple[str, Expression], Expression] = {}
        self._pasts: dict[tuple[str, Expression], Past] = {}
        self._taken = {*network.species, *network.parameters, *network.rules, "time"}
        changed = {n for r in network.reactions for n in r.net_change()}
        assigned = {n: event.name for event in network.events for n in event.assignments}
        delayed = [reaction for reaction in network.reactions if reaction.delay is not None]
        self._completed = {n: reaction.name for reaction in delayed for n in reaction.ends_with()}
        self._assigned = assigned
        reacting = {n for n in changed if not network.species[n].fixed}
        self._reacting = reacting
        self._moved = reacting | assigned.keys() | network.rates.keys()
        values: dict[str, Expression] = {**network.parameters}
        still = [s for n, s in network.species.items() if n not in self._moved]
        drawn = network.drawn_amounts()
        values |= {s.name: s.initial for s in still if s.name not in drawn}
        values = {n: substitute(t, self._rules) for n, t in values.items() if n not in varying}
        self._values = unfold(values, "value")

    def rewritten(self) -> tuple[Network, tuple[Past, ...]]:
        network = self._network
        for name, one in network.species.items():
            if looks_back(one.initial):
                raise _NotKeptError(f"the initial value of {name} uses a delay")
        result = replace(
            network,
            rules={
                name: replace(rule, expression=self.at(rule.expression))
                for name, rule in network.rules.items()
            },
            rates={name: self.at(tree) for name, tree in network.rates.items()},
            reactions=[
                replace(
                    reaction,
                    law=self.at(reaction.law),
                    delay=None if reaction.delay is None else self.at(reaction.delay),
                )
                for reaction in network.reactions
            ],
            events=[event.mapped(self.at) for event in network.events],
            features=[feature for feature in network.features if feature.kind != "delay"],
        )
        pasts = tuple(self._pasts.values())
        hidden = {past.name: Species(past.name, Number(0.0)) for past in pasts}
        result.species = {**network.species, **hidden}
        return result, pasts

    def at(self, tree: Expression, ago: Expression | None = None) -> Expression:
        """A formula as it is now, or was so long `ago`, without delays."""
        result: dict[int, Expression] = {}
        for node in parts_first(tree, read_with):
            result[id(node)] = self._part(node, result, ago)
        return result[id(tree)]

    def _part(
        self, node: Expression, found: Mapping[int, Expression], ago: Expression | None
    ) -> Expression:
        if isinstance(node, Symbol):
            return node if ago is None else self._name(node.name, ago)
        if not isinstance(node, Call):
            return node
        if node.function == PAST:
            past, delay = node.arguments
            wait = self._wait(found[id(delay)], delay)
            return self.at(past, wait if ago is None else call("add", ago, wait))
        return with_arguments(node, [found[id(part)] for part in node.arguments])

    def _wait(self, delay: Expression, given: Expression) -> Expression:
        """A delay, which must not change while a trajectory runs."""
        tree = substitute(delay, self._rules)
        if draws_in(tree):
            raise _NotKeptError(f"the delay {to_text(given)} draws random numbers")
        standing = {*self._network.parameters, *self._network.species} - self._moved
        if not symbols(tree) <= standing:
            raise _NotKeptError(f"the delay {to_text(given)} changes while a trajectory runs")
        return tree

    def _name(self, name: str, ago: Expression) -> Expression:
        """Return what stands for a name as it was so long ago."""
        network = self._network
        if name in network.rules:
            if (name, ago) not in self._rules_then:
                self._rules_then[name, ago] = self.at(network.rules[name].expression, ago)
            return self._rules_then[name, ago]
        if name in network.species:
            return self._species(name, ago)
        if name in network.parameters or name != "time":
            return Symbol(name)
        return call("sub", Symbol("time"), ago)

    def _species(self, name: str, ago: Expression) -> Expression:
        if "time" in symbols(substitute(self._network.species[name].initial, self._rules)):
            raise _NotKeptError(f"the initial value of {name} follows the time")
        if name not in self._moved:
            return Symbol(name)
        self._require_counted(name)
        value = self._value(ago)
        if value is not None and value < 0:
            raise ModelError(f"the delay {to_text(ago)} is {value:g}; it must be 0 or more")
        if value == 0:
            return Symbol(name)
        if value is not None:
            ago = Number(value)
        past = Symbol(self._past(name, ago))
        if value is not None:
            return past
        return call("if", call("gt", ago, 0.0), past, Symbol(name))

    def _require_counted(self, name: str) -> None:
        """Refuse what anything but reactions changes, or reactions when they complete."""
        if name in self._network.rates:
            raise _NotKeptError(f"{name}, which it looks back at, has a rate rule")
        if name in self._assigned and not self._is_count(name):
            raise _NotKeptError(
                f"event {self._assigned[name]} sets {name}, which it looks back at, to any number"
            )
        if name in self._completed:
            raise _NotKeptError(
                f"reaction {self._completed[name]} changes {name}, which it looks back at, when it "
                "completes"
            )

    def _is_count(self, name: str) -> bool:
        """Return whether what events set stays a whole number, as reactions need it."""
        one, network = self._network.species[name], self._network
        if network.counts_nothing() or (one.fixed and one.compartment is None):
            return False
        drawn = name in network.drawn_amounts() or any(
            draws_in(event.assignments[name])
            for event in network.events
            if name in event.assignments
        )
        return not drawn or name in self._reacting

    def _value(self, ago: Expression) -> float | None:
        """A delay as a number; None where trajectories have their own, or it has no value."""
        tree = substitute(ago, self._values)
        if symbols(tree):
            return None
        value = evaluate(tree, {})
        return None if math.isnan(value) else value

    def _past(self, name: str, ago: Expression) -> str:
        """The hidden species that holds a past."""
        key = name, ago
        if key not in self._pasts:
            number = len(self._pasts) + 1
            hidden = f"{name}_ago_{number}"
            while hidden in self._taken:
                hidden += "_"
            self._taken.add(hidden)
            self._pasts[key] = Past(hidden, name, ago)
        return self._pasts[key].name


def read_with(tree: Expression) -> tuple[Expression, ...]:
    """Parts of an expression that are meant at the same time as it."""
    if not isinstance(tree, Call):
        return ()
    return tree.arguments[1:] if tree.function == PAST else tree.arguments
