"""Numbers of a lattice run for other libraries: tables, xarray, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.model.host_memory import require_memory
from tauslab.model.pictures.html import card, table
from tauslab.runner.options.values.spelling import spelt
from tauslab.runner.results.lattice.recorded import AXES, RecordedLattice
from tauslab.runner.results.tables import ResultTable

if TYPE_CHECKING:
    import xarray

_SHOWN = 12  # species in a notebook


def lattice_table(
    result: RecordedLattice, names: Sequence[str] = (), *, every_replica: bool = False
) -> ResultTable:
    """Particles of each species on the lattice, a row per time at which they were counted.

    With `every_replica`, and where there are several, a column tells whose; rows that an
    unfinished replica has not reached are left out.
    """
    chosen = tuple(names) or result.species
    if not every_replica or result.n_replicas == 1:
        piece = [result.times, *(result.counts(name) for name in chosen)]
        return ResultTable(("time", *chosen), iter([piece]))
    counts = [result.replica_counts(name) for name in chosen]
    replica, sample = np.nonzero(counts[0] >= 0)
    piece = [replica, result.times[sample], *(values[replica, sample] for values in counts)]
    return ResultTable(("replica", "time", *chosen), iter([piece]))


def lattice_to_xarray(result: RecordedLattice, frames: Sequence[str]) -> xarray.Dataset:
    """All of a run with named dimensions; see `LatticeResult.to_xarray`."""
    import xarray

    def replicas(site_type: str | None) -> Any:
        found = [result.replica_counts(name, site_type) for name in result.species]
        values = np.stack(found, axis=-1)
        return values if (values >= 0).all() else np.where(values < 0, np.nan, values)

    particles = {"units": "1", "long_name": "particles"}
    by_type = [replicas(name) for name in result.site_types]
    variables: dict[str, Any] = {
        "counts": (("replica", "time", "species"), replicas(None), particles),
        "counts_by_site_type": (
            ("replica", "time", "site_type", "species"), np.stack(by_type, axis=-2), particles,
        ),
    }  # fmt: skip
    coordinates: dict[str, Any] = {
        "replica": np.arange(result.n_replicas),
        "time": ("time", result.times, {"units": "s"}),
        "species": list(result.species),
        "site_type": list(result.site_types),
    }
    if frames:
        times = result.frame_times
        cells = int(np.prod(result.shape)) * len(times) * len(frames)
        require_memory(cells, f"{len(times)} frames of {len(frames)} species")
        density = np.stack([
            np.stack([result.density(name, frame) for frame in range(len(times))])
            for name in frames
        ])  # fmt: skip
        axes = ("frame_species", "frame", *AXES)
        variables["density"] = (axes, density, {"units": "1", "long_name": "particles in a site"})
        coordinates |= {
            "frame_species": list(frames),
            "frame": ("frame", times, {"units": "s"}),
        } | {
            axis: (axis, (np.arange(size) + 0.5) * result.spacing, {"units": "m"})
            for axis, size in zip(AXES, result.shape, strict=True)
        }
    attributes = {k: v for k, v in result.attributes.items() if k in _KEPT}
    return xarray.Dataset(variables, coordinates, attributes)


_KEPT = ("seed", "model_sha256", "tauslab_version", "command", "step", "steps")


def lattice_result_html(result: RecordedLattice) -> str:
    """What a notebook shows of a result."""
    z, y, x = result.shape
    attributes = result.attributes
    facts = {
        "file": str(result.path),
        "lattice": f"{z} x {y} x {x} sites (z, y, x) of {result.spacing * 1e9:g} nm",
        "samples": f"{len(result.times)}"
        + (f", to t = {result.times[-1]:g} s" if len(result.times) else ""),
        "frames": str(len(result.frame_times)),
        "replicas": str(result.n_replicas),
        "seed": str(attributes["seed"]),
        "state": "complete" if result.complete else spelt("unfinished; --resume completes it"),
    }
    rows = []
    for name in result.species[:_SHOWN] if len(result.times) else ():
        counts = result.counts(name)
        rows.append((name, f"{counts[0]:,}", f"{counts[-1]:,}"))
    more = len(result.species) - _SHOWN
    return card(
        "LatticeResult",
        facts,
        [table(("species", "particles at the start", "at the end"), rows, more=more)],
    )
