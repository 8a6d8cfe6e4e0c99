"""Parts of an unfinished lattice run: planes of a state that one rank wrote, as a file of its own.

A part appears whole: it is written under another name, put on disk and renamed. It holds planes
``begin .. end - 1`` of one replica at one step, the particles that wait there, and the sums of the
whole lattice. So any parts of a step that together cover the lattice are what a run can go on from,
however it was cut when they were written. Their chunks lie on the grid of the finished file's
chunks; a chunk that two slabs share is in both parts, each with its own planes.
"""

from __future__ import annotations

import json
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from tauslab.base.arrays import Array
from tauslab.base.errors import InputFileError, reason_of
from tauslab.base.files.direct_chunks import write_chunk
from tauslab.base.files.opening import reading
from tauslab.base.files.seals import FORMAT, SealedFile, seal
from tauslab.base.files.text import put_attributes, put_text
from tauslab.kernels.lattice.state import SINCE_START, WAITING, LatticeState
from tauslab.store.checking.lattice import VerifiedChunks, chunk_grid, chunk_sum
from tauslab.store.checking.opening import open_hdf5
from tauslab.store.hdf5.buffers import Hdf5OnDisk
from tauslab.store.hdf5.disk import Disk
from tauslab.store.targets import part_files

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

T = TypeVar("T")
LEVEL = 1  # of zlib: slots are mostly empty, more effort gains little
CHECKPOINT = -1  # in place of a frame's number
STATE = "state"  # group of a finished file: parts of the last state, as bytes, by their names
_KIND = "lattice part"
_NAME = re.compile(r"r(\d{5,})-(frame|picture|checkpoint)-(\d+)-z(\d+)-(\d+)\.h5")


class DamagedPartError(InputFileError):
    """A part is not what was written."""


@dataclass(frozen=True)
class HookState:
    """Changes by hooks: stochastic constants ``[reaction, site type]``, and what they noted.

    `looked` are the firings ``[reaction]`` at the last look at them. `sites` are the site types
    ``[plane, y, x]`` of the same planes as the particles; None where no hook changed any.
    """

    rates: Array
    looked: Array
    memory: Mapping[str, Any] = field(default_factory=dict)
    sites: Array | None = None


@dataclass(frozen=True)
class Piece:
    """Planes ``begin .. end - 1`` of a state: of a frame, or (`number` -1) only to go on from.

    `replica` counts the replicas of all points of a sweep as one row, as `LatticeTask` does.
    `state` has the particles of these planes, and the particles that wait there; its counts since
    the start are of the whole lattice. A `picture` is a frame without what waits and what hooks
    changed, so that no run can continue from it.
    """

    replica: int
    number: int
    begin: int
    end: int
    state: LatticeState
    hooks: HookState
    picture: bool = False


@dataclass(frozen=True)
class PartName:
    """The fields of a part's name; `number` of a frame, or -1, and then `step` of the engine."""

    path: Path
    replica: int
    number: int
    step: int
    begin: int
    end: int
    picture: bool = False


@dataclass(frozen=True)
class Begun:
    """The state from which a replica continues: parts and their planes, in ascending order.

    `hooked` says whether the hooks of that step have been called; from a `picture` no replica
    continues.
    """

    step: int
    hooked: bool
    parts: Sequence[tuple[Path, int, int]]
    picture: bool = False


def part_path(folder: Path, piece: Piece) -> Path:
    """Name of a piece's file."""
    checkpoint = piece.number == CHECKPOINT
    kind, number = ("checkpoint", piece.state.step) if checkpoint else ("frame", piece.number)
    kind = "picture" if piece.picture else kind
    planes = f"z{piece.begin:05d}-{piece.end:05d}"
    return folder / f"r{piece.replica:05d}-{kind}-{number:08d}-{planes}.h5"


def list_parts(folder: Path, steps_of_a_frame: Callable[[int], int]) -> list[PartName]:
    """All parts of a file, by their names.

    Parameters
    ----------
    steps_of_a_frame
        Gives the steps of the engine between two frames of a replica.

    Raises
    ------
    InputFileError
        Another file lies among them.
    """
    parts = []
    for path in part_files(folder):
        match = _NAME.fullmatch(path.name)
        if match is None:
            raise InputFileError(f"{path} is not a part of a lattice run of this version")
        replica, number, begin, end = (int(match[k]) for k in (1, 3, 4, 5))
        if match[2] == "checkpoint":
            parts.append(PartName(path, replica, CHECKPOINT, number, begin, end))
        else:
            step = number * steps_of_a_frame(replica)
            parts.append(PartName(path, replica, number, step, begin, end, match[2] == "picture"))
    return parts


