"""The frames of a finished lattice file, joined from the parts of all ranks chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.errors import OutputError
from tauslab.base.files.direct_chunks import write_chunk
from tauslab.base.files.text import put_attributes
from tauslab.base.option_names import opt
from tauslab.kernels.lattice.lowering import LoweredLattice
from tauslab.options.lattice import LatticeTask
from tauslab.store.checking.lattice import chunk_grid, chunk_sum, chunk_sums
from tauslab.store.hdf5.buffers import Hdf5OnDisk
from tauslab.store.lattice.layout import lead_of, place_of
from tauslab.store.lattice.parts import LEVEL, PartName, covering, open_part, packed

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

Cover = Sequence[tuple[Path, int, int]]  # parts, and which of their planes
_GZIP: dict[str, Any] = {"compression": "gzip", "compression_opts": LEVEL}


def join_frames(
    opened: Hdf5OnDisk, task: LatticeTask, parts: Sequence[PartName], chunk: int
) -> None:
    """Write ``/lattice`` of a file; chunks of `chunk` planes are copied as they are.

    Raises
    ------
    OutputError
        A frame lacks planes.
    OSError
        A write failed.
    """
    file, lattice, lead = opened.file, task.lattice, lead_of(task)
    times, shape, changed = task.frame_times, lattice.shape, False
    covers = _covers(task, parts)
    time = file.create_dataset("lattice/time", data=times)
    time.make_scale("time")
    put_attributes(time, {"units": "s"})
    ones = (1,) * (len(lead) + 1)
    particles = file.create_dataset(
        "lattice/particles", (*lead, len(times), *shape, lattice.slots), lattice.particle_type,
        chunks=(*ones, chunk, *shape[1:], lattice.slots), **_GZIP,
    )  # fmt: skip
    sums: dict[tuple[int, ...], list[int]] = {}  # of each chunk, by the frame's place
    for where, cover in covers.items():
        sums[where] = [0] * -(-shape[0] // chunk)
        changed |= _join_frame(particles, where, cover, chunk, sums[where])
        opened.check()
    layouts = len(times) if changed else 1
    sites = file.create_dataset(
        "lattice/sites", (*lead, layouts, *lattice.shape), "u1",
        chunks=(*ones, chunk, *shape[1:]), **_GZIP,
    )  # fmt: skip
    for where, cover in covers.items():
        if where[-1] < layouts:
            _join_sites(sites, where, cover if changed else (), lattice, chunk)
            opened.check()
    _attach_axes(file, particles, sites, time if changed else None)
    stored = np.zeros(chunk_grid(particles), "<u4")
    for where, own in sums.items():
        stored[where] = np.reshape(own, stored.shape[len(where) :])
    file["lattice/checksums"] = stored
    file["lattice/site_checksums"] = chunk_sums(sites)


def _covers(task: LatticeTask, parts: Sequence[PartName]) -> dict[tuple[int, ...], Cover]:
    """Parts of each frame, by the place of the frame in the file."""
    of_frame: dict[tuple[int, int], list[PartName]] = {}
    for part in parts:
        of_frame.setdefault((part.replica, part.number), []).append(part)
    covers: dict[tuple[int, ...], Cover] = {}
    for run in range(task.runs):
        for number in range(len(task.frame_times)):
            cover = covering(of_frame.get((run, number), ()), task.lattice.shape[0])
            if cover is None:
                raise OutputError(
                    f"frame {number} of replica {run} lacks planes, of which a part was removed: "
                    f"{opt('resume')} computes it again"
                )
            covers[(*place_of(task, run), number)] = cover
    return covers


def _join_sites(
    sites: h5py.Dataset, where: tuple[int, ...], cover: Cover, lattice: LoweredLattice, chunk: int
) -> None:
    """Write site types: the model's, and then those that hooks changed, which parts hold."""
    for z in range(0, lattice.shape[0], chunk):
        end = min(z + chunk, lattice.shape[0])
        sites[(*where, slice(z, end))] = lattice.sites(z, end)
    for path, begin, end in cover:
        with open_part(path) as source:
            first, changed = int(source.attributes["begin"]), source.sites
            for z in range(begin, begin if changed is None else end, chunk):
                some = slice(z, min(z + chunk, end))
                own = slice(some.start - first, some.stop - first)
                sites[(*where, some)] = changed[own]


def _join_frame(
    particles: h5py.Dataset, where: tuple[int, ...], cover: Cover, chunk: int, sums: list[int]
) -> bool:
    """Copy a frame: whole chunks as they are, chunks that slabs share put together anew.

    Returns whether hooks had changed site types; `sums` gets the checksums of the chunks.
    """
    planes, changed = particles.shape[-4], False
    shared: dict[int, Any] = {}
    for path, begin, end in cover:
        with open_part(path) as source:
            stored, first = source.particles, int(source.attributes["first"])
            changed |= source.sites is not None
            for z in range(begin // chunk * chunk, end, chunk):
                if begin <= z and end >= min(z + chunk, planes):
                    data = stored.chunk(((z - first) // chunk, 0, 0, 0))
                    assert data is not None  # each is taken once
                    sums[z // chunk] = chunk_sum(data)
                    write_chunk(particles, (*where, z, 0, 0, 0), data)
                    continue
                low, high = max(z, begin), min(z + chunk, end)
                if z not in shared:
                    shared[z] = np.zeros((chunk, *stored.shape[1:]), stored.dtype)
                shared[z][low - z : high - z] = stored[low - first : high - first]
                if high == min(z + chunk, planes):
                    data = packed(shared.pop(z), chunk)
                    sums[z // chunk] = chunk_sum(data)
                    write_chunk(particles, (*where, z, 0, 0, 0), data)
    return changed


def _attach_axes(file: h5py.File, particles: Any, sites: Any, changes: Any) -> None:
    """Attach scales; `changes` is the axis of times that site types have, if any."""
    time = file["lattice/time"]
    lead = [file[name] for name in ("point", "replica") if name in file]
    shape = particles.shape[-4:]
    scales = []
    for name, size in zip(("z", "y", "x", "slot"), shape, strict=True):
        scale = file.create_dataset(f"lattice/{name}", data=np.arange(size, dtype="<u4"))
        scale.make_scale(name)
        scales.append(scale)
    if changes is None:
        changes = file.create_dataset("lattice/layout", data=np.zeros(1))
        changes.make_scale("layout")
    axes_of_sites = [*lead, changes, *scales[:3]]
    for dataset, axes in ((particles, [*lead, time, *scales]), (sites, axes_of_sites)):
        for index, scale in enumerate(axes):
            dataset.dims[index].attach_scale(scale)
