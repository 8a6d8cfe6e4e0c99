"""Weighted ensembles of lattices: a walker is a lattice, copied with all that it holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tauslab.analysis.particles.motions.lattice import column_names
from tauslab.analysis.particles.weights import LATTICE_RUNS, words
from tauslab.analysis.rare.estimate import RareResult
from tauslab.analysis.rare.keywords import DEFAULT_LATTICES, WeightedKeywords, refuse_unused
from tauslab.analysis.rare.run import Search, checked_values, named_bins, on_device, weighted_result
from tauslab.analysis.rare.target import Target
from tauslab.analysis.rare.walkers.weighted import JointWalkers, WalkRules, WeightedRuns, joined
from tauslab.base.arrays import Array, Int32Array, IntArray
from tauslab.base.errors import ConfigError, DeviceError
from tauslab.base.host import in_bytes
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.job import agreed_seed, agreed_task
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.progress import Progress
from tauslab.kernels.lattice.planes import LatticeEngineName
from tauslab.kernels.lattice.planes_replicas import replicas_of
from tauslab.kernels.lattice.replicas import Replicas, Rest
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.lattice import LatticeOptions, LatticeTask, prepare_lattice
from tauslab.options.places import device_settings
from tauslab.runner.lattice.judging import Judge

_NEW = -1  # in place of the number of a state: placed anew
MOST_LATTICES = 1 << 16  # of a run: a draw knows so many replicas


class LatticeWalks:
    """Moves walkers that are lattices: small ones at once, large ones one after another.

    A row is what the target and the coordinate read: counts of species, then of species in sites
    of each type where there are several, and last the number of the state that is kept.

    Attributes
    ----------
    start
        As of `Mover`: the counts at t = 0, and a state that is placed anew.
    fired
        Reactions that fired in all moves.
    engine
        Of the lattices.
    """

    def __init__(
        self, lattices: Replicas, task: LatticeTask, ends: IntArray, target: Target,
        every: int, seed: int,
    ) -> None:  # fmt: skip
        self._lattices, self._passes, self._ends, self._every = lattices, task.passes, ends, every
        self._target, self.fired, self.engine = target, 0, task.engine
        self.judge = Judge(lattices.lattice)
        lattices.begin([(lattices.lattice, 0)], seed)
        self.start: Int32Array = np.append(_columns(lattices.count())[0], _NEW).astype(np.int32)

    def move(self, states: Int32Array, turn: int, seed: int) -> tuple[Int32Array, Array]:
        """Move walkers as `Mover` does; the target is checked every `every` steps of the model."""
        lattices, result = self._lattices, states.copy()
        first = self._ends[turn - 1] if turn else 0
        steps = int(self._ends[turn] - first)
        looks = np.unique([*range(self._every, steps, self._every), steps])
        self._take(states[:, -1].astype(np.int64), seed)
        before = lattices.rest.fired.sum()
        marks = (self._passes * looks).tolist()
        counts = lattices.run_sampled(marks, range(len(states)), seed=seed)
        self.fired += int(lattices.rest.fired.sum() - before)
        self.judge.add(lattices.waiting, counts[-1].sum())
        self.judge.truncated[turn] = int(lattices.rest.truncated.sum())
        columns = np.stack([_columns(each) for each in counts])  # [look, walker, column]
        there = self._target.reached(columns.reshape(-1, columns.shape[2]))
        there = np.asarray(there).reshape(columns.shape[:2])
        at = np.where(there.any(axis=0), there.argmax(axis=0), len(looks) - 1)
        result[:, :-1] = columns[at, np.arange(len(states))]
        goes_on = ~there.any(axis=0)
        result[:, -1] = np.cumsum(goes_on) - 1
        kept = np.flatnonzero(goes_on)
        lattices.put(lattices.rows(kept), lattices.rest.take(kept))
        return result, np.zeros(len(states), np.uint8)

    def _take(self, kept: IntArray, seed: int) -> None:
        """Make of each walker the state that it had, or one that is placed anew."""
        lattices, new = self._lattices, np.flatnonzero(kept == _NEW)
        if not len(new):
            lattices.put(lattices.rows(kept), lattices.rest.take(kept))
            return
        old = np.flatnonzero(kept != _NEW)
        particles = lattices.rows(kept[old])
        rest = lattices.rest.take(kept[old])
        lattices.begin([(lattices.lattice, number) for number in new.tolist()], seed)
        if not len(old):
            return
        backend = lattices.backend
        joined = backend.empty((len(kept), lattices.words), np.uint32)
        joined[: len(old)], joined[len(old) :] = particles, lattices.particles
        lattices.put(joined, Rest.joined([rest, lattices.rest]))
        order = np.argsort(np.concatenate([old, new]), kind="stable")
        lattices.put(lattices.rows(order), lattices.rest.take(order))


def _columns(by_type: IntArray) -> Int32Array:
    """Rows ``[lattice, column]`` of counts ``[lattice, type, species]``, but the last column."""
    parts = [by_type.sum(axis=1)]
    if by_type.shape[1] > 1:
        parts.append(by_type.reshape(len(by_type), -1))
    return np.concatenate(parts, axis=1).astype(np.int32)


def names_of(task: LatticeTask) -> Network:
    """A network with the names that a target and a coordinate may use, and no reactions."""
    net = Network(task.lattice.name)
    for name in column_names(task.model):
        net.add_species(name)
    for name, value in task.lattice.parameters.items():
        if name not in net.species:
            net.add_parameter(name, value)
    return net


def run_spatial(lattice: Lattice, given: WeightedKeywords, comm: Communicator) -> RareResult:
    """A weighted ensemble of a lattice; each rank does runs of its own."""
    values = checked_values(given)
    refuse_unused(given, lattice=True)
    seed = agreed_seed(given.seed, lambda: None, comm)
    options = LatticeOptions(
        t_end=given.t_end, seed=seed, set=values, **device_settings(given.device)
    )  # fmt: skip
    task = agreed_task(lambda: prepare_lattice(lattice, options), comm)
    if task.steps < given.rounds:
        raise ConfigError(
            f"{opt('rounds', given.rounds)} is not allowed: t_end is {task.steps} steps of "
            f"{lattice.name}"
        )
    ends = np.arange(1, given.rounds + 1) * task.steps // given.rounds
    times = np.asarray(ends * task.lattice.step, np.float64)
    walkers = given.walkers or DEFAULT_LATTICES
    target = Target(names_of(task), given.target, {})
    coordinate = target.coordinate(given.coordinate)
    with on_device(given, options, comm) as backend:
        lattices = replicas_of(backend, task.lattice, task.engine)
        walks = LatticeWalks(lattices, task, ends, target, given.look_every, seed)
        search = Search(
            lattice.name, task.sha256, given, seed, target, coordinate, walks.start[:-1],
            float(times[-1]), comm,
        )  # fmt: skip
        binning = search.binning(given.bins)
        _check_memory(lattices, walkers, binning.size)
        settings = search.settings(
            walkers=walkers, bins=named_bins(given.bins, binning), look_every=given.look_every
        )
        if search.starts_there:
            return search.certain(times, settings, steady=given.steady)
        rules = WalkRules(walks, target, coordinate, binning, given.rounds, walkers, given.steady)
        with search.progress(given.runs * given.rounds, "rounds") as bar:
            result, fired = _runs(rules, walks, search, bar)
        walks.judge.speak(comm)
    return weighted_result(result, given, times, settings, seed, fired, comm.rank)


def _check_memory(lattices: Replicas, walkers: int, bins: int) -> None:
    """Refuse a run of more lattices than are allowed, or than the device has memory for."""
    if walkers * bins > MOST_LATTICES:
        raise ConfigError(
            f"{opt('walkers', walkers)} in {bins} bins: a run has at most {MOST_LATTICES} lattices"
        )
    size, free = 2 * walkers * bins * lattices.bytes_each, lattices.backend.free_memory()
    if size > free:
        raise DeviceError(
            f"the lattices of a run take {in_bytes(size)} on the device, and {in_bytes(free)} are "
            "free"
        )


def _runs(
    rules: WalkRules, walks: LatticeWalks, search: Search, bar: Progress
) -> tuple[WeightedRuns, int]:
    """All runs, and the reactions that fired on all ranks; a checkpoint holds finished runs."""
    given, comm = search.given, search.comm
    # Others than slots are named: checkpoints of earlier versions are of lattices in slots.
    own_form = () if walks.engine is LatticeEngineName.SLOTS else (str(walks.engine),)
    file = search.checkpoint(*own_form)
    begun = file.take_up()
    fired = begun.whole("events") if begun else 0
    result = {
        run: WeightedRuns.of(begun, f"run_{run}_", 1, rules.rounds)
        for run in range(given.runs)
        if f"run_{run}_lost" in begun
    }
    left = [run for run in range(given.runs) if run not in result]
    # All ranks meet after as many runs as there are ranks only where something is kept.
    wave = comm.size if file.path is not None else max(1, len(left))
    for first in range(0, len(left), wave):
        own: dict[int, WeightedRuns] = {}
        for run in left[first : first + wave][comm.rank :: comm.size]:
            before = (first + len(own) * comm.size) * rules.rounds
            own[run] = _one_run(rules, run, search.seed, lambda done: bar.update(before + done, 0))  # noqa: B023
        for part in comm.allgather(own):
            result.update(part)
        file.save(
            lambda: _kept(result, fired + sum(comm.allgather(walks.fired))),
            last=first + wave >= len(left),
        )
    fired += sum(comm.allgather(walks.fired))
    return joined([result[run] for run in range(given.runs)]), fired


def _kept(runs: Mapping[int, WeightedRuns], fired: int) -> dict[str, Any]:
    """Runs that are done by name, and firings of all."""
    arrays = [one.arrays(f"run_{run}_") for run, one in runs.items()]
    return {"events": fired, **{name: array for one in arrays for name, array in one.items()}}


def _one_run(rules: WalkRules, run: int, seed: int, report: Callable[[int], None]) -> WeightedRuns:
    together = JointWalkers(rules, 1, int(words(seed, LATTICE_RUNS, run, 1)[0]))
    together.walk(rules.rounds, report)
    return together.result()
