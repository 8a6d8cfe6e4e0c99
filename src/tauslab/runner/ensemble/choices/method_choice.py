"""``--method auto``: exact events or leaps, from a pilot that counts work and never times it.

A few trajectories are simulated with a limit on their steps; where leaps seem to pay, they are
repeated by leaping, and both are compared as numbers of events. Where they do, many more are
simulated to judge the error of leaps (`leap_error`), and what that costs counts too. The choice is
a function of model, options, n and seed: the pilot's numbers are the same on every device. Rank 0
makes it for all.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import BoolArray, FloatArray
from tauslab.base.errors import ConfigError, TauslabError
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.kernels.backends import Backend
from tauslab.kernels.ensemble.launch import WORK
from tauslab.kernels.exact.selectors import (
    FEWEST_PILOTED,
    LARGEST_UNROLLED,
    mean_dependents,
    pilot_events,
    pilot_selector,
    selector_of,
)
from tauslab.kernels.exact.ssa import exact_engine
from tauslab.kernels.leaping.choice import DYNAMICS, LARGEST_WITH_EVENTS, leaper_of, leaping_engine
from tauslab.kernels.leaping.estimate import leap_reach
from tauslab.kernels.leaping.tau_leap import LARGEST_LEAPING
from tauslab.kernels.network.lowering import LoweredNetwork
from tauslab.model.network.diagnosis.check import refusing, report
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import Auto, TauLeaping, turned_into
from tauslab.options.record import Record
from tauslab.runner.ensemble.choices.leap_error import FEW, FEWEST_EXACT, MANY, judge
from tauslab.runner.ensemble.choices.pilots import pilot_seed, side_by_side, spread
from tauslab.runner.ensemble.task import NetworkTask, prepare, with_thinning
from tauslab.store.results.approximation import MEAN_TOLERANCE, SD_TOLERANCE

GAIN = 2.0  # by how much leaps must be cheaper than exact events: exact wins ties
_GAIN_TO_TRY = 1.5  # by how much they must seem to be, for a pilot of their own
_COMPILING = 1e4  # compiling a kernel for leaps takes as long as this many events x reactions^2,
_COMPILING_LEAST = 1e7  # and at least as this many, a second or less;
_COMPILING_TABLES = 1e6  # and one that reads tables as this many
_PILOT_PART = 0.1  # of what leaps would save, that a larger or an exact pilot may cost
_FEWEST_LEAPS = 16  # that a leaping trajectory of a pilot may take
_TRAJECTORIES = 4
_TRAJECTORIES_OF_MANY = 8  # where inputs vary from trajectory to trajectory or point to point
_EVENTS = 2**16  # most of an exact pilot trajectory; of the table kernel a part of them
_EVENTS_OF_TABLES = 2**13
_LEAPED_REACTIONS = 2**16  # most steps of a leaping one, times reactions
_WORTH_EVENTS = 10.0  # as in csrc/leaping/tau_leap.cc: a leap that spans fewer is not taken,
_EXACT_EVENTS = 100  # but this many exact events
ABSORBED = 1  # the last good status
_NAMES = {"ssa": "exact (ssa)", "tau": "tau-leaping (tau)"}  # for people
_PILOT_TIMES = np.array([*(2.0**-k for k in range(40, 4, -1)), *(k / 16 for k in range(1, 17))])


@dataclass(frozen=True)
class MethodChoice:
    """A method, and why, for people."""

    method: str
    reason: str


def leap_cost(reactions: int) -> float:
    """Cost of a leap, in exact events of the same network.

    Measured on a CPU core and an H200 (docs/developers/leaps.md): 20 events and 2 a reaction,
    whichever device is slower; an event of the table kernel costs as much as three of others. From
    tables a leap takes less for each reaction, and an event more the larger the network is.
    """
    if reactions > LARGEST_LEAPING:
        return 20.0 + reactions / 3.0
    cost = 20.0 + 2.0 * reactions
    return cost if reactions <= LARGEST_UNROLLED else cost / 3.0


def with_method(task: NetworkTask, backend: Backend, comm: Communicator) -> NetworkTask:
    """The task with ``ssa`` or ``tau`` in place of ``auto``; rank 0 chooses. Collective."""
    options = task.options
    if not isinstance(options.method, Auto):
        return task
    choice = on_root(comm, lambda: choose_method(task, backend))
    return with_choice(task, choice, announce=comm.rank == 0)


def with_choice(task: NetworkTask, choice: MethodChoice, *, announce: bool) -> NetworkTask:
    """The task with the chosen method in place of ``auto``; says so with `announce`."""
    options = task.options
    if announce and options.quiet is False:
        why = f": {choice.reason}" if options.verbose else ""
        print(f"method: {_NAMES[choice.method]}{why}", flush=True)
    chosen = replace(options, method=turned_into(choice.method, options.method))
    return replace(task, options=chosen, method_choice=choice.reason)


def choose_method(task: NetworkTask, backend: Backend) -> MethodChoice:
    """Choose by a pilot on this device; ``ssa`` unless leaps clearly cost less."""
    refused = _refusal(task)
    if refused is not None:
        return MethodChoice("ssa", refused)
    exact = _exact_pilot(task, backend)
    # What events do to leaps, leaps alone can tell.
    if exact.leaping is not None or task.lowered.dynamics is not None:
        if exact.leaping is not None and exact.events <= _GAIN_TO_TRY * exact.leaping:
            return MethodChoice("ssa", exact.text())
        part = exact.covered * exact.trajectories
        expected = exact.events / part * task.options.total if part else np.inf
        if expected < _compiling(task):
            reason = f"the run has about {expected:.2g} events, too few to compile leaps for"
            return MethodChoice("ssa", reason)
    leaped = _leaping_pilot(task, backend)
    assert leaped.leaping is not None
    if leaped.events <= GAIN * leaped.leaping:
        return MethodChoice("ssa", leaped.text())
    return _judged(task, backend, leaped)


def _judged(task: NetworkTask, backend: Backend, leaped: Counted) -> MethodChoice:
    """Leaps, if a pilot that the run is long enough for finds their error within tolerance."""
    if not task.species:
        return MethodChoice(
            "ssa", "no species is recorded by which the error of leaps could be judged"
        )
    total = task.options.total
    # Of one trajectory, in events. Where none got to its end it takes twice as much, or more.
    ended = max(leaped.covered, 0.5) * leaped.trajectories
    exact, leaps = leaped.events / ended, (leaped.leaping or 0.0) / ended
    spare = total * (exact / GAIN - leaps)  # what the pilot may cost
    # Half of epsilon, and twice the samples, make about twice the leaps.
    n = next((n for n in (MANY, FEW) if 3 * n * leaps <= _PILOT_PART * spare), 0)
    if not n and 3 * FEW * leaps <= spare:
        n = FEW
    if not n:
        short = f"a run of {total} trajectories is too short for a pilot"
        return MethodChoice("ssa", f"{short} that judges the error of leaps")
    few = min(n, int(_PILOT_PART * spare / exact)) if exact else 0
    few = few if few >= FEWEST_EXACT else 0
    result = judge(task, backend, n, few)
    by = f"a pilot of {n} trajectories by leaps" + (f" and {few} exact ones" if few else "")
    if result.refused:
        return MethodChoice("ssa", f"by leaps {result.refused}, as {by} shows")
    reported = f"{leaped.text()}; {by} shows no mean off by {100 * MEAN_TOLERANCE:g} %"
    return MethodChoice("tau", f"{reported} and no standard deviation by {100 * SD_TOLERANCE:g} %")


def expected_gain(task: NetworkTask, backend: Backend) -> float | None:
    """Expected speed of leaps in that of exact events; None where it is little or unknown."""
    if _refusal(task) is not None or task.lowered.dynamics is not None:
        return None
    pilot = _exact_pilot(task, backend)
    if pilot.leaping is None or pilot.events <= GAIN * pilot.leaping:
        return None
    return pilot.events / max(pilot.leaping, 1.0)


def description(network: Network) -> list[str]:
    """Describe what a model holds, and which methods can run it, in lines."""
    return report(network) + outlook(network)


def outlook(network: Network) -> list[str]:
    """Describe the selectors of exact simulation, and the first leap, for people."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            times = np.full(1, network.t_end or 1.0)
            task = prepare(network, Options(times, method=TauLeaping()))
            exact = with_thinning(replace(task, options=Options(times)))
    except TauslabError:
        return []
    if not task.lowered.reactions:
        return []
    read = mean_dependents(task.lowered)
    try:
        reported = (
            f"{_selectors(exact.lowered)}, an event changes the inputs of {read:.3g} propensities"
        )
    except ConfigError as error:
        reported = str(error)
    leap = _first_leap(task)
    return [reported] + ([] if leap is None else [leap])


