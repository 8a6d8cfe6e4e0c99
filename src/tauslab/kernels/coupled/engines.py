"""Engines of exact trajectories with coupled random numbers, in pairs, or with scores.

All unroll reactions: a network of none, or of more than 128, is a `ConfigError`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tauslab.base.arrays import DeviceArray, FloatArray, Int32Array, UintArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.base import Backend, KernelSource, Stream
from tauslab.kernels.coupled.codegen import Slopes, common_header, coupled_header, score_header
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, SampleBuffers
from tauslab.kernels.exact.selectors import LARGEST_UNROLLED
from tauslab.kernels.network.lowering import LoweredNetwork

PAIR_COLUMNS = 4  # of each output: csrc/coupled/paths.h


def common_paths(
    backend: Backend, network: LoweredNetwork, times: Sequence[float], *, one_trajectory: bool
) -> NetworkEngine:
    """Anderson's modified next reaction method: reactions have draws of their own.

    Trajectories of the same number have the same draws at every point of a sweep.

    Parameters
    ----------
    one_trajectory
        Rows of the run are one trajectory with different inputs, not one after the other.
    """
    _require_unrolled(network, "common random numbers")
    source = _source("common_paths", common_header(network, backend.style))
    return NetworkEngine(backend, times, source, one_trajectory=int(one_trajectory))


class CoupledPairs(NetworkEngine):
    """Split coupling (Anderson 2012): outputs of both sides and their difference, for each pair.

    Parameters
    ----------
    initial, constants
        int32 ``[point, side, species]`` and f64 ``[point, side, constant]``.
    numbers
        Number ``[point]`` of each point, which decides its draws.
    """

    def __init__(
        self, backend: Backend, network: LoweredNetwork, times: Sequence[float],
        initial: Int32Array, constants: FloatArray, numbers: UintArray,
    ) -> None:  # fmt: skip
        _require_unrolled(network, "coupled trajectories")
        super().__init__(
            backend, times, _source("coupled_pairs", coupled_header(network, backend.style))
        )
        self._points = len(numbers)
        # Both sides of a point in one row.
        self._initial, self._constants = (
            backend.upload(np.ascontiguousarray(inputs.reshape(len(inputs), -1)))
            for inputs in (initial, constants)
        )
        self._numbers = backend.upload(numbers.astype(np.uint32))

    def rows(self, each: int) -> int:
        """One row for a pair."""
        return self._points * each

    def run(
        self, first: int, each: int, outputs: DeviceArray, buffers: SampleBuffers,
        stream: Stream, *,
        seed: int, max_steps: int = MAX_STEPS,
    ) -> None:  # fmt: skip
        """Run pairs ``first .. first + each - 1`` of every point, in stream order.

        `outputs` f64 ``[points * each, time, 4 * output]`` takes differences, first and second
        sides, squared differences; `buffers` has status u8 ``[rows]`` and counters.
        """
        rows = self.rows(each)
        launch = Launch(
            0, rows, self._initial, self._constants, each, first, seed=seed, max_steps=max_steps
        )
        self._launch(launch, replace(buffers, reals=outputs), stream, points=self._numbers)


class ScorePaths(NetworkEngine):
    """The direct method with scores: derivatives of the logarithms of a path's probability.

    Parameters
    ----------
    network
        Whose observables are the outputs.
    slopes
        Derivatives of propensities and of outputs.
    initial, constants
        int32 ``[1, species]`` and f64 ``[1, constant]``.
    """

    def __init__(
        self, backend: Backend, network: LoweredNetwork, times: Sequence[float], slopes: Slopes,
        initial: Int32Array, constants: FloatArray,
    ) -> None:  # fmt: skip
        _require_unrolled(network, "trajectories with scores")
        super().__init__(
            backend, times, _source("score_paths", score_header(network, slopes, backend.style))
        )
        self._initial = backend.upload(np.ascontiguousarray(initial))
        self._constants = backend.upload(np.ascontiguousarray(constants))

    def run(
        self, first: int, each: int, outputs: DeviceArray, buffers: SampleBuffers,
        stream: Stream, *,
        centres: DeviceArray, seed: int, max_steps: int = MAX_STEPS,
    ) -> None:  # fmt: skip
        """Run trajectories ``first .. first + each - 1``, in stream order.

        Parameters
        ----------
        outputs
            f64 ``[each, time, (2 * parameter + 1) * output]``: takes products of outputs and
            scores, their squares, then the outputs.
        centres
            f64 ``[time, output]`` on the device: what is subtracted from outputs in the products.
        """
        launch = Launch(
            0, each, self._initial, self._constants, before=first, seed=seed, max_steps=max_steps
        )
        self._launch(launch, replace(buffers, reals=outputs), stream, centres=centres)


def _source(entry: str, header: str) -> KernelSource:
    return KernelSource(f"coupled/{entry}.cc", (entry,), {"model.h": header})


def _require_unrolled(network: LoweredNetwork, what: str) -> None:
    """Refuse networks whose unrolled code would take minutes to compile."""
    if not 0 < len(network.reactions) <= LARGEST_UNROLLED:
        raise ConfigError(
            f"{what} are for networks of 1 to {LARGEST_UNROLLED} reactions, not "
            f"{len(network.reactions)}"
        )
