"""A network as ordinary differential equations: variables, their rates, events, what is recorded.

Variables are amounts (molecules, or whatever unit the model's amounts have). Species that nothing
changes are no variables. Parameters and initial amounts that differ from trajectory to trajectory
are *inputs*; what follows from them alone is computed once at the start of a trajectory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from tauslab.base.arrays import FloatArray, Int32Array
from tauslab.base.errors import ModelError
from tauslab.base.option_names import opt
from tauslab.kernels.ode.graph import COMPARISONS, RUNNING, ExpressionGraph
from tauslab.model.expressions.expression import (
    PAST,
    Call,
    Expression,
    Number,
    Symbol,
    draws_in,
    looks_back,
    parts_first,
    substitute,
    symbols,
    to_text,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.time_relations import Switches, is_step_of_time
from tauslab.model.expressions.time_tables import just_after
from tauslab.model.network.network import Event, Network, Reaction, TimedEvent
from tauslab.model.network.parts import as_events
from tauslab.model.network.past import read_with


@dataclass(frozen=True)
class OdeEvent:
    """At `time` the variables in `assignments` get new values, all computed before any is set."""

    time: float
    assignments: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class OdeStateEvent:
    """An event that comes when a trigger turns true, as `tauslab.model.network.network.Event`."""

    trigger: int
    assignments: tuple[tuple[int, int], ...]
    delay: int | None
    priority: int | None
    persistent: bool
    initial: bool
    early: bool

    def nodes(self) -> tuple[int, ...]:
        """Delay, priority and values, as far as there are any."""
        optional = (part for part in (self.delay, self.priority) if part is not None)
        return (*optional, *(node for _, node in self.assignments))


@dataclass(frozen=True)
class OdeSystem:
    """Equations ready for code generation; all but names are nodes of `graph`.

    `initial` and `rates` belong to `variables`; `quantities` are what is recorded, by name:
    species in the model's order, then rules. `species` counts the former. At the times
    `jumps` rates jump, because they compare the time with a number. `triggered` are events that
    are looked for while equations are integrated; `events` is empty then. At the times `switches`
    relations of the time in their triggers change, or pulses begin and end. `relations` are
    differences whose signs decide relations of variables in the rates, and in triggers with
    several of them; where `has_pulses`, also relations of variables to where the rates have narrow
    pulses. `sizes` are numbers of variables that are sizes of compartments: at 0 a trajectory ends.

    Where the equations look back, `delayed` are the numbers of the variables whose past they read,
    and `waits` the delays that are not known before a trajectory; a delay below 0 by `slack` at
    most counts as 0.
    """

    graph: ExpressionGraph
    inputs: tuple[str, ...]
    variables: tuple[str, ...]
    initial: tuple[int, ...]
    rates: tuple[int, ...]
    quantities: tuple[tuple[str, int], ...]
    species: int
    events: tuple[OdeEvent, ...] = ()
    jumps: tuple[float, ...] = ()
    triggered: tuple[OdeStateEvent, ...] = ()
    switches: tuple[int, ...] = ()
    relations: tuple[int, ...] = ()
    looks_back: bool = False
    delayed: tuple[int, ...] = ()
    waits: tuple[int, ...] = ()
    slack: float = 0.0
    sizes: tuple[int, ...] = ()
    has_pulses: bool = False

    @property
    def watched(self) -> bool:
        """Return whether triggers or the past are looked at while equations are integrated."""
        return bool(self.triggered or self.switches) or self.looks_back

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names of the recorded quantities."""
        return tuple(name for name, _ in self.quantities)

    @cached_property
    def places(self) -> dict[str, int]:
        """Columns of recorded species, by name."""
        return {name: place for place, name in enumerate(self.names[: self.species])}

    @cached_property
    def columns(self) -> dict[str, int]:
        """Columns of `inputs`, by name."""
        return {name: column for column, name in enumerate(self.inputs)}


