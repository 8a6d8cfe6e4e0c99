"""Events that do not do what they say: they never fire, or are rounded."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ModelError
from tauslab.base.option_names import opt, warn
from tauslab.model.expressions.array_math import evaluate_rows
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
    each_time = list(_at_points(network, [event.time for event in timed], values, rows or {}))
    _refuse_chance(network, timed, each_time, end)
    for event, times in zip(timed, each_time, strict=True):
        if np.isnan(times).any():
            raise ModelError(f"event {event.name}: its time is not a number")
        early = (times <= 0) & (not event.switched)
        late = (end < times) & (times < math.inf)
        for never, why in ((early, _AT_START), (late, f", and the run ends at {end:g}")):
            if never.any():
                time = times[never.argmax()]
                which = _which(never, each)
                result.append(f"event {event.name} never fires{which}: its time is {time:g}{why}")
    return result


def disturbs(
    one: Mapping[str, Expression], other: Mapping[str, Expression], rules: Mapping[str, Expression]
) -> bool:
    """Return whether the order of two events matters: one sets what the other sets or reads.

    Parameters
    ----------
    one, other
        Assignments of both.
    rules
        Expressions of the rules, unfolded.
    """
    reads = [
        {name for tree in values.values() for name in symbols(substitute(tree, rules))}
        for values in (one, other)
    ]
    return bool(one.keys() & (other.keys() | reads[1]) or other.keys() & reads[0])


def _refuse_chance(
    network: Network, timed: Sequence[TimedEvent], each_time: Sequence[FloatArray], end: float
) -> None:
    """Refuse events that only the values of this run put at one time, if their order matters.

    The times have lost the priorities of triggers, and which values are computed first.
    """
    pairs = itertools.combinations(zip(timed, each_time, strict=True), 2)
    for (one, first), (other, second) in pairs:
        if not (one.switched and other.switched) or one.time == other.time:
            continue
        if not (symbols(one.time) or symbols(other.time)):
            continue
        together = (first == second) & (first > 0) & (first <= end)
        if together.any() and disturbs(
            one.assignments, other.assignments, network.rule_expressions()
        ):
            time = np.broadcast_to(first, together.shape)[together.argmax()]
            raise ModelError(
                f"events {one.name} and {other.name} both come at time {time:g} with the values "
                "of this run, and their order matters: write these values into the model, which "
                "then keeps priorities, or give other values"
            )


def _at_points(
    network: Network, trees: Sequence[Expression], values: Mapping[str, float],
    rows: Mapping[str, npt.NDArray[np.float64]],
) -> Iterator[FloatArray]:  # fmt: skip
    """Values of expressions of parameters: one for each row, or one where no row changes it."""
    swept = {name: column for name, column in rows.items() if name in network.parameters}
    whole = unfold({k: t for k, t in network.parameters.items() if k not in swept}, "parameter")
    for given in trees:
        tree = substitute(given, whole)
        columns = {name: np.asarray(swept[name]) for name in symbols(tree) & swept.keys()}
        count = len(next(iter(columns.values()), [0.0]))
        columns |= {
            n: np.full(count, values.get(n, math.nan)) for n in symbols(tree) - columns.keys()
        }
        yield evaluate_rows(tree, count, columns.__getitem__)


def _which(chosen: npt.NDArray[np.bool_], each: str) -> str:
    """Words for points that are `chosen`; none for all."""
    numbers = np.flatnonzero(chosen).tolist()
    return "" if len(numbers) == len(chosen) else f" at {each} {_listed(numbers)}"


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
    for sentence in _samples_just_before(network, values, samples, rows or {}, each):
        warn(sentence)
    for sentence in narrow_windows(network, values, varying, flowing=flowing, seen=seen):
        warn(sentence)


def _samples_just_before(
    network: Network, values: Mapping[str, float], samples: Sequence[float] | FloatArray,
    rows: Mapping[str, npt.NDArray[np.float64]], each: str,
) -> Iterator[str]:  # fmt: skip
    """Sentences on events at a constant time that a sample, which is rounded, misses."""
    if not len(samples):
        return
    waited: list[tuple[str, Expression]] = []
    for event in network.events:
        if isinstance(event, TimedEvent):
            waited.append((event.name, event.time))
        # A trigger such as time > 2 makes an event that is meant to be just after a sample.
        elif (bound := _bound_of(event, inclusive=True)) is not None:
            waited.append((event.name, bound))
    each_time = _at_points(network, [tree for _, tree in waited], values, rows)
    for (name, _), times in zip(waited, each_time, strict=True):
        before = np.asarray(samples)[np.searchsorted(samples, times) - 1]
        near = np.isfinite(times) & (before < times) & (times - before <= _ROUNDING * times)
        near[near] = [
            len(repr(sample)) > len(repr(time))
            for sample, time in zip(before[near].tolist(), times[near].tolist(), strict=True)
        ]
        if near.any():
            first = int(near.argmax())
            yield (
                f"the sample at {float(before[first])!r} is before event {name} at "
                f"{float(times[first])!r}{_which(near, each)} by rounding alone, and holds the "
                f"state before it: give {opt('times')} that are rounded in the same way"
            )


def _stays_true(event: Event, values: Mapping[str, float]) -> bool:
    """Return whether a trigger such as ``time >= 0`` is true from the start to the end."""
    start = _waits_for(event, values)
    inclusive = isinstance(event.trigger, Call) and event.trigger.function in ("ge", "le")
    return event.initial and (start < 0 or (start == 0 and inclusive))


def _waits_for(event: Event, values: Mapping[str, float]) -> float:
    """The time from which on a trigger such as ``time >= 5`` is true; infinity for another one."""
    bound = _bound_of(event)
    if isinstance(bound, Symbol):
        return values.get(bound.name, math.inf)
    return math.inf if bound is None else bound.value


def _bound_of(event: Event, *, inclusive: bool = False) -> Number | Symbol | None:
    """The time, a number or a name, behind which a trigger is true; if `inclusive`, also then."""
    trigger = event.trigger
    functions = ("ge", "le") if inclusive else _AFTER
    if not (isinstance(trigger, Call) and trigger.function in functions):
        return None
    first, second = trigger.arguments
    late, bound = (first, second) if trigger.function in ("ge", "gt") else (second, first)
    return bound if late == Symbol("time") and isinstance(bound, Number | Symbol) else None


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
