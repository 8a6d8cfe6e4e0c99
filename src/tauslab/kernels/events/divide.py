"""Divides the states of cells between their daughters, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.base.arrays import DeviceArray
from tauslab.kernels.backends.base import Backend, KernelSource, Stream
from tauslab.kernels.ensemble.launch import SeedKeys

_ENTRY = "divide_cells"

# What becomes of a species: Share of csrc/events/divide.cc.
SHARES = {"binomial": 0, "even": 1, "copy": 2, "first": 3, "share": 4}


class Divide:
    """Lets rows that are copies of a mother take the parts of her daughters."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._keys = SeedKeys(backend)
        self._program = backend.compile(KernelSource("events/divide.cc", (_ENTRY,)))

    def start(
        self, kept: DeviceArray, side: Any, mother: Any, part: Any, share: Any, stream: Stream, *,
        seed: int, halt: int,
    ) -> None:  # fmt: skip
        """Divide in stream order.

        Parameters
        ----------
        kept
            f64 ``[row, word]`` on the device, as events/kept.h says.
        side, mother, part
            On the host: u8, i64 and f64 ``[row]``: 0 for a row that stays, 1 or 2 for a daughter;
            number of the division; part of the first daughter.
        share
            u8 ``[species]``: values of `SHARES`.
        halt
            The quantity that halted the mother; it is 0 afterwards.
        """
        rows, words = (int(size) for size in kept.shape)
        if not rows:
            return
        held = [self._backend.upload(np.ascontiguousarray(a)) for a in (side, mother, part, share)]
        arguments = self._program.arguments(
            _ENTRY, keys=self._keys.of(seed, stream), rows=rows, words=words, species=len(share),
            side=held[0], mother=held[1], part=held[2], share=held[3], halt=halt, kept=kept,
        )  # fmt: skip
        self._program.launch(_ENTRY, rows * len(share), arguments, stream)
        stream.record().wait()
