"""Captured CUDA graphs that keep the priorities of the streams they were captured from."""

from __future__ import annotations

import ctypes
from typing import Any

# CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY (CUDA 11.7). CuPy instantiates without flags, and
# then all nodes have the priority of the stream of the launch.
_NODE_PRIORITIES = 8


class CudaGraph:
    """An instantiated CUDA graph.

    Parameters
    ----------
    graph
        What `cupy.cuda.Stream.end_capture` gave.
    """

    def __init__(self, graph: Any) -> None:
        self._graph = graph  # it owns the nodes
        self._driver = ctypes.CDLL("libcuda.so.1")
        self._executable = ctypes.c_void_p()
        failed = self._driver.cuGraphInstantiateWithFlags(
            ctypes.byref(self._executable),
            ctypes.c_void_p(int(graph.graph)),
            ctypes.c_ulonglong(_NODE_PRIORITIES),
        )
        if failed:  # an older driver
            self._executable = ctypes.c_void_p()

    def launch(self, stream: Any) -> None:
        """Run it in stream order."""
        if not self._executable:
            self._graph.launch(stream.stream)
            return
        failed = self._driver.cuGraphLaunch(self._executable, ctypes.c_void_p(stream.stream.ptr))
        if failed:
            raise RuntimeError(f"cuGraphLaunch failed with error {failed} of the CUDA driver")

    def __del__(self) -> None:
        if self._executable:
            self._driver.cuGraphExecDestroy(self._executable)
