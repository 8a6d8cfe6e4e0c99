"""A model: a network, or a lattice."""

from __future__ import annotations

from abc import ABC
from typing import TYPE_CHECKING, Never, TypeAlias

from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network

if TYPE_CHECKING:
    Model: TypeAlias = Network | Lattice
else:

    class Model(ABC):  # noqa: B024 - networks and lattices are registered, not derived
        """The type of networks and lattices, for annotations and `isinstance`."""

        def __new__(cls, *_given: object, **_options: object) -> Never:
            """Refuse: models are networks or lattices."""
            raise TypeError(
                "ts.Model is the type of all models: ts.Network(name) or "
                "ts.Lattice(name, shape=..., spacing=...) makes one, ts.read(file) reads one"
            )

    Model.register(Network)
    Model.register(Lattice)
