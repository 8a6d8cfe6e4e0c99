"""The exact engine whose reactions have draws of their own: common reaction paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.base import Backend, KernelSource
from tauslab.kernels.coupled.codegen import common_header
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.exact.selectors import LARGEST_UNROLLED
from tauslab.kernels.network.lowering import LoweredNetwork


class CommonPaths(NetworkEngine):
    """Anderson's modified next reaction method on one backend for one network.

    Trajectories of the same number have the same draws at every point of a sweep.

    Parameters
    ----------
    one_trajectory
        Rows of the run are one trajectory with different inputs, not one after the other.

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
        *,
        one_trajectory: bool = False,
    ) -> None:
        require_unrolled(network, "common random numbers")
        header = common_header(network, backend.style)
        source = KernelSource("coupled/common_paths.cc", ("common_paths",), {"model.h": header})
        super().__init__(backend, times, source)
        self._one = int(one_trajectory)

    def _own_arguments(self, launch: Launch, buffers: SampleBuffers) -> dict[str, Any]:
        del launch, buffers
        return {"one_trajectory": self._one}


def require_unrolled(network: LoweredNetwork, what: str) -> None:
    """Refuse networks whose unrolled code would take minutes to compile.

    Raises
    ------
    ConfigError
        There are too many reactions, or none.
    """
    if not 0 < len(network.reactions) <= LARGEST_UNROLLED:
        raise ConfigError(
            f"{what} are for networks of 1 to {LARGEST_UNROLLED} reactions, not "
            f"{len(network.reactions)}"
        )
