"""The file of a lattice run: counts written in place, frames in compressed segments beside it.

While a run goes on, ``OUT.h5`` holds everything but the frames, laid out whole as every file of
ours; counts are written at their places and marked. Frames go to ``OUT.h5.parts`` in files that
appear complete. At the end one plain file takes the place of both. Every segment holds what a run
goes on from, and so does the checkpoint of a run without frames.
"""

from __future__ import annotations

import shutil
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.kernels.lattice_state import LatticeState, Samples
from tauslab.kernels.waiting import WAITING
from tauslab.model.errors import InputFileError, OutputError
from tauslab.model.lattice_file import write_model_group
from tauslab.runner.lattice_job import LatticeTask
from tauslab.runner.output.blockfile import RawFile
from tauslab.runner.output.disk import Disk, publish, write_error
from tauslab.runner.output.resume import parts_folder
from tauslab.runner.output.schema import FORMAT, FORMAT_VERSION, TEXT, DatasetSpec
from tauslab.runner.output.skeleton import attach_scales, build_file, create_dataset

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

Array = npt.NDArray[Any]
IN_FLIGHT = 2  # frames that are copied, compressed and written at a time
_CHUNK_BYTES = 1 << 20
_LEVEL = 1  # of zlib: slots are mostly empty, more effort gains little
_MAY_DIFFER = {"tauslab_version", "command"}  # between a run and its resumption
_MARKS = "progress/samples"
_COMPLETE = "progress/complete"
_COUNTED = ("counts", "counts_by_site_type", "reactions_fired", "overflow")


@dataclass(frozen=True)
class Frame:
    """A state to be kept: as a frame of the file, or (`number` -1) only to go on from."""

    replica: int
    number: int
    state: LatticeState