def covering(parts: Iterable[PartName], planes: int) -> list[tuple[Path, int, int]] | None:
    """Parts, and which planes to take of each, that together are all planes; None if some lack.

    >>> parts = [PartName(Path(f"{a}-{b}"), 0, 0, 0, a, b) for a, b in ((0, 4), (3, 9), (4, 6))]
    >>> [(path.name, begin, end) for path, begin, end in covering(parts, 9)]
    [('0-4', 0, 4), ('3-9', 4, 9)]
    >>> covering(parts, 10)
    """
    chosen, reached = [], 0
    left = deque(sorted(parts, key=lambda part: part.begin))
    while reached < planes:
        begun = []
        while left and left[0].begin <= reached:
            begun.append(left.popleft())
        best = max(begun, key=lambda part: part.end, default=None)
        if best is None or best.end <= reached:
            return None
        chosen.append((best.path, reached, min(best.end, planes)))
        reached = best.end
    return chosen


def whole_states(parts: Iterable[PartName], planes: int) -> dict[int, list[Begun]]:
    """For every replica, the states of which there are all planes, in ascending order."""
    by_state: dict[tuple[int, int, bool, bool], list[PartName]] = {}
    for part in parts:
        key = (part.replica, part.step, part.number == CHECKPOINT, part.picture)
        by_state.setdefault(key, []).append(part)
    states: dict[int, list[Begun]] = {}
    for (replica, step, hooked, picture), alike in sorted(by_state.items()):
        cover = covering(alike, planes)
        if cover is not None:
            states.setdefault(replica, []).append(Begun(step, hooked, cover, picture))
    return states


# -------------------------------------------------------------------- one file


def packed(piece: Array, planes: int) -> bytes:
    """A chunk as HDF5's deflate filter stores it; the last is filled up with empty planes."""
    if len(piece) < planes:
        whole = np.zeros((planes, *piece.shape[1:]), piece.dtype)
        whole[: len(piece)] = piece
        piece = whole
    return zlib.compress(np.ascontiguousarray(piece).data, LEVEL)


def chunks_of(piece: Piece, planes: int) -> list[Array]:
    """The piece's planes cut at the grid of chunks; the first is filled up from below."""
    particles, begin = piece.state.particles, piece.begin
    before = begin % planes
    first = particles[: planes - before]
    if before:
        first = np.concatenate([np.zeros((before, *first.shape[1:]), first.dtype), first])
    return [first] + [
        particles[at : at + planes] for at in range(planes - before, piece.end - begin, planes)
    ]


def write_part(
    path: Path, disk: Disk, piece: Piece, planes: int, chunks: Sequence[bytes],
    identity: Mapping[str, Any],
) -> None:  # fmt: skip
    """Write a piece whose chunks of `planes` planes are compressed; `identity` names its run."""
    state = piece.state
    with Hdf5OnDisk(path, disk, libver=("v110", "v110")) as opened:
        file = opened.file
        shape = state.particles.shape[1:]
        dataset = file.create_dataset(
            "particles", (len(chunks) * planes, *shape), state.particles.dtype,
            chunks=(planes, *shape), compression="gzip", compression_opts=LEVEL,
        )  # fmt: skip
        for index, data in enumerate(chunks):
            write_chunk(dataset, (index * planes, 0, 0, 0), data)
        for name in ("site", "age", "particle"):
            file[f"waiting/{name}"] = state.waiting[name]
        file["fired"] = state.fired
        file["rates"], file["looked"] = piece.hooks.rates, piece.hooks.looked
        put_text(file, "memory", json.dumps(piece.hooks.memory))
        if piece.hooks.sites is not None:
            file.create_dataset(
                "sites", data=piece.hooks.sites, compression="gzip", compression_opts=LEVEL
            )
        put_attributes(file, {
            "format": FORMAT, "kind": _KIND, "step": state.step, **state.since_start,
            "frame": piece.number, "replica": piece.replica, "begin": piece.begin,
            "end": piece.end, "first": piece.begin // planes * planes, **identity,
        })  # fmt: skip
        file["checksums"] = np.array([chunk_sum(data) for data in chunks], "<u4")
        seal(file, {"particles"})


def is_whole(path: Path, identity: Mapping[str, Any]) -> bool:
    """Compare all of a part with its checksums.

    Raises
    ------
    InputFileError
        The part is of another run, or the system cannot read it.
    """
    try:
        _reading(path, identity, lambda part: part.particles.require_all())
    except DamagedPartError:
        return False
    return True


