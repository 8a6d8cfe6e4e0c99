"""The ensemble driver: plan launches, run them on a device, gather the samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.decomposition.blocks import Blocks, launch_blocks, plan_launches, storage_block_size
from tauslab.kernels.backends import BackendOptions, choose_backend, get_backend
from tauslab.kernels.lowering import lower
from tauslab.kernels.ssa import MAX_STEPS, ExactSsa, Launch, SampleBuffers
from tauslab.model.check import check_rates, require_support
from tauslab.model.errors import ConfigError
from tauslab.model.expression import Number
from tauslab.model.network import Network, round_counts

_BUFFER_BYTES = 256 << 20  # sample buffer of a launch


@dataclass(frozen=True)
class Samples:
    """What a run gave: counts int32 ``[trajectory, time, species]``, status u8 ``[trajectory]``."""

    times: npt.NDArray[np.float64]
    species: tuple[str, ...]
    counts: npt.NDArray[np.int32]
    status: npt.NDArray[np.uint8]
    seed: int
    events: int
    selector: str
    device: str


def sample_times(times: Sequence[float]) -> npt.NDArray[np.float64]:
    """Check sample times: finite, not negative, increasing."""
    array = np.asarray(times, np.float64)
    if array.ndim != 1 or array.size < 1 or not np.isfinite(array).all() or array[0] < 0:
        raise ConfigError("sample times must be one or more finite numbers, 0 or above")
    if not (np.diff(array) > 0).all():
        raise ConfigError("sample times must increase")
    return array


def run_ensemble(
    network: Network,
    *,
    n: int,
    times: Sequence[float],
    seed: int,
    device: str = "auto",
    threads: int = 0,
    overrides: Mapping[str, float] | None = None,
    recorded: Sequence[str] | None = None,
    max_steps: int = MAX_STEPS,
) -> Samples:
    """Run `n` exact trajectories of `network` on one device.

    Raises
    ------
    ConfigError, ModelError
        A bad option, or a model that exact SSA cannot honour.
    """
    if n < 1:
        raise ConfigError(f"-n {n} is not allowed: at least 1 trajectory")
    at = sample_times(times)
    require_support(network, "ssa")
    network.parameter_values(overrides)
    network.parameters.update({k: Number(float(v)) for k, v in (overrides or {}).items()})
    for name in recorded or ():
        if name not in network.species:
            raise ConfigError(
                f"--species {name}: not a species of {network.name}; "
                f"it has {', '.join(list(network.species)[:8])}"
            )
    values = network.parameter_values()
    check_rates(network, values)
    start = round_counts(network.initial_amounts(values))
    lowered = lower(network, parameters=values, counts=start, recorded=recorded)
    backend = get_backend(choose_backend(device), BackendOptions(threads=threads))
    engine = ExactSsa(backend, lowered, at.tolist())
    width = len(lowered.recorded)
    row_bytes = 4 * len(at) * max(1, width)
    blocks = Blocks(n, storage_block_size(n, row_bytes))
    per_launch = launch_blocks(
        blocks, engine.resident(), max(1, _BUFFER_BYTES // row_bytes), n_ranks=1
    )
    rows = min(n, per_launch * blocks.size)
    buffers = SampleBuffers(
        backend.empty((rows, len(at), width), np.int32),
        None,
        None,
        backend.empty((rows,), np.uint8),
        backend.empty((1,), np.uint64),
        backend.empty((1,), np.uint64),
        engine.scratch(rows),
    )
    initial = backend.upload(np.array([[start[s] for s in lowered.species]], np.int32))
    constants = backend.upload(np.zeros((1, 1)))
    counts = np.empty((n, len(at), width), np.int32)
    status = np.empty(n, np.uint8)
    events, stream = 0, backend.stream()
    mirrors: dict[str, Any] = {
        name: backend.mirror(getattr(buffers, name)) for name in ("counts", "status", "events")
    }
    for first_block, end_block in plan_launches([False] * blocks.count, per_launch):
        first, end = blocks.trajectories(first_block, end_block)
        launch = Launch(first, end - first, initial, constants)
        engine.start(launch, buffers, stream, seed=seed, max_steps=max_steps)
        for name, mirror in mirrors.items():
            size = 1 if name == "events" else end - first
            backend.download(getattr(buffers, name), mirror, size, stream)
        stream.record().wait()
        counts[first:end] = mirrors["counts"][: end - first]
        status[first:end] = mirrors["status"][: end - first]
        events += int(mirrors["events"][0])
    device_name = backend.describe()
    backend.close()
    names = tuple(lowered.species[i] for i in lowered.recorded)
    return Samples(at, names, counts, status, seed, events, engine.selector, device_name)