def _selectors(network: LoweredNetwork) -> str:
    """The selectors that a run may have, which does not say which."""
    base = selector_of(network)
    reported = f"selector of ssa: {base}"
    if not pilot_events(network, base, FEWEST_PILOTED) or pilot_selector(network) == base:
        return reported
    least = f"of {FEWEST_PILOTED} trajectories or more"
    return f"{reported}, or {pilot_selector(network)} where the pilot of a run {least} favours it"


def _first_leap(task: NetworkTask) -> str | None:
    """Describe the first leap from the initial state; None where no leap is possible.

    Nor where events or the time decide what it may span. Of a model with events that is too large
    for leaps, its limit.
    """
    if task.lowered.dynamics is not None and len(task.lowered.reactions) > LARGEST_WITH_EVENTS:
        most = LARGEST_WITH_EVENTS
        return f"tau runs models with {DYNAMICS} of up to {most} reactions, so not this one"
    if _refusal(task) is not None or task.lowered.dynamics is not None:
        return None
    epsilon = task.leaps.epsilon
    reach = leap_reach(task.lowered, task.initial, task.constants, epsilon)
    total, limit = float(reach.total[0]), float(reach.limit[0])
    if total == 0:
        return None
    cost = leap_cost(len(task.lowered.reactions))
    span = f"{total * limit:.4g} events" if limit < np.inf else "any number of events"
    return (
        f"the first leap of tau could span {span} (epsilon {epsilon:g}), "
        f"and costs as much as {cost:.3g} exact events"
    )


