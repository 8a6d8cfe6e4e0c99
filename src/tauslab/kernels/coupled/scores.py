"""Exact trajectories with derivatives of the logarithms of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from tauslab.base.arrays import DeviceArray, FloatArray, Int32Array
from tauslab.kernels.backends.base import Backend, KernelSource, Stream
from tauslab.kernels.coupled.codegen import Slopes, score_header
from tauslab.kernels.coupled.common import require_unrolled
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, SampleBuffers
from tauslab.kernels.network.lowering import LoweredNetwork


@dataclass(frozen=True)
class ScoreInputs:
    """Counts int32 ``[1, species]`` at the start, and constants f64 ``[1, constants]``."""

    initial: Int32Array
    constants: FloatArray


class ScorePaths(NetworkEngine):
    """The direct method with scores on one backend for one network.

    Parameters
    ----------
    network
        Whose observables are the outputs.
    slopes
        Derivatives of propensities and of outputs.

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
        slopes: Slopes,
        inputs: ScoreInputs,
    ) -> None:
        require_unrolled(network, "trajectories with scores")
        header = score_header(network, slopes, backend.style)
        source = KernelSource("coupled/score_paths.cc", ("score_paths",), {"model.h": header})
        super().__init__(backend, times, source)
        self._initial = backend.upload(np.ascontiguousarray(inputs.initial))
        self._constants = backend.upload(np.ascontiguousarray(inputs.constants))

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
