"""Numbers of a lattice run for other libraries: tables, xarray, and HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import IntArray
from tauslab.base.errors import ConfigError
from tauslab.base.host import require_memory
from tauslab.base.html import card, table
from tauslab.base.option_names import assigned
from tauslab.store.results.columns import apart
from tauslab.store.results.lattice.frames import AXES
from tauslab.store.results.lattice.recorded import RecordedLattice
from tauslab.store.results.result import Result
from tauslab.store.results.tables import ResultTable

if TYPE_CHECKING:
    import xarray

BY_SITE_TYPE = "counts_by_site_type"
WHAT = ("counts", BY_SITE_TYPE)  # tables
_SHOWN = 12  # species in a notebook
T = TypeVar("T")


def lattice_table(
    result: RecordedLattice,
    names: Sequence[str] = (),
    what: str | None = None,
    *,
    replica: int | None = None,
) -> ResultTable:
    """Particles of each species, a row per time at which they were counted.

    Swept values, replicas where there are several, and with ``counts_by_site_type`` site types have
    columns too.  Rows that an unfinished replica has not reached are left out.

    Parameters
    ----------
    names
        Species; all by default.
    what
        ``counts``, the default, or ``counts_by_site_type``.
    replica
        Only the rows of this one.

    Raises
    ------
    ConfigError
        There is no such table or species.
    """
    if what not in (None, *WHAT):
        raise ConfigError(f"{assigned('what')}{what!r} is not known; allowed are {', '.join(WHAT)}")
    types = result.site_types if what == BY_SITE_TYPE else (None,)
    chosen = tuple(names) or result.species
    counts = [
        np.stack([result.replica_samples_of(name, one) for one in types], axis=-1)
        for name in chosen
    ]
    reached = counts[0] >= 0
    if replica is not None:
        reached &= (np.arange(result.n_replicas) == replica)[:, None, None]
    rows = np.nonzero(reached)
    own: dict[str, npt.NDArray[Any]] = {"time": result.times[rows[-2]]}
    if replica is None and result.n_replicas > 1:
        own = {"replica": rows[-3], **own}
    if what == BY_SITE_TYPE:
        own["site_type"] = np.array(result.site_types)[rows[-1]]
    labels = (*own, *apart(chosen, own, "species"))
    points = {k: v[rows[0]] for k, v in result.points.items()} if result.whole_sweep else {}
    swept = dict(_swept(points, (*labels, "replica")))
    columns = [*swept.values(), *own.values(), *(values[rows] for values in counts)]
    return ResultTable((*swept, *labels), iter([columns]), result.unfinished)


def _swept(values: Mapping[str, T], taken: Sequence[str]) -> Iterator[tuple[str, T]]:
    """Names of columns or coordinates of what was swept, with its values."""
    return zip(apart(tuple(values), taken, "swept"), values.values(), strict=True)


def ensemble_of(result: RecordedLattice, site_type: str | None = None) -> Result:
    """Counts of all replicas as an ensemble in memory, a block per replica.

    Of an unfinished run, blocks of replicas that are not as far as the one meant are unfinished.
    """
    samples = [result.replica_samples_of(name, site_type) for name in result.species]
    counts = np.stack(samples, axis=-1)
    require_memory(counts.nbytes, f"counts of {result.n_replicas * result.n_points} runs")
    small = counts.max(initial=0) <= np.iinfo(np.int32).max
    ended = counts[..., -1, 0] >= 0 if counts.shape[-2] else np.zeros(counts.shape[:-2], np.bool_)
    data: dict[str, Any] = {
        "time": result.times,
        "species": np.array(result.species, object),
        "counts": counts.astype(np.int32) if small else counts,
        "status": np.where(ended, 0, 255).astype(np.uint8),
    }
    if not result.complete:
        data["progress/complete"], data["progress/blocks"] = np.uint8(0), ended.reshape(-1) * 1
    kept = {name: value for name, value in result.attributes.items() if name in _KEPT}
    attributes = {"method": "rdme", "amount_unit": "particles", "time_unit": "s", **kept}
    attributes |= {} if result.complete else {"block": 1}
    if result.whole_sweep:
        data |= {f"sweep/{name}": values for name, values in result.points.items()}
        attributes |= {n: v for n, v in result.attributes.items() if n in ("sweep", "grid")}
    ensemble = Result(data, attributes)
    ensemble.warned = True  # of `result`, when its counts were read
    return ensemble


def lattice_to_xarray(result: RecordedLattice, frames: Sequence[str]) -> xarray.Dataset:
    """All of a run with named dimensions; see `LatticeResult.to_xarray`."""
    import xarray

    def replicas(site_type: str | None) -> Any:
        each = [result.replica_samples_of(name, site_type) for name in result.species]
        values = np.stack(each, axis=-1)
        return values if (values >= 0).all() else np.where(values < 0, np.nan, values)

    particles = {"units": "1", "long_name": "particles"}
    by_type = [replicas(name) for name in result.site_types]
    lead = ("point", "replica") if result.whole_sweep else ("replica",)
    variables: dict[str, Any] = {
        "counts": ((*lead, "time", "species"), replicas(None), particles),
        BY_SITE_TYPE: (
            (*lead, "time", "site_type", "species"), np.stack(by_type, axis=-2), particles,
        ),
    }  # fmt: skip
    coordinates: dict[str, Any] = {
        "replica": np.arange(result.n_replicas),
        "time": ("time", result.times, {"units": "s"}),
        "species": list(result.species),
        "site_type": list(result.site_types),
    }
    if result.whole_sweep:
        taken = (*variables, *coordinates, "point")
        coordinates |= {name: ("point", v) for name, v in _swept(result.points, taken)}
    else:
        coordinates |= dict(_swept(result.values, (*coordinates, "point")))
    if frames:
        times = result.frame_times
        cells = int(np.prod(result.shape)) * len(times) * len(frames)
        require_memory(4 * cells, f"{len(times)} frames of {len(frames)} species")
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


def _points_facts(result: RecordedLattice) -> dict[str, str]:
    """Points of a sweep, or the one that is meant."""
    if result.whole_sweep:
        names = ", ".join(f"{name} {v.min():g} to {v.max():g}" for name, v in result.points.items())
        return {"points": f"{result.n_points}: {names}"}
    at = ", ".join(f"{name} = {value:g}" for name, value in result.values.items())
    return {"point": f"{result.point}: {at}"} if at else {}


def span(values: IntArray) -> str:
    """A number of particles, or the smallest and largest over the points of a sweep."""
    reached = values[values >= 0]
    if not reached.size:
        return "not yet"
    low, high = int(reached.min()), int(reached.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"


_KEPT = ("seed", "model_sha256", "tauslab_version", "command", "step", "steps")


def lattice_result_html(result: RecordedLattice) -> str:
    """A card of the result in a notebook."""
    z, y, x = result.shape
    attributes = result.attributes
    facts = {
        "file": str(result.path),
        "lattice": f"{z} x {y} x {x} sites (z, y, x) of {result.spacing * 1e9:g} nm",
        "samples": f"{len(result.times)}"
        + (f", to t = {result.times[-1]:g} s" if len(result.times) else ""),
        "frames": str(len(result.frame_times)),
        **_points_facts(result),
        "replicas": str(result.n_replicas),
        "seed": str(attributes["seed"]),
        "state": result.state,
    }
    rows = []
    for name in result.species[:_SHOWN] if len(result.times) else ():
        counts = result.samples_of(name)
        ends = (counts[..., 0], counts[..., -1])
        rows.append((name, *(span(end) for end in ends)))
    more = len(result.species) - _SHOWN
    return card(
        "LatticeResult",
        facts,
        [table(("species", "particles at the start", "at the end"), rows, more=more)],
    )