def read_planes(
    part: tuple[Path, int, int], plane_sites: int, identity: Mapping[str, Any]
) -> tuple[LatticeState, HookState]:
    """Some planes of a part, and the particles that wait there; sums are of the whole lattice.

    Raises
    ------
    InputFileError
        The part is unreadable, or of another run.
    """
    path, begin, end = part

    def read(opened: OpenPart) -> tuple[LatticeState, HookState]:
        file, attributes = opened.file, opened.attributes
        waiting = np.zeros(len(file["waiting/site"]), WAITING)
        for name in ("site", "age", "particle"):
            waiting[name] = file[f"waiting/{name}"][...]
        plane = waiting["site"] // np.uint64(plane_sites)
        first = int(attributes["first"])
        if not attributes["begin"] <= begin < end <= attributes["end"]:
            raise KeyError(f"planes {begin} to {end - 1}")
        state = LatticeState(
            opened.particles[begin - first : end - first],
            waiting[(plane >= begin) & (plane < end)], int(attributes["step"]),
            file["fired"][...], **{name: int(attributes.get(name, 0)) for name in SINCE_START},
        )  # fmt: skip
        own = slice(begin - int(attributes["begin"]), end - int(attributes["begin"]))
        sites = None if opened.sites is None else opened.sites[own]
        # Parts of earlier versions lack it: no hook could look.
        looked = file["looked"][...] if "looked" in file else np.zeros_like(state.fired)
        memory = json.loads(file["memory"][()])
        if "tauslab.picture" in memory:  # how earlier versions noted one
            raise InputFileError(
                f"{path} is a frame of the result that is extended: no run can continue from it"
            )
        return state, HookState(file["rates"][...], looked, memory, sites)

    return _reading(path, identity, read)


@dataclass(frozen=True)
class OpenPart:
    """A part that is open and was compared with its checksums; particles are as they are read."""

    file: h5py.File
    attributes: Mapping[str, Any]
    particles: VerifiedChunks
    sites: Any


@contextmanager
def open_part(path: Path) -> Iterator[OpenPart]:
    """Open a part for reading.

    Raises
    ------
    DamagedPartError
        It is not what was written.
    """
    kind = DamagedPartError
    with reading(path, kind), open_hdf5(path, kind) as file:
        sealed = SealedFile(path, file, kind)
        for name in sealed.names:
            sealed.require(name)
        if "particles" not in sealed.names or "checksums" not in sealed.names:
            raise sealed.damaged("it has no particles, or no checksums of them")
        particles, sums = file["particles"], file["checksums"][()]
        if particles.chunks is None or sums.size != np.prod(chunk_grid(particles)):
            raise sealed.damaged("its particles have not a checksum for each chunk")
        verified = VerifiedChunks(path, particles, sums.reshape(chunk_grid(particles)), kind)
        sites = file["sites"] if "sites" in sealed.names else None
        yield OpenPart(file, sealed.attributes, verified, sites)


def _reading(path: Path, identity: Mapping[str, Any], read: Callable[[OpenPart], T]) -> T:
    try:
        with open_part(path) as part:
            _check_identity(path, part.attributes, identity)
            return read(part)
    except InputFileError:
        raise
    except OSError as error:
        raise InputFileError(f"{path} cannot be read: {reason_of(error)}") from None
    except (KeyError, ValueError) as error:
        raise DamagedPartError(f"{path} is not a whole part of a lattice run: {error}") from None


def _check_identity(path: Path, attributes: Mapping[str, Any], identity: Mapping[str, Any]) -> None:
    if attributes.get("kind") != _KIND:
        raise InputFileError(f"{path} is not a part of a lattice run")
    for name, wanted in identity.items():
        if attributes.get(name) != wanted:
            raise InputFileError(
                f"{path} is of another run: its {name} is {attributes.get(name)}, not {wanted}"
            )


def join_read(read: Sequence[tuple[LatticeState, HookState]]) -> tuple[LatticeState, HookState]:
    """Planes that follow each other as one state; what is of the whole lattice is the first's."""
    if len(read) == 1:
        return read[0]
    states, hooks = [state for state, _ in read], [hook for _, hook in read]
    particles = np.concatenate([state.particles for state in states])
    waiting = np.concatenate([state.waiting for state in states])
    sites = [hook.sites for hook in hooks if hook.sites is not None]
    joined = np.concatenate(sites) if sites else None
    return (
        replace(states[0], particles=particles, waiting=waiting),
        replace(hooks[0], sites=joined),
    )
