"""From a `Network` to numbers: what the code generator and the kernels' tables are made from.

Species keep their order.  Fixed species and parameters become *constants*: the largest parts of a
law that no reaction can change are evaluated on the host, once per run, or once per row of a
launch where they vary from trajectory to trajectory.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ModelError
from tauslab.model.expressions.expression import (
    DRAWS,
    Call,
    Expression,
    Number,
    Symbol,
    arguments_first,
    call,
    parts_first,
    substitute,
    symbols,
    written_size,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.mass_action import recognise
from tauslab.model.expressions.time_relations import Switches, is_stepwise
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.diagnosis.time_breaks import steps_of
from tauslab.model.network.network import Event, Network, Reaction
from tauslab.model.network.parts import as_events
from tauslab.model.network.past import Past

_ORDERINGS = ("lt", "le", "gt", "ge")
_LONGEST_REPEATED = 64  # nodes of a rule that is written out in every law


@dataclass(frozen=True)
class Count:
    """The count of species number `index` in a law."""

    index: int


@dataclass(frozen=True)
class Constant:
    """Constant number `index` of the row, loaded at the start of a trajectory."""

    index: int


@dataclass(frozen=True)
class Operation:
    """A function of `tauslab.model.expressions.expression.FUNCTIONS` applied to lowered laws."""

    function: str
    arguments: tuple[Law, ...]

    @cached_property
    def reads(self) -> frozenset[int]:
        """Numbers of the species it reads; a part that laws share is walked once."""
        for argument in self.arguments:
            for part in parts_first(argument, _arguments_not_read):
                counts_in(part)  # that of its arguments is known: no deep recursion
        return frozenset().union(*(counts_in(argument) for argument in self.arguments))


Law = Number | Count | Constant | Operation


@dataclass(frozen=True)
class Completion:
    """Changes of counts that a reaction makes a delay after it began."""

    delay: Law
    change: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class LoweredReaction:
    """One reaction by species numbers.

    `change` is what one firing adds to each count.  Mass action: propensity = `constant` times
    x (x - 1) ... over `orders`; otherwise `law`.  The propensity is zero while a count is below
    its entry in `needs`, so that no firing takes molecules that are missing. Of a delayed
    reaction `change` is what its beginning adds, and the first of `completions` its end. Counts
    that are looked back at change at once, and hidden ones by a completion. `constant` is times
    species number `quantity`, where that is given: one that holds any number, in tables.
    """

    name: str
    change: tuple[tuple[int, int], ...]
    constant: Number | Constant | None
    orders: tuple[tuple[int, int], ...]
    law: Law | None
    needs: tuple[tuple[int, int], ...]
    completions: tuple[Completion, ...] = ()
    quantity: int | None = None

    def depends_on(self) -> set[int]:
        """Numbers of the species the propensity reads."""
        read = {index for index, _ in self.orders} | {index for index, _ in self.needs}
        if self.quantity is not None:
            read.add(self.quantity)
        return read | (counts_in(self.law) if self.law is not None else set())


@dataclass(frozen=True)
class LoweredEvent:
    """An event by species numbers; fields as those of `tauslab.model.network.network.Event`."""

    name: str
    trigger: Law
    assignments: tuple[tuple[int, Law], ...]
    delay: Law | None
    priority: Law | None
    persistent: bool
    initial: bool
    early: bool

    def laws(self) -> tuple[Law, ...]:
        """All that it computes."""
        optional = (part for part in (self.delay, self.priority) if part is not None)
        return (self.trigger, *optional, *(law for _, law in self.assignments))


@dataclass(frozen=True)
class Jump:
    """The change of count `of` by events comes to the hidden count `to` a `delay` later."""

    of: int
    to: int
    delay: Law


@dataclass(frozen=True)
class Dynamics:
    """Movers of a network beside its reactions: events, and the time.

    The time is the count behind those of all species. `switches` are times at which a relation of
    the time in a law or a trigger changes; `reals` the species that hold any number, with what they
    start from. `flows` are the rates of those of them that have an equation of their own. `moves`
    says whether anything changes between events: a flow, or a rate that depends on the time.
    `drawn` are initial values that draw random numbers, or use such, each after those it uses, and
    those of hidden species, which hold what others were (see `tauslab.model.network.past`); `jumps`
    say what comes to these after an event. `bounded` are flows of amounts, never below 0; `sizes`
    those of compartments: at 0 a trajectory ends. `pulses` are relations of what flows to where a
    rate has a narrow pulse.
    """

    events: tuple[LoweredEvent, ...]
    switches: tuple[Law, ...]
    reals: tuple[tuple[int, Law], ...]
    flows: tuple[tuple[int, Law], ...] = ()
    moves: bool = False
    drawn: tuple[tuple[int, Law], ...] = ()
    jumps: tuple[Jump, ...] = ()
    bounded: frozenset[int] = frozenset()
    sizes: tuple[int, ...] = ()
    pulses: tuple[Law, ...] = ()

    def watched(self) -> set[int]:
        """Numbers of species on which triggers or the times of switches depend."""
        laws = [event.trigger for event in self.events]
        return set().union(*(counts_in(law) for law in (*laws, *self.switches)))


@dataclass(frozen=True)
class Thinning:
    """Thinning of events whose rates depend on the time (Lewis and Shedler 1979).

    `rates` are the reactions with their laws, in which `factors` are parts that depend on the time
    and on constants alone. Those of the network are upper bounds in their place, which hold in a
    piece of the run: they read `slots`, pairs of a factor's number and whether it is the most of
    the factor in the piece, or the least. The words of a piece stand behind the constants: its last
    time, its limit (csrc/ensemble/pieces.h), slots. Behind them is the time; for `leaps` the end
    and the length of a leaf, and the factors at the time, stand before it. Laws `in_tables` read a
    slot by a function of the time and of its number, so that they depend on the time.
    """

    rates: tuple[LoweredReaction, ...]
    factors: tuple[Law, ...]
    slots: tuple[tuple[int, bool], ...]
    leaps: bool = False
    in_tables: bool = False

    @property
    def words(self) -> int:
        """Numbers of a piece."""
        return 2 + len(self.slots)

    @property
    def places(self) -> int:
        """Numbers behind those of a piece, which a trajectory computes."""
        return 1 + (2 + len(self.factors) if self.leaps else 0)


@dataclass(frozen=True)
class LoweredNetwork:
    """A network ready for code generation.

    `constants` are expressions of varying names alone; `recorded` lists species numbers in the
    order of output; `observables` are recorded rules. `shared` are long rules, each one object in
    all laws that use it, those that another uses before it. `dynamics` is None where reactions
    alone change the state, and the time enters no law, or by `thinning`. The first `amounts` of the
    observables are species, in a network whose species are all recorded as real numbers.
    """

    species: tuple[str, ...]
    reactions: tuple[LoweredReaction, ...]
    constants: tuple[Expression, ...]
    recorded: tuple[int, ...]
    observables: tuple[tuple[str, Law], ...]
    shared: tuple[Operation, ...] = ()
    dynamics: Dynamics | None = None
    amounts: int = 0
    thinning: Thinning | None = None

    @property
    def loaded(self) -> int:
        """Constants that a trajectory keeps: with thinning also a piece, and what it computes."""
        own = 0 if self.thinning is None else self.thinning.words + self.thinning.places
        return len(self.constants) + own

    @cached_property
    def columns(self) -> Mapping[str, int]:
        """Columns of the recorded species by name, in the order of output."""
        return {self.species[number]: column for column, number in enumerate(self.recorded)}

    @cached_property
    def made(self) -> dict[str, Any]:
        """What engines have made of it, by name, for later ones; no entry is ever changed."""
        return {}

    @cached_property
    def real_places(self) -> Mapping[str, int]:
        """Numbers of the species that hold any number, by name."""
        result = self.dynamics.reals if self.dynamics is not None else ()
        return {self.species[number]: number for number, _ in result}

    @property
    def draws(self) -> bool:
        """Return whether anything is drawn at random beside what happens next."""
        if self.dynamics is None:
            return False
        laws = [law for event in self.dynamics.events for law in event.laws()]
        laws += [end.delay for reaction in self.reactions for end in reaction.completions]
        laws += [law for _, law in self.dynamics.drawn]
        return any(draws_in(law) for law in laws)

    def touched(self) -> list[list[int]]:
        """Reactions whose propensities read a count that each reaction changes."""
        readers: dict[int, set[int]] = {}
        for j, reaction in enumerate(self.reactions):
            for index in reaction.depends_on():
                readers.setdefault(index, set()).add(j)
        return [
            sorted(set().union(*(readers.get(index, set()) for index, _ in reaction.change)))
            for reaction in self.reactions
        ]

    def constant_rows(
        self, rows: Mapping[str, FloatArray], n_rows: int, numbers: Sequence[int] | None = None
    ) -> FloatArray:
        """Evaluate the constants, or some of them, for every row; ``[n_rows, constant]``.

        `rows` gives each varying parameter, and each varying amount of a fixed species, as an
        array of length `n_rows`.
        """
        chosen = self.constants if numbers is None else [self.constants[i] for i in numbers]
        table = np.empty((n_rows, len(chosen)))
        for column, constant in enumerate(chosen):
            if isinstance(constant, Symbol):  # by far the most frequent, and needs no arithmetic
                table[:, column] = rows[constant.name]
                continue
            names = sorted(symbols(constant))
            # Rows with the same bits, of which a grid has many, are evaluated once.
            inputs = np.stack([rows[name] for name in names], axis=1).view(np.uint64)
            unique, which = np.unique(inputs, axis=0, return_inverse=True)
            result = [
                evaluate(constant, dict(zip(names, own, strict=True)))
                for own in unique.view(np.float64).tolist()
            ]
            table[:, column] = np.array(result)[which.ravel()]
        return table


def lower(  # noqa: PLR0913 - what a run decides of a network
    network: Network,
    *,
    parameters: Mapping[str, float],
    counts: Mapping[str, int],
    varying: Collection[str] = (),
    recorded: Collection[str] | None = None,
    reals: Mapping[str, float] | None = None,
    pasts: Sequence[Past] = (),
    breaks: Sequence[float | Expression] = (),
    flowing: Collection[str] | None = None,
    pulses: Sequence[Expression] = (),
) -> LoweredNetwork:
    """Lower `network` with these parameter values and rounded initial counts.

    Parameters
    ----------
    parameters, counts
        Values of all parameters and initial counts of all species.
    varying
        Parameters, and fixed species, that differ from trajectory to trajectory.
    recorded
        Species to record, in the model's order; all by default.
    reals
        Initial values of species that hold any number: `Network.real_species`, and
        `Network.constant_species` that are not whole.
    pasts
        What the hidden species of `network` hold, behind its own.
    breaks
        Times at which integration steps end, so that they skip no jump and no pulse of a rate law:
        numbers, and formulas of the values in `varying`.
    flowing
        Reactions that are equations of what they change, which is among `reals`; all others change
        counts one by one. None where no method has such parts.
    pulses
        Relations of what flows, of which no step passes over two: those of `levels_of_pulses`.

    Raises
    ------
    ModelError
        A law needs something that is not known.
    """
    lowering = _NetworkLowering(network, parameters, counts, varying, reals or {}, pasts, flowing)
    lowering.switches.changes += [Number(t) if isinstance(t, float) else t for t in breaks]
    lowering.pulses = pulses
    return lowering.run(recorded)


class _NetworkLowering:
    def __init__(
        self,
        network: Network,
        parameters: Mapping[str, float],
        counts: Mapping[str, int],
        varying: Collection[str],
        reals: Mapping[str, float],
        pasts: Sequence[Past],
        flowing: Collection[str] | None,
    ) -> None:
        self.network = network
        self.flowing = set(flowing or ())
        self.pulses: Sequence[Expression] = ()
        self.pasts = pasts
        self.number = {name: i for i, name in enumerate(network.species)}
        self.reacting = {name for name, s in network.species.items() if not s.fixed}
        self.moving = set(self.reacting)
        self.rules = network.rule_expressions()
        self.reals = dict(reals)
        self.drawn = network.drawn_amounts()
        self.is_dynamic = has_dynamics(network) or bool(pasts) or flowing is not None
        self.parts = changed_by(network, self.flowing)  # amounts that jumps may change too
        moved = {*network.rates, *self.parts}
        self.switches = Switches(lambda change: not symbols(change) & moved)
        if self.is_dynamic:
            network.require_the_time()
            self.moving.update(*(event.assignments for event in network.events), ("time",))
            self.moving.update(network.rates, self.drawn)
            self.reacting -= network.rates.keys()
            self.number.setdefault("time", len(network.species))
        # Long rules of counts are lowered once and shared, not repeated in every law.
        self.long = {
            name
            for name, tree in self.rules.items()
            if written_size(tree) > _LONGEST_REPEATED
            and symbols(tree) & self.moving
            and not (self.is_dynamic and "time" in symbols(tree))
        }
        self.counted = (self.moving - self.reals.keys() - {"time"}) | self.long
        self.short = {n: tree for n, tree in self.rules.items() if n not in self.long}
        self.shared: dict[str, Law] = {}
        self.varying = set(varying)
        amounts = {**counts, **self.reals}
        fixed = {n: float(a) for n, a in amounts.items() if n not in self.moving}
        self.values = {**parameters, **fixed}
        self.derived = _varying_parameters(network, self.varying)
        self.constants: dict[Expression, int] = {}
        self.folded: dict[Expression, Number | Constant] = {}

    def run(self, recorded: Collection[str] | None) -> LoweredNetwork:
        names = tuple(self.network.species)
        chosen = names if recorded is None else [n for n in names if n in set(recorded)]
        hidden = {past.name for past in self.pasts}
        chosen = [n for n in chosen if n not in self.reals and n not in hidden]
        jumping = (r for r in self.network.reactions if r.name not in self.flowing)
        reactions = tuple(self.reaction(r) for r in jumping)
        observables: tuple[tuple[str, Law], ...] = tuple(
            (name, self.real(name)) for name in self.reals
        )
        observables += tuple(
            (rule.name, self.observable(rule.name))
            for rule in self.network.rules.values()
            if rule.recorded
        )
        dynamics = self.dynamics() if self.is_dynamic else None
        return LoweredNetwork(
            names,
            reactions,
            tuple(self.constants),
            tuple(self.number[name] for name in chosen),
            observables,
            tuple(law for law in self.shared.values() if isinstance(law, Operation)),
            dynamics,
        )

    def dynamics(self) -> Dynamics:
        """Events, and then the times at which relations change that all laws have."""
        events = []
        for event in as_events(self.network.events):
            with _naming(f"event {event.name}"):
                events.append(self.event(event))
        reals = tuple((self.number[name], self.start_of(name)) for name in self.reals)
        flows = []
        for name, tree in self.network.rates.items():
            with _naming(f"rate rule for {name}"):
                flows.append((self.number[name], self.law(substitute(tree, self.rules))))
        compartments = {one.compartment for one in self.network.species.values()}
        parts = self.rates_of_reactions()
        flows += [(self.number[name], self.law(tree)) for name, tree in parts.items()]
        switches: list[Law] = []
        while len(switches) < len(self.switches.changes):
            switches.append(self.law(self.switches.changes[len(switches)]))
        moves = bool(flows) or not is_stepwise(steps_of(self.network))
        drawn = []
        for name, tree in self.drawn.items():
            with _naming(f"initial value of {name}"):
                drawn.append((self.number[name], self.law(tree)))
        pairs = ((past.name, past.species) for past in self.pasts)
        drawn.extend((self.number[name], Count(self.number[was])) for name, was in pairs)
        assigned = {name for event in self.network.events for name in event.assignments}
        jumps = tuple(
            Jump(self.number[past.species], self.number[past.name], self.law(past.delay))
            for past in self.pasts
            if past.species in assigned
        )
        return Dynamics(
            tuple(events), tuple(switches), reals, tuple(flows), moves, tuple(drawn), jumps,
            frozenset(self.number[name] for name in parts),
            tuple(self.number[name] for name in self.network.rates if name in compartments),
            tuple(self.law(tree) for tree in self.pulses),
        )  # fmt: skip

    def rates_of_reactions(self) -> dict[str, Expression]:
        """Equations of amounts by the reactions that flow."""
        rates: dict[str, Expression] = {}
        for reaction in self.network.reactions:
            if reaction.name not in self.flowing:
                continue
            law = substitute(reaction.law if reaction.limit is None else reaction.limit, self.rules)
            for name, by in reaction.net_change().items():
                if name in self.reacting:
                    part = call("mul", float(by), law)
                    rates[name] = call("add", rates[name], part) if name in rates else part
        return rates

    def event(self, event: Event) -> LoweredEvent:
        event = event.mapped(lambda tree: substitute(tree, self.rules))
        return LoweredEvent(
            event.name,
            self.law(event.trigger),
            tuple((self.number[name], self.law(tree)) for name, tree in event.assignments.items()),
            None if event.delay is None else self.law(event.delay),
            None if event.priority is None else self.law(event.priority),
            event.persistent,
            event.initial,
            event.early,
        )

    def real(self, name: str) -> Law:
        """A species that holds any number; what nothing changes is a constant."""
        return Count(self.number[name]) if name in self.moving else self.constant(Symbol(name))

    def start_of(self, name: str) -> Law:
        """The initial value of a species that holds any number."""
        if name in self.drawn:
            return Number(0.0)
        if name in self.varying:
            return self.constant(Symbol(name))
        trees = {n: s.initial for n, s in self.network.species.items() if n not in self.varying}
        tree = unfold({n: substitute(t, self.rules) for n, t in trees.items()}, "value")[name]
        if symbols(tree) & (self.varying | self.derived.keys()):
            return self.constant(substitute(tree, {"time": Number(0.0)}))
        return Number(self.reals[name])

    def reaction(self, reaction: Reaction) -> LoweredReaction:
        with _naming(f"reaction {reaction.name}"):
            return self.named_reaction(reaction)

    def named_reaction(self, reaction: Reaction) -> LoweredReaction:
        law = substitute(reaction.law, self.short)
        change = {
            self.number[name]: by
            for name, by in reaction.begins_with().items()
            if name in self.reacting
        }
        action = recognise(law, self.counted)
        if action is not None and symbols(action.constant) & self.moving:
            action = None  # an event may change the constant
        if action is not None and self.long.isdisjoint(action.orders.keys()):
            constant = self.constant(action.constant)
            orders = tuple((self.number[n], k) for n, k in action.orders.items())
            lowered = None
        else:
            constant, orders, lowered = None, (), self.law(law)
        falls = dict(orders)
        needs = tuple(
            (self.number[name], count)
            for name, count in reaction.reactants.items()
            if falls.get(self.number[name], 0) < count
            and (change.get(self.number[name], 0) < 0 or (count > 1 and name in self.parts))
        )
        moves = tuple(sorted(change.items()))
        ends = tuple(self.completions(reaction, change))
        return LoweredReaction(reaction.name, moves, constant, orders, lowered, needs, ends)

    def completions(self, reaction: Reaction, change: Mapping[int, int]) -> Iterator[Completion]:
        """The end of a delayed reaction, and what comes to hidden species, by delay."""
        if reaction.delay is not None:
            later = sorted(
                (self.number[name], by)
                for name, by in reaction.ends_with().items()
                if name in self.reacting
            )
            yield Completion(self.law(substitute(reaction.delay, self.short)), tuple(later))
        hidden: dict[Expression, list[tuple[int, int]]] = {}
        for past in self.pasts:
            by = change.get(self.number[past.species], 0)
            if by:
                hidden.setdefault(past.delay, []).append((self.number[past.name], by))
        for delay, later in hidden.items():
            yield Completion(self.law(delay), tuple(later))

    def observable(self, name: str) -> Law:
        with _naming(f"rule for {name}"):
            return self.law(Symbol(name))

    def constant(self, expression: Expression) -> Number | Constant:
        """A part that no reaction changes: a number, or a constant of the row."""
        if expression not in self.folded:
            self.folded[expression] = self.fold(expression)
        return self.folded[expression]

    def fold(self, expression: Expression) -> Number | Constant:
        expression = substitute(expression, self.derived)
        names = symbols(expression)
        if not names & self.varying:
            return Number(evaluate(expression, self.values))
        known = {name: Number(self.values[name]) for name in names - self.varying}
        whole = substitute(expression, known)
        return Constant(self.constants.setdefault(whole, len(self.constants)))

    def law(self, expression: Expression) -> Law:
        """Lower a law; parts without moving species collapse into one constant.

        What occurs twice in the law is one object in what it becomes.
        """
        if self.is_dynamic:
            expression = self.switches.rewritten(expression)
        order = arguments_first(expression)
        moving = self.moving_parts(order)
        outer = {id(expression)}  # what no constant has inside
        for node in reversed(order):
            if isinstance(node, Call) and id(node) in outer and id(node) in moving:
                outer.update(id(part) for part in node.arguments)
        built: dict[int, Law] = {}
        for node in order:
            if id(node) not in outer:
                continue
            if id(node) not in moving:
                built[id(node)] = self.constant(node)
            elif isinstance(node, Symbol):
                built[id(node)] = self.count(node.name)
            elif isinstance(node, Call):
                arguments = tuple(built[id(part)] for part in node.arguments)
                built[id(node)] = _operation(node.function, arguments)
        return built[id(expression)]

    def moving_parts(self, order: Collection[Expression]) -> set[int]:
        """Identities of the parts, arguments first, that hold a moving species or a rule."""
        result: set[int] = set()
        for node in order:
            if isinstance(node, Symbol):
                moves = node.name in self.moving or node.name in self.rules
            else:
                moves = isinstance(node, Call) and (
                    node.function in DRAWS or any(id(a) in result for a in node.arguments)
                )
            if moves:
                result.add(id(node))
        return result

    def count(self, name: str) -> Law:
        """The lowered form of a species or a rule that moves."""
        if name in self.long:
            return self.rule(name)
        if name in self.rules:
            return self.law(self.rules[name])
        return Count(self.number[name])

    def rule(self, name: str) -> Law:
        """A long rule, lowered once."""
        if name not in self.shared:
            tree = substitute(self.network.rules[name].expression, self.short)
            self.shared[name] = self.law(tree)
        return self.shared[name]


def changed_by(network: Network, reactions: Collection[str]) -> set[str]:
    """Species that some reactions change, by their names."""
    changed = {n for r in network.reactions if r.name in reactions for n in r.net_change()}
    return {n for n in changed if not network.species[n].fixed} - network.rates.keys()


def has_dynamics(network: Network) -> bool:
    """Return whether anything but reactions changes propensities or the state."""
    if network.events or network.rates or network.drawn_amounts() or not network.species:
        return True
    if any(reaction.delay is not None for reaction in network.reactions):
        return True
    trees = (*(r.law for r in network.reactions), *(r.expression for r in network.rules.values()))
    names = {*network.species, *network.parameters, *network.rules}
    return "time" not in names and any("time" in symbols(tree) for tree in trees)


def relations_of_flows(network: LoweredNetwork) -> list[Operation]:
    """Relations, in laws of reactions and equations, of what flows; each pair of sides once.

    Also those of pulses, and of triggers with several, which may hold for a short time.
    """
    assert network.dynamics is not None
    flowing = {number for number, _ in network.dynamics.flows}
    if not flowing:
        return []
    laws = [law for _, law in network.dynamics.flows]
    laws += [reaction.law for reaction in network.reactions if reaction.law is not None]
    laws += network.dynamics.pulses

    def of(law: Law) -> dict[frozenset[int], Operation]:
        return {
            frozenset(map(id, part.arguments)): part
            for part in operations_first(law)
            if isinstance(part, Operation) and part.function in _ORDERINGS
            and counts_in(part) & flowing
        }  # fmt: skip

    triggers = [one.trigger for one in network.dynamics.events if not draws_in(one.trigger)]
    laws += [trigger for trigger in triggers if len(of(trigger)) > 1]
    result: dict[frozenset[int], Operation] = {}
    for law in laws:
        result = of(law) | result
    return list(result.values())


def jumps_within(network: LoweredNetwork) -> bool:
    """Return whether jumps happen within steps of the flow (csrc/events/jumps_within.h).

    They do in networks of jumps and equations where nothing else ends a step: no event, no time at
    which a law changes, no condition on what flows, no delay.
    """
    assert network.dynamics is not None
    moved = network.dynamics
    return bool(moved.bounded) and not (
        moved.events
        or moved.switches
        or moved.jumps
        or relations_of_flows(network)
        or any(reaction.completions for reaction in network.reactions)
    )


def _operation(function: str, arguments: tuple[Law, ...]) -> Operation:
    """An operation; a power that no count can have a value for is an error of the model."""
    power = arguments[-1]
    if function == "pow" and isinstance(power, Number) and not math.isfinite(power.value):
        raise ModelError(f"an exponent is {power.value:g}; exponents must be finite")
    return Operation(function, arguments)


@contextmanager
def _naming(element: str) -> Iterator[None]:
    """Put the element before the message of an error."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{element}: {error}") from None


