"""A job of either method: checks, device, progress, result."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from tauslab.analysis.counts_alone import require_counts_alone
from tauslab.analysis.rare.checkpoint import checkpoint_of, holding, require_checkpoint
from tauslab.analysis.rare.estimate import RareResult
from tauslab.analysis.rare.keywords import (
    DEFAULT_PATHS,
    DEFAULT_WALKERS,
    RareKeywords,
    SplittingKeywords,
    WeightedKeywords,
    refuse_unused,
)
from tauslab.analysis.rare.outcome import (
    certain,
    no_target,
    one_value_each,
    tell_ended,
    tell_uneven,
    told_bins,
    weighted_result,
)
from tauslab.analysis.rare.segments import Segments
from tauslab.analysis.rare.splitting import PathRules, split_runs
from tauslab.analysis.rare.target import Progress, Target
from tauslab.analysis.rare.walkers.bins import ONE_BIN, Binning, binning_of
from tauslab.analysis.rare.walkers.weighted import Keep, WalkRules, weighted_runs
from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.decomposition.ranks.job import agreed_seed, devices, failing_together
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.progress import Progress as Bar
from tauslab.decomposition.ranks.together import agree
from tauslab.model.network.diagnosis.check import check_rates
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import SSA
from tauslab.options.places import device_settings
from tauslab.options.values.definition import check_values
from tauslab.runner.ensemble.task import with_settings
from tauslab.store.checking.opening import SPLITTING, WEIGHTED
from tauslab.store.state import State


@dataclass(frozen=True)
class _Job:
    """What both methods begin with."""

    network: Network
    given: RareKeywords
    t_end: float
    seed: int
    target: Target
    progress: Progress
    segments: Segments
    comm: Communicator

    def times(self, rounds: int) -> FloatArray:
        return np.asarray(self.segments.step * np.arange(1, rounds + 1), np.float64)

    def checkpoint(self, method: str) -> tuple[State, Keep]:
        """What an earlier call kept, and what keeps more."""
        found = agree(self.comm, lambda: checkpoint_of(
            self.given, self.comm, method, self.segments.task.sha256, self.progress.text,
            self.progress.sign,
        ))  # fmt: skip
        begun = found.take_up()
        self.segments.go_on(begun.whole("events") if begun else 0)

        def keep(kept: Callable[[], Mapping[str, Any]], *, last: bool = False) -> None:
            found.save(lambda: {**kept(), "events": self.segments.events}, last=last)

        return begun, keep

    @property
    def starts_there(self) -> bool:
        """Whether the start is in the target."""
        return bool(self.target.reached(self.segments.start[None])[0])

    def settings(self, **more: float | str | None) -> dict[str, float | str]:
        found = {
            "model": self.network.name, "target": self.target.text,
            "coordinate": self.progress.text, "t_end": self.t_end, "rounds": self.given.rounds,
            **more,
        }  # fmt: skip
        return {name: value for name, value in found.items() if value is not None}

    def bar(self, total: int, unit: str) -> Bar:
        return Bar(
            total, self.comm.rank, quiet=self.given.quiet, description=self.network.name, unit=unit
        )


@contextmanager
def _job(network: Network, given: RareKeywords, comm: Communicator) -> Iterator[_Job]:
    """Everything checked, and the device open."""
    check_values(given)
    require_checkpoint(given)
    require_counts_alone(network, "a search for rare events")
    if not given.target:
        raise no_target()
    t_end = network.t_end if given.t_end is None else given.t_end
    if t_end is None:
        raise ConfigError(
            f"{opt('t_end')} is missing: by when the target is reached, in model units"
        )
    values = one_value_each(given)
    asked = with_settings(network, values)  # whose constants are hidden in the laws of the target
    check_rates(asked, asked.parameter_values())
    target = Target(network, given.target, values)
    progress = target.progress(given.coordinate)
    seed = agreed_seed(given.seed, lambda: None, comm)
    options = Options(
        times=np.zeros(1), n=1, seed=seed, set=values, method=SSA(), max_steps=given.max_steps,
        **device_settings(given.device),
    )  # fmt: skip
    with (
        holding(given, comm),
        devices(options.device, options.threads, comm) as backend,
        failing_together(comm),
    ):
        segments = Segments(target.network, values, options, t_end / given.rounds, backend, comm)
        agree(comm, lambda: progress(segments.start[None]))
        yield _Job(network, given, float(t_end), seed, target, progress, segments, comm)


def run_weighted(network: Network, given: WeightedKeywords, comm: Communicator) -> RareResult:
    """A weighted ensemble."""
    check_values(given)
    refuse_unused(given, lattice=False)
    with _job(network, given, comm) as job:
        start = float(job.progress(job.segments.start[None])[0])
        binning: Binning = ONE_BIN
        if not job.starts_there:
            binning = agree(
                job.comm,
                lambda: binning_of(given.bins, start, job.progress.end, job.progress.sign),
            )
        walkers = given.walkers or DEFAULT_WALKERS
        settings = job.settings(walkers=walkers, bins=told_bins(given.bins, binning))
        if job.starts_there:
            times = job.times(given.rounds)
            return certain(WEIGHTED, given, times, job.seed, settings, steady=given.steady)
        with job.bar(given.runs * given.rounds, "rounds") as bar:
            rules = WalkRules(
                job.segments, job.target, job.progress, binning, given.rounds, walkers,
                given.steady, given.discard, given.extend,
            )  # fmt: skip
            begun, keep = job.checkpoint(WEIGHTED)
            course = weighted_runs(
                rules, given.runs, job.seed, lambda done: bar.update(done, 0), begun, keep
            )
        events = job.segments.events
        times = job.times(course.reached.shape[1])
        first = 0
        if given.steady:
            first = int(given.discard * len(times))
            settings |= {"t_end": float(times[-1]), "rounds": len(times)}
            settings["kept"] = float(times[-1] - (times[first - 1] if first else 0.0))
            if len(times) > given.rounds:
                settings["asked_t_end"] = job.t_end
    return weighted_result(course, given, times, first, settings, job.seed, events, job.comm.rank)


def _paths_of(given: SplittingKeywords) -> int:
    paths = given.walkers or DEFAULT_PATHS
    if paths < 2:
        raise ConfigError(
            f"{assigned('walkers')}1 is not allowed: splitting needs two paths or more"
        )
    return paths


def run_splitting(network: Network, given: SplittingKeywords, comm: Communicator) -> RareResult:
    """Adaptive multilevel splitting."""
    with _job(network, given, comm) as job:
        paths = agree(job.comm, lambda: _paths_of(given))
        least = min(paths - 1, max(1, math.floor(given.kill * paths)))
        settings = job.settings(walkers=paths, kill=least)
        if job.starts_there:
            times = job.times(given.rounds)
            return certain(SPLITTING, given, times, job.seed, settings, steady=False)
        with job.bar(given.runs, "runs") as bar:
            rules = PathRules(job.segments, job.target, job.progress, given.rounds, paths, least)
            begun, keep = job.checkpoint(SPLITTING)
            found = split_runs(
                rules, given.runs, job.seed, lambda done: bar.update(done, 0), begun, keep
            )
        tell_ended(found.lost, found.ended, job.comm.rank)
        times = job.times(given.rounds)
        made = RareResult(
            SPLITTING, "probability", found.estimates, times, np.zeros((given.runs, 0)),
            found.lost, 0.0, given.runs * paths, False, job.segments.events, job.seed, settings,
        )  # fmt: skip
        tell_uneven(made, job.comm.rank)
        return made
