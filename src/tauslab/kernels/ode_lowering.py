"""A network as ordinary differential equations: variables, their rates, events, what is recorded.

Variables are amounts (molecules, or whatever unit the model's amounts have). Species that nothing
changes are no variables. Parameters and initial amounts that differ from trajectory to trajectory
are *inputs*; what follows from them alone is computed once at the start of a trajectory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.kernels.ode_graph import Graph
from tauslab.model.errors import ModelError
from tauslab.model.expression import Expression, Number, Symbol, arguments_first, symbols
from tauslab.model.host_math import evaluate
from tauslab.model.network import Network


@dataclass(frozen=True)
class OdeEvent:
    """At `time` the variables in `assignments` get new values, all computed before any is set."""

    time: float
    assignments: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class OdeSystem:
    """Equations ready for code generation; all but names are nodes of `graph`.

    `initial` and `rates` belong to `variables`; `quantities` are what is recorded, by name:
    species in the model's order, then rules. `species` counts the former.
    """

    graph: Graph
    inputs: tuple[str, ...]
    variables: tuple[str, ...]
    initial: tuple[int, ...]
    rates: tuple[int, ...]
    quantities: tuple[tuple[str, int], ...]
    species: int
    events: tuple[OdeEvent, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the recorded quantities."""
        return tuple(name for name, _ in self.quantities)


def lower_ode(
    network: Network,
    *,
    parameters: Mapping[str, float],
    varying: Collection[str] = (),
    recorded: Collection[str] | None = None,
) -> OdeSystem:
    """Equations of a network.

    Parameters
    ----------
    parameters
        Values of all parameters.
    varying
        Parameters, and species (their initial amounts), that differ from trajectory to trajectory.
    recorded
        Species and rules to record, in the model's order; None for all.

    Raises
    ------
    ModelError
        A name is not known, or the time of an event varies.
    """
    return _Lowering(network, parameters, varying).run(recorded)


