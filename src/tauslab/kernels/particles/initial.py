"""Initial counts that an ensemble draws, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.kernels.backends.base import Backend, KernelSource, Stream

_ENTRY = "draw_initial"


class DrawInitial:
    """Draws counts of particles with the bits of `tauslab.analysis.particles.weights`."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._program = backend.compile(KernelSource("particles/initial.cc", (_ENTRY,)))

    def start(  # noqa: PLR0913 - keywords
        self, counts: Any, column: int, probabilities: FloatArray, stream: Stream, *, first: int,
        size: int, group: int, seed: int, purpose: int, number: int,
    ) -> None:  # fmt: skip
        """Fill a column of counts, and wait.

        Parameters
        ----------
        counts
            int32 ``[particle, species]`` on the device; its first particle has the number `first`.
        probabilities
            ``[count]`` on the host.
        size, group
            Particles of a group, and the number of the group of particle 0.
        seed, purpose, number
            Of the random words; `number` is that of the species.
        """
        rows = int(counts.shape[0])
        if not rows:
            return
        given = self._program.arguments(
            _ENTRY, rows=rows, first=first, size=size, group=group, seed=seed, purpose=purpose,
            number=number, ladder=self._backend.upload(np.add.accumulate(probabilities)),
            length=len(probabilities), last=int(np.flatnonzero(probabilities)[-1]), counts=counts,
            stride=int(counts.shape[1]), column=column,
        )  # fmt: skip
        self._program.launch(_ENTRY, rows, given, stream)
        stream.record().wait()
