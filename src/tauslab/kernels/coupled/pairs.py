"""Engines of trajectories in pairs: outputs of both sides and their difference, for each pair."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab.base.arrays import DeviceArray, FloatArray, Int32Array, UintArray
from tauslab.kernels.backends.base import Backend, KernelSource, Stream
from tauslab.kernels.coupled.codegen import coupled_header
from tauslab.kernels.coupled.common import require_unrolled
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, SampleBuffers
from tauslab.kernels.network.lowering import LoweredNetwork

PAIR_COLUMNS = 4  # of each output: csrc/coupled/paths.h


class CoupledPairs(NetworkEngine):
    """Split coupling (Anderson 2012) on one backend for one network.

    Raises
    ------
    ConfigError
        The network has more reactions than the kernel is made for.
    """

    def __init__(
        self,
        backend: Backend,
        network: LoweredNetwork,
        times: Sequence[float],
        initial: Int32Array,
        constants: FloatArray,
        numbers: UintArray,
    ) -> None:
        require_unrolled(network, "coupled trajectories")
        header = coupled_header(network, backend.style)
        source = KernelSource("coupled/coupled_pairs.cc", ("coupled_pairs",), {"model.h": header})
        super().__init__(backend, times, source)
        self._points = len(numbers)
        self._initial = backend.upload(_joined(initial))
        self._constants = backend.upload(_joined(constants))
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


def _joined(inputs: Any) -> Any:
    """Both sides of a point in one row."""
    return np.ascontiguousarray(inputs.reshape(len(inputs), -1))