def _varying_parameters(network: Network, varying: set[str]) -> dict[str, Expression]:
    """Parameters given by expressions of varying names, in terms of those and of fixed ones."""
    left = {n: t for n, t in network.parameters.items() if n not in varying and symbols(t)}
    result: dict[str, Expression] = {}
    while True:
        more = {n: t for n, t in left.items() if symbols(t) & (varying | result.keys())}
        if not more:
            return unfold(result, "parameter")
        result |= more
        left = {n: t for n, t in left.items() if n not in more}


def operations_first(law: Law, known: Container[int] = ()) -> list[Law]:
    """Every part of a lowered law once, after the parts that it is made of.

    Parts whose identity is in `known` are left out, with what they alone are made of.
    """
    return parts_first(law, arguments_of, known)


def arguments_of(law: Law) -> tuple[Law, ...]:
    """Arguments of a lowered law; nothing for a number, a count or a constant."""
    return law.arguments if isinstance(law, Operation) else ()


def _arguments_not_read(law: Law) -> tuple[Law, ...]:
    return law.arguments if isinstance(law, Operation) and "reads" not in vars(law) else ()


def draws_in(law: Law) -> bool:
    """Return whether a lowered law draws random numbers."""
    return any(isinstance(p, Operation) and p.function in DRAWS for p in operations_first(law))


def counts_in(law: Law) -> frozenset[int]:
    """Numbers of the species a lowered law reads."""
    if isinstance(law, Count):
        return frozenset((law.index,))
    return law.reads if isinstance(law, Operation) else frozenset()
