"""Changes of particles between two steps, of a lattice in bit planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tauslab.base.arrays import Array, BoolArray, DeviceArray, IntArray
from tauslab.kernels.backends.base import Backend, KernelSource, Program, Stream
from tauslab.kernels.lattice.changing import Changing
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.planes import WORD, planes_header, words_of

_ENTRIES = ("planes_become", "planes_list", "planes_edit")


def changes_program(backend: Backend, lattice: LoweredLattice) -> Program:
    """Return the kernels that change a lattice in bit planes."""
    header = {"model.h": planes_header(lattice)}
    return backend.compile(KernelSource("lattice/planes/change.cc", _ENTRIES, header))


class PlanesChanging(Changing):
    """Changes counts of a slab, which lie as csrc/lattice/planes/planes.h says.

    Particles of a site have slots in the order of species: with draws for these, the same are taken
    out as of a lattice in slots that are filled so.

    Parameters
    ----------
    arguments
        Gives `PlaneArguments` of csrc/lattice/planes/planes.h, by name.
    """

    def __init__(
        self,
        backend: Backend,
        lattice: LoweredLattice,
        stream: Stream,
        arguments: Callable[[], dict[str, Any]],
    ) -> None:
        super().__init__(backend, changes_program(backend, lattice), len(lattice.species), stream)
        self._arguments, self._nx = arguments, lattice.shape[2]
        self._row = words_of(lattice) // lattice.shape[1]

    def _become(self, content: DeviceArray, where: DeviceArray | None, **values: Any) -> None:
        self._launch("planes_become", self._words(), where=where, **self._of(content), **values)

    def _list(self, content: DeviceArray, *, each: int, first: int, **values: Any) -> None:
        del each, first  # of one slab
        self._launch("planes_list", self._words(), **self._of(content), **values)

    def take(self, content: DeviceArray, chosen: Array) -> None:
        """Take out candidates that were listed since the last change."""
        order = np.argsort(chosen["site"], kind="stable")
        sites = chosen["site"][order].astype(np.int64)
        self._edit(content, sites, chosen["particle"][order], adds=False)

    def put(self, content: DeviceArray, places: IntArray, particles: IntArray) -> BoolArray:
        """As of `Changing`."""
        return ~self._edit(content, places, particles, adds=True)

    def _edit(
        self, content: DeviceArray, sites: IntArray, particles: Array, *, adds: bool
    ) -> BoolArray:
        """Put particles in at own sites, which ascend, or take them out: which it was done for."""
        if not len(sites):
            return np.zeros(0, bool)
        rows, x = np.divmod(sites, self._nx)
        words, begins = np.unique(rows * self._row + x // WORD, return_index=True)
        done = self._backend.empty((len(sites),), np.uint8)

        def upload(numbers: Array) -> DeviceArray:
            return self._backend.upload(numbers, self._stream)

        self._launch(
            "planes_edit", len(words), **self._of(content), words=upload(words.astype(np.uint32)),
            begins=upload(np.append(begins, len(sites)).astype(np.int64)),
            places=upload((x % WORD).astype(np.uint8)),
            particles=upload(particles.astype(np.uint8)), count=len(words), adds=adds, done=done,
        )  # fmt: skip
        return self._host(done).astype(bool)

    def _of(self, content: DeviceArray) -> dict[str, Any]:
        return {"lattice": self._arguments() | {"stayed": content}}

    def _words(self) -> int:
        return int(self._arguments()["words"])
