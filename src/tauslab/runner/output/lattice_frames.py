"""The frames of a finished lattice file, joined from the parts of all ranks chunk by chunk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.model.errors import OutputError
from tauslab.runner.lattice_job import LatticeTask
from tauslab.runner.output.lattice_layout import lead_of
from tauslab.runner.output.lattice_parts import LEVEL, PartName, covering, packed

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI


def join_frames(file: h5py.File, task: LatticeTask, parts: Sequence[PartName], chunk: int) -> None:
    """Write ``/lattice`` of a file; chunks of `chunk` planes are copied as they are.

    Raises
    ------
    OutputError
        A frame lacks planes.
    """
    lattice, lead = task.lattice, lead_of(task)
    times, shape = task.frame_times, (*lattice.shape, lattice.slots)
    time = file.create_dataset("lattice/time", data=times)
    time.make_scale("time")
    settings: dict[str, Any] = {"compression": "gzip", "compression_opts": LEVEL}
    sites = file.create_dataset(
        "lattice/sites", (1, *lattice.shape), "u1", chunks=(1, chunk, *shape[1:3]), **settings
    )
    for z in range(0, shape[0], chunk):
        end = min(z + chunk, shape[0])
        sites[0, z:end] = lattice.sites(z, end)
    ones = (1,) * (len(lead) + 1)
    particles = file.create_dataset(
        "lattice/particles", (*lead, len(times), *shape), lattice.particle_type,
        chunks=(*ones, chunk, *shape[1:]), **settings,
    )  # fmt: skip
    of_frame: dict[tuple[int, int], list[PartName]] = {}
    for part in parts:
        of_frame.setdefault((part.replica, part.number), []).append(part)
    for replica in range(task.options.replicas):
        for number in range(len(times)):
            cover = covering(of_frame.get((replica, number), ()), shape[0])
            if cover is None:
                raise OutputError(f"frame {number} of replica {replica} lacks planes")
            where = (replica, number) if lead else (number,)
            _join_frame(particles, where, cover, chunk)
    _attach_axes(file, particles, sites, time)


def _join_frame(
    particles: h5py.Dataset,
    where: tuple[int, ...],
    cover: Sequence[tuple[Path, int, int]],
    chunk: int,
) -> None:
    """Copy a frame: whole chunks as they are, those that slabs share put together anew."""
    import h5py

    planes = particles.shape[-4]
    shared: dict[int, Any] = {}
    for path, begin, end in cover:
        with h5py.File(path, "r") as source:
            stored, first = source["particles"], int(source.attrs["first"])
            for z in range(begin // chunk * chunk, end, chunk):
                if begin <= z and end >= min(z + chunk, planes):
                    _, data = stored.id.read_direct_chunk((z - first, 0, 0, 0))
                    particles.id.write_direct_chunk((*where, z, 0, 0, 0), data)
                    continue
                low, high = max(z, begin), min(z + chunk, end)
                if z not in shared:
                    shared[z] = np.zeros((chunk, *stored.shape[1:]), stored.dtype)
                shared[z][low - z : high - z] = stored[low - first : high - first]
                if high == min(z + chunk, planes):
                    data = packed(shared.pop(z), chunk)
                    particles.id.write_direct_chunk((*where, z, 0, 0, 0), data)


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
