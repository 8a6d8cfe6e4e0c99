"""A finished result that goes on to a later time, as one longer run would have given it.

From where its trajectories stood at the end, where it recorded that, a run of its own samples the
new times, in a file beside the result, and is resumed as any other. In the end both are joined
along time. Other results are simulated again from t = 0, with the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tauslab._version import BITS_VERSION
from tauslab.base.arrays import Array, FloatArray
from tauslab.base.errors import ConfigError, StoppedEarly
from tauslab.base.option_names import opt, warn
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.together import agree
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.record import STATE
from tauslab.runner.ensemble.from_file import result_to_extend
from tauslab.runner.ensemble.run import layout_of, opened, run_portion
from tauslab.runner.ensemble.task import Task
from tauslab.store.format.layout import Accumulators, Layout
from tauslab.store.format.schema import root_attributes
from tauslab.store.format.statistics import stored_accumulators
from tauslab.store.format.versions import BITS
from tauslab.store.hdf5.disk import Disk
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.store.targets import remove_parts
from tauslab.store.writers.join import ResultPiece, join_files, join_memory


def extended(
    network: Network, options: Options, comm: Communicator, stop: Callable[[], bool]
) -> Result:
    """Run ``--extend`` on all ranks; as `entry.run_network`. Collective."""
    with result_to_extend(options.extend) as first:
        if options.output is not None and first.path is not None:
            same = first.path.resolve() == options.output.resolve()
            if same:
                raise ConfigError(
                    f"{opt('extend')}: {first.path} stays; give another {opt('output')}"
                )
        whole = replace(options, extend=None)
        if reason := _why_not_continued(first):
            if comm.rank == 0:
                warn(f"{first.name} {reason}: all of it is simulated again, from t = 0")
            with opened(network, whole, comm) as setup:
                agree(comm, lambda: _require_same(first, setup.task))
                return run_portion(setup, setup.task, comm, stop)
        return _continued(network, whole, first, comm, stop)


def _why_not_continued(first: Result) -> str:
    """Return the reason for which a result cannot be continued from its end; empty if it can."""
    if not first.states:
        return f"has no states to continue from ({opt('record', STATE)})"
    if first.summaries:
        return "has summaries of whole trajectories"
    if first.attributes.get(BITS) != BITS_VERSION:
        return "is of another version of tauslab, with other bits"
    return ""


def _require_same(first: Result, task: Task) -> None:
    """Refuse another model, or other values than those of the result."""
    if first.attributes["model_sha256"] != task.sha256:
        raise ConfigError(
            f"{opt('extend')}: {first.name} is of another model, or of other values: give the same "
            f"model, {opt('set')} and {opt('initial')}"
        )


def _continued(
    network: Network, whole: Options, first: Result, comm: Communicator, stop: Callable[[], bool]
) -> Result:
    path, at = whole.output, len(first.times)
    beside = None if path is None else path.with_name(f"{path.name}.extend")
    later = replace(
        whole, times=whole.times[at:], output=beside, overwrite=False, resume=beside is not None
    )
    with opened(network, later, comm) as setup:
        agree(comm, lambda: _require_same(first, setup.task))
        task = replace(setup.task, begun=_states(first, setup.task))
        layout = replace(layout_of(task, comm), times=whole.times)
        try:
            second = run_portion(setup, task, comm, stop)
        except StoppedEarly as stopped:
            raise StoppedEarly(
                f"{stopped.done} of the new part", f"the same command completes {path}"
            ) from None
    with second:
        data = _InTime(first, second, layout)
        totals = _in_time(first, second, layout)
        run = str(second.attributes["run"])
        piece = ResultPiece(data, layout.total)
        if path is None:
            attributes = root_attributes(layout, "memory", run)
            arrays = join_memory(layout, [piece], totals)
            return Result(arrays, attributes, layout=layout, saves=comm.rank == 0)
        target = path
        on_root(
            comm,
            lambda: join_files(
                target, layout, [piece], totals, run, Disk(), whole.compress, whole=True
            ),
        )
    assert beside is not None
    on_root(comm, lambda: _remove(beside))
    return agree(comm, lambda: open_result(target))


def _remove(beside: Any) -> None:
    remove_parts(beside, Disk())
    beside.unlink(missing_ok=True)


def _states(first: Result, task: Task) -> FloatArray:
    """State of each trajectory, f64 ``[trajectory, state]``."""
    columns = [np.asarray(first.data[f"summary/{name}"][()]).ravel() for name in task.states]
    return np.stack(columns, axis=1)


def _in_time(first: Result, second: Result, layout: Layout) -> Accumulators:
    """The sums of both, one after the other in time."""
    parts = [
        stored_accumulators(replace(layout, times=one.times), one.data) for one in (first, second)
    ]
    axis = len(layout.sum_lead)
    return {name: np.concatenate([part[name] for part in parts], axis) for name in parts[0]}


@dataclass(frozen=True)
class _Joined:
    """Two arrays, one after the other along an axis, of which slices are read."""

    first: Any
    second: Any
    axis: int

    def __getitem__(self, index: Any) -> Array:
        parts = [np.asarray(one[index]) for one in (self.first, self.second)]
        return np.concatenate(parts, self.axis)


class _InTime(Mapping[str, Any]):
    """Datasets of a result and of the one that goes on from it: what has times, of both."""

    def __init__(self, first: Result, second: Result, layout: Layout) -> None:
        self._first, self._second = first.data, second.data
        self._axis = len(layout.lead) + 1
        self._timed = {one.name for one in layout.row_arrays() if "time" in one.axes}

    def __getitem__(self, name: str) -> Any:
        if name not in self._timed:
            return self._second[name]
        return _Joined(self._first[name], self._second[name], self._axis)

    def __iter__(self) -> Iterator[str]:
        return iter(self._second)

    def __len__(self) -> int:
        return len(self._second)
