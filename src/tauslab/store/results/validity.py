"""Validity of a run: trajectories that reached their last sample time.

One that overflowed, met a value that is not a number or used up its steps has no samples from then
on. A run of which none got to its end is a failure, which nobody should have to find in a file.
"""

from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ModelError, NoValidTrajectory
from tauslab.base.option_names import assigned, opt, warn
from tauslab.model.expressions.expression import Number
from tauslab.model.network.diagnosis.no_number import no_number
from tauslab.store.format.schema import STATUS_VALUES
from tauslab.store.results.recorded import Recorded
from tauslab.store.results.samples import status_of

_LAST_VALID = STATUS_VALUES["absorbed"]
_MOST_POINTS = 3
_MOST_TOGETHER = 1 << 20


def warning_of(result: Recorded) -> str:
    """Names the points of a sweep without one valid trajectory; empty where there is none.

    Raises
    ------
    NoValidTrajectory
        There is no valid trajectory at all.
    """
    status = np.atleast_2d(status_of(result))
    valid = status <= _LAST_VALID
    if valid.all():  # nearly always
        return ""
    lost = np.asarray(~np.any(valid, axis=-1))
    if not np.any(lost):
        return ""
    ends = _ends(status[lost], result)
    if lost.all():
        raise NoValidTrajectory(
            f"{result.name}: no trajectory reached the last sample time: {ends}"
        )
    points = np.flatnonzero(lost)
    named = [_point(result, int(point)) for point in points[:_MOST_POINTS]]
    more = ", ..." if len(points) > _MOST_POINTS else ""
    return (
        f"{result.name}: no trajectory reached the last sample time at {len(points)} of "
        f"{len(lost)} points ({', '.join(named)}{more}): {ends}"
    )


