"""Weighted ensembles of lattices: a walker is a lattice, copied with all that it holds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.state import LatticeState, Samples
from tauslab.model.arrays import Array, Int32Array, IntArray
from tauslab.model.errors import ConfigError
from tauslab.model.host_memory import require_memory
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.model.option_names import opt
from tauslab.runner.options.lattice import LatticeOptions, LatticeTask, prepare_lattice
from tauslab.runner.options.places import device_settings
from tauslab.runner.options.values.definition import check_values
from tauslab.runner.output.checking.opening import WEIGHTED
from tauslab.runner.particles.weights import words
from tauslab.runner.ranks.all_ranks import ranks_for
from tauslab.runner.ranks.job import agreed_seed, agreed_task, devices, failing_together
from tauslab.runner.ranks.progress import Progress as Bar
from tauslab.runner.rare.bins import ONE_BIN, Binning, binning_of
from tauslab.runner.rare.estimate import RareResult
from tauslab.runner.rare.keywords import DEFAULT_LATTICES, WeightedKeywords
from tauslab.runner.rare.outcome import (
    certain,
    no_target,
    one_value_each,
    told_bins,
    weighted_result,
)
from tauslab.runner.rare.target import Target
from tauslab.runner.rare.weighted import Course, Together, WalkRules, joined

_NEW = -1  # in place of the number of a state: placed anew
MOST_LATTICES = 1 << 16  # of a run: a draw knows so many replicas
RUNS = 20  # what words are drawn for, beside those of particles/weights.py


class LatticeWalks:
    """Moves walkers that are lattices, one after another.

    A row is what the target and the coordinate read: counts of species, then of species in sites
    of each type where there are several, and last the number of the state that is kept.

    Attributes
    ----------
    start
        As of `Mover`: the counts at t = 0, and a state that is placed anew.
    fired
        Reactions that fired in all moves.
    """

    def __init__(
        self, engine: LatticeEngine, task: LatticeTask, ends: IntArray, target: Target, every: int
    ) -> None:
        self._engine, self._passes, self._ends, self._every = engine, task.passes, ends, every
        self._target, self.fired = target, 0
        self._kept: list[LatticeState] = []
        engine.load_start()
        self.start: Int32Array = np.append(self._columns(engine.count())[0], _NEW).astype(np.int32)

    def move(self, states: Int32Array, turn: int, seed: int) -> tuple[Int32Array, Array]:
        """As of `Mover`; the target is looked at after every `every` steps of the model."""
        engine, before = self._engine, self._kept
        first = self._ends[turn - 1] if turn else 0
        steps = int(self._ends[turn] - first)
        looks = np.unique([*range(self._every, steps, self._every), steps])
        marks = self._passes * looks
        engine.seed = seed
        self._kept, found = [], states.copy()
        for number, row in enumerate(states):
            engine.replica = number
            if row[-1] == _NEW:
                engine.load_start()
            else:
                engine.load(before[row[-1]])
                self.fired -= int(before[row[-1]].fired.sum())
            samples = engine.run_sampled(marks.tolist())
            self.fired += int(samples.fired[-1].sum())
            columns = self._columns(samples)
            there = np.flatnonzero(self._target.reached(columns))
            at = int(there[0]) if len(there) else len(columns) - 1
            found[number, :-1] = columns[at]
            found[number, -1] = len(self._kept)
            if not len(there):
                self._kept.append(engine.save())
        return found, np.zeros(len(states), np.uint8)

    def _columns(self, samples: Samples) -> Int32Array:
        """Rows ``[sample, column]`` of samples, without the last column."""
        parts = [samples.counts]
        if samples.by_type.shape[1] > 1:
            parts.append(samples.by_type.reshape(len(samples.counts), -1))
        return np.concatenate(parts, axis=1).astype(np.int32)


def column_names(task: LatticeTask) -> tuple[str, ...]:
    """Names of the columns of a walker: ``A``, and ``A_in_membrane`` where there are types."""
    lattice = task.lattice
    found = list(lattice.species)
    if len(lattice.site_types) > 1:
        found += [f"{one}_in_{kind}" for kind in lattice.site_types for one in lattice.species]
    return tuple(found)


def names_of(task: LatticeTask) -> Network:
    """A network with the names that a target and a coordinate may use, and no reactions."""
    net = Network(task.lattice.name)
    for name in column_names(task):
        net.add_species(name)
    for name, value in task.lattice.parameters.items():
        if name not in net.species:
            net.add_parameter(name, value)
    return net


def run_spatial(lattice: Lattice, given: WeightedKeywords) -> RareResult:
    """A weighted ensemble of a lattice; each rank does runs of its own."""
    check_values(given)
    if not given.target:
        raise no_target()
    comm = ranks_for("mpi")
    seed = agreed_seed(given.seed, lambda: None, comm)
    place = device_settings(given.device)
    options = LatticeOptions(t_end=given.t_end, seed=seed, set=one_value_each(given), **place)
    task = agreed_task(lambda: prepare_lattice(lattice, options), comm)
    if task.steps < given.rounds:
        raise ConfigError(
            f"{opt('rounds', given.rounds)} is not allowed: t_end is {task.steps} steps of "
            f"{lattice.name}"
        )
    ends = np.arange(1, given.rounds + 1) * task.steps // given.rounds
    walkers = given.walkers or DEFAULT_LATTICES
    target = Target(names_of(task), given.target, {})
    progress = target.progress(given.coordinate)
    with devices(options.device, options.threads, comm) as backend, failing_together(comm):
        engine = LatticeEngine(backend, task.lattice, seed=seed)
        walks = LatticeWalks(engine, task, ends, target, given.look_every)
        begin = progress(walks.start[None, :-1])
        there = bool(target.reached(walks.start[None, :-1])[0])
        binning: Binning = ONE_BIN
        if not there:
            binning = binning_of(given.bins, float(begin[0]), progress.end, progress.sign)
        if walkers * binning.size > MOST_LATTICES:
            raise ConfigError(
                f"{opt('walkers', walkers)} in {binning.size} bins: a run has at most "
                f"{MOST_LATTICES} lattices"
            )
        size = int(np.prod(task.lattice.shape)) * task.lattice.slots
        size *= np.dtype(task.lattice.particle_type).itemsize
        require_memory(2 * walkers * binning.size * size, "the lattices of a run")
        first = int(given.discard * given.rounds) if given.steady else 0
        times = np.asarray(ends * task.lattice.step, np.float64)
        kept = float(times[-1] - (times[first - 1] if first else 0.0))
        settings: dict[str, float | str] = {
            "model": lattice.name, "target": target.text, "coordinate": progress.text,
            "t_end": float(times[-1]), "rounds": given.rounds, "walkers": walkers,
            "bins": told_bins(given.bins, binning), "look_every": given.look_every,
        }  # fmt: skip
        settings |= {"kept": kept} if given.steady else {}
        if there:
            return certain(WEIGHTED, given, times, seed, settings, steady=given.steady)
        rules = WalkRules(walks, target, progress, binning, given.rounds, walkers, given.steady)
        bar = Bar(
            given.runs * given.rounds, comm.rank, quiet=given.quiet, description=lattice.name,
            unit="rounds",
        )  # fmt: skip
        with bar:
            own = [
                (run, _one_run(rules, run, seed, lambda done: bar.update(done * comm.size, 0)))
                for run in range(comm.rank, given.runs, comm.size)
            ]
        found = dict(pair for part in comm.allgather(own) for pair in part)
        course = joined([found[run] for run in range(given.runs)])
        events = sum(comm.allgather(walks.fired))
    return weighted_result(course, given, times, first, settings, seed, events, comm.rank)


def _one_run(rules: WalkRules, run: int, seed: int, report: Callable[[int], None]) -> Course:
    word = int(words(seed, RUNS, run, 1)[0])
    return Together(rules, 1, word).walk(report, run // 1 * rules.rounds)