class LatticeWriter:
    """Writes the file of one run; counts at once, frames by threads of its own."""

    def __init__(self, path: Path, task: LatticeTask, seed: int, *, threads: int) -> None:
        self.path, self._task, self._seed = path, task, seed
        self._disk = Disk()
        self._folder = parts_folder(path)
        self._pool = ThreadPoolExecutor(max(1, threads), thread_name_prefix="tauslab-compress")
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="tauslab-write")
        self._pending: list[Future[None]] = []
        self._file: RawFile | None = None
        self.marks = np.zeros(task.options.replicas, np.int64)
        self.complete = False
        self._places = 0

    # ---------------------------------------------------------------- opening

    def create(self) -> None:
        """Begin a new file."""
        shutil.rmtree(self._folder, ignore_errors=True)
        specs = self._specs({})

        def extend(file: h5py.File) -> None:
            write_model_group(file.require_group("model"), self._task.model)

        publish(
            self.path,
            self._disk,
            lambda p: build_file(p, specs, self._attributes(), self._disk, extend),
        )
        self._open()

    def open_again(self) -> dict[int, Frame]:
        """Open an unfinished file; returns what each begun replica can go on from."""
        import h5py

        with h5py.File(self.path, "r") as file:
            wanted_attributes = self._attributes()
            names = {*wanted_attributes, *(n for n in file.attrs if n.startswith("set_"))}
            for name in sorted(names - _MAY_DIFFER):
                found, wanted = file.attrs.get(name), wanted_attributes.get(name)
                if found != wanted:
                    raise InputFileError(
                        f"{self.path} was begun with {name} = {found}, not {wanted}: "
                        "--resume goes on with the same model and options only"
                    )
            self.marks = file[_MARKS][...]
            self.complete = bool(file[_COMPLETE][()])
        self._open()
        return self._newest()

    def _open(self) -> None:
        self._file = RawFile(self.path, [*_COUNTED, _MARKS, _COMPLETE], self._disk)

    def _newest(self) -> dict[int, Frame]:
        found: dict[int, Frame] = {}
        for part in self._parts():
            frame = read_part(part)
            kept = found.get(frame.replica)
            if kept is None or frame.state.step > kept.state.step:
                found[frame.replica] = frame
        return found

    def _parts(self) -> list[Path]:
        return sorted(self._folder.glob("*.h5"))

    # ---------------------------------------------------------------- layout

    def _attributes(self) -> dict[str, Any]:
        from tauslab import __version__

        task = self._task
        return {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tauslab_version": __version__,
            "method": "rdme",
            "storage": "plain",
            "seed": np.uint64(self._seed),
            "model_sha256": task.sha256,
            "command": task.options.command,
            "steps": task.steps,
            "step": task.lattice.step,
            "diffusion_substeps": task.passes,
            "reaction_substeps": task.lattice.reaction_substeps,
            "max_hop": task.options.max_hop,
            "count_every": task.count_every,
            "frame_every": task.options.frame_every,
            "replicas": task.options.replicas,
            **{f"set_{name}": value for name, value in task.options.set.items()},
        }

    @property
    def _lead(self) -> tuple[int, ...]:
        replicas = self._task.options.replicas
        return (replicas,) if replicas > 1 else ()

    @property
    def _lead_axes(self) -> tuple[str, ...]:
        return ("replica",) if self._lead else ()

    def _specs(self, contents: Mapping[str, Array]) -> list[DatasetSpec]:
        task, lattice = self._task, self._task.lattice
        samples, species = len(task.times), len(lattice.species)
        types, reactions = len(lattice.site_types), len(lattice.reactions)
        lead, axes = self._lead, self._lead_axes

        def text(name: str, values: Sequence[str]) -> DatasetSpec:
            return DatasetSpec(name, (len(values),), TEXT, (name,), data=list(values))

        specs = [
            DatasetSpec("time", (samples,), "<f8", ("time",), data=task.times),
            text("species", lattice.species),
            text("site_type", lattice.site_types),
            text("reaction", [r.name for r in lattice.reactions]),
        ]
        if lead:
            numbers = np.arange(lead[0], dtype="<u4")
            specs.append(DatasetSpec("replica", lead, "<u4", ("replica",), data=numbers))
        for name, shape, own in (
            ("counts", (species,), ("species",)),
            ("counts_by_site_type", (types, species), ("site_type", "species")),
            ("reactions_fired", (reactions,), ("reaction",)),
            ("overflow", (), ()),
        ):
            specs.append(
                DatasetSpec(name, (*lead, samples, *shape), "<i8", (*axes, "time", *own), fill=-1)
            )
        marks = np.zeros(self._task.options.replicas, "<i8")
        specs.append(DatasetSpec(_MARKS, marks.shape, "<i8", (_MARKS,), data=marks))
        specs.append(DatasetSpec(_COMPLETE, (), "|u1"))
        return [spec.filled(contents) for spec in specs]

    # ---------------------------------------------------------------- writing

    def write_samples(self, replica: int, first: int, samples: Samples) -> None:
        """Put samples in their place, and mark them."""
        assert self._file is not None
        values = (samples.counts, samples.by_type, samples.fired, samples.spills)
        n_all = len(self._task.times)
        for name, value in zip(_COUNTED, values, strict=True):
            row = value[0].size * 8
            if row:
                self._file.write(name, (replica * n_all + first) * row, value.astype("<i8"))
        self.marks[replica] = first + len(samples.spills)
        self._file.write(_MARKS, 0, self.marks.astype("<i8"))

    def make_room(self) -> int:
        """Wait until fewer than `IN_FLIGHT` frames are being written; the place that is free.

        Raises what an earlier frame ran into.
        """
        while len(self._pending) >= IN_FLIGHT:
            self._pending.pop(0).result()
        self._places += 1
        return self._places % IN_FLIGHT

    def write_frame(self, replica: int, number: int, state: Callable[[], LatticeState]) -> None:
        """Compress and write a frame, or a checkpoint (-1), while the caller goes on."""
        self._pending.append(self._writer.submit(self._write_part, replica, number, state))

    def _write_part(self, replica: int, number: int, state: Callable[[], LatticeState]) -> None:
        frame = Frame(replica, number, state())
        self._folder.mkdir(exist_ok=True)
        kind = f"frame-{frame.number:08d}" if frame.number >= 0 else "checkpoint"
        path = self._folder / f"r{frame.replica:05d}-{kind}.h5"
        chunk = self._chunk(frame.state.particles)
        particles = frame.state.particles
        pieces = [particles[z : z + chunk[0]] for z in range(0, len(particles), chunk[0])]
        packed = list(self._pool.map(lambda piece: _packed(piece, chunk), pieces))
        try:
            publish(path, self._disk, lambda p: _write_part(p, frame, chunk, packed))
        except OutputError:
            raise
        except OSError as error:
            raise write_error(path, error) from error

    @staticmethod
    def _chunk(particles: Array) -> tuple[int, ...]:
        plane = particles[0].nbytes
        return (min(len(particles), max(1, _CHUNK_BYTES // plane)), *particles.shape[1:])

    def sync(self) -> None:
        """Wait until everything so far is on the disk."""
        while self._pending:
            self._pending.pop(0).result()
        if self._file is not None:
            self._file.sync()

    def finish(self) -> None:
        """Make one complete file of all there is."""
        assert self._file is not None
        self.sync()
        if self._task.options.frame_every:
            self._file.close()
            publish(self.path, self._disk, self._join)
        else:
            self._file.write(_COMPLETE, 0, np.ones(1, np.uint8))
            self._file.sync()
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def _join(self, path: Path) -> None:
        import h5py

        with h5py.File(self.path, "r") as old:
            contents = {name: old[name][...] for name in (*_COUNTED, _MARKS)}
        contents[_COMPLETE] = np.uint8(1)
        specs = self._specs(contents)
        with h5py.File(path, "w", libver=("v110", "v110")) as file:
            attach_scales({spec.name: create_dataset(file, spec) for spec in specs}, specs)
            file.attrs.update(self._attributes())
            write_model_group(file.create_group("model"), self._task.model)
            self._join_frames(file)

    def _join_frames(self, file: h5py.File) -> None:
        """Copy the compressed chunks of all segments as they are."""
        import h5py

        task, lattice = self._task, self._task.lattice
        times, shape = task.frame_times, (*lattice.shape, lattice.slots)
        time = file.create_dataset("lattice/time", data=times)
        time.make_scale("time")
        sites = file.create_dataset(
            "lattice/sites", data=lattice.sites(0, lattice.shape[0])[None],
            chunks=(1, *self._chunk(np.empty(shape, lattice.particle_type))[:-1]),
            compression="gzip", compression_opts=_LEVEL,
        )  # fmt: skip
        particles: Any = None
        for part in self._parts():
            with h5py.File(part, "r") as source:
                number = int(source.attrs["frame"])
                if number < 0:
                    continue
                stored = source["particles"]
                lead = (int(source.attrs["replica"]),) if self._lead else ()
                if particles is None:
                    ones = (1,) * (len(lead) + 1)
                    particles = file.create_dataset(
                        "lattice/particles", (*self._lead, len(times), *shape), stored.dtype,
                        chunks=(*ones, *stored.chunks), compression="gzip", compression_opts=_LEVEL,
                    )  # fmt: skip
                for z in range(0, shape[0], stored.chunks[0]):
                    _, data = stored.id.read_direct_chunk((z, 0, 0, 0))
                    particles.id.write_direct_chunk((*lead, number, z, 0, 0, 0), data)
        _attach_axes(file, particles, sites, time)

    def close(self) -> None:
        """Close; what is complete stays."""
        self._writer.shutdown()
        self._pool.shutdown()
        if self._file is not None:
            self._file.close()
            self._file = None


def _packed(piece: Array, chunk: tuple[int, ...]) -> bytes:
    """A chunk as HDF5's deflate filter stores it; the last is filled up with empty planes."""
    if len(piece) < chunk[0]:
        whole = np.zeros(chunk, piece.dtype)
        whole[: len(piece)] = piece
        piece = whole
    return zlib.compress(np.ascontiguousarray(piece).data, _LEVEL)


def _write_part(path: Path, frame: Frame, chunk: tuple[int, ...], packed: list[bytes]) -> None:
    import h5py

    state = frame.state
    with h5py.File(path, "w", libver=("v110", "v110")) as file:
        dataset = file.create_dataset(
            "particles", state.particles.shape, state.particles.dtype, chunks=chunk,
            compression="gzip", compression_opts=_LEVEL,
        )  # fmt: skip
        for index, data in enumerate(packed):
            dataset.id.write_direct_chunk((index * chunk[0], 0, 0, 0), data)
        for name in ("site", "age", "particle"):
            file[f"waiting/{name}"] = state.waiting[name]
        file["fired"] = state.fired
        file.attrs.update(
            format=FORMAT, kind="lattice frame", step=state.step, spills=state.spills,
            frame=frame.number, replica=frame.replica,
        )  # fmt: skip


def read_part(path: Path) -> Frame:
    """A frame or checkpoint of an unfinished run."""
    import h5py

    try:
        with h5py.File(path, "r") as file:
            waiting = np.zeros(len(file["waiting/site"]), WAITING)
            for name in ("site", "age", "particle"):
                waiting[name] = file[f"waiting/{name}"][...]
            state = LatticeState(
                file["particles"][...], waiting, int(file.attrs["step"]), file["fired"][...],
                int(file.attrs["spills"]),
            )  # fmt: skip
            return Frame(int(file.attrs["replica"]), int(file.attrs["frame"]), state)
    except (OSError, KeyError) as error:
        raise InputFileError(f"{path} is not a whole part of a lattice run: {error}") from None


def _attach_axes(file: h5py.File, particles: Any, sites: Any, time: Any) -> None:
    lead = [file["replica"]] if "replica" in file else []
    shape = particles.shape[-4:]
    scales = []
    for name, size in zip(("z", "y", "x", "slot"), shape, strict=True):
        scale = file.create_dataset(f"lattice/{name}", data=np.arange(size, dtype="<u4"))
        scale.make_scale(name)
        scales.append(scale)
    layout = file.create_dataset("lattice/layout", data=np.zeros(1))
    layout.make_scale("layout")
    for dataset, axes in ((particles, [*lead, time, *scales]), (sites, [layout, *scales[:3]])):
        for index, scale in enumerate(axes):
            dataset.dims[index].attach_scale(scale)
