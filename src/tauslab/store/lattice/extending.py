"""Files made of finished lattice results: of a longer run, and of all replicas of an array."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.errors import ConfigError
from tauslab.base.files.text import plain
from tauslab.base.option_names import opt
from tauslab.kernels.lattice.state import WAITING, LatticeState
from tauslab.options.lattice import LatticeTask
from tauslab.store.checking.lattice import CheckedLattice
from tauslab.store.checking.opening import open_hdf5
from tauslab.store.format.versions import other_bits, writers_of
from tauslab.store.lattice.layout import MAY_DIFFER, bits_engine, lattice_attributes, place_of
from tauslab.store.lattice.parts import STATE, HookState, Piece
from tauslab.store.lattice.writer import LatticeWriter


def begin_longer_run(path: Path, task: LatticeTask, seed: int, finished: Path) -> str:
    """Create the file of `task` with all that the `finished` result has, for a run to resume.

    Returns
    -------
    Why that cannot be; then nothing was written. Else an empty text.

    Raises
    ------
    ConfigError
        The result is of another job, or does not end before this one.
    """
    with open_hdf5(finished) as file:
        first = CheckedLattice(finished, file)
        _require_same(first, task, seed, finished)
        if first.complete and not any(name.startswith(f"{STATE}/") for name in first):
            return f"has no state to continue from ({opt('keep_state')})"
        if other_bits(first.attributes, bits_engine(task)):
            return "is of another version of tauslab, with other bits"
        first.require_samples()
        with closing(LatticeWriter(path, task, seed, threads=1)) as writer:
            writer.create(writers_of(first), lambda: _copy(first, task, writer))
    return ""


def join_replicas(
    path: Path, task: LatticeTask, seed: int, sources: Sequence[CheckedLattice]
) -> None:
    """Create the finished file of `task` from results that have its replicas, in this order."""
    with closing(LatticeWriter(path, task, seed, threads=1)) as writer:
        versions = [name for source in sources for name in writers_of(source)]
        writer.create(versions, lambda: _copy_replicas(sources, task, writer))
        writer.finish([row for source in sources for row in _profile(source)])


def _copy_replicas(
    sources: Sequence[CheckedLattice], task: LatticeTask, writer: LatticeWriter
) -> None:
    held = [(source, at) for source in sources for at in range(source.attributes["replicas"])]
    for run in range(task.runs):
        point, replica = task.place(run)
        source, at = held[replica]
        several = source.attributes["replicas"] > 1
        place = (*(() if task.sweep is None else (point,)), *((at,) if several else ()))
        _copy_run(source, place, task, run, writer)


def _profile(source: CheckedLattice) -> list[dict[str, Any]]:
    """Rows of ``/profile``, one for each rank."""
    names = [name for name in source if name.startswith("profile/") and name != "profile/rank"]
    columns = {name.partition("/")[2]: source[name][()] for name in names}
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, map(plain, row), strict=True)) for row in rows]


def _copy(first: CheckedLattice, task: LatticeTask, writer: LatticeWriter) -> None:
    """Write the samples, frames and last states of a finished result."""
    for run in range(task.runs):
        _copy_run(first, place_of(task, run), task, run, writer)
    for name in first:
        if name.startswith(f"{STATE}/"):
            writer.write_state(Path(name).name, np.asarray(first[name][()]).tobytes())


def _require_same(first: CheckedLattice, task: LatticeTask, seed: int, path: Path) -> None:
    if not first.complete:
        raise ConfigError(f"{opt('extend')}: {path} is unfinished; {opt('resume')} completes it")
    steps = int(first.attributes["steps"])
    if task.steps <= steps:
        raise ConfigError(
            f"{opt('extend')} needs {opt('t_end')} above {steps * task.lattice.step:g} s, where "
            f"{path} ends"
        )
    for name, wanted in lattice_attributes(task, seed).items():
        if (
            name not in MAY_DIFFER | {"steps", "keep_state"}
            and first.attributes.get(name) != wanted
        ):
            raise ConfigError(
                f"{opt('extend')}: {path} has {name} = {first.attributes.get(name)}, not {wanted}: "
                "give the same model, options and hooks"
            )


def _copy_run(
    source: CheckedLattice,
    place: tuple[int, ...],
    task: LatticeTask,
    run: int,
    writer: LatticeWriter,
) -> None:
    """Write the samples and frames of the run at a place of the axes of `source`."""
    rows = {one.name: np.asarray(source[one.name][place]) for one in source.sampled}
    writer.write_rows(run, 0, rows)
    if task.options.frame_every:
        _put_frames(source, place, task, run, writer)


def _put_frames(
    first: CheckedLattice,
    place: tuple[int, ...],
    task: LatticeTask,
    run: int,
    writer: LatticeWriter,
) -> None:
    """Write the frames of a run as pictures: what waits is not in them."""
    lattice = task.lattice
    planes, reactions = lattice.shape[0], len(lattice.reactions)
    none = np.zeros(reactions, np.int64)
    rates = np.zeros((reactions, len(lattice.site_types)))
    particles, sites = first["lattice/particles"], first["lattice/sites"]
    for number in range(particles.shape[len(place)]):
        own = sites[(*place, number if sites.shape[len(place)] > 1 else 0)]
        changed = bool((own != lattice.sites(0, planes)).any())
        state = LatticeState(
            np.asarray(particles[(*place, number)]), np.zeros(0, WAITING),
            number * task.options.frame_every * task.passes_of(run), none, 0,
        )  # fmt: skip
        hooks = HookState(rates, none, sites=own if changed else None)
        piece = Piece(run, number, 0, planes, state, hooks, picture=True)
        writer.make_room()
        writer.write_piece(lambda piece=piece: piece)  # type: ignore[misc]