def _compiling(task: NetworkTask) -> float:
    """Compiling a kernel for leaps, in exact events."""
    if leaper_of(task.lowered) == "tables":
        return _COMPILING_TABLES
    return max(_COMPILING_LEAST, _COMPILING * len(task.lowered.reactions) ** 2)


def _refusal(task: NetworkTask) -> str | None:
    """Return the reason for which leaps are not possible."""
    reactions = len(task.lowered.reactions)
    if reactions == 0:
        return "the model has no reactions"
    for feature in task.network.features:
        if refusing(feature, ["tau"]):
            return f"{feature.element}: tau cannot honour {feature.kind}"
    if task.lowered.dynamics is not None and not task.species:
        return "no species is recorded by which the error of leaps could be judged"
    if task.lowered.dynamics is not None and task.leaps.post_leap_check:
        return f"leaps of models with {DYNAMICS} have no check"
    if task.lowered.dynamics is not None and reactions > LARGEST_WITH_EVENTS:
        return f"leaps of models with {DYNAMICS} are for up to {LARGEST_WITH_EVENTS} reactions"
    return None


@dataclass(frozen=True)
class Counted:
    """Work of a pilot: exact events, and what leaps cost for the same, in events.

    Parameters
    ----------
    leaping
        None if no state was seen from which it could be told.
    covered
        Part of the trajectories' time that the limit on steps let them reach.
    """

    events: float
    leaping: float | None
    trajectories: int
    covered: float

    def text(self) -> str:
        """One line for people."""
        events, cost = (round((v or 0) / self.trajectories) for v in (self.events, self.leaping))
        where = "a trajectory" if self.covered == 1 else "a trajectory's first part"
        return f"by leaping, {events} events of {where} would cost as much as {cost}"


def _exact_pilot(task: NetworkTask, backend: Backend) -> Counted:
    """Exact trajectories, and what leaps from the states on their way would cost."""
    tabled = len(task.lowered.reactions) > LARGEST_UNROLLED
    times = task.options.times[-1] * _PILOT_TIMES
    if times[-1] == 0:
        return Counted(0.0, 0.0, 1, 1.0)
    # All species that are counted, also those that the run does not record.
    dynamics = task.lowered.dynamics
    reals = set() if dynamics is None else {number for number, _ in dynamics.reals}
    counted = tuple(i for i in range(len(task.lowered.species)) if i not in reals)
    lowered = replace(task.lowered, recorded=counted)
    steps = _EVENTS_OF_TABLES if tabled else _EVENTS
    pilot = _pilot(replace(task, lowered=lowered), Record(trajectories=True), steps, times)
    engine = exact_engine(backend, lowered, times.tolist())
    flat = _trajectories(task)
    deliveries = side_by_side(pilot, engine, flat)
    counts = np.concatenate([d.chunk.arrays["counts"] for d in deliveries])
    seen: BoolArray = np.all(counts >= 0, axis=2)
    covered = _in_turn(np.repeat(np.diff(times, prepend=0.0)[None], len(flat), 0)[seen])
    covered = 1.0 if seen.all() else covered / (float(times[-1]) * len(flat))
    if dynamics is not None:
        work = sum(int(d.work[0]) for d in deliveries)
        return Counted(float(work), None, len(flat), covered)
    initial, constants = _inputs(task, flat)
    states = np.concatenate([initial[:, None, :], counts], axis=1)  # [trajectory, time, species]
    events, leaping = _cost_between(task, states, constants, np.concatenate([[0.0], times]), seen)
    return Counted(events, leaping if seen.any() else None, len(flat), covered)


