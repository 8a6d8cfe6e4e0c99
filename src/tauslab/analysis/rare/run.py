"""A weighted ensemble of a network: checks, device, progress, result."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tauslab.analysis.counts_alone import require_counts_alone
from tauslab.analysis.rare.estimate import RareResult
from tauslab.analysis.rare.keywords import DEFAULT_WALKERS, WeightedKeywords, refuse_unused
from tauslab.analysis.rare.search import (
    Search,
    checked_values,
    named_bins,
    on_device,
    weighted_result,
)
from tauslab.analysis.rare.segments import Segments
from tauslab.analysis.rare.target import Target
from tauslab.analysis.rare.walkers.weighted import Keep, WalkRules, weighted_runs
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt
from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.model.network.diagnosis.check import check_rates
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.methods import SSA
from tauslab.options.places import device_settings
from tauslab.options.values.definition import check_values
from tauslab.runner.ensemble.task import with_settings
from tauslab.store.state import State


@contextmanager
def _search(
    network: Network, given: WeightedKeywords, comm: Communicator
) -> Iterator[tuple[Search, Segments]]:
    """A search in a network, and what moves its trajectories by rounds."""
    values = checked_values(given)
    require_counts_alone(network, "a search for rare events")
    t_end = network.t_end if given.t_end is None else given.t_end
    if t_end is None:
        raise ConfigError(
            f"{opt('t_end')} is missing: by when the target is reached, in model units"
        )
    asked = with_settings(network, values)  # the target's network hides its constants
    check_rates(asked, asked.parameter_values())
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
            given.steady, given.discard, given.extend,
        )  # fmt: skip
        with search.progress(given.runs * given.rounds, "rounds") as bar:
            begun, keep = _checkpoint(search, segments)
            found = weighted_runs(
                rules, given.runs, search.seed, lambda done: bar.update(done, 0), begun, keep
            )
        fired = segments.fired
    times = segments.times(found.reached.shape[1])
    if given.steady:
        settings |= {"t_end": float(times[-1]), "rounds": len(times)}
        settings |= {"asked_t_end": search.t_end} if len(times) > given.rounds else {}
    return weighted_result(found, given, times, settings, search.seed, fired, comm.rank)
