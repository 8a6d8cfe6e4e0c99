"""The file of a lattice run without its frames: datasets, scales and attributes."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tauslab._version import BITS_VERSION, __version__
from tauslab.base.arrays import Array
from tauslab.base.files.seals import FORMAT, FORMAT_VERSION
from tauslab.kernels.fields import Field
from tauslab.kernels.lattice.state import RECORDED, SAMPLED
from tauslab.options.lattice import LatticeTask, hook_name
from tauslab.options.values.definition import attributes_of
from tauslab.store.checking.lattice import CHECKSUMS, COMPLETE, MARKS
from tauslab.store.format.schema import TEXT, DatasetSpec, writers_spec
from tauslab.store.format.versions import BITS

ALL_REPLICAS = "all_replicas"  # of a file with some replicas of an array
HOOKS, HOOK_INTERVALS = "hooks", "hook_intervals"  # attributes
MAY_DIFFER = {
    "format_version",
    "tauslab_version",
    BITS,
    "command",
    "engine",  # a run that is resumed takes it from its file
    ALL_REPLICAS,  # a file of an earlier version lacks it
    HOOKS,  # a function may get another name; `HOOK_INTERVALS` are compared
}  # between a run and its resumption
SWEEP_NAMES = ("sweep", "sweep_sha256", "grid")
_CHUNK_BYTES = 1 << 20


def planes_of_a_chunk(shape: Sequence[int], itemsize: int) -> int:
    """Planes in a chunk of particles ``[z, y, x, slot]``."""
    return int(min(shape[0], max(1, _CHUNK_BYTES // (math.prod(shape[1:]) * itemsize))))


def lattice_attributes(task: LatticeTask, seed: int) -> dict[str, Any]:
    """Root attributes."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "tauslab_version": __version__,
        BITS: BITS_VERSION,
        "method": "rdme",
        "engine": _engine_of(task),
        "storage": "plain",
        **attributes_of(replace(task.options, count_every=task.count_every)),
        "seed": np.uint64(seed),
        "model_sha256": task.sha256,
        "command": task.options.command,
        **_hook_attributes(task),
        "steps": task.steps,
        "step": task.lattice.step,
        "diffusion_substeps": task.passes,
        "reaction_substeps": task.lattice.reaction_substeps,
        **{f"set_{name}": value for name, value in task.options.set.items()},
        **_sweep_attributes(task),
        **({ALL_REPLICAS: task.options.all_replicas} if task.options.all_replicas else {}),
    }


def _hook_attributes(task: LatticeTask) -> dict[str, str]:
    """Names of the hooks, and their intervals in steps; functions themselves are not stored."""
    hooks = task.options.hooks
    named = [f"{hook_name(hook)} every {every:,} steps" for every, hook in hooks]
    intervals = [f"{every}" for every, _ in hooks]
    return {HOOKS: "; ".join(named) or "none", HOOK_INTERVALS: ",".join(intervals) or "none"}


def bits_engine(task: LatticeTask) -> str:
    """The name of `BITS_SINCE` under which the results of a run stand."""
    if task.lattice.objects and task.options.hooks:
        return "lattice with objects and hooks"
    if task.sweep is not None and task.options.engine == "auto":
        return "lattice sweep"
    return "lattice with reactions" if task.lattice.reactions else "lattice"


def _engine_of(task: LatticeTask) -> str:
    """The engine; of a sweep what was asked for: with `auto` each point has what its model says."""
    return str(task.engine) if task.sweep is None else task.options.engine


def _sweep_attributes(task: LatticeTask) -> dict[str, Any]:
    """Attributes of a sweep; its values are datasets, and their hash is compared."""
    if task.sweep is None:
        return {}
    grid = task.sweep.grid
    attributes = {
        "sweep": ",".join(task.sweep.names),
        "sweep_sha256": hashlib.sha256(task.sweep.values.astype("<f8").tobytes()).hexdigest(),
    }
    return attributes if grid is None else attributes | {"grid": ",".join(map(str, grid))}


def lead_of(task: LatticeTask) -> tuple[int, ...]:
    """The axes of points, in a sweep, and of replicas, where there are several."""
    replicas, sweep = task.options.replicas, task.sweep
    return (*(() if sweep is None else (sweep.points,)), *((replicas,) if replicas > 1 else ()))


def place_of(task: LatticeTask, run: int) -> tuple[int, ...]:
    """The place of a run along the axes of `lead_of`."""
    return tuple(map(int, np.unravel_index(run, lead_of(task)))) if lead_of(task) else ()


def point_specs(task: LatticeTask) -> list[DatasetSpec]:
    """Datasets of swept values ``[point]``, and of what each point has of its own."""
    if task.sweep is None:
        return []
    points = task.sweep.points
    own: dict[str, Array] = {
        "point": np.arange(points, dtype="<u4"),
        **{f"sweep/{name}": values for name, values in task.sweep.columns().items()},
        "points/seed": np.array([task.seed_of(point) for point in range(points)], "<u8"),
        "points/diffusion_substeps": task.passes_at[:, 0],
        "points/reaction_substeps": task.passes_at[:, 1],
    }
    kinds = {"f": "<f8", "i": "<i8"}
    return [
        DatasetSpec(
            name, (points,), kinds.get(values.dtype.kind, values.dtype.str), ("point",), data=values
        )
        for name, values in own.items()
    ]


def lattice_specs(
    task: LatticeTask, contents: Mapping[str, Array], sampled: Sequence[Field] | None = None
) -> list[DatasetSpec]:
    """Datasets, with what is known of their contents."""
    lattice, samples = task.lattice, len(task.times)
    sizes = {**lattice.sizes, "time": samples}
    sampled = sampled or (RECORDED if lattice.objects else SAMPLED)
    lead, replicas = lead_of(task), task.options.replicas
    axes = (*(("point",) if task.sweep else ()), *(("replica",) if replicas > 1 else ()))

    def text(name: str, values: Sequence[str]) -> DatasetSpec:
        return DatasetSpec(name, (len(values),), TEXT, (name,), data=list(values))

    specs = [
        DatasetSpec(
            "time", (samples,), "<f8", ("time",), data=task.times, attributes=(("units", "s"),)
        ),
        text("species", lattice.species),
        text("site_type", lattice.site_types),
        text("reaction", [r.name for r in lattice.reactions]),
    ]
    if lattice.objects:
        specs += [text("object", lattice.tracked), text("axis", "zyx")]
    specs += point_specs(task)
    if replicas > 1:
        numbers = np.arange(replicas, dtype="<u4") + np.uint32(task.options.first_replica)
        specs.append(DatasetSpec("replica", (replicas,), "<u4", ("replica",), data=numbers))
    specs += [
        DatasetSpec(
            each.name, (*lead, *each.shape(sizes)), each.dtype, (*axes, *each.axes), fill=-1,
            opened=True, attributes=(("units", each.unit),) if each.unit else (),
        )
        for each in sampled
    ]  # fmt: skip
    marks = np.zeros(task.runs, "<i8")
    specs.append(DatasetSpec(MARKS, marks.shape, "<i8", (MARKS,), data=marks, opened=True))
    specs.append(DatasetSpec(COMPLETE, (), "|u1", opened=True))
    specs.append(writers_spec())
    specs.append(DatasetSpec(CHECKSUMS, (len(marks), samples), "<u4", opened=True))
    return [spec.filled(contents) for spec in specs]
