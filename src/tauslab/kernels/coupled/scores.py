"""Exact trajectories with derivatives of the logarithms of their probabilities."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray, Int32Array
from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream
from tauslab.kernels.coupled.codegen import Slopes, score_header
from tauslab.kernels.coupled.common import require_unrolled
from tauslab.kernels.ensemble.launch import MAX_STEPS, Launch, Launcher, SampleBuffers
from tauslab.kernels.network.lowering import LoweredNetwork


@dataclass(frozen=True)
class ScoreInputs:
    """Counts int32 ``[1, species]`` at the start, and constants f64 ``[1, constants]``."""

    initial: Int32Array
    constants: FloatArray


class ScorePaths:
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
        self.backend = backend
        self._launcher = Launcher(backend, times)
        self._initial = backend.upload(np.ascontiguousarray(inputs.initial))
        self._constants = backend.upload(np.ascontiguousarray(inputs.constants))
        header = score_header(network, slopes, backend.style)
        source = KernelSource("coupled/score_paths.cc", ("score_paths",), {"model.h": header})
        self.program: Program = backend.compile(source)

    def start(
        self, first: int, each: int, outputs: Any, buffers: SampleBuffers, stream: Stream, *,
        centres: Any, seed: int, max_steps: int = MAX_STEPS,
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
        launch = Launch(0, each, self._initial, self._constants, before=first)
        filled = replace(buffers, observables=outputs)
        values = self._launcher.begin(launch, filled, stream, seed=seed, max_steps=max_steps)
        arguments = self.program.arguments("score_paths", launch=values, centres=centres)
        items = self.backend.work_stealing_items(each, self.program.resident("score_paths"))
        self.program.launch("score_paths", items, arguments, stream)
