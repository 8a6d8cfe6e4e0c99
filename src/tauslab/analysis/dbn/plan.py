"""Rank 0's decisions before a network is counted: seed, intervals, blocks, what is resumed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tauslab.analysis.dbn.lane import lane_capacity, nominal_values, pilot_samples
from tauslab.analysis.dbn.parts import PART_NAMES, gathered, next_attempt, parts_of
from tauslab.analysis.dbn.results.network import DynamicNetwork
from tauslab.analysis.dbn.task import DbnTask
from tauslab.base.arrays import BoolArray, FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.files.opening import reading
from tauslab.base.option_names import opt, replacing
from tauslab.decomposition.blocks import Blocks, storage_block_size
from tauslab.decomposition.ranks.job import agreed_seed
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.kernels.ode.engine import Ode
from tauslab.model.expressions.host_math import value_of
from tauslab.options.dbn import PILOT, DbnOptions
from tauslab.options.values.texts import drawn
from tauslab.store.checking.opening import known_attributes, open_hdf5
from tauslab.store.hdf5.disk import Disk
from tauslab.store.targets import remove_parts, require_place

_DIGITS = 3  # of the width of a range, to which ranges from samples are rounded


def with_seed(seed: int | None, resumed: Path | None, comm: Communicator) -> int:
    """The seed given, that of the file to resume, or one drawn. Collective."""
    return agreed_seed(seed, lambda: None if resumed is None else _stored_seed(resumed), comm)


def _stored_seed(path: Path) -> int | None:
    for one in (path, *parts_of(path)):
        if one.exists():
            with reading(one, ConfigError), open_hdf5(one, ConfigError) as file:
                seed = known_attributes(one, file, ConfigError).get("seed")
            return None if seed is None else int(seed)
    return None


@dataclass(frozen=True)
class CountingPlan:
    """Rank 0's decisions for all: intervals, blocks, and which blocks were counted before."""

    edges: list[FloatArray]
    block: int
    counted: BoolArray
    nominal: FloatArray

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.counted)


def counted_before(task: DbnTask) -> tuple[DynamicNetwork, BoolArray] | None:
    """Earlier counts, to resume; refuses a file that may not be overwritten."""
    options, path = task.options, task.options.output
    if path is None:
        return None
    require_place(path)
    if options.resume:
        result = gathered(path)
        if result is not None:
            _require_equal_settings(task, result[0], path)
        return result
    if path.exists() and not options.overwrite:
        raise ConfigError(
            f"{path} exists: give {replacing(path)}, {opt('resume')} or another {opt('output')}"
        )
    if (parts := parts_of(path)) and not options.overwrite:
        raise ConfigError(
            f"{parts[0].parent} holds what a build of {path} had counted when it was killed: give "
            f"{opt('resume')}, {opt('overwrite')} or another {opt('output')}"
        )
    return None


def begin_attempt(options: DbnOptions) -> int:
    """The number of this attempt. One that begins anew removes what it overwrites."""
    path = options.output
    if path is not None and not options.resume:
        path.unlink(missing_ok=True)
        remove_parts(path, Disk(), PART_NAMES)
    return next_attempt(path)


def _require_equal_settings(task: DbnTask, found: DynamicNetwork, path: Path) -> None:
    for name, value in task.settings.items():
        held = found.attributes.get(name)
        if name == "sample" and held is not None:
            held = "; ".join(drawn(held))
        if held != value:
            raise ConfigError(
                f"{path} cannot be resumed: it was made with {name} = {held!r}, not {value!r}"
            )
    if not np.array_equal(found.times, task.options.times):
        raise ConfigError(f"{path} cannot be resumed: it has other time points")