def ended_early(status: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """Mask of trajectories that have fill values from some sample time on."""
    early: npt.NDArray[np.bool_] = (status > _LAST_VALID) & (status != STATUS_VALUES["missing"])
    return early


def text_of_early_ends(result: Recorded) -> str:
    """A sentence where some trajectories ended early, and others did not; else nothing.

    Means at later times are of the others, which are not like all. Points of a sweep where all
    ended are named by `warning_of`.
    """
    status = np.atleast_2d(status_of(result))
    early = status[ended_early(status)]
    if not early.size or not np.any(status <= _LAST_VALID, axis=-1).all():
        return ""
    return (
        f"{result.name}: {early.size} of {status.size} trajectories ended early, so that means at "
        f"later times are of the others: {_ends(early, result)}"
    )


def warn_of_left_out(result: Recorded, name: str, summed: npt.NDArray[Any]) -> None:
    """Warn where a mean lacks samples of trajectories that did not end early: not finite ones.

    Parameters
    ----------
    summed
        Samples that are in the mean ``[point, time]``.
    """
    status = np.atleast_2d(status_of(result))
    there = (status <= _LAST_VALID).sum(axis=-1)[:, None]
    left_out = int(np.maximum(there - summed.astype(np.int64), 0).sum())
    if left_out:
        warn(
            f"mean and deviation of {name} leave out {left_out} of "
            f"{int(there.sum()) * summed.shape[-1]} samples, which are not finite"
        )


def _point(result: Recorded, point: int) -> str:
    values = (f"{name} = {column[point]:g}" for name, column in result.points.items())
    return f"point {point}: {' '.join(values)}"


def numbers_of_ends(status: npt.NDArray[np.uint8]) -> dict[str, int]:
    """Number of trajectories by the name of the status in which they ended."""
    flat, numbers = status.ravel(), np.zeros(256, np.int64)
    for first in range(0, flat.size, _MOST_TOGETHER):  # each as an integer of 64 bits
        numbers += np.bincount(flat[first : first + _MOST_TOGETHER], minlength=256)
    return {name: int(numbers[value]) for name, value in STATUS_VALUES.items()}


def _ends(status: npt.NDArray[np.uint8], result: Recorded) -> str:
    """Numbers of trajectories by status, and a remedy for the most frequent failure."""
    numbers = {name: count for name, count in numbers_of_ends(status).items() if count}
    counted = ", ".join(f"{count} ended with status {name}" for name, count in numbers.items())
    return f"{counted}; {_hint(max(numbers, key=lambda name: numbers[name]), result)}"


def _hint(end: str, result: Recorded) -> str:
    if end == "nan" and (reason := _why_nan(result)):
        return reason
    if end == "negative_delay":
        return "a delay is below 0: look at what it is computed of"
    if end == "delay_history":
        return (
            f"a delay goes further back than the steps that are kept: raise {opt('delay_history')}"
        )
    if result.method == "ode":
        return _hint_of_equations(end, result)
    if end == "overflow":
        return (
            f"a count passed 2147483647: end earlier ({opt('t_end')}), take a smaller compartment "
            f"({_set_of(result)}), or {opt('method', 'ode')}, which has no such limit"
        )
    if end == "step_limit":
        return f"raise {opt('max_steps')}"
    if end == "event_queue":
        return "more executions of events wait than the queue holds: look at their delays"
    if end == "delay_queue":
        return (
            "more delayed reactions, or changes that formulas look back at, wait than the queue "
            f"holds: raise {opt('delay_queue')}"
        )
    if end == "event_cascade":
        return "events fire each other for ever at one time: look at their triggers"
    event = "an event set a count below 0, or " if "[[events]]" in _model(result) else ""
    return f"{event}a propensity is negative or not a number: look at the rate laws"


def _why_nan(result: Recorded) -> str:
    """Name what gave no number in the first trajectory that ended by that; empty if unknown."""
    from tauslab.formats.toml.network import read_toml_text

    status = np.atleast_2d(status_of(result))
    point, row = (int(i) for i in np.argwhere(status == STATUS_VALUES["nan"])[0])
    given = {name: float(column[point]) for name, column in result.points.items()}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network = read_toml_text(_model(result), Path("model"))
        network.parameters |= {n: Number(v) for n, v in given.items() if n in network.parameters}
        values = network.parameter_values()
        values |= network.initial_amounts(values, negative=True) | given
        seen, time, until = _last_sample(result, point, row)
        return no_number(network, values | seen, time, until, equations=result.continuous)
    except (ModelError, KeyError):  # values per trajectory, which a result does not hold
        return ""


def _last_sample(result: Recorded, point: int, row: int) -> tuple[dict[str, float], float, float]:
    """Amounts at the last sample of a trajectory, its time, and the one of the next sample."""
    times = result.times
    name = "amounts" if result.continuous else "counts"
    if name not in result.data or not result.species:
        return {}, 0.0, float(times[-1])
    samples = np.asarray(result.data[name][(point, row) if result.swept else row], np.float64)
    valid = np.flatnonzero(
        (np.isfinite(samples) & (result.continuous | (samples >= 0))).all(axis=1)
    )
    if not len(valid):
        return {}, 0.0, float(times[0])
    k = int(valid[-1])
    amounts = dict(zip(result.species, samples[k].tolist(), strict=False))
    return amounts, float(times[k]), float(times[min(k + 1, len(times) - 1)])


def _hint_of_equations(end: str, result: Recorded) -> str:
    followed = result.attributes.get("ode_solver") == "rosenbrock"
    if end == "nan":
        other = "" if followed else f", or try {opt('solver', 'rosenbrock')}"
        return f"a rate is not a number, or rates change too fast: look at the rate laws{other}"
    if followed:
        return (
            f"look at the rate laws and their parameters, or allow more steps ({opt('max_steps')})"
        )
    return f"the model may be stiff: {opt('solver', 'rosenbrock')}"


def _model(result: Recorded) -> str:
    """The model as the result holds it; empty without one."""
    stored = result.data["model/canonical"][()] if "model/canonical" in result.data else b""
    return stored.decode() if isinstance(stored, bytes) else str(stored)


def _set_of(result: Recorded) -> str:
    """Say how to set the size of a compartment, by its name in the model if it has one."""
    match = re.search(r'(?m)\bcompartment = "(\w+)"', _model(result))
    return f"{assigned('set', key=match[1] if match else 'NAME')}SIZE"
