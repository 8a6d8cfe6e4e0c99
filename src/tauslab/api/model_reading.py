"""The model of a call: the one that is given, or the one in a file, read by all ranks or by one."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.formats import read as readers
from tauslab.formats.read import is_hybrid_file
from tauslab.model.network.network import Network

if TYPE_CHECKING:
    from tauslab.analysis.hybrids.hybrid import Hybrid
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
    from tauslab.formats.bionetgen import generate as bionetgen

    return bionetgen.network_of(on_root(comm, lambda: bionetgen.generate(path)), path)


def read_any(comm: Communicator, path: Path) -> Network | Lattice | Hybrid:
    """Read a model as `read_together`, or a hybrid in TOML."""
    if path.suffix.lower() == ".toml" and is_hybrid_file(path):
        from tauslab.analysis.hybrids.reading import read_hybrid  # other models do without

        return read_hybrid(path)
    return read_together(comm, path)


def read_with_progress(path: str | Path, report: Callable[[str], object]) -> Network:
    """Read a well-stirred model, and say what takes a while; for one rank that reads for all.

    Raises
    ------
    ModelError
        As `tauslab.formats.read.read_network`.
    """
    if Path(path).suffix.lower() == ".bngl":
        report(f"{path}: BioNetGen generates the network")
    return readers.read_network(path)


def network_of(model: Network | str | os.PathLike[str], what: str) -> Network:
    """The network that is given, or in the file.

    Raises
    ------
    ConfigError
        It is neither.
    """
    if isinstance(model, Network):
        return model
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"{what} takes a network or its file, not {model!r:.80}")
    return readers.read_network(Path(model))


def model_of(model: Network | Lattice | str | os.PathLike[str], what: str) -> Network | Lattice:
    """The network or lattice that is given, or in the file.

    Raises
    ------
    ConfigError
        It is neither.
    """
    from tauslab.model.lattice.lattice import Lattice  # a run of a network does without

    if isinstance(model, Network | Lattice):
        return model
    if not isinstance(model, str | os.PathLike):
        raise ConfigError(f"{what} takes a network, a lattice or a file, not {model!r:.80}")
    return readers.read(Path(model))
