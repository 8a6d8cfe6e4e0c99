"""Error of hybrids and the Langevin equation, by a pilot compared with exact runs.

As many trajectories are simulated by the method and exactly, with a seed of their own; means and
standard deviations of all species, and shares of trajectories that have none of them left, are
compared at some sample times. Every number is computed in a
fixed order, so that the sentence is a function of model, options and seed. Rank 0 makes it for all.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import TauslabError
from tauslab.base.option_names import warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.kernels.backends import Backend
from tauslab.options.methods import SSA, Langevin, Partitioned
from tauslab.options.record import Record
from tauslab.runner.ensemble.choices.leap_error import (
    LeapMoments,
    compared_times,
    simulated,
)
from tauslab.runner.ensemble.task import HybridTask, NetworkTask, prepare

FEWEST = 100  # trajectories of a run, below which a pilot is not worth while
MOST_EVENTS = 2**15  # of an exact trajectory
_CHANCE = 5.0  # standard errors that a difference may have by chance, in hundreds of comparisons


def with_judged_error(task: HybridTask, backend: Backend, comm: Communicator) -> HybridTask:
    """The task with what a pilot says of its error, where it makes one. Collective."""
    method, options = task.options.method, task.options
    assert isinstance(method, Partitioned | Langevin)
    n = min(method.pilot, options.n)
    if n < FEWEST or not task.species or not task.partition.described():
        return task
    judged, differs = on_root(comm, lambda: judge(task, backend, n))
    if comm.rank == 0 and differs:
        warn(judged)
    elif comm.rank == 0 and options.quiet is False:
        print(f"method: {judged}", flush=True)
    return replace(task, judged=judged)


def judge(task: HybridTask, backend: Backend, n: int) -> tuple[str, bool]:
    """Say how far means and deviations are from exact ones, and whether by more than chance.

    Of a sweep the first point is judged.
    """
    options = task.options
    began = f"a pilot of {n} trajectories"
    try:
        exact = prepare(task.network, replace(options, method=SSA(), record=None))
    except TauslabError as error:
        return f"{began} was not made: {error}", False
    result = _moments(task, backend, n, options.max_steps)
    known = _moments(exact, backend, n, MOST_EVENTS)
    if known.lost or result.lost:
        long = f"exact trajectories have more than {MOST_EVENTS:,} events"
        which = long if known.lost else "some of its trajectories ended early"
        return f"{began} does not estimate the error: {which}", False
    times = options.times[compared_times(options.times)]
    names = [name for name in task.species if name in exact.species]
    mine, other = ([list(t.species).index(name) for name in names] for t in (task, exact))
    both = _columns(result, mine), _columns(known, other)
    reported = _worst(*both, names, times)
    none = (
        "means, standard deviations and extinctions do not differ significantly (it shows "
        f"differences of means above {100 * _least(*both):.2g} %)"
    )
    return f"{began}, compared with as many exact ones: {reported or none}", bool(reported)


def _moments(task: NetworkTask, backend: Backend, n: int, steps: int) -> LeapMoments:
    limited = replace(
        task, options=replace(task.options, max_steps=steps), record=Record(trajectories=True)
    )
    times = task.options.times
    kept = compared_times(times)
    return simulated(limited, limited.engine(backend), (0, n), times, kept)


def _columns(moments: LeapMoments, columns: list[int]) -> LeapMoments:
    names = ("mean", "variance", "mean_error", "variance_error", "absent")
    return replace(moments, **{name: getattr(moments, name)[:, columns] for name in names})


def _least(found: LeapMoments, known: LeapMoments) -> float:
    """The relative difference of the mean above which chance explains that of no species."""
    size = np.maximum(np.abs(known.mean), np.sqrt(known.variance))
    noise = _CHANCE * np.hypot(found.mean_error, known.mean_error)
    return float(np.max(noise[size > 0] / size[size > 0], initial=0.0))


def _worst(found: LeapMoments, known: LeapMoments, names: list[str], times: FloatArray) -> str:
    """The largest differences that chance does not explain, in words; empty without any."""
    means = np.abs(found.mean - known.mean)
    spread = np.sqrt(known.variance)
    sure = means > _CHANCE * np.hypot(found.mean_error, known.mean_error)
    size = np.maximum(np.abs(known.mean), spread)
    deviations = np.abs(np.sqrt(found.variance) - spread)
    noise = np.hypot(found.variance_error, known.variance_error)
    surely = np.abs(found.variance - known.variance) > _CHANCE * noise
    parts = []
    for what, off, allowed, beyond in (
        ("mean", means, size, sure), ("standard deviation", deviations, spread, surely),
    ):  # fmt: skip
        with np.errstate(invalid="ignore", divide="ignore"):
            part = np.where(beyond & (off > 0), off / allowed, 0.0)
        if part.max(initial=0.0) > 0:
            time, species = np.unravel_index(int(np.argmax(part)), part.shape)
            size_of = f"{100 * part.max():.2g} %" if np.isfinite(part.max()) else "all of it"
            place = f"{names[int(species)]} at t = {times[int(time)]:g}"
            parts.append(f"the {what} of {place} is off by {size_of}")
    of_both = (found.absent * found.n + known.absent * known.n) / (found.n + known.n)
    chance = np.sqrt(of_both * (1 - of_both) * (1 / found.n + 1 / known.n))
    off = np.abs(found.absent - known.absent)
    off[off <= _CHANCE * chance] = 0.0
    if off.max(initial=0.0) > 0:
        at = np.unravel_index(int(np.argmax(off)), off.shape)
        mine, exact = (f"{100 * each.absent[at]:.2g} %" for each in (found, known))
        parts.append(
            f"{names[int(at[1])]} is extinct at t = {times[int(at[0])]:g} in {mine} of the "
            f"trajectories instead of {exact}"
        )
    return " and ".join(parts)
