"""A model: a network, or a lattice."""

from __future__ import annotations

from typing import TypeAlias

from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network

Model: TypeAlias = Network | Lattice
