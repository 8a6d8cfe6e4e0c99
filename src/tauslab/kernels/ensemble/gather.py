"""Rows of device memory in another order, for particles that are copied; how launches ended."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.base.arrays import DeviceArray
from tauslab.kernels.backends.base import Backend, KernelSource, Stream

_ENTRY = "gather_rows"
_LARGEST, _EACH = "largest_status", 64  # rows for which csrc/particles/status.cc has a number


class Gather:
    """Copies rows of 32-bit words, or of 64-bit ones as two."""

    def __init__(self, backend: Backend) -> None:
        self._program = backend.compile(KernelSource("ensemble/gather.cc", (_ENTRY,)))

    def start(
        self,
        source: DeviceArray,
        ancestors: DeviceArray | None,
        target: DeviceArray,
        stream: Stream,
    ) -> None:
        """Make row i of `target` row ``ancestors[i]`` of `source`, in stream order.

        Parameters
        ----------
        source, target
            Buffers ``[row, column]`` of one type with 4 or 8 bytes.
        ancestors
            int64 ``[row of target]`` on the device; None for row 0 each.
        """
        rows, columns = (int(size) for size in target.shape)
        words = columns * (target.dtype.itemsize // 4)
        if rows and words:
            arguments = self._program.arguments(
                _ENTRY, source=source, ancestors=ancestors, rows=rows, words=words, to=target
            )
            self._program.launch(_ENTRY, rows * words, arguments, stream)


class Ends:
    """Reports in few numbers whether any trajectory of a launch ended early."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._program = backend.compile(KernelSource("particles/status.cc", (_LARGEST,)))

    def start(self, status: DeviceArray, stream: Stream) -> Any:
        """The largest of u8 ``[row]`` in each of some pieces, on the device, in stream order."""
        rows = int(status.shape[0])
        pieces = -(-rows // _EACH)
        result = self._backend.empty((pieces,), np.uint8)
        given = self._program.arguments(_LARGEST, rows=rows, status=status, largest=result)
        self._program.launch(_LARGEST, pieces, given, stream)
        return result
