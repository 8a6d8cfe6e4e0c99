"""Estimates the time and the events of a long exact run before it begins.

A few trajectories are begun with the kernel of the run and random numbers of their own: at first so
few events that a short run does not notice, more where the run seems to be long. Events are counted
and seconds measured for this message alone; the run is the same whatever they are.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass, replace

import numpy as np

from tauslab.base.option_names import opt, warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.ensemble.engine import Engine
from tauslab.kernels.ensemble.launch import WORK
from tauslab.model.expressions.expression import looks_back, substitute, symbols
from tauslab.model.expressions.host_math import evaluate
from tauslab.options.methods import DEFAULT_EPSILON, SSA
from tauslab.options.record import Record
from tauslab.runner.ensemble.choices.method_choice import ABSORBED, expected_gain
from tauslab.runner.ensemble.choices.pilots import pilot_seed, spread
from tauslab.runner.ensemble.lane import Lane, Reductions
from tauslab.runner.ensemble.task import NetworkTask, Task
from tauslab.store.results.approximation import MEAN_TOLERANCE, SD_TOLERANCE

LONG_SECONDS = 30.0  # of a run; a longer one is announced before it begins
_FEW_ROWS, FEW_EVENTS = 4, 2**13  # what every exact run tries: a thousandth of a second on a core
_FEW_REACTIONS = 100  # up to which so few events take no longer than to hand them over
_PACE_SECONDS, _LONG_CALL_SECONDS = 20.0, 600.0  # of calls whose length their pace shows
_LONG_EVENTS = 1e8  # of a run that more is tried for; no device takes less than 0.005 s for it
_MOST_EVENTS, _ROW_EVENTS = 2**20, 2**16  # that are then tried in all, and of one trajectory
_PATIENCE = 2.0  # seconds after which a trial is broken off
_FIRST_LOOK_SECONDS, _LOOK_SECONDS = 2e-5, 0.0005  # the pauses between looks double
_SAMPLES_PER_EVENT = 0.1  # above which recording them takes a good part of the time
_TIMES = 256  # at which rate laws that read the time are computed


@dataclass(frozen=True)
class Outlook:
    """Events and seconds that a run may take, and seconds of leaps; None where unknown."""

    events: float
    seconds: float | None = None
    by_leaps: float | None = None

    @property
    def long(self) -> bool:
        """Return whether the user is to be warned."""
        return self.seconds is not None and self.seconds > LONG_SECONDS


@dataclass(frozen=True)
class _Trial:
    """Trajectories that were begun: events in all, seconds, and the part of their time reached."""

    first: int
    rows: int
    events: float
    seconds: float
    reached: float

    @property
    def each(self) -> float:
        """Events of one trajectory to its end, at the rate at which it began."""
        return self.events / self.rows / self.reached if self.events > 0 else 0.0


def outlook_of(
    task: NetworkTask, engine: Engine, devices: int = 1, lane: Lane | None = None
) -> Outlook:
    """Estimate the duration of the task on so many devices like that of `engine`.

    Trajectories of which only the beginning is known count as if they went on so,
    but for rate laws that the time moves, whose growth is known.
    """
    total = task.options.total
    few = _few_tried(task, lane or trial_lane(task, engine))
    by_time = events_by_time(task) * total
    expected = max(float(np.mean([trial.each for trial in few])) * total, by_time)
    if expected < _LONG_EVENTS:
        return Outlook(expected)
    share = -(-total // devices)
    rows = max(1, min(share, engine.trajectories_in_flight()))
    most = max(few, key=lambda trial: trial.each).first
    lane = _lane(task, engine, rows, min(_ROW_EVENTS, max(FEW_EVENTS, _MOST_EVENTS // rows)))
    more = _tried(task, lane, min(most, total - rows), rows)
    if more.events == 0:
        return Outlook(expected)
    events = expected if task.options.sweep is not None else max(more.each * total, by_time)
    seconds = events / devices * more.seconds / more.events
    return Outlook(events, max(seconds, more.each * rows * more.seconds / more.events))


def events_by_time(task: NetworkTask) -> float:
    """Events of one trajectory by rate laws that read the time, with the initial amounts.

    The trapezoidal rule over `_TIMES` intervals, up to where a rate law has no finite value. Laws
    that look back are left out.
    """
    dynamics, thinning = task.lowered.dynamics, task.lowered.thinning
    if thinning is None and (dynamics is None or not dynamics.moves):
        return 0.0
    network = task.network
    rules = network.rule_expressions()
    laws = [substitute(reaction.law, rules) for reaction in network.reactions]
    laws = [law for law in laws if "time" in symbols(law) and not looks_back(law)]
    parameters = network.parameter_values()
    values = {**parameters, **network.initial_amounts(parameters, negative=True)}
    if not laws or "time" in values:
        return 0.0
    times = np.linspace(0.0, float(task.options.times[-1]), _TIMES + 1)
    rates = [sum(evaluate(law, {**values, "time": t}) for law in laws) for t in times.tolist()]
    finite = np.isfinite(rates)
    end = len(rates) if finite.all() else int(np.argmin(finite))
    some = np.maximum(rates[:end], 0.0)
    return float(((some[1:] + some[:-1]) / 2 * np.diff(times[:end])).sum())  # trapezoids


def is_tried(task: Task) -> bool:
    """Return whether a run is tried before it begins."""
    return (
        isinstance(task, NetworkTask)
        and isinstance(task.options.method, SSA)
        and bool(task.lowered.reactions)
    )


def announce_long_run(
    task: Task, engine: Engine, comm: Communicator, lane: Lane | None = None
) -> Outlook:
    """Say what a long exact run will take, before it begins; returns what that is. Of one rank.

    `lane` is the one that `trial_lane` made for a task of the same kernels.
    """
    if not isinstance(task, NetworkTask) or not is_tried(task):
        return Outlook(0.0)
    result = outlook_of(task, engine, comm.size, lane)
    resumed = task.options.resume and task.options.output and task.options.output.exists()
    if result.long and not resumed:  # the estimate includes trajectories that are done
        assert result.seconds is not None
        gain = expected_gain(task, engine.backend)
        result = replace(result, by_leaps=None if gain is None else result.seconds / gain)
        _warn_or_log(task, sentence(task, result))
    return result


def sentence(task: Task, found: Outlook) -> str:
    """The estimates that a user sees before a long run."""
    options = task.options
    assert found.seconds is not None
    begun = (
        f"{task.network.name}: about {found.events:.2g} events in {options.total} exact "
        f"trajectories, about {_span(found.seconds)} on this device"
    )
    times = len(options.times)
    if times * options.total > _SAMPLES_PER_EVENT * found.events:
        begun += f", and more to record each at {times} times"
    if found.by_leaps is None:
        return f"{begun}; leaps ({opt('method', 'tau')}) would hardly be faster"
    return (
        f"{begun}; {opt('method', 'tau')} might take {_span(found.by_leaps)} and is approximate: "
        f"means within {100 * MEAN_TOLERANCE:g} %, standard deviations within "
        f"{100 * SD_TOLERANCE:g} % on the models of docs/tau-leaping.md (epsilon "
        f"{DEFAULT_EPSILON:g})"
    )


class Pace:
    """Says once how long a call takes that compares many trajectories with data.

    `what` takes so long; `announces` on one rank. `before` is the share of the work that another
    call has done.
    """

    def __init__(self, what: str, *, quiet: bool | None, announces: bool) -> None:
        self._what, self._quiet, self._waits = what, quiet, announces
        self._began, self.before = time.perf_counter(), 0.0

    def reached(self, share: float) -> None:
        """Take note that this share of the work is done."""
        spent, share = time.perf_counter() - self._began, share - self.before
        if not self._waits or share <= 0 or spent < _PACE_SECONDS:
            return
        self._waits = False  # later on a user sees it
        whole = spent / share * (1 - self.before)
        if whole > _LONG_CALL_SECONDS:
            advice = f"fewer particles, or {opt('method', 'tau')} if counts are large, are faster"
            _say(f"{self._what} takes about {_span(whole)}; {advice}", quiet=self._quiet)


def _warn_or_log(task: Task, text: str) -> None:
    """Print it as progress, or warn a program that asked for none."""
    if task.options.quiet is False or task.options.from_python:
        _say(text, quiet=task.options.quiet)


def _say(text: str, *, quiet: bool | None) -> None:
    if quiet is False:
        sys.stderr.write(f"tauslab: {text}\n")
        sys.stderr.flush()
    else:
        warn(text)


def _few_tried(task: Task, lane: Lane) -> list[_Trial]:
    """A few trajectories, spread over all, since those of a sweep differ: one trial for each."""
    total = task.options.total
    rows = min(_FEW_ROWS, -(-total // 50))
    lane.take(_trial(task, FEW_EVENTS))
    return [_tried(task, lane, place, 1) for place in spread(total, rows)]


def trial_lane(task: NetworkTask, engine: Engine) -> Lane:
    """The lane of the first trial of a run."""
    waited = task.lowered.dynamics is None and len(task.lowered.reactions) <= _FEW_REACTIONS
    return _lane(task, engine, 1, FEW_EVENTS, waited=waited)


def _lane(task: Task, engine: Engine, rows: int, steps: int, *, waited: bool = False) -> Lane:
    """Lane for trajectories of at most so many events, of which nothing is recorded."""
    copies = engine.backend.stream(waited=waited)
    return Lane(_trial(task, steps), engine, Reductions(), rows, copies, waited=waited)


def _trial(task: Task, steps: int) -> Task:
    options = task.options
    assert options.seed is not None
    steps, seed = min(steps, options.max_steps), pilot_seed(options.seed)
    return replace(task, options=replace(options, max_steps=steps, seed=seed), record=Record())


def _tried(task: Task, lane: Lane, first: int, rows: int) -> _Trial:
    """Begin so many trajectories, stop them after seconds, and read what they have reported.

    Where they have reported nothing, of a very large network or on a busy machine, nobody knows.
    """
    began, pause = time.perf_counter(), _FIRST_LOOK_SECONDS
    lane.start(first, first + rows)
    while not lane.ended:
        time.sleep(pause)
        pause = min(2 * pause, _LOOK_SECONDS)
        if time.perf_counter() > began + _PATIENCE:
            lane.halt()
    delivery = lane.wait()
    (begun, computed), _ = lane.intervals(lane.begun)
    events = max(int(delivery.work[WORK.index("events")]), delivery.reported.events)
    end = float(task.options.times[-1])
    whole = not delivery.stopped and end > 0
    status = np.asarray(delivery.chunk.arrays["status"], np.uint8)
    done = int(np.count_nonzero(status <= ABSORBED)) if whole else 0
    reached = (done + (rows - done) * min(1.0, delivery.reported.time / end)) / rows if end else 1.0
    if reached <= 0:
        events = 0
    return _Trial(first, rows, float(events), max(computed - begun, 1e-9), reached)


def _span(seconds: float) -> str:
    """A time for people: 40 s, 12 min, 3.5 h, 20 days."""
    for size, unit in ((365 * 86400, "years"), (86400, "days"), (3600, "h"), (60, "min")):
        if seconds >= 2 * size:
            return f"{seconds / size:.{2 if seconds < 100 * size else 3}g} {unit}"
    return f"{seconds:.0f} s"
