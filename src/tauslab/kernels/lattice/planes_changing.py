"""Changes of particles between two steps, of a lattice in bit planes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tauslab.base.arrays import DeviceArray
from tauslab.kernels.backends.base import Backend, Stream
from tauslab.kernels.lattice.changing import Changing
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.kernels.lattice.planes import planes_header


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
        header = {"model.h": planes_header(lattice)}
        species = len(lattice.species)
        super().__init__(backend, "lattice/planes/change.cc", header, "planes", species, stream)
        self._arguments = arguments

    def _of(self, content: DeviceArray, each: int | None = None, first: int = 0) -> dict[str, Any]:
        del each, first  # of one slab
        return self._arguments() | {"stayed": content}

    def _items(self, content: DeviceArray) -> int:
        del content
        return int(self._arguments()["words"])
