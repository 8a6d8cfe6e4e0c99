"""Events that do not do what they say: they never fire, or are rounded."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ModelError
from tauslab.base.option_names import opt, warn
from tauslab.model.expressions.expression import (
    Call,
    Expression,
    Number,
    Symbol,
    draws_in,
    substitute,
    symbols,
)
from tauslab.model.expressions.host_math import evaluate
from tauslab.model.expressions.unfolding import unfold
from tauslab.model.network.diagnosis.narrow_windows import narrow_windows
from tauslab.model.network.network import Network
from tauslab.model.network.parts import Doubt, Event, TimedEvent

_AFTER = ("ge", "gt", "le", "lt")
_ROUNDING = 1e-12  # of a time: a difference that only rounding makes
_LISTED = 5  # points that a message names
_AT_START = (
    ", and a run begins with the initial amounts; give an initial amount, or "
    'trigger="time >= 0" with initial=False'
)


def events_that_never_fire(
    network: Network,
    values: Mapping[str, float],
    rows: Mapping[str, npt.NDArray[np.float64]] | None = None,
    each: str = "point",
    end: float = math.inf,
) -> list[str]:
    """A sentence about each event that cannot fire in a run, which is likely a mistake.

    Its time is at most 0, or after the end of the run.

    Parameters
    ----------
    values
        Value of every parameter.
    rows
        Values by name of the parameters that vary, one for each `each`.
    end
        Time at which the run ends.

    Raises
    ------
    ModelError
        A time is not a number.
    """
    timed = [e for e in network.events if isinstance(e, TimedEvent)]
    # A bound that differs between points may be after 0 in some.
    alike = {name: value for name, value in values.items() if name not in (rows or {})}
    triggered = [event for event in network.events if isinstance(event, Event)]
    result = [trigger_holds(e.name, "never fires") for e in triggered if _stays_true(e, alike)]
    result += [
        f"event {event.name} never fires: its trigger waits for the time {start:g}, and the run "
        f"ends at {end:g}"
        for event in triggered
        if end < (start := _waits_for(event, alike)) < math.inf
    ]
    if not timed:
        return result
    swept = {name: column for name, column in (rows or {}).items() if name in network.parameters}
    trees = unfold({k: t for k, t in network.parameters.items() if k not in swept}, "parameter")
    for event in timed:
        tree = substitute(event.time, trees)
        used = sorted(symbols(tree) & swept.keys())
        count = len(swept[used[0]]) if used else 1
        own = ({name: float(swept[name][i]) for name in used} for i in range(count))
        times = [evaluate(tree, {**values, **at}) for at in own]
        if any(math.isnan(time) for time in times):
            raise ModelError(f"event {event.name}: its time is not a number")
        early = [i for i, time in enumerate(times) if time <= 0 and not event.switched]
        late = [i for i, time in enumerate(times) if end < time < math.inf]
        for never, why in ((early, _AT_START), (late, f", and the run ends at {end:g}")):
            if never:
                which = "" if len(never) == count else f" at {each} {_listed(never)}"
                time = times[never[0]]
                result.append(f"event {event.name} never fires{which}: its time is {time:g}{why}")
    return result


def warn_of_model(
    network: Network, values: Mapping[str, float],
    rows: Mapping[str, npt.NDArray[np.float64]] | None = None, each: str = "point",
    samples: Sequence[float] | FloatArray = (), *, varying: Collection[str] = (),
    flowing: Collection[str] = (), seen: bool = False,
) -> None:  # fmt: skip
    """Warn of what is likely not meant in the model, and of events that never fire.

    As `events_that_never_fire`; of `narrow_windows` too, with `varying`, `flowing` and `seen`; of
    `samples`, times at the last of which the run ends, before an event by rounding alone.
    """
    end = float(samples[-1] if len(samples) else 0.0) or math.inf  # particles begin at time 0
    for note in network.notes:
        if isinstance(note, Doubt):
            warn(note)
    for sentence in events_that_never_fire(network, values, rows, each, end):
        warn(sentence)
    for sentence in _samples_just_before(network, values, samples):
        warn(sentence)
    for sentence in narrow_windows(network, values, varying, flowing=flowing, seen=seen):
        warn(sentence)


def _samples_just_before(
    network: Network, values: Mapping[str, float], samples: Sequence[float] | FloatArray
) -> Iterator[str]:
    """Sentences on events at a constant time that a sample, which is rounded, misses."""
    for event in network.events if len(samples) else ():
        if isinstance(event, TimedEvent):
            time = evaluate(event.time, values)
        else:
            inclusive = isinstance(event.trigger, Call) and event.trigger.function in ("ge", "le")
            time = _waits_for(event, values) if inclusive else math.inf
        before = bisect_left(samples, time) - 1
        if not math.isfinite(time) or before < 0 or time - samples[before] > _ROUNDING * time:
            continue
        # A trigger such as time > 2 makes an event that is meant to be just after a sample.
        if len(repr(float(samples[before]))) > len(repr(time)):
            yield (
                f"the sample at {float(samples[before])!r} is before event {event.name} at "
                f"{time!r} by rounding alone, and holds the state before it: give {opt('times')} "
                "that are rounded in the same way"
            )


def _stays_true(event: Event, values: Mapping[str, float]) -> bool:
    """Return whether a trigger such as ``time >= 0`` is true from the start to the end."""
    start = _waits_for(event, values)
    inclusive = isinstance(event.trigger, Call) and event.trigger.function in ("ge", "le")
    return event.initial and (start < 0 or (start == 0 and inclusive))


def _waits_for(event: Event, values: Mapping[str, float]) -> float:
    """The time from which on a trigger such as ``time >= 5`` is true; infinity for another one."""
    trigger = event.trigger
    if not (isinstance(trigger, Call) and trigger.function in _AFTER):
        return math.inf
    first, second = trigger.arguments
    late, bound = (first, second) if trigger.function in ("ge", "gt") else (second, first)
    if late != Symbol("time") or not isinstance(bound, Number | Symbol):
        return math.inf
    return bound.value if isinstance(bound, Number) else values.get(bound.name, math.inf)


def trigger_holds(name: str, what: str = "does not fire at time 0") -> str:
    """A sentence about an event whose trigger is true from the start."""
    return (
        f"event {name} {what}: its trigger is true at time 0 already, and an event fires when its "
        "trigger turns true; initial=False (initialValue in SBML, t0 in Antimony) lets it fire at 0"
    )


def events_true_at_start(network: Network, values: Mapping[str, float]) -> list[str]:
    """A sentence about each event that waits for its trigger to turn false first."""
    waiting = (e for e in network.events if isinstance(e, Event) and not _stays_true(e, values))
    return [trigger_holds(e.name) for e in waiting if begins_true(network, e.name, values)]


def begins_true(network: Network, name: str, values: Mapping[str, float]) -> bool:
    """Return whether the trigger of an event holds at time 0, where it then does not come."""
    event = next(one for one in network.events if one.name == name)
    if not isinstance(event, Event) or not event.initial or network.drawn_amounts():
        return False
    at_start = {"time": 0.0, **values, **network.initial_amounts(values)}
    return bool(evaluate(substitute(event.trigger, network.rule_expressions()), at_start))


def rounded_constants(
    network: Network, values: Mapping[str, float], reals: Collection[str]
) -> list[str]:
    """A sentence about each event that sets a count to, or adds to it, what is never whole.

    Parameters
    ----------
    reals
        Species that are real numbers.
    """
    result = []
    for event in network.events:
        for name, tree in event.assignments.items():
            part = _constant_part(tree, name, values)
            if name not in reals and part is not None and part != round(part):
                result.append(
                    f"event {event.name}: {part:g} is not whole, and counts are: "
                    f"the new {name} is rounded"
                )
    return result


def _constant_part(tree: Expression, name: str, values: Mapping[str, float]) -> float | None:
    """The constant that is set, added to species `name` or taken from it; None where none is."""
    if (
        isinstance(tree, Call)
        and tree.function in ("add", "sub")
        and Symbol(name) in tree.arguments
    ):
        left, right = tree.arguments
        tree = right if left == Symbol(name) else left
    if draws_in(tree) or not symbols(tree) <= values.keys():
        return None
    part = evaluate(tree, values)
    return part if math.isfinite(part) else None


def _listed(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_LISTED]))
    return shown + (f", ... ({len(numbers)} in all)" if len(numbers) > _LISTED else "")
