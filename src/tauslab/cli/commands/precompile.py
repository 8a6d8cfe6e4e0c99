"""``tauslab precompile``: what a run will need goes into the kernel cache."""

from __future__ import annotations

import argparse
from pathlib import Path

from tauslab.base.errors import ConfigError, TauslabError
from tauslab.cli.commands.lattice import lattice_job
from tauslab.cli.commands.run import network_job
from tauslab.cli.tools import warnings_on_stderr
from tauslab.decomposition.ranks.all_ranks import ranks
from tauslab.formats import read as readers
from tauslab.kernels.backends.cache import cache_directory
from tauslab.model.lattice.lattice import Lattice
from tauslab.runner.precompile import precompile_lattice, precompile_network

VERBS = ("run", "rdme")


def full_command(words: list[str]) -> list[str]:
    """The command of which kernels are wanted: ``run`` or ``rdme``, by the model if it is left out.

    Raises
    ------
    ConfigError
        There is no model.
    """
    if words[:1] and words[0] in VERBS:
        return words
    if not words or words[0].startswith("-"):
        raise ConfigError("precompile: give a model, then the options of the run")
    return ["rdme" if _is_lattice(Path(words[0])) else "run", *words]


def _is_lattice(path: Path) -> bool:
    try:
        return isinstance(readers.read(path), Lattice)
    except TauslabError:  # `run` says what is wrong
        return False


def process_precompile(verb: str, given: argparse.Namespace, arch: int | None, many: int) -> None:
    """Compile for the device of a parsed command, or an architecture; say what was compiled."""
    comm = ranks()
    if comm.size > 1:
        raise ConfigError(f"precompile works on one rank: give --ranks {comm.size} instead")
    given.quiet = True
    with warnings_on_stderr():
        if verb == "rdme":
            made = precompile_lattice(*lattice_job(given), comm, arch=arch, ranks=many)
        else:
            made = precompile_network(*network_job(given), comm, arch=arch, ranks=many)
    files = f"{made.files} kernel file{'' if made.files == 1 else 's'}"
    print(f"{made.device}: {files} compiled in {made.seconds:.1f} s, kept in {cache_directory()}")
