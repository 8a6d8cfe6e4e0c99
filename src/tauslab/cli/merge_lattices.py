"""``tauslab merge`` of lattice results: the replicas of an array's tasks in one file."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.cli.merge import of_unknown, require_all
from tauslab.formats.lattice_hdf5 import read_lattice_file
from tauslab.options.lattice import LatticeOptions, prepare_lattice
from tauslab.store.checking.lattice import CheckedLattice
from tauslab.store.checking.opening import open_hdf5
from tauslab.store.lattice.extending import join_replicas
from tauslab.store.lattice.layout import ALL_REPLICAS, HOOKS, lattice_attributes
from tauslab.store.results.lattice.result import stored_settings

# Attributes that may differ between tasks; a last state is not merged.
_OWN = {
    "replicas", "first_replica", ALL_REPLICAS, "command", "note", "keep_state", "tauslab_version",
}  # fmt: skip


def merge_replicas(
    paths: Sequence[Path], output: Path, compress: int = 0, *, incomplete: bool = False
) -> str:
    """Put the replicas of several results, in the order of their numbers, into one new file.

    The new file has the digest of one run of all these replicas; the files that are read stay. With
    `incomplete` the first or the last replicas of the array may be missing.

    Raises
    ------
    ConfigError
        A level of gzip is given: frames have one.
    InputFileError
        A result is unfinished or damaged, had hooks, or is of another run than the first; replicas
        between those of two files are missing, or are in both.
    """
    if compress:
        raise ConfigError("--compress is for networks: frames of lattices are always compressed")
    with ExitStack() as stack:
        opened = [CheckedLattice(path, stack.enter_context(open_hdf5(path))) for path in paths]
        named = sorted(zip(paths, opened, strict=True), key=lambda one: _begin(one[1]))
        _require_one_run(named)
        path, first = named[0]
        replicas = sum(int(one.attributes["replicas"]) for one in opened)
        number = _all_replicas(named)
        if number:
            require_all(
                _begin(first), _begin(first) + replicas, number, "replica", incomplete=incomplete
            )
        seed = int(first.attributes["seed"])
        stored = stored_settings(path) | {"replicas": replicas, "keep_state": False}
        stored["all_replicas"] = number if replicas < number else 0
        options = LatticeOptions(**{**stored, "command": str(first.attributes["command"])})
        task = prepare_lattice(read_lattice_file(path), replace(options, seed=seed))
        wanted = lattice_attributes(task, seed)
        for name in sorted(wanted.keys() & first.attributes.keys() - _OWN):
            if first.attributes[name] != wanted[name]:
                raise InputFileError(
                    f"{path} has {name} = {first.attributes[name]}, where this version of tauslab "
                    f"has {wanted[name]}: it cannot be merged"
                )
        for _, one in named:
            one.require_samples()
        join_replicas(output, task, seed, [one for _, one in named])
    some = f" of {number}" if replicas < number else ""
    made = f"{output} holds {replicas}{some} replicas from {len(paths)} files"
    return made if number else f"{made}{of_unknown('replicas')}"


def _all_replicas(named: Sequence[tuple[Path, CheckedLattice]]) -> int:
    """Number of replicas of the array that the files belong to; 0 if no file states it."""
    known = [(path, one) for path, one in named if ALL_REPLICAS in one.attributes]
    for path, one in known[1:]:
        of_first, own = (int(each.attributes[ALL_REPLICAS]) for each in (known[0][1], one))
        if own != of_first:
            raise InputFileError(
                f"{path} is of an array of {own} replicas, and {known[0][0]} of one of {of_first}"
            )
    return int(known[0][1].attributes[ALL_REPLICAS]) if known else 0


def _begin(one: CheckedLattice) -> int:
    return int(one.attributes.get("first_replica", 0))


def _require_one_run(named: Sequence[tuple[Path, CheckedLattice]]) -> None:
    (first_path, first), *others = named
    for path, one in named:
        if not one.complete:
            raise InputFileError(f"{path} is unfinished: --resume completes it")
        if one.attributes.get(HOOKS, "none") != "none":
            raise InputFileError(f"{path} was made with hooks: such results are not merged")
    for path, one in others:
        for name in sorted((first.attributes.keys() | one.attributes.keys()) - _OWN):
            if first.attributes.get(name) != one.attributes.get(name):
                raise InputFileError(
                    f"{path} is of another run than {first_path}: their {name} differs"
                )
    for (before, one), (after, other) in zip(named[:-1], others, strict=True):
        end = _begin(one) + int(one.attributes["replicas"])
        if end != _begin(other):
            raise InputFileError(
                f"{before} ends before replica {end} and {after} begins with replica "
                f"{_begin(other)}: give all files of the array once (--incomplete joins replicas "
                "that follow each other)"
            )
