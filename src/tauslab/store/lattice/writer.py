"""The file of a lattice run: counts written in place, frames in compressed parts beside it.

While a run goes on, ``OUT.h5`` holds everything but the frames, laid out whole as every file of
ours; counts are written at their places and marked. Frames go to ``OUT.h5.parts``, each rank's
planes in files that appear complete (`lattice_parts`). At the end one plain file takes the place of
both. Every frame holds what a run goes on from, and so does a checkpoint.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.arrays import IntArray
from tauslab.base.errors import InputFileError, OutputError
from tauslab.base.files.drafts import make_own_folder, require_no_link
from tauslab.base.files.seals import SEALED, SEALS, dataset_names, seal
from tauslab.base.files.text import put_attributes, put_text
from tauslab.base.option_names import opt, warn
from tauslab.kernels.lattice.state import RECORDED, LatticeState, Samples
from tauslab.model.lattice.file import write_model_group
from tauslab.options.lattice import LatticeTask
from tauslab.store.checking.lattice import (
    CHECKSUMS,
    COMPLETE,
    FRAMES,
    MARKS,
    CheckedLattice,
    sample_sum,
)
from tauslab.store.checking.opening import open_hdf5, open_own_file
from tauslab.store.format.versions import WRITERS, other_bits, with_this_program
from tauslab.store.hdf5.buffers import Hdf5OnDisk
from tauslab.store.hdf5.disk import Disk, publish, write_error
from tauslab.store.hdf5.in_place import RawFile, note_writer
from tauslab.store.hdf5.skeleton import attach_scales, build_file, create_dataset
from tauslab.store.lattice.frames import join_frames
from tauslab.store.lattice.layout import (
    HOOK_INTERVALS,
    MAY_DIFFER,
    SWEEP_NAMES,
    bits_engine,
    lattice_attributes,
    lattice_specs,
    planes_of_a_chunk,
)
from tauslab.store.lattice.parts import (
    CHECKPOINT,
    STATE,
    Begun,
    HookState,
    PartName,
    Piece,
    chunks_of,
    is_whole,
    join_read,
    list_parts,
    packed,
    part_path,
    read_planes,
    whole_states,
    write_part,
)
from tauslab.store.targets import parts_folder

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI


IN_FLIGHT = 2  # frames that are copied, compressed and written at a time
_MOST_NAMED = 4  # replicas in a warning


@dataclass(frozen=True)
class _Gap:
    """The first thing that a run lacks, and the last step of the engine before it."""

    what: str
    last: float
    expected: bool  # in a run that was only interrupted


def beginnings(
    task: LatticeTask,
    path: Path,
    samples: Sequence[int],
    parts: Sequence[PartName],
    damaged: Sequence[PartName],
) -> dict[int, Begun]:
    """For each run its last state before which no frame and no sample is missing.

    A run without one begins at t = 0. A warning says which runs go back, and why.

    Parameters
    ----------
    path
        The file of the run.
    samples
        For each run, how many samples from the first on are whole.
    parts, damaged
        Parts that are whole, and parts that are not.
    """
    states = whole_states(parts, task.lattice.shape[0])
    begun: dict[int, Begun] = {}
    reasons = {part.replica: f"{part.path.name} is damaged" for part in damaged}
    for run in range(task.runs):
        gap = _first_gap(task, run, states.get(run, []), samples[run])
        own = [state for state in states.get(run, []) if not state.picture]
        usable = [state for state in own if state.step <= gap.last]
        if usable:
            begun[run] = usable[-1]
        if len(usable) < len(own) or not gap.expected:
            reasons.setdefault(run, f"{gap.what} is missing")
    _warn_of_gaps(task, path, reasons, begun)
    return begun


def _first_gap(task: LatticeTask, run: int, states: Sequence[Begun], samples: int) -> _Gap:
    every_sample = task.count_every * task.passes_of(run)
    sampled = samples * every_sample if samples < task.samples else math.inf
    every_frame = task.options.frame_every * task.passes_of(run)
    kept = {state.step for state in states if not state.hooked}
    frame = next((n for n in range(task.frames) if n * every_frame not in kept), task.frames)
    if frame == task.frames or sampled <= frame * every_frame:
        return _Gap(f"sample {samples}", sampled - 1, expected=True)
    # A run waits for a frame before it begins with the one after the next.
    written = (samples - 1) * every_sample > (frame + IN_FLIGHT) * every_frame
    return _Gap(f"frame {frame}", frame * every_frame - 1, expected=not written)


def _warn_of_gaps(
    task: LatticeTask, path: Path, reasons: Mapping[int, str], begun: Mapping[int, Begun]
) -> None:
    message = []
    for run, reason in list(reasons.items())[:_MOST_NAMED]:
        point, replica = task.place(run)
        called = f"replica {replica}" + (f" of point {point}" if task.sweep else "")
        step = begun[run].step // task.passes_of(run) if run in begun else 0
        message.append(f"{called} goes back to step {step} of {task.steps}, since {reason}")
    if len(reasons) > _MOST_NAMED:
        message.append(f"{len(reasons) - _MOST_NAMED} more replicas go back")
    if message:
        warn(f"{path}: {'; '.join(message)}")


class LatticeWriter:
    """One rank's hand in the file of a run; frames are written by threads of its own.

    One rank calls `create` or `reopen_file`, and `finish`, for all; one of each replica's ranks
    calls `open_counts` and `write_samples`.
    """

    def __init__(self, path: Path, task: LatticeTask, seed: int, *, threads: int) -> None:
        self.path, self._task, self._seed = path, task, seed
        self._disk = Disk()
        self._folder = parts_folder(path)
        self._fresh = self._folder.with_name(f"{self._folder.name}.new")
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="tauslab-compress")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="tauslab-write")
        self._pending: list[Future[None]] = []
        self._file: RawFile | None = None
        self._places = 0
        self._sampled: list[str] = []
        self._failed = False
        shape = (*task.lattice.shape, task.lattice.slots)
        self._chunk = planes_of_a_chunk(shape, np.dtype(task.lattice.particle_type).itemsize)
        self._identity = {"seed": np.uint64(seed), "model_sha256": task.sha256}

    # ---------------------------------------------------------------- opening

    def create(self, writers: Sequence[str] = (), copy: Callable[[], None] = lambda: None) -> None:
        """Begin a new file, which appears with all that `copy` writes by methods of this object.

        What it replaces keeps its parts until everything is copied, into a folder of its own.

        Parameters
        ----------
        writers
            Versions of the program that wrote what is copied.
        """
        specs = lattice_specs(self._task, {WRITERS: with_this_program(writers)})
        folder, fresh = self._folder, self._fresh
        require_no_link(fresh)
        shutil.rmtree(fresh, ignore_errors=True)  # of a process that was killed

        def extend(file: h5py.File) -> None:
            write_model_group(file.require_group("model"), self._task.model, self._task.canonical)

        def build(draft: Path) -> None:
            attributes = lattice_attributes(self._task, self._seed)
            build_file(draft, specs, attributes, self._disk, extend)
            self._open(draft)
            self._folder = fresh
            try:
                copy()
                self.wait()
            finally:
                self._close_counts()
            shutil.rmtree(folder, ignore_errors=True)
            if fresh.is_dir():
                self._disk.replace(fresh, folder)

        try:
            publish(self.path, self._disk, build)
        except BaseException:
            self._writer.shutdown(cancel_futures=True)  # it would make the folder again
            shutil.rmtree(fresh, ignore_errors=True)
            if not self.path.exists():
                shutil.rmtree(folder, ignore_errors=True)  # parts of no file
            raise
        finally:
            self._folder = folder

    def reopen_file(self) -> tuple[bool, dict[int, Begun]]:
        """Look at a file to complete: whether it is complete, and where each replica can go on.

        Raises
        ------
        InputFileError
            The file is unreadable, or it or a part is of another run.
        """
        with open_hdf5(self.path) as file:
            checked = CheckedLattice(self.path, file)
            complete = checked.complete
            difference = other_bits(checked.attributes, bits_engine(self._task))
            if difference and not complete:
                raise InputFileError(f"{self.path} {difference}: run it again ({opt('overwrite')})")
            if not complete and "truncated_passes" not in checked:
                raise InputFileError(
                    f"{self.path} was begun by tauslab {checked.attributes['tauslab_version']}, "
                    f"in which a site had at most one reaction in a pass: it cannot be resumed; "
                    f"{opt('overwrite')} starts a new run"
                )
            wanted_attributes = lattice_attributes(self._task, self._seed)
            names = {*wanted_attributes, *(n for n in checked.attributes if n.startswith("set_"))}
            if any(checked.attributes.get(n) != wanted_attributes.get(n) for n in SWEEP_NAMES):
                raise InputFileError(
                    f"{self.path} was begun with other points of a sweep, or with none: "
                    f"{opt('resume')} continues with the same"
                )
            if HOOK_INTERVALS not in checked.attributes:  # of an earlier version
                names.discard(HOOK_INTERVALS)
            for name in sorted(names - MAY_DIFFER, key=lambda one: (one != "steps", one)):
                stored, wanted = checked.attributes.get(name), wanted_attributes.get(name)
                if stored != wanted:
                    differs, hint = f"{name} = {stored}, not {wanted}", ""
                    if name == "steps":
                        differs = f"another end, after {stored} steps, not {wanted}"
                        hint = f"; {opt('extend')} continues a finished run to a later end"
                    elif name == "model_sha256":
                        differs = "another model or other values"
                        hint = "; given as the model, the file continues with the model in it"
                    raise InputFileError(
                        f"{self.path} was begun with {differs}: {opt('resume')} continues with the "
                        "same model, options and hooks only" + hint
                    )
            if complete:
                checked.require_samples()
                # of a run that ended between its last two steps
                shutil.rmtree(self._folder, ignore_errors=True)
                return True, {}
            samples = checked.whole_samples()
        whole, damaged = self._whole_parts()
        return False, beginnings(self._task, self.path, samples, whole, damaged)

    def open_counts(self) -> None:
        """Open the file for `write_samples`."""
        note_writer(self.path, self._disk)
        self._open(self.path)

    def _open(self, path: Path) -> None:
        with open_own_file(path) as file:
            self._sampled = [each.name for each in RECORDED if each.name in file]
        self._file = RawFile(path, [*self._sampled, MARKS, COMPLETE, CHECKSUMS], self._disk)

    def _close_counts(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def read_begun(self, begun: Begun, begin: int, end: int) -> tuple[LatticeState, HookState]:
        """Planes ``begin .. end - 1`` of a state to go on from; its sums are of the whole lattice.

        Raises
        ------
        InputFileError
            A part is unreadable, or of another run.
        """
        sites = self._task.lattice.shape[1] * self._task.lattice.shape[2]
        wanted = [(p, max(a, begin), min(b, end)) for p, a, b in begun.parts]
        read = [read_planes(p, sites, self._identity) for p in wanted if p[1] < p[2]]
        return join_read(read)

    def _whole_parts(self) -> tuple[list[PartName], list[PartName]]:
        """The parts that are what was written; and the others, which get another name."""
        parts = self._parts()
        whole = [is_whole(part.path, self._identity) for part in parts]
        damaged = [part for part, good in zip(parts, whole, strict=True) if not good]
        for part in damaged:
            try:
                self._disk.replace(part.path, part.path.with_name(f"{part.path.name}.damaged"))
            except OSError as error:
                raise write_error(part.path, error) from error
        return [part for part, good in zip(parts, whole, strict=True) if good], damaged

    def _parts(self) -> list[PartName]:
        every = self._task.options.frame_every
        return list_parts(self._folder, lambda run: every * self._task.passes_of(run))

    # ---------------------------------------------------------------- writing

    def write_samples(
        self,
        replica: int,
        first: int,
        samples: Samples,
        tracked: Mapping[str, IntArray] | None = None,
    ) -> None:
        """Put samples in their place, with positions of objects, and mark them."""
        self.write_rows(replica, first, {**samples.recorded(), **(tracked or {})})

    def write_rows(self, replica: int, first: int, recorded: Mapping[str, IntArray]) -> None:
        """Put samples ``[sample, ...]``, by the names of `RECORDED`, in their place; mark them."""
        assert self._file is not None
        n_all = len(self._task.times)
        values = [recorded[name] for name in self._sampled]
        for name, value in zip(self._sampled, values, strict=True):
            row = value[0].size * 8
            if row:
                self._file.write(name, (replica * n_all + first) * row, value.astype("<i8"))
        count = len(values[0])
        sums = [
            sample_sum(replica, first + at, (value[at] for value in values)) for at in range(count)
        ]
        self._file.write(CHECKSUMS, 4 * (replica * n_all + first), np.array(sums, "<u4"))
        mark = np.array([first + count], "<i8")
        self._file.write(MARKS, replica * 8, mark)

    def make_room(self) -> int:
        """Wait until fewer than `IN_FLIGHT` frames are being written; the place that is free.

        Raises what an earlier frame ran into.
        """
        while self._pending and (len(self._pending) >= IN_FLIGHT or self._pending[0].done()):
            self._pending.pop(0).result()
        self._places += 1
        return self._places % IN_FLIGHT

    def write_piece(self, piece: Callable[[], Piece]) -> None:
        """Compress and write planes of a frame or checkpoint, while the caller goes on."""
        self._pending.append(self._writer.submit(self._write_piece, piece))

    def _write_piece(self, get: Callable[[], Piece]) -> None:
        if self._failed:
            return  # a later state would hide that one is missing
        self._failed = True
        self._put_piece(get())
        self._failed = False

    def _put_piece(self, piece: Piece) -> None:
        planes = self._chunk
        make_own_folder(self._folder)
        path = part_path(self._folder, piece)
        chunks = list(self._pool.map(lambda c: packed(c, planes), chunks_of(piece, planes)))
        try:
            publish(
                path,
                self._disk,
                lambda p: write_part(p, self._disk, piece, planes, chunks, self._identity),
            )
        except OutputError:
            raise
        except OSError as error:
            raise write_error(path, error) from error

    def write_state(self, name: str, data: bytes) -> None:
        """Write a part of the last state that a finished file keeps, under its name there."""
        make_own_folder(self._folder)

        def build(draft: Path) -> None:
            draft.write_bytes(data)

        publish(self._folder / name, self._disk, build)

    def wait(self) -> None:
        """Wait until all frames and checkpoints so far are in files of their own."""
        while self._pending:
            self._pending.pop(0).result()

    def sync(self) -> None:
        """Wait until everything so far is on the disk."""
        self.wait()
        if self._file is not None:
            self._file.sync()

    def forget_checkpoints(self, replica: int, before: int) -> None:
        """Remove a replica's checkpoints of steps (of the engine) before one."""
        for part in self._parts():
            if (part.replica, part.number) == (replica, CHECKPOINT) and part.step < before:
                self._disk.remove(part.path)

    # ---------------------------------------------------------------- the end

    def finish(self, profile: Sequence[Mapping[str, Any]]) -> None:
        """Make one complete file of all there is; every rank has called `sync`.

        Parameters
        ----------
        profile
            A row of `/profile` per rank.
        """
        self._close_counts()

        def build(path: Path) -> None:
            if not self._task.options.frame_every:
                shutil.copyfile(self.path, path)
            else:
                self._join(path)
            with Hdf5OnDisk(path, self._disk, "r+", libver=("v110", "v110")) as whole:
                file = whole.file
                _write_profile(file, profile)
                for part in self._last_states():
                    file[f"{STATE}/{part.path.name}"] = np.fromfile(part.path, np.uint8)
                file[COMPLETE][()] = 1
                for name in (SEALED, SEALS):
                    if name in file:
                        del file[name]
                opened = {*(s.name for s in RECORDED), MARKS, COMPLETE, CHECKSUMS, *FRAMES}
                seal(file, opened & {*dataset_names(file)})

        publish(self.path, self._disk, build)
        for folder in (self._folder, self._fresh):
            shutil.rmtree(folder, ignore_errors=True)

    def _last_states(self) -> list[PartName]:
        """Parts that together are the last state of each run, where it is to be kept."""
        task = self._task
        ends = {run: task.steps * task.passes_of(run) for run in range(task.runs)}
        return [
            part
            for part in (self._parts() if task.options.keep_state else ())
            if part.number == CHECKPOINT and part.step == ends[part.replica]
        ]

    def _join(self, path: Path) -> None:
        with open_own_file(self.path) as old:
            sampled = [each for each in RECORDED if each.name in old]
            kept = (*(each.name for each in sampled), MARKS, CHECKSUMS, WRITERS)
            contents = {name: old[name][...] for name in kept if name in old}
            version = old.attrs["format_version"]  # that of one that an earlier version began
        specs = lattice_specs(self._task, contents, sampled)
        with Hdf5OnDisk(path, self._disk, libver=("v110", "v110")) as opened:
            file = opened.file
            attach_scales({spec.name: create_dataset(file, spec) for spec in specs}, specs)
            own = lattice_attributes(self._task, self._seed)
            put_attributes(file, own | {"format_version": version})
            write_model_group(file.create_group("model"), self._task.model, self._task.canonical)
            join_frames(opened, self._task, self._parts(), self._chunk)

    def close(self) -> None:
        """Close; what is complete stays."""
        self._writer.shutdown()
        self._pool.shutdown()
        self._close_counts()


def _write_profile(file: h5py.File, rows: Sequence[Mapping[str, Any]]) -> None:
    """A dataset ``/profile/NAME`` ``[rank]`` for each column."""
    scale = file.create_dataset("profile/rank", data=np.arange(len(rows), dtype="<u4"))
    scale.make_scale("rank")
    for name in rows[0]:
        values = [row[name] for row in rows]
        if isinstance(values[0], str):
            dataset = put_text(file["profile"], name, [str(v) for v in values])
        else:
            dataset = file.create_dataset(f"profile/{name}", data=np.array(values))
        dataset.dims[0].attach_scale(scale)
