"""Text of `model.h` about events for every engine: tables, and one numbered function."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import FloatArray

# Executions that may wait in a trajectory: as many as there are events, and these besides.
SPARE_WAITING = 32
SPARE_WITH_DELAYS = 128
DELAY_QUEUE = 1024  # delayed reactions that may wait, if nobody says how many
MOST_DELAYED = 1 << 24
MOST_COMPLETIONS = 1 << 16  # numbers of completions: REACTION_BITS of csrc/events/completions.h


@dataclass(frozen=True)
class EventShape:
    """An event without its expressions: numbers of the variables it sets, and its flags."""

    assigned: tuple[int, ...]
    delay: bool
    priority: bool
    persistent: bool
    initial: bool
    early: bool


@dataclass(frozen=True)
class Numbered:
    """Statements and value of an expression, as C++."""

    statements: str
    value: str


def queue_length(events: Sequence[EventShape]) -> int:
    """Executions that may wait in a trajectory."""
    spare = SPARE_WITH_DELAYS if any(event.delay for event in events) else SPARE_WAITING
    return len(events) + spare


def kept_words(species: int, events: Sequence[EventShape], delay_queue: int = 0) -> int:
    """Doubles of a whole state: KEPT_WORDS of csrc/events/kept.h, and reactions that wait.

    `delay_queue` is how many delayed reactions may wait; 0 where there are none.
    """
    waiting = 2 + 2 * delay_queue if delay_queue else 0
    return species + 1 + queue_words(events) + waiting


def queue_words(events: Sequence[EventShape]) -> int:
    """Doubles of triggers and executions that wait: QUEUE_WORDS of csrc/events/queue.h."""
    most = max((len(event.assigned) for event in events), default=0)
    return 1 + len(events) + queue_length(events) * (2 + most)


def queues_fit(rows: FloatArray, events: Sequence[EventShape]) -> bool:
    """Return whether kernels can go by rows ``[trajectory, queue_words]`` without a check."""
    most = max((len(event.assigned) for event in events), default=0)
    waiting = rows[:, 1 + len(events) :].reshape(len(rows), -1, 2 + most)[:, :, 1]
    return _whole(rows[:, 0], queue_length(events)) and _whole(waiting, max(0, len(events) - 1))


def completions_fit(rows: FloatArray, completions: int, delay_queue: int) -> bool:
    """Return the same of reactions that wait ``[trajectory, 2 + 2 delay_queue]``."""
    numbers = rows[:, 1::2]
    if not (_whole(rows[:, 0], delay_queue) and _whole(numbers, 1 << 53)):
        return False
    return bool((numbers[:, 1:] % MOST_COMPLETIONS < max(1, completions)).all())


def _whole(numbers: FloatArray, most: int) -> bool:
    return bool(((numbers >= 0) & (numbers <= most) & (numbers == np.floor(numbers))).all())


def event_tables(
    events: Sequence[EventShape], switches: int, expressions: Sequence[Numbered]
) -> str:
    """Tables of events, and the function that computes expression `number`.

    `expressions` are all triggers; then all switches; then of each event its delay and its
    priority, where it has them, and its values.
    """
    place = len(events) + switches
    delays: list[int] = []
    priorities: list[int] = []
    first, assigned, values = [0], list[int](), list[int]()
    for event in events:
        delays.append(place if event.delay else -1)
        place += event.delay
        priorities.append(place if event.priority else -1)
        place += event.priority
        assigned += event.assigned
        values += range(place, place + len(event.assigned))
        place += len(event.assigned)
        first.append(len(assigned))
    assert place == len(expressions)
    most = max((len(event.assigned) for event in events), default=0)
    return (
        f"constexpr int N_EVENTS = {len(events)};\n"
        f"constexpr int N_SWITCHES = {switches};\n"
        f"constexpr int MOST_ASSIGNED = {most};\n"
        f"constexpr int QUEUE_LENGTH = {queue_length(events)};\n"
        + _table("int", "EVENT_DELAY", delays)
        + _table("int", "EVENT_PRIORITY", priorities)
        + _table("int", "FIRST_ASSIGNED", first)
        + _table("int", "ASSIGNED", assigned)
        + _table("int", "ASSIGNED_VALUE", values)
        + _table("bool", "EVENT_PERSISTENT", [event.persistent for event in events])
        + _table("bool", "EVENT_INITIAL", [event.initial for event in events])
        + _table("bool", "EVENT_EARLY", [event.early for event in events])
        + _function(expressions)
    )


def _table(kind: str, name: str, values: Sequence[int]) -> str:
    listed = ", ".join(str(int(value)) for value in values) or "0"
    return f"TABLE {kind} {name}[{max(1, len(values))}] = {{{listed}}};\n"


def numbered_case(number: int, of: Numbered) -> str:
    """A case that returns an expression."""
    return f"        case {number}: {{\n{of.statements}            return {of.value};\n        }}\n"


def _function(expressions: Sequence[Numbered]) -> str:
    cases = "".join(numbered_case(number, result) for number, result in enumerate(expressions))
    return (
        "template <class State, class Constants>\n"
        "DEVICE_SHARED double event_expression(int number, [[maybe_unused]] const State &x,\n"
        "                                      [[maybe_unused]] const Constants &c,\n"
        "                                      [[maybe_unused]] double t) {\n"
        f"    switch (number) {{\n{cases}        default: return 0;\n    }}\n}}\n"
    )
