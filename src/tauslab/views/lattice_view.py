"""A frame of a lattice run in three dimensions."""

from __future__ import annotations

from collections.abc import Sequence

from tauslab.base.errors import ConfigError
from tauslab.base.view3d import View3d
from tauslab.store.results.lattice.recorded import RecordedLattice
from tauslab.views.scene import MOST_PARTICLES, Sample, draw_scene

_MOST_SPECIES = 7


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
    frame = result.frame_at(t)
    samples = {}
    for name in chosen:
        samples[name] = Sample(MOST_PARTICLES // len(chosen))
        for first, density in result.slabs(name, frame):
            samples[name].add(density, first)
    return draw_scene(
        result.shape,
        result.spacing,
        title=f"t = {result.frame_times[frame]:g} s",
        sites=result.sites(frame),
        site_types=result.site_types or ("default",),
        particles=samples,
    )