def plan_of(
    task: DbnTask, engine: Ode, before: tuple[DynamicNetwork, BoolArray] | None, ranks: int
) -> CountingPlan:
    """Intervals and blocks of a build, taken from what was counted `before` if there is any."""
    if before is not None:
        network, counted = before
        edges = [network.edges[name] for name in task.structure.names]
        nominal = network.nominal
        assert nominal is not None
        return CountingPlan(edges, int(network.attributes["block"]), counted, nominal)
    size = storage_block_size(task.options.samples, 1, fine=True, ranks=ranks)
    block = task.options.block or min(size, PILOT)
    block = min(block, lane_capacity(task, engine.backend, 8))
    counted = np.zeros(Blocks(task.options.samples, block).count, bool)
    edges = _edges(task, engine)
    return CountingPlan(edges, block, counted, nominal_values(task, engine.backend))


def _edges(task: DbnTask, engine: Ode) -> list[FloatArray]:
    """Intervals of all nodes; a pilot of the first trajectories gives the ranges."""
    names, options = task.structure.names, task.options
    pilot = pilot_samples(task, engine, PILOT, extremes=options.spacing == "equal")
    # The range of an unknown initial amount is not that of the variable over time.
    initial = set(options.unknown) - set(task.structure.parameters)
    pilots = zip(names, pilot, strict=True)
    return [edges_of(name, options, own, ranged=name not in initial) for name, own in pilots]


def edges_of(
    name: str, options: DbnOptions, pilot: FloatArray, *, ranged: bool = True
) -> FloatArray:
    """Edges of the intervals of a node ``[bins + 1]``.

    Given edges; else a given range or that of the pilot's samples, rounded outwards to three digits
    of its width, so that it does not hang on the last bit of a sample; cut evenly, or at quantiles
    of the samples. A node whose samples are all equal has one interval.

    Parameters
    ----------
    pilot
        Samples of the node, any shape; only finite ones count. Of an even cut the
        outermost are enough.
    ranged
        Whether a given range is that of the node: not where it is that of an initial amount.

    Raises
    ------
    ConfigError
        No sample is finite, and neither edges nor an evenly cut range are given.
    """
    if name in options.edges:
        return np.asarray(options.edges[name], np.float64)
    count = options.own_intervals.get(name, options.intervals)
    given = options.ranges.get(name) if ranged else None
    if options.spacing == "equal" and given is not None:
        return _even(*given, count)
    samples = pilot[np.isfinite(pilot)].astype(np.float64)
    if not len(samples):
        raise ConfigError(
            f"{name} is not a finite number at any time of the first {PILOT} trajectories: take "
            f"more {opt('substeps')} or steps that adapt, or give it a {opt('ranges')}"
        )
    low, high = given or rounded_range(samples.min(), samples.max())
    if low == high:
        return np.array([low, high])
    if options.spacing == "equal":
        return _even(low, high, count)
    inside = samples[(samples >= low) & (samples <= high)]
    cuts = np.quantile(inside, np.arange(1, count) / count) if len(inside) else np.zeros(0)
    # Equal quantiles make fewer intervals.
    return np.unique(np.concatenate([[low], cuts[(cuts > low) & (cuts < high)], [high]]))


def rounded_range(low: float, high: float) -> tuple[float, float]:
    """A range around another, its ends rounded to three digits of its width.

    >>> rounded_range(0.01234567, 9.8765432)
    (0.01, 9.88)
    >>> rounded_range(2.5, 2.5)
    (2.5, 2.5)
    """
    width = float(high) - float(low)
    size = max(abs(float(low)), abs(float(high)))
    if width <= 1e-9 * size:  # constant, but for rounding
        return float(low), float(low)
    digits = _DIGITS - 1 - math.floor(value_of("log10", width))
    unit = value_of("pow", 10.0, abs(digits))
    if digits >= 0:
        return math.floor(low * unit) / unit, math.ceil(high * unit) / unit
    return math.floor(low / unit) * unit, math.ceil(high / unit) * unit


def _even(low: float, high: float, count: int) -> FloatArray:
    edges: FloatArray = np.linspace(low, high, count + 1)
    return edges