def _cost_between(
    task: NetworkTask, states: npt.NDArray[np.int32], constants: FloatArray, times: FloatArray,
    seen: BoolArray,
) -> tuple[float, float]:  # fmt: skip
    """Events expected from each state to the next time, and the cost of leaps in their place.

    Intervals count where their end was `seen` ``[trajectory, time]``: a trajectory that used up its
    steps has none after.
    """
    n, intervals, species = len(states), len(times) - 1, states.shape[2]
    flat = states[:, :-1].reshape(n * intervals, species)
    rows = np.repeat(constants, intervals, axis=0)
    reach = leap_reach(task.lowered, flat, rows, task.leaps.epsilon)
    duration = np.tile(np.diff(times), n)
    samples = np.tile(np.diff(np.searchsorted(task.options.times, times, side="right")), n)
    cost = leap_cost(len(task.lowered.reactions))
    with np.errstate(invalid="ignore"):  # nothing happens, for ever
        pays = reach.total * reach.limit >= _WORTH_EVENTS
    # A leap ends at its limit, at a critical event, and at a sample.
    leaps = np.maximum(samples, duration / reach.limit + samples / 2) + reach.critical * duration
    events = reach.total * duration
    leaping = np.where(pays, leaps * cost, events * (1 + cost / _EXACT_EVENTS))
    known = seen.ravel() & np.isfinite(events)
    return _in_turn(events[known]), _in_turn(leaping[known])


def _in_turn(terms: FloatArray) -> float:
    """Sum of one term after the other: `sum` of NumPy pairs them, that of Python 3.12 corrects."""
    return float(np.cumsum(terms)[-1]) if len(terms) else 0.0


def _leaping_pilot(task: NetworkTask, backend: Backend) -> Counted:
    """The same trajectories by leaping, with all sample times, at which leaps are cut."""
    reactions = len(task.lowered.reactions)
    times, leaps = task.options.times, task.leaps
    pilot = _pilot(task, Record(), max(_FEWEST_LEAPS, _LEAPED_REACTIONS // reactions), times)
    engine = leaping_engine(
        backend, task.lowered, times.tolist(), leaps.epsilon, checked=leaps.post_leap_check
    )
    flat = _trajectories(task)
    deliveries = side_by_side(pilot, engine, flat)
    work = {name: sum(int(d.work[i]) for d in deliveries) for i, name in enumerate(WORK)}
    cost = leap_cost(reactions)
    leaping = (work["leaps"] + work["halved"] + work["rejected"]) * cost
    leaping += work["exact_events"] * (1 + cost / _EXACT_EVENTS)
    done = sum(int(d.chunk.arrays["status"][0] <= ABSORBED) for d in deliveries)
    return Counted(float(work["events"]), leaping, len(flat), done / len(flat))


def _pilot(task: NetworkTask, record: Record, steps: int, times: FloatArray) -> NetworkTask:
    options = task.options
    assert options.seed is not None
    limited = replace(
        options, times=times, max_steps=min(steps, options.max_steps), seed=pilot_seed(options.seed)
    )
    return replace(task, options=limited, record=record)


def _trajectories(task: NetworkTask) -> list[int]:
    """Numbers of the pilot's trajectories; where inputs vary, spread over all."""
    total = task.options.total
    if len(task.initial) == len(task.constants) == 1:
        return list(range(min(_TRAJECTORIES, total)))
    return spread(total, _TRAJECTORIES_OF_MANY)


def _inputs(task: NetworkTask, flat: list[int]) -> tuple[npt.NDArray[np.int32], FloatArray]:
    """Initial counts ``[pilot, species]`` and constants ``[pilot, constants]``."""
    rows = [i // task.per_point if task.per_point else i for i in flat]
    shared = [0] * len(flat)
    initial = task.initial[rows if len(task.initial) > 1 else shared]
    return initial, task.constants[rows if len(task.constants) > 1 else shared]
