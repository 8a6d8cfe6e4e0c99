"""Read a model where several ranks run: what only one may do is done by one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.formats import read as readers
from tauslab.model.network.network import Network

if TYPE_CHECKING:
    from tauslab.model.lattice.lattice import Lattice


def read_together(comm: Communicator, path: str | Path) -> Network | Lattice:
    """Read a model on every rank; BioNetGen, which a .bngl file needs, runs on rank 0 alone.

    Collective where the file is .bngl.

    Raises
    ------
    ModelError
        As `tauslab.formats.read.read`; on all ranks alike where the file is .bngl.
    """
    path = Path(path)
    if path.suffix.lower() != ".bngl":
        return readers.read(path)
    from tauslab.formats.bionetgen.generate import generate, network_of

    return network_of(on_root(comm, lambda: generate(path)), path)


def read_telling(path: str | Path, tell: Callable[[str], object]) -> Network:
    """Read a well-stirred model, and say what takes a while; for one rank that reads for all.

    Raises
    ------
    ModelError
        As `tauslab.formats.read.read_network`.
    """
    if Path(path).suffix.lower() == ".bngl":
        tell(f"{path}: BioNetGen generates the network")
    return readers.read_network(path)