def lower_ode(
    network: Network,
    *,
    parameters: Mapping[str, float],
    varying: Collection[str] = (),
    recorded: Collection[str] | None = None,
    slack: float = 0.0,
    breaks: Sequence[float] = (),
    moving: Sequence[Expression] = (),
    pulses: Sequence[Expression] = (),
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
    slack
        What an amount may be below zero by error alone: in roots and in powers that are not whole
        it is then zero, where they would be no numbers.
    breaks
        Last times before rates jump, or have a short pulse, by what depends on the time alone.
    moving
        Formulas of such times that differ between trajectories.
    pulses
        Relations of amounts, of which no step passes over two: those of `levels_of_pulses`.

    Raises
    ------
    ModelError
        A name is not known, or the time of an event varies.
    """
    system = _OdeLowering(network, parameters, varying, slack).run(recorded, moving, pulses)
    if not breaks:
        return system
    after = {just_after(t) for t in breaks}
    return replace(system, jumps=tuple(sorted({*system.jumps, *after})))


def looks_back_at(network: Network) -> bool:
    """Return whether the equations of a network read earlier values."""
    return any(feature.kind in ("delay", "delayed reaction") for feature in network.features)


@dataclass(frozen=True)
class _When:
    """The time that a formula is about: while a trajectory runs, or (`start`) before that.

    `time` is the node of the time then, None for now, or for 0 at the start. `lag` is how much
    earlier than now that is while a trajectory runs, None for now.
    """

    start: bool = False
    time: int | None = None
    lag: int | None = None


_NOW, _START = _When(), _When(start=True)


class _OdeLowering:
    def __init__(
        self,
        network: Network,
        parameters: Mapping[str, float],
        varying: Collection[str],
        slack: float,
    ) -> None:
        self.network = network
        self.values = parameters
        self.graph = ExpressionGraph()
        self.slack = slack
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
        # Nodes of names, by when they are meant.
        self.named: dict[tuple[str, _When], int] = {}
        self.looks_back = looks_back_at(network)
        self.delayed: list[int] = []
        self.waits: list[int] = []
        self.lags: set[int] = set()
        self.lifted: dict[int, int] = {}
        self.relations: tuple[int, ...] = ()

    def run(
        self,
        recorded: Collection[str] | None,
        moving: Sequence[Expression],
        pulses: Sequence[Expression],
    ) -> OdeSystem:
        network = self.network
        names = [*network.species, *(r.name for r in network.rules.values() if r.recorded)]
        if recorded is not None:
            names = [n for n in (*network.species, *network.rules) if n in set(recorded)]
        compartments = {one.compartment for one in network.species.values()}
        rates = self.rates()
        events: tuple[OdeEvent, ...] = ()
        triggered: tuple[OdeStateEvent, ...] = ()
        switches = Switches(self.changes_by_events_only, [*moving])
        if moving or self.looks_back or any(isinstance(one, Event) for one in network.events):
            triggered = tuple(self.triggered(one, switches) for one in as_events(network.events))
        else:
            timed = [event for event in network.events if isinstance(event, TimedEvent)]
            events = tuple(self.event(event) for event in timed)
        seen = () if self.looks_back else _relations(self.graph, list(map(self.tree, pulses)))
        return OdeSystem(
            self.graph,
            self.inputs,
            self.variables,
            tuple(self.name(name, _START) for name in self.variables),
            tuple(rates),
            tuple((name, self.with_slack(self.name(name))) for name in names),
            sum(name in network.species for name in names),
            tuple(sorted(events, key=lambda event: event.time)),
            _jumps(self.graph, rates),
            triggered,
            tuple(self.tree(change) for change in switches.changes),
            tuple(dict.fromkeys((*self.relations, *seen))),
            self.looks_back,
            tuple(self.delayed),
            tuple(self.waits),
            self.slack,
            tuple(self.number[name] for name in network.rates if name in compartments),
            bool(seen),
        )

    def changes_by_events_only(self, change: Expression) -> bool:
        """Return whether nothing but events changes it."""
        network = self.network
        moved = set(network.rates)
        for reaction in network.reactions:
            moved |= {n for n in reaction.net_change() if not network.species[n].fixed}
        return not symbols(change) & moved

    def triggered(self, event: Event, switches: Switches) -> OdeStateEvent:
        rules = self.network.rule_expressions()
        event = event.mapped(lambda tree: substitute(tree, rules))

        def node(tree: Expression) -> int:
            return self.with_slack(self.tree(tree))

        trigger = node(switches.rewritten(event.trigger))
        own = () if self.looks_back else _relations(self.graph, [trigger])
        if len(own) > 1:  # between which it may hold for a short time
            self.relations = tuple(dict.fromkeys((*self.relations, *own)))
        return OdeStateEvent(
            trigger,
            tuple((self.number[name], node(tree)) for name, tree in event.assignments.items()),
            None if event.delay is None else node(event.delay),
            None if event.priority is None else node(event.priority),
            event.persistent,
            event.initial,
            event.early,
        )

    def rates(self) -> list[int]:
        """Change of each variable in a unit of time."""
        terms: list[list[tuple[float, int]]] = [[] for _ in self.variables]
        for reaction in self.network.reactions:
            law = self.tree(reaction.law if reaction.limit is None else reaction.limit)
            completed = law if reaction.delay is None else self.completed(reaction)
            for name, by in reaction.net_change().items():
                moved_by_reactions = name in self.number and name not in self.network.rates
                if moved_by_reactions and not self.network.species[name].fixed:
                    at_once = reaction.consuming and by < 0
                    terms[self.number[name]].append((float(by), law if at_once else completed))
        result = [self.graph.sum(own) for own in terms]
        for name, tree in self.network.rates.items():
            result[self.number[name]] = self.tree(tree)
        self.relations = () if self.looks_back else _relations(self.graph, result)
        return [self.with_slack(node) for node in result]

    def completed(self, reaction: Reaction) -> int:
        """The rate at which a delayed reaction completes: that at which it began a delay ago."""
        assert reaction.delay is not None
        if draws_in(reaction.delay):
            raise ModelError(
                f"reaction {reaction.name}: its delay draws random numbers, which ode does not; "
                f"{opt('method', 'ssa')} can run it"
            )
        wait = self.tree(reaction.delay)
        if self.graph.stages[wait] == RUNNING:
            raise ModelError(
                f"reaction {reaction.name}: its delay is {to_text(reaction.delay)}, which changes "
                "while a trajectory runs; ode takes delays of reactions that do not"
            )
        then = self.earlier(_NOW, wait, reaction.delay)
        began = self.tree(reaction.law if reaction.limit is None else reaction.limit, then)
        if then.time is None:
            return began
        before = self.graph.apply("before", then.time)
        return self.graph.apply("if", before, self.graph.number(0.0), began)

    def with_slack(self, wanted: int) -> int:
        """The node with amounts that are slightly negative as zero where they would be no numbers.

        That is within the base of a power that is not whole, and under a root.
        """
        graph = self.graph
        for node in graph.reached([wanted]) if self.slack else ():
            if node not in self.lifted:
                arguments = [self.lifted.get(a, a) for a in graph.nodes[node].arguments]
                if _needs_a_base(graph, node):
                    arguments[0] = self.lift(arguments[0])
                changed = tuple(arguments) != graph.nodes[node].arguments
                kind = graph.nodes[node].kind
                self.lifted[node] = graph.apply(kind, *arguments) if changed else node
        return self.lifted.get(wanted, wanted)

    def lift(self, base: int) -> int:
        """The base with every variable in it at zero where it is negative by the slack at most."""
        graph, zero = self.graph, self.graph.number(0.0)
        result: dict[int, int] = {}
        for node in graph.reached([base]):
            kind, arguments = graph.nodes[node].kind, graph.nodes[node].arguments
            if kind == "variable" or kind.startswith("past:"):
                negative = graph.apply("lt", node, zero)
                little = graph.apply("ge", node, graph.number(-self.slack))
                test = graph.apply("and", negative, little)
                result[node] = graph.apply("if", test, zero, node)
            elif any(result.get(a, a) != a for a in arguments):
                result[node] = graph.apply(kind, *(result.get(a, a) for a in arguments))
        return result.get(base, base)

    def event(self, event: TimedEvent) -> OdeEvent:
        used = symbols(event.time)
        if used & self.varying_parameters:
            raise ModelError(
                f"event {event.name}: its time depends on {min(used & self.varying_parameters)}, "
                "which varies; the time must be the same for all trajectories"
            )
        pairs = (
            (self.number[n], self.with_slack(self.tree(t))) for n, t in event.assignments.items()
        )
        return OdeEvent(evaluate(event.time, self.values), tuple(pairs))

    def name(self, name: str, when: _When = _NOW) -> int:
        """Node of a name, of what it is then."""
        key = (name, when)
        if key not in self.named:
            self.named[key] = self.named_node(name, when)
        return self.named[key]

    def named_node(self, name: str, when: _When) -> int:
        network, graph = self.network, self.graph
        if name in self.number and not when.start:
            return self.variable(name, when)
        if name in self.input_number:
            return graph.input(self.input_number[name])
        if name in network.species:
            return self.unmoved(name, when)
        if name in network.rules:
            return self.tree(network.rules[name].expression, when)
        if name in self.varying_parameters:
            return self.tree(network.parameters[name], _START)
        if name in self.values:
            return graph.number(self.values[name])
        if name == "time":
            return self.time(when)
        raise ModelError(f"{name!r} is not defined in {network.name}")

    def time(self, when: _When) -> int:
        if when.time is not None:
            return when.time
        return self.graph.number(0.0) if when.start else self.graph.time()

    def variable(self, name: str, when: _When) -> int:
        """A variable now, or what it was: before the start what its initial value says."""
        graph, number = self.graph, self.number[name]
        now = graph.variable(number)
        if when.time is None:
            return now
        if number not in self.delayed:
            self.delayed.append(number)
        was = graph.apply(f"past:{self.delayed.index(number)}", when.time, now)
        initial = self.name(name, _When(start=True, time=when.time))
        return graph.apply("if", graph.apply("before", when.time), initial, was)

    def unmoved(self, name: str, when: _When) -> int:
        """The value of a species that nothing changes, or before the start."""
        graph, initial = self.graph, self.network.species[name].initial
        if when.start or when.time is None:
            return self.tree(initial, _START if when.time is None else when)
        before = self.tree(initial, _When(start=True, time=when.time))
        since = self.tree(initial, _START)
        if before == since:
            return since
        return graph.apply("if", graph.apply("before", when.time), before, since)

    def earlier(self, when: _When, wait: int, delay: Expression) -> _When:
        """A time that is `wait`, the node of a delay, before another."""
        graph, value = self.graph, self.graph.value_of(wait)
        if value is not None and not value >= 0:
            raise ModelError(f"the delay {to_text(delay)} is {value:g}; it must be 0 or more")
        if value == 0:
            return when
        if when.start:
            return _When(start=True, time=graph.apply("sub", self.time(when), wait))
        if value is None and wait not in self.waits:
            self.waits.append(wait)
        lag = wait if when.lag is None else graph.apply("add", when.lag, wait)
        self.lags.add(lag)
        if len(self.lags) > _MOST_LAGS:
            raise ModelError(f"the equations look back by more than {_MOST_LAGS} different delays")
        return _When(time=graph.apply("ago", graph.time(), lag), lag=lag)

    def tree(self, tree: Expression, when: _When = _NOW) -> int:
        """Node of an expression; of a part that occurs often, one."""
        result: dict[int, int] = {}
        order = parts_first(tree, read_with)
        steps = self.in_steps(order)
        for node in order:
            if id(node) in steps and isinstance(node, Call):
                arguments = (result[id(part)] for part in node.arguments)
                result[id(node)] = self.graph.write(node.function, *arguments)
            else:
                result[id(node)] = self.part(node, result, when)
        return result[id(tree)]

    def in_steps(self, order: Sequence[Expression]) -> set[int]:
        """Parts of what steps by the time alone: it steps where the host finds that it does."""
        if not order or "time" not in symbols(order[-1]) or "time" in self.network.parameters:
            return set()
        moved = {*self.number, *self.network.rules}
        inside: set[int] = set()
        for node in reversed(order):
            alone = is_step_of_time(node) and not (symbols(node) & moved or looks_back(node))
            if isinstance(node, Call) and (alone or id(node) in inside):
                inside |= {id(node), *map(id, node.arguments)}
        return inside

    def part(self, tree: Expression, found: Mapping[int, int], when: _When) -> int:
        """Node of a part, where those of its arguments are known."""
        if isinstance(tree, Number):
            return self.graph.number(tree.value)
        if isinstance(tree, Symbol):
            return self.name(tree.name, when)
        if tree.function == PAST:
            past, delay = tree.arguments
            return self.tree(past, self.earlier(when, found[id(delay)], delay))
        return self.graph.apply(tree.function, *(found[id(part)] for part in tree.arguments))


_MOST_LAGS = 1000
_ORDERINGS = ("lt", "le", "gt", "ge")


def _needs_a_base(graph: ExpressionGraph, node: int) -> bool:
    """Return whether it is no number where its first argument is negative, by however little."""
    own = graph.nodes[node]
    if own.kind == "sqrt":
        return True
    power = graph.value_of(own.arguments[1]) if own.kind == "pow" else None
    return own.kind == "pow" and (power is None or power != int(power))


def _relations(graph: ExpressionGraph, rates: Sequence[int]) -> tuple[int, ...]:
    """Differences of the two sides of relations that variables decide, each once."""
    moving, result = set[int](), dict[int, None]()
    for node in graph.reached(list(rates)):
        own = graph.nodes[node]
        if own.kind == "variable" or not moving.isdisjoint(own.arguments):
            moving.add(node)
            if own.kind in _ORDERINGS:
                result[graph.apply("sub", *sorted(own.arguments))] = None
    return tuple(result)


def _jumps(graph: ExpressionGraph, rates: Sequence[int]) -> tuple[float, ...]:
    """Times at which comparisons of the time with numbers change, in order."""
    result = set[float]()
    for node in graph.reached(list(rates)):
        if graph.nodes[node].kind not in COMPARISONS:
            continue
        sides = [_affine(graph, a) for a in graph.nodes[node].arguments]
        if None in sides:
            continue
        (a, b), (c, d) = (side for side in sides if side is not None)
        if a != c:
            result.add((d - b) / (a - c))
    return tuple(sorted(t for t in result if 0 < t < math.inf))


def _affine(graph: ExpressionGraph, node: int, depth: int = 8) -> tuple[float, float] | None:
    """`a` and `b` where the node is a x time + b, written down in `depth` levels, else None."""
    own, value = graph.nodes[node], graph.value_of(node)
    if value is not None:
        return 0.0, value
    if own.kind == "time":
        return 1.0, 0.0
    if own.kind not in _OF_TIME or not depth:
        return None
    sides = [_affine(graph, a, depth - 1) for a in own.arguments]
    if None in sides:
        return None
    parts = [side for side in sides if side is not None]
    (a, b), (c, d) = parts[0], parts[-1]
    if own.kind == "neg":
        return -a, -b
    if own.kind == "mul":
        return (a * d + b * c, b * d) if a == 0 or c == 0 else None
    return (a + c, b + d) if own.kind == "add" else (a - c, b - d)


_OF_TIME = ("add", "sub", "mul", "neg", "ago")


def _depending(network: Network, varying: set[str]) -> set[str]:
    """Parameters that vary: those named, and those given by expressions of them."""
    result = varying & network.parameters.keys()
    while True:
        more = {n for n, t in network.parameters.items() if n not in result and symbols(t) & result}
        if not more:
            return result
        result |= more


@dataclass(frozen=True)
class Spans:
    """Times from one thing that happens to the next, for kernels.

    Every span is integrated from `begin` to `end` (not at all where they are equal); then event
    number `event` happens, and sample number `sample` is taken, where they are not negative. An
    event of a number that the system does not have changes nothing, but steps begin anew.
    """

    begin: FloatArray
    end: FloatArray
    event: Int32Array
    sample: Int32Array


def spans(times: Sequence[float], events: Sequence[OdeEvent], jumps: Sequence[float] = ()) -> Spans:
    """Cut the time from 0 to the last sample at samples and events; an event comes before a sample.

    Where rates jump a span ends with the last number before, and the next begins with the first one
    after: no step has both sides.

    >>> spans([0.0, 2.0], [OdeEvent(1.0, ())]).end.tolist()
    [0.0, 1.0, 2.0]
    """
    last = times[-1]
    points = [(t, 2, k) for k, t in enumerate(times)]
    points += [(e.time, 1, i) for i, e in enumerate(events) if 0 < e.time <= last]
    points += [(t, 0, len(events)) for t in jumps if 0 < t <= last]
    rows: list[tuple[float, float, int, int]] = []
    now = 0.0
    for t, kind, number in sorted(points):
        if kind == 0:
            before = max(now, math.nextafter(t, -math.inf) if t > just_after(0.0) else 0.0)
            rows.append((now, before, number, -1))
            now = math.nextafter(t, math.inf)
        else:
            begin = min(now, t)  # at a jump itself: nothing is integrated
            rows.append((begin, t, number, -1) if kind == 1 else (begin, t, -1, number))
            now = max(now, t)
    columns = list(zip(*rows, strict=True))
    begins, ends = (np.array(column, np.float64) for column in columns[:2])
    event, sample = (np.array(column, np.int32) for column in columns[2:])
    return Spans(begins, ends, event, sample)


def spans_from(found: Spans, start: float) -> Spans:
    """Spans that end after `start`, and the samples at it.

    >>> spans_from(spans([2.0], [OdeEvent(1.0, ())]), 1.0).begin.tolist()
    [1.0]
    """
    left = (found.end > start) | (found.sample >= 0)
    return Spans(
        np.maximum(found.begin[left], start), found.end[left], found.event[left], found.sample[left]
    )
