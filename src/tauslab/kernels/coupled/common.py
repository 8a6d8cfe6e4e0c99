"""The exact engine whose reactions have draws of their own: common reaction paths."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tauslab.base.arrays import DeviceArray
from tauslab.base.errors import ConfigError
from tauslab.kernels.backends.base import Backend, KernelSource, Stream
from tauslab.kernels.coupled.codegen import common_header
from tauslab.kernels.ensemble.engine import NetworkEngine
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.exact.selectors import LARGEST_UNROLLED
from tauslab.kernels.network.lowering import LoweredNetwork

_FILE = "coupled/common_paths.cc"
_ENTRIES = ("common_paths", "side_differences")


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
        super().__init__(backend, times, KernelSource(_FILE, _ENTRIES, {"model.h": header}))
        self._one = int(one_trajectory)

    def _own_arguments(self, launch: Launch, buffers: SampleBuffers) -> dict[str, Any]:
        del launch, buffers
        return {"one_trajectory": self._one}

    def subtract(
        self, sides: DeviceArray, points: int, each: int, pairs: DeviceArray, stream: Stream
    ) -> None:
        """Differences of pairs of points.

        Parameters
        ----------
        sides
            f64 ``[2 * points * each, time, output]``: of each point `each` first sides, then as
            many second ones.
        pairs
            f64 ``[points * each, time, 4 * output]``: differences, first and second sides, squared
            differences.
        """
        n_times, n_outputs = (int(size) for size in sides.shape[1:])
        arguments = self.program.arguments(
            "side_differences", sides=sides, points=points, per_point=each, n_times=n_times,
            n_outputs=n_outputs, pairs=pairs,
        )  # fmt: skip
        items = points * each * n_times * n_outputs
        self.program.launch("side_differences", items, arguments, stream)


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
