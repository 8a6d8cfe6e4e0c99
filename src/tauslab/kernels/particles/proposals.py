"""Sums over the normal kernels of a proposal, on the device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, FloatArray
from tauslab.kernels.backends.base import Backend, KernelSource

_ENTRY = "add_proposals"
_IN_BLOCK = 32  # as csrc/particles/blocks.h has it


class Proposals:
    """Densities of proposals of so many parameters; the same bits on every device."""

    def __init__(self, backend: Backend, parameters: int) -> None:
        self._backend = backend
        header = {"model.h": size_header(parameters)}
        self._program = backend.compile(KernelSource("particles/proposals.cc", (_ENTRY,), header))

    def sums(
        self, places: FloatArray, centres: FloatArray, spread: FloatArray, roots: FloatArray,
        logs: FloatArray,
    ) -> Sequence[Array]:  # fmt: skip
        """Add up ``exp(logs - square / 2)`` over the centres, relative to the largest.

        Parameters
        ----------
        places, centres
            ``[place, parameter]``, ``[centre, parameter]``.
        spread
            ``[parameter]``: what differences are divided by, before ``roots``.
        roots
            ``[parameter, parameter, centre]``: lower triangles.
        logs
            ``[centre]``.

        Returns
        -------
        The largest logarithm, and the sum over it, each ``[place]``.
        """
        m, up = len(places), self._backend.upload
        if not m:
            return np.zeros(0), np.zeros(0)
        more = -len(centres) % _IN_BLOCK  # which weigh nothing
        stream = self._backend.stream(waited=True)
        result = [self._backend.empty((m,), np.float64) for _ in range(2)]
        roots = np.pad(roots, ((0, 0), (0, 0), (0, more)), constant_values=1.0)
        given: dict[str, Any] = {
            "places": m, "centres": len(centres), "stride": len(centres) + more,
            "place": up(places), "spread": up(spread), "over_spread": up(1 / spread),
            "centre": up(np.pad(centres, ((0, more), (0, 0))).T),
            "roots": up(roots), "over": up(1 / np.einsum("iij->ij", roots)),
            "logs": up(np.pad(logs, (0, more), constant_values=-np.inf)),
            "largest": result[0], "sums": result[1],
        }  # fmt: skip
        arguments = self._program.arguments(_ENTRY, **given)
        self._program.launch(_ENTRY, m * self._backend.style.warp, arguments, stream)
        mirrors = [self._backend.mirror(buffer) for buffer in result]
        for buffer, mirror in zip(result, mirrors, strict=True):
            self._backend.download(buffer, mirror, m, stream)
        stream.record().wait()
        return [mirror.copy() for mirror in mirrors]


def size_header(parameters: int) -> str:
    """The ``model.h`` of proposals of so many parameters."""
    return f"#pragma once\n\nconstexpr int N_PARAMETERS = {parameters};\n"
