"""Networks with events for the kernels that read a network from tables: their numbers and text."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from tauslab.base.arrays import IntArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.events.codegen import (
    JUMP_COMPLETIONS,
    drawn_statements,
    event_expressions,
    jump_delays,
    jump_tables,
    shape,
)
from tauslab.kernels.events.draws import numbered
from tauslab.kernels.events.tables import (
    MOST_COMPLETIONS,
    event_tables,
    numbered_case,
    queue_length,
)
from tauslab.kernels.network.codegen import LawWriter, law_text
from tauslab.kernels.network.lowering import (
    Completion,
    Count,
    Dynamics,
    Law,
    LoweredEvent,
    LoweredNetwork,
    LoweredReaction,
    Operation,
    Thinning,
    operations_first,
)
from tauslab.kernels.network.tables import TableBook
from tauslab.model.expressions.expression import Number

_MOST_FACTORS = 2  # counts of a record of csrc/tables/propensities.h
_SPARE_WORDS = 32  # of EventMemory in csrc/tables/events/team_events.h, beside its queue


def behind_counts(network: LoweredNetwork) -> LoweredNetwork:
    """The network with what holds any number behind all counts, and last the time.

    A law that is a number times such a quantity times up to two counts becomes a constant, so that
    a table has it.

    Laws read them there. The places that they had among the species, which `Dynamics.reals` goes on
    to name, stay and are not used.
    """
    dynamics = network.dynamics
    assert dynamics is not None
    n = len(network.species)
    places = {number: n + k for k, (number, _) in enumerate(dynamics.reals)}
    places[n] = n + len(places)
    moved = _Moved(places, n)
    reactions = tuple(moved.reaction(reaction) for reaction in network.reactions)
    return replace(
        network,
        species=(*network.species, *(network.species[i] for i, _ in dynamics.reals), "time"),
        reactions=reactions,
        observables=tuple((name, moved.law(law)) for name, law in network.observables),
        shared=tuple(law for law in map(moved.law, network.shared) if isinstance(law, Operation)),
        dynamics=moved.dynamics(dynamics),
        thinning=None if network.thinning is None else moved.thinning(network, reactions),
    )


class _Moved:
    """Laws in which species have other numbers; what laws share stays one object."""

    def __init__(self, places: Mapping[int, int], given: int) -> None:
        self._places = places
        self.given, self.time = given, places[given]
        self._made: dict[int, Law] = {}
        self._kept: list[Law] = []  # whose identities stay their own

    def number(self, index: int) -> int:
        return self._places.get(index, index)

    def law(self, law: Law) -> Law:
        made = self._made
        for part in operations_first(law, made):
            new = part
            if isinstance(part, Count):
                new = Count(self.number(part.index))
            elif isinstance(part, Operation):
                arguments = tuple(made[id(argument)] for argument in part.arguments)
                new = Operation(part.function, arguments)
            made[id(part)] = new
            self._kept.append(part)
        return made[id(law)]

    def reaction(self, reaction: LoweredReaction) -> LoweredReaction:
        if reaction.law is None and not reaction.completions:
            return reaction
        law = None if reaction.law is None else self.law(reaction.law)
        ends = (replace(end, delay=self.law(end.delay)) for end in reaction.completions)
        reaction = replace(reaction, law=law, completions=tuple(ends))
        result = None if law is None else self.product(law)
        if result is None:
            return reaction
        number, quantity, counts = result
        # Where a reaction takes one molecule of what is a factor, the product is 0 without it.
        if any(count > 1 or index not in counts for index, count in reaction.needs):
            return reaction
        orders = tuple((index, 1) for index in counts)
        return replace(
            reaction, law=None, needs=(), constant=Number(number), orders=orders, quantity=quantity
        )

    def thinning(self, network: LoweredNetwork, reactions: Sequence[LoweredReaction]) -> Thinning:
        """Rates in place of bounds; those of reactions without bounds are the `reactions`."""
        assert network.thinning is not None
        each = zip(network.reactions, network.thinning.rates, reactions, strict=True)
        rates = (made if rate is old else self.reaction(rate) for old, rate, made in each)
        return replace(network.thinning, rates=tuple(rates))

    def product(self, law: Law) -> tuple[float, int, list[int]] | None:
        """Number, quantity and counts of which a law is the product; None where it is none."""
        number, quantities, counts = 1.0, list[int](), list[int]()
        parts = [law]
        while parts:
            part = parts.pop()
            if isinstance(part, Number):
                number *= part.value
            elif isinstance(part, Count) and part.index < self.given:
                counts.insert(0, part.index)
            elif isinstance(part, Count) and part.index < self.time:
                quantities.append(part.index)
            elif isinstance(part, Operation) and part.function == "mul":
                parts += part.arguments
            elif isinstance(part, Operation) and part.function == "div":
                divisor = part.arguments[1]
                if not isinstance(divisor, Number) or not divisor.value:
                    return None
                number /= divisor.value
                parts.append(part.arguments[0])
            else:
                return None
        if len(quantities) != 1 or len(counts) > _MOST_FACTORS or not math.isfinite(number):
            return None
        return number, quantities[0], counts

    def event(self, event: LoweredEvent) -> LoweredEvent:
        return replace(
            event,
            trigger=self.law(event.trigger),
            assignments=tuple((self.number(i), self.law(law)) for i, law in event.assignments),
            delay=None if event.delay is None else self.law(event.delay),
            priority=None if event.priority is None else self.law(event.priority),
        )

    def dynamics(self, dynamics: Dynamics) -> Dynamics:
        return replace(
            dynamics,
            events=tuple(map(self.event, dynamics.events)),
            switches=tuple(map(self.law, dynamics.switches)),
            reals=tuple((i, self.law(law)) for i, law in dynamics.reals),
            drawn=tuple((self.number(i), self.law(law)) for i, law in dynamics.drawn),
            jumps=tuple(replace(jump, delay=self.law(jump.delay)) for jump in dynamics.jumps),
        )


def given_counts(network: LoweredNetwork) -> int:
    """Counts that a trajectory starts from, of a network of `behind_counts`."""
    assert network.dynamics is not None
    return len(network.species) - len(network.dynamics.reals) - 1


def late_changes(network: LoweredNetwork) -> list[tuple[int, Completion]]:
    """Completions of delayed reactions, with the reaction of each, by number."""
    return [(j, end) for j, r in enumerate(network.reactions) for end in r.completions]


def set_variables(network: LoweredNetwork) -> list[int]:
    """Numbers of what events set, and of the time, whose readers are looked up."""
    assert network.dynamics is not None
    assigned = {i for event in network.dynamics.events for i, _ in event.assignments}
    assigned |= {jump.to for jump in network.dynamics.jumps}
    return [*sorted(assigned), len(network.species) - 1]


def write_events(
    book: TableBook, network: LoweredNetwork, delay_queue: int
) -> tuple[IntArray, list[int], list[tuple[tuple[int, int], ...]]]:
    """Write what events read and set, and what delayed reactions change later.

    Returns the flags of reactions, ``[reaction]``: `SETS_OFF` and `IS_LATE` of
    csrc/tables/events/team_events.h; the variables whose readers are looked up; and the changes of
    completions, by number.

    Raises
    ------
    ConfigError
        There are more delays of reactions than the kernel is made for.
    """
    dynamics = network.dynamics
    assert dynamics is not None
    n = len(network.reactions)
    seen = dynamics.watched()
    late = late_changes(network)
    waits = len(late) + JUMP_COMPLETIONS * len(dynamics.jumps)
    if waits > MOST_COMPLETIONS:
        raise ConfigError(f"reactions of {MOST_COMPLETIONS} delays may wait, and {waits} would")
    first, following = np.full(n, -1, np.int64), np.full(len(late) + 1, -1, np.int64)
    for number, (j, _) in reversed(list(enumerate(late))):
        following[number], first[j] = first[j], number
    sets_off = [any(i in seen for i, _ in reaction.change) for reaction in network.reactions]
    flags = np.array(sets_off, np.int64) + 2 * (first >= 0)
    rates = network.reactions if network.thinning is None else network.thinning.rates
    follows = {j for j in range(n) if rates[j] is not network.reactions[j]}
    book.whole("WATCHED", flags + 4 * np.array([i in follows for i in range(n)], np.int64))
    book.whole("FIRST_COMPLETION", first)
    book.whole("NEXT_COMPLETION", following)
    variables = set_variables(network)
    plans = np.full(len(network.species), -1, np.int64)
    plans[variables] = n + np.arange(len(variables))
    book.whole("VARIABLE_PLAN", plans)
    given = given_counts(network)
    places = np.arange(given)
    for k, (number, _) in enumerate(dynamics.reals):
        places[number] = given + k
    book.whole("PLACE_OF", places)
    for name, value in (
        ("N_GIVEN", given), ("N_REALS", len(dynamics.reals)),
        ("EVENT_WORDS", event_words(network)), ("AT_FIRST_LATE_PLAN", n + len(variables)),
        ("HAS_DELAYS", waits > 0), ("DELAY_QUEUE", delay_queue if waits else 1),
    ):  # fmt: skip
        book.constant(name, value)
    return flags, variables, [end.change for _, end in late]


def event_words(network: LoweredNetwork) -> int:
    """Words of 64 bits for the events of a team: EVENT_WORDS of its kernels."""
    assert network.dynamics is not None
    shapes = [shape(event) for event in network.dynamics.events]
    most = max((len(one.assigned) for one in shapes), default=0)
    waiting = queue_length(shapes)
    held = -(-(4 * waiting + len(shapes)) // 8)
    return waiting * (2 + most) + held + _SPARE_WORDS


def large_events_text(network: LoweredNetwork, names: dict[int, str]) -> str:
    """Text of `model.h` about events for the table kernels, of a network of `behind_counts`.

    `names` has the calls of shared laws, in which ``x`` is the state and has the tables.
    """
    dynamics = network.dynamics
    assert dynamics is not None
    writer = LawWriter("x", names)
    expressions = event_expressions(network, writer, names)
    starts = "".join(
        f"    reals[{k}] = {law_text(law, 'x')};\n" for k, (_, law) in enumerate(dynamics.reals)
    )
    late = late_changes(network)
    delays = "".join(
        numbered_case(number, numbered(end.delay, writer, names))
        for number, (_, end) in enumerate(late)
    )
    delays += jump_delays(network, len(late), writer)
    return (
        event_tables([shape(e) for e in dynamics.events], len(dynamics.switches), expressions)
        + "// Initial values of what holds any number.\n"
        "template <class Reals>\n"
        "DEVICE_SHARED void set_reals([[maybe_unused]] const Reals &reals,\n"
        f"                             [[maybe_unused]] const double *c) {{\n{starts}}}\n"
        "// Initial values that are drawn; false if a species may not have one.\n"
        "template <class State, class Constants, class Assign>\n"
        "DEVICE_SHARED bool set_drawn([[maybe_unused]] const State &x,\n"
        "                             [[maybe_unused]] const Constants &c,\n"
        "                             [[maybe_unused]] const Assign &assign) {\n"
        f"{drawn_statements(network, writer, names)}    return true;\n}}\n"
        f"{jump_tables(network, len(late))}"
        "// The time until a completion of a reaction that begins now.\n"
        "template <class State, class Constants>\n"
        "DEVICE_SHARED double completion_delay(int completion, [[maybe_unused]] const State &x,\n"
        "                                      [[maybe_unused]] const Constants &c) {\n"
        f"    switch (completion) {{\n{delays}        default: return 0;\n    }}\n}}\n"
    )
