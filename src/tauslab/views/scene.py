"""A lattice, or a frame of its run, in three dimensions, to be turned with the mouse, by plotly.

A page holds all that it needs, so that it opens without a network. What would make it slow is
thinned out: particles at random, sites by taking one of several along each axis.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.base.files.extras import installing
from tauslab.base.view3d import View3d
from tauslab.model.lattice.data import LatticeData
from tauslab.store.results.lattice.recorded import RecordedLattice
from tauslab.views.figures import COLOURS

MOST_PARTICLES = 40_000  # of a picture, over all species
MOST_CELLS = 96  # along an axis
MOST_FACES = 60_000  # of a type of site
_MOST_SPECIES = 7
Sites = npt.NDArray[np.uint8]
Faces = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


class Sample:
    """Sites of particles, of which some are left out when there are too many.

    Each particle stays with the same probability, a power of 1/2; a fixed seed makes pictures that
    can be repeated.
    """

    def __init__(self, most: int) -> None:
        self._most, self._random = most, np.random.default_rng(0)
        self._kept: npt.NDArray[np.int64] = np.zeros((0, 3), np.int64)
        self.every, self.seen = 1, 0

    def add(self, density: npt.NDArray[np.uint8], first: int) -> None:
        """Add the particles ``[z, y, x]`` of planes from `first` on."""
        sites = np.argwhere(density)
        sites = np.repeat(sites, density[tuple(sites.T)], axis=0)
        sites[:, 0] += first
        self.add_sites(sites)

    def add_sites(self, sites: npt.NDArray[np.int64]) -> None:
        """Add the sites ``[particle, 3]`` (z, y, x) of particles."""
        self.seen += len(sites)
        kept = self._thinned(sites, self.every)
        self._kept = np.concatenate([self._kept, kept])
        while len(self._kept) > self._most:
            self.every *= 2
            self._kept = self._thinned(self._kept, 2)

    def _thinned(self, sites: npt.NDArray[np.int64], every: int) -> npt.NDArray[np.int64]:
        return sites if every == 1 else sites[self._random.random(len(sites)) < 1 / every]

    def places(self) -> npt.NDArray[np.float64]:
        """Places to draw them: anywhere in their sites, so that they do not hide each other."""
        return self._kept + self._random.random(self._kept.shape)


def surface(chosen: npt.NDArray[np.bool_]) -> Faces:
    """Corners ``[corner, 3]`` and triangles ``[triangle, 3]`` of the surface of some cells.

    >>> corners, triangles = surface(np.ones((1, 1, 2), bool))
    >>> len(triangles)  # two cells side by side have ten faces
    20
    """
    padded = np.pad(chosen, 1)
    quads = []
    for axis in range(3):
        below = np.argwhere(np.diff(padded.astype(np.int8), axis=axis))
        corner = below.astype(np.float64) - 1
        corner[:, axis] += 1
        one, other = np.eye(3)[[(axis + 1) % 3, (axis + 2) % 3]]
        quads.append(np.stack([corner, corner + one, corner + one + other, corner + other], axis=1))
    faces = np.concatenate(quads)
    corners = faces.reshape(-1, 3)
    first = 4 * np.arange(len(faces))[:, None]
    triangles = np.concatenate([first + np.array(three) for three in ([0, 1, 2], [0, 2, 3])])
    return corners, triangles


def draw_scene(
    shape: tuple[int, int, int], spacing: float, *, title: str, sites: Sites | None,
    site_types: Sequence[str], particles: Mapping[str, Sample],
) -> View3d:  # fmt: skip
    """A lattice as a box with its site types as surfaces, and particles as dots.

    Parameters
    ----------
    shape
        Sites along z, y and x.
    spacing
        Edge of a site in metres; axes are in micrometres.
    sites
        Numbers of site types ``[z, y, x]``; None where there is one type. The first type fills the
        box and is not drawn.

    Raises
    ------
    ConfigError
        Plotly is missing.
    """
    try:
        from plotly import graph_objects as go
    except ImportError:
        raise ConfigError(f"a view needs plotly: {installing('plotly')}") from None
    figure = go.Figure()
    remarks = []
    unit = spacing * 1e6
    if sites is not None:
        stride = max(1, math.ceil(max(shape) / MOST_CELLS))
        traces, stride = _site_traces(go, sites, site_types, unit, stride)
        figure.add_traces(traces)
        if stride > 1:
            remarks.append(f"site types at every {stride}. site along each axis")
    for number, (name, sample) in enumerate(particles.items()):
        places = sample.places() * unit
        figure.add_trace(
            go.Scatter3d(
                x=places[:, 2],
                y=places[:, 1],
                z=places[:, 0],
                mode="markers",
                name=name,
                marker={"size": 2.5, "color": COLOURS[number % len(COLOURS)]},
                hoverinfo="name",
            )
        )
        if sample.every > 1:
            remarks.append(f"{len(places):,} of {sample.seen:,} {name}")
    remark = f"thinned out: {', '.join(remarks)}" if remarks else ""
    axes = {
        f"{axis}axis": {"title": f"{axis} (µm)", "range": [0, size * unit]}
        for axis, size in zip("zyx", shape, strict=True)
    }
    text = html.escape(title) + (f"<br><sub>{html.escape(remark)}</sub>" if remark else "")
    figure.update_layout(
        title={"text": text},
        scene={**axes, "aspectmode": "data"},
        legend={"itemsizing": "constant"},
        margin={"l": 0, "r": 0, "b": 0, "t": 60},
        height=600,
        showlegend=True,
    )
    return View3d(figure, remark)


def _site_traces(
    go: Any, sites: Sites, names: Sequence[str], unit: float, stride: int
) -> tuple[list[Any], int]:
    """Surfaces of all types but the first, and the stride with which no type has too many faces."""
    while True:
        coarse = sites[::stride, ::stride, ::stride]
        surfaces = {int(number): surface(coarse == number) for number in _others(coarse)}
        if all(len(triangles) <= 2 * MOST_FACES for _, triangles in surfaces.values()):
            break
        stride *= 2
    traces = []
    for number, (corners, triangles) in surfaces.items():
        z, y, x = (corners * stride * unit).T
        i, j, k = triangles.T
        traces.append(
            go.Mesh3d(
                x=x, y=y, z=z, i=i, j=j, k=k, opacity=0.18, name=names[number], hoverinfo="name",
                color=COLOURS[-1 - number % len(COLOURS)], showlegend=True, flatshading=True,
            )
        )  # fmt: skip
    return traces, stride


def _others(sites: Sites) -> Iterable[int]:
    return [int(number) for number in np.unique(sites) if number > 0]


def view_geometry(lattice: LatticeData) -> View3d:
    """Site types as surfaces, and particles that are placed one by one; see `Lattice.view`."""
    samples: dict[str, Sample] = {}
    for placed in lattice.placements:
        if placed.positions is not None:
            sample = samples.setdefault(placed.species, Sample(MOST_PARTICLES))
            sample.add_sites(placed.positions)
    several = len(lattice.type_names) > 1
    return draw_scene(
        lattice.shape,
        lattice.spacing,
        title=f"{lattice.name}: {' x '.join(map(str, lattice.shape))} sites",
        sites=lattice.sites.planes(0, lattice.shape[0]) if several else None,
        site_types=lattice.type_names,
        particles=samples,
    )


def view_frame(
    result: RecordedLattice, t: float | None = None, names: Sequence[str] | None = None
) -> View3d:
    """Particles and site types of the last frame at or before `t`; see `LatticeResult.view`.

    Raises
    ------
    ConfigError
        An unknown name, too many of them, no frames, or no plotly.
    """
    chosen = list(names or result.species[:_MOST_SPECIES])
    if not 1 <= len(chosen) <= _MOST_SPECIES:
        raise ConfigError(f"a view shows 1 to {_MOST_SPECIES} species, not {len(chosen)}")
    frame = result.frames.at(t)
    samples = {}
    for name in chosen:
        samples[name] = Sample(MOST_PARTICLES // len(chosen))
        for first, density in result.frames.slabs(name, frame):
            samples[name].add(density, first)
    return draw_scene(
        result.shape,
        result.spacing,
        title=f"t = {result.frame_times[frame]:g} s",
        sites=result.sites(frame),
        site_types=result.site_types or ("default",),
        particles=samples,
    )