class _Lowering:
    def __init__(
        self, network: Network, parameters: Mapping[str, float], varying: Collection[str]
    ) -> None:
        self.network, self.values, self.graph = network, parameters, Graph()
        everything = [*network.parameters, *network.species]
        self.inputs = tuple(name for name in everything if name in set(varying))
        self.input_number = {name: i for i, name in enumerate(self.inputs)}
        self.varying_parameters = _depending(network, set(self.inputs))
        assigned = {name for event in network.events for name in event.assignments}
        changed = {name for r in network.reactions for name in r.net_change()}
        self.variables = tuple(
            name
            for name, species in network.species.items()
            if name in network.rates or name in assigned or (name in changed and not species.fixed)
        )
        self.number = {name: i for i, name in enumerate(self.variables)}
        # Nodes of names, apart for the start and for later.
        self.named: dict[tuple[str, bool], int] = {}

    def run(self, recorded: Collection[str] | None) -> OdeSystem:
        network = self.network
        names = [*network.species, *(r.name for r in network.rules.values() if r.recorded)]
        if recorded is not None:
            names = [n for n in (*network.species, *network.rules) if n in set(recorded)]
        rates = self.rates()
        events = tuple(self.event(i) for i in range(len(network.events)))
        return OdeSystem(
            self.graph,
            self.inputs,
            self.variables,
            tuple(self.name(name, start=True) for name in self.variables),
            tuple(rates),
            tuple((name, self.name(name)) for name in names),
            sum(name in network.species for name in names),
            tuple(sorted(events, key=lambda event: event.time)),
        )

    def rates(self) -> list[int]:
        """What each variable changes by in a unit of time."""
        terms: list[list[tuple[float, int]]] = [[] for _ in self.variables]
        for reaction in self.network.reactions:
            law = self.tree(reaction.law if reaction.limit is None else reaction.limit)
            for name, by in reaction.net_change().items():
                moved_by_reactions = name in self.number and name not in self.network.rates
                if moved_by_reactions and not self.network.species[name].fixed:
                    terms[self.number[name]].append((float(by), law))
        found = [self.graph.sum(own) for own in terms]
        for name, tree in self.network.rates.items():
            found[self.number[name]] = self.tree(tree)
        return found

    def event(self, index: int) -> OdeEvent:
        event = self.network.events[index]
        used = symbols(event.time)
        if used & self.varying_parameters:
            raise ModelError(
                f"event {event.name}: its time depends on {min(used & self.varying_parameters)}, "
                "which varies; the time must be the same for all trajectories"
            )
        pairs = ((self.number[n], self.tree(t)) for n, t in event.assignments.items())
        return OdeEvent(evaluate(event.time, self.values), tuple(pairs))

    def name(self, name: str, *, start: bool = False) -> int:
        """Node of a name; with `start`, of what it is when a trajectory starts."""
        key = (name, start)
        if key not in self.named:
            self.named[key] = self.named_node(name, start=start)
        return self.named[key]

    def named_node(self, name: str, *, start: bool) -> int:
        network, graph = self.network, self.graph
        if name in self.number and not start:
            return graph.variable(self.number[name])
        if name in self.input_number:
            return graph.input(self.input_number[name])
        if name in network.species:
            return self.tree(network.species[name].initial, start=True)
        if name in network.rules:
            return self.tree(network.rules[name].expression, start=start)
        if name in self.varying_parameters:
            return self.tree(network.parameters[name], start=True)
        if name in self.values:
            return graph.number(self.values[name])
        if name == "time":
            return graph.number(0.0) if start else graph.time()
        raise ModelError(f"{name!r} is not defined in {network.name}")

    def tree(self, tree: Expression, *, start: bool = False) -> int:
        """Node of an expression; of a part that occurs often, one."""
        found: dict[int, int] = {}
        for node in arguments_first(tree):
            found[id(node)] = self.part(node, found, start=start)
        return found[id(tree)]

    def part(self, tree: Expression, found: Mapping[int, int], *, start: bool) -> int:
        """The same of a part, where those of its arguments are known."""
        if isinstance(tree, Number):
            return self.graph.number(tree.value)
        if isinstance(tree, Symbol):
            return self.name(tree.name, start=start)
        return self.graph.apply(tree.function, *(found[id(part)] for part in tree.arguments))


def _depending(network: Network, varying: set[str]) -> set[str]:
    """Parameters that vary: those named, and those given by expressions of them."""
    found = varying & network.parameters.keys()
    while True:
        more = {n for n, t in network.parameters.items() if n not in found and symbols(t) & found}
        if not more:
            return found
        found |= more


@dataclass(frozen=True)
class Spans:
    """Times from one thing that happens to the next, for kernels.

    Every span is integrated from `begin` to `end` (not at all where they are equal); then event
    number `event` happens, and sample number `sample` is taken, where they are not negative.
    """

    begin: npt.NDArray[np.float64]
    end: npt.NDArray[np.float64]
    event: npt.NDArray[np.int32]
    sample: npt.NDArray[np.int32]


def spans(times: Sequence[float], events: Sequence[OdeEvent]) -> Spans:
    """Cut the time from 0 to the last sample at samples and events; an event comes before a sample.

    >>> spans([0.0, 2.0], [OdeEvent(1.0, ())]).end.tolist()
    [0.0, 1.0, 2.0]
    """
    points = [(t, 1, k) for k, t in enumerate(times)]
    points += [(e.time, 0, i) for i, e in enumerate(events) if 0 < e.time <= times[-1]]
    points.sort()
    end = np.array([t for t, _, _ in points])
    begin = np.concatenate([[0.0], end[:-1]])
    event = np.array([i if kind == 0 else -1 for _, kind, i in points], np.int32)
    sample = np.array([i if kind == 1 else -1 for _, kind, i in points], np.int32)
    return Spans(begin, end, event, sample)
