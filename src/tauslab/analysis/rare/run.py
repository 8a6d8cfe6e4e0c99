"""A weighted ensemble of a network: checks, device, progress, result."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.analysis.counts_alone import require_counts_only
from tauslab.analysis.particles.store import StateCheckpoint, digest_of
from tauslab.analysis.particles.sums import fixed_sum
from tauslab.analysis.rare.estimate import RareResult
from tauslab.analysis.rare.keywords import DEFAULT_WALKERS, WeightedKeywords, refuse_unused
from tauslab.analysis.rare.segments import Segments
from tauslab.analysis.rare.target import Coordinate, Target
from tauslab.analysis.rare.walkers.bins import ONE_BIN, Binning, Bins, FixedBins, binning_of
from tauslab.analysis.rare.walkers.weighted import (
    Keep,
    WalkRules,
    WeightedRuns,
    steadiness,
    weighted_runs,
)
from tauslab.base.arrays import FloatArray, Int32Array, IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt, warn
from tauslab.decomposition.ranks.job import agreed_seed, devices, failing_together
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.progress import Progress
from tauslab.decomposition.ranks.together import agree
from tauslab.kernels.backends import Backend
from tauslab.model.network.diagnosis.check import check_rates
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.lattice import LatticeOptions
from tauslab.options.methods import SSA
from tauslab.options.places import device_settings
from tauslab.options.python_values import one_number_each
from tauslab.options.values.definition import check_values
from tauslab.runner.ensemble.task import with_settings
from tauslab.store.checking.opening import WEIGHTED
from tauslab.store.format.schema import STATUS_NAMES
from tauslab.store.locks import written_by_us
from tauslab.store.state import State

_MOST_PER_ROUND = 0.1  # weight that may reach the target within a round of a steady rate
_NOT_DECIDING = (
    *("comm", "device", "output", "quiet", "checkpoint", "checkpoint_every"),
    *("coordinate", "set"),
)


def checked_values(given: WeightedKeywords) -> dict[str, float]:
    """Values of `set`, where a call says all that a search needs.

    Raises
    ------
    ConfigError
        An option has no allowed value, there is no target, or a checkpoint has no name or no seed,
        so that another call would be another search.
    """
    check_values(given)
    path: object = given.checkpoint
    if path is not None and not isinstance(path, str | os.PathLike):
        raise ConfigError(f"{assigned('checkpoint')}{path!r}: the name of a file is expected")
    if path is not None and given.seed is None:
        raise ConfigError(
            f"{opt('checkpoint')} needs {opt('seed')}: another seed would begin another search"
        )
    if not given.target:
        example = f'{assigned("target")}"X >= 100"'
        raise ConfigError(f"{opt('target')} is missing: a condition, such as {example}")
    return one_number_each("set", given.set, "walkers have no values of their own")


@contextmanager
def on_device(
    given: WeightedKeywords, options: Options | LatticeOptions, comm: Communicator
) -> Iterator[Backend]:
    """Open the device, as the only search that writes the checkpoint. Collective."""
    path = None if given.checkpoint is None else Path(given.checkpoint)
    with (
        written_by_us(path, comm, "checkpoint"),
        devices(options.device, options.threads, comm) as backend,
        failing_together(comm),
    ):
        yield backend


@dataclass(frozen=True)
class Search:
    """A search on its device.

    Attributes
    ----------
    name, sha256
        Name and digest of the model.
    start
        int32 ``[column]``: the counts at t = 0, which target and coordinate read.
    t_end
        End of the last round, in units of the model's time.
    """

    name: str
    sha256: str
    given: WeightedKeywords
    seed: int
    target: Target
    coordinate: Coordinate
    start: Int32Array
    t_end: float
    comm: Communicator

    @property
    def starts_there(self) -> bool:
        """Return whether the start is in the target."""
        return bool(self.target.reached(self.start[None])[0])

    def binning(self, bins: Bins | None) -> Binning:
        """Bins from the start to the target. Collective."""
        start = agree(self.comm, lambda: float(self.coordinate(self.start[None])[0]))
        if self.starts_there:
            return ONE_BIN
        end, sign = self.coordinate.end, self.coordinate.sign
        return agree(self.comm, lambda: binning_of(bins, start, end, sign))

    def settings(self, **more: float | str) -> dict[str, Any]:
        """Numbers and texts of the search that its result holds."""
        return {
            "model": self.name, "target": self.target.text, "coordinate": self.coordinate.text,
            "t_end": self.t_end, "rounds": self.given.rounds, **more,
        }  # fmt: skip

    def progress(self, total: int, unit: str) -> Progress:
        """A bar of so many rounds or runs."""
        return Progress(
            total, self.comm.rank, quiet=self.given.quiet, description=self.name, unit=unit
        )

    def checkpoint(self, *more: str) -> StateCheckpoint:
        """The checkpoint that the call asks for; `more` decides the result too. Collective."""
        options: dict[str, Any] = {
            name: value for name, value in vars(self.given).items() if name not in _NOT_DECIDING
        }
        options["bins"] = repr(np.asarray(options.get("bins")).tolist())
        values = {name: float(value) for name, value in sorted((self.given.set or {}).items())}
        digest = digest_of(
            WEIGHTED,
            self.sha256,
            options,
            values,
            self.coordinate.text,
            self.coordinate.sign,
            *more,
        )
        what = f"checkpoint of a search for rare events: give another {opt('checkpoint')}"
        path, every = self.given.checkpoint, self.given.checkpoint_every
        return StateCheckpoint(path, every, digest, self.comm, "rare events", what)

    def certain(self, times: FloatArray, settings: dict[str, Any], *, steady: bool) -> RareResult:
        """The result where the start is in the target.

        Raises
        ------
        ConfigError
            A steady rate is asked for.
        """
        if steady:
            raise ConfigError(
                f'{opt("steady")}: the start is in the target "{self.given.target}": there is no '
                "way to it"
            )
        runs = self.given.runs
        return RareResult(
            WEIGHTED, "probability", np.ones(runs), times, np.zeros((runs, 0)), np.zeros(runs),
            0.0, runs, True, 0, self.seed, settings,
        )  # fmt: skip


def named_bins(bins: Bins | None, binning: Binning) -> int | str:
    """Bins as a result names them."""
    if isinstance(binning, FixedBins):
        return binning.size
    return bins if isinstance(bins, str) else "adaptive"


def weighted_result(
    found: WeightedRuns, given: WeightedKeywords, times: FloatArray, settings: dict[str, Any],
    seed: int, fired: int, rank: int,
) -> RareResult:  # fmt: skip
    """The result of a weighted ensemble.

    Parameters
    ----------
    times
        f64 ``[round]``: ends of the rounds.
    """
    warn_of_ended_walkers(found.lost, found.ended, rank)
    if not found.reached.any() and rank == 0:
        warn(
            f"no walker reached the target: take more {opt('walkers')}, or more or adaptive "
            f"{opt('bins')}"
        )
    if given.steady:
        first = int(given.discard * len(times))
        settings = {**settings, "kept": float(times[-1] - (times[first - 1] if first else 0.0))}
        runs, reached = _steady(found, first, np.diff(times, prepend=0.0), rank)
    else:
        reached = np.add.accumulate(found.reached, axis=1)
        runs = reached[:, -1]
    result = RareResult(
        WEIGHTED, "rate" if given.steady else "probability", runs, times, reached, found.lost,
        found.rounding, given.runs, False, fired, seed, settings,
    )  # fmt: skip
    warn_of_uneven_runs(result, rank)
    return result


def _steady(
    found: WeightedRuns, first: int, lengths: FloatArray, rank: int
) -> tuple[FloatArray, FloatArray]:
    """Rate of each run, and weight per time ``[run, round]`` that came into the target.

    What comes into the target begins again at the end of the round. A way there with the waiting
    takes 1 / flux on average; waiting takes half a round, and one at most. So the rate is the flux
    over 1 - flux length / 2, and wrong by the part flux length / 2 at most.
    """
    flux = found.reached / lengths
    kept, times = found.reached[:, first:], lengths[first:]
    runs = np.array([fixed_sum(row) for row in kept]) / fixed_sum(times)
    mean = fixed_sum(runs) / len(runs)
    length = fixed_sum(times) / len(times)
    if rank == 0 and mean * length > _MOST_PER_ROUND:
        warn(
            f"{mean * length:.0%} of the weight reaches the target within a round: the rate may be "
            f"wrong by {mean * length / 2:.0%}; take more {opt('rounds')}"
        )
    rest = steadiness(flux, first)
    if rank == 0 and rest.moves and found.reached.any():
        wrong = "high" if rest.later < rest.before else "low"
        warn(
            f"the rate is not steady yet, and too {wrong}: {rest.before:.3g} in "
            f"the first half of the time that is used, {rest.later:.3g} in the second; take a "
            f"longer {opt('t_end')}"
        )
    return runs / (1 - min(0.5, mean * length / 2)), flux


def warn_of_uneven_runs(found: RareResult, rank: int) -> None:
    """Warn where a few runs make the estimate, or all gave the same: that shows no error."""
    same = len(found.runs) > 1 and found.runs[0] > 0 and math.isnan(found.standard_error)
    if same and found.estimate < 1 and rank == 0:
        warn(
            f"all {len(found.runs)} runs gave {found.estimate:.4g}, so the error is unknown; take "
            f"more {opt('runs')}"
        )
    if found.uneven and rank == 0:
        warn(
            f"{found.effective_runs:.2g} of {len(found.runs)} runs determine the estimate: it and "
            f"its error may be far too small; take more {opt('walkers')}"
        )


def warn_of_ended_walkers(lost: FloatArray, ended: IntArray, rank: int) -> None:
    """Warn of trajectories that ended early."""
    if not ended.sum() or rank:
        return
    kinds = ", ".join(
        f"{ended[i]} by {STATUS_NAMES.get(i, i)}" for i in np.flatnonzero(ended).tolist()
    )
    warn(
        f"{int(ended.sum())} trajectories ended early ({kinds}), with "
        f"{fixed_sum(lost) / len(lost):.3g} of the weight: the probability may be larger by as much"
    )


@contextmanager
def _search(
    network: Network, given: WeightedKeywords, comm: Communicator
) -> Iterator[tuple[Search, Segments]]:
    """A search in a network, and what moves its trajectories by rounds."""
    values = checked_values(given)
    require_counts_only(network, "a search for rare events")
    t_end = network.t_end if given.t_end is None else given.t_end
    if t_end is None:
        raise ConfigError(f"{opt('t_end')} is missing: the time limit, in the unit of the model")
    requested = with_settings(network, values)  # the target's network hides its constants
    check_rates(requested, requested.parameter_values())
    target = Target(network, given.target, values)
    coordinate = target.coordinate(given.coordinate)
    seed = agreed_seed(given.seed, lambda: None, comm)
    options = Options(
        times=np.zeros(1), n=1, seed=seed, set=values, method=SSA(), max_steps=given.max_steps,
        **device_settings(given.device),
    )  # fmt: skip
    with on_device(given, options, comm) as backend:
        segments = Segments(target.network, values, options, t_end / given.rounds, backend, comm)
        yield Search(
            network.name, segments.task.sha256, given, seed, target, coordinate, segments.start,
            float(t_end), comm,
        ), segments  # fmt: skip


def _checkpoint(search: Search, segments: Segments) -> tuple[State, Keep]:
    """The state that an earlier call kept, and a function that keeps more. Collective."""
    file = search.checkpoint()
    begun = file.take_up()
    segments.go_on(begun.whole("events") if begun else 0)

    def keep(kept: Callable[[], Mapping[str, Any]], *, last: bool = False) -> None:
        file.save(lambda: {**kept(), "events": segments.fired}, last=last)

    return begun, keep


def run_weighted(network: Network, given: WeightedKeywords, comm: Communicator) -> RareResult:
    """A weighted ensemble."""
    check_values(given)
    refuse_unused(given, lattice=False)
    with _search(network, given, comm) as (search, segments):
        binning = search.binning(given.bins)
        walkers = given.walkers or DEFAULT_WALKERS
        settings = search.settings(walkers=walkers, bins=named_bins(given.bins, binning))
        if search.starts_there:
            times = segments.times(given.rounds)
            return search.certain(times, settings, steady=given.steady)
        rules = WalkRules(
            segments, search.target, search.coordinate, binning, given.rounds, walkers,
            given.steady, given.discard, given.max_extension,
        )  # fmt: skip
        with search.progress(given.runs * given.rounds, "rounds") as bar:
            begun, keep = _checkpoint(search, segments)
            result = weighted_runs(
                rules, given.runs, search.seed, lambda done: bar.update(done, 0), begun, keep
            )
        fired = segments.fired
    times = segments.times(result.reached.shape[1])
    if given.steady:
        settings |= {"t_end": float(times[-1]), "rounds": len(times)}
        settings |= {"asked_t_end": search.t_end} if len(times) > given.rounds else {}
    return weighted_result(result, given, times, settings, search.seed, fired, comm.rank)
