"""Movies of lattice runs: the slices of all frames, one after another."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tauslab.base.errors import ConfigError
from tauslab.base.files.drafts import replacing
from tauslab.store.results.lattice.recorded import RecordedLattice
from tauslab.views.figures import headline, new_panels, plot_style, remark
from tauslab.views.lattice import draw_slice, slice_of, slice_title

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SUFFIXES = (".gif", ".mp4")
_MOST_FRAMES = 240  # pictures of a movie; of more frames some are left out
_MOST_PANELS = 4
_DPI = 100
_FASTEST, _SLOWEST = 25.0, 1.0  # pictures a second


def write_movie(
    result: RecordedLattice,
    path: Path,
    names: Sequence[str] | None = None,
    axis: str | None = None,
    seconds: float = 8.0,
) -> Path:
    """Write the slices of all frames, a panel for each species, all with one scale of colours.

    Of more than 240 frames, some are left out, and the movie says so.

    Raises
    ------
    ConfigError
        An unknown name, axis or suffix, no frames, no matplotlib, or no ffmpeg.
    OutputError
        It cannot be written.
    """
    chosen = list(names or result.species[:_MOST_PANELS])
    if not 1 <= len(chosen) <= _MOST_PANELS:
        raise ConfigError(f"a movie shows 1 to {_MOST_PANELS} species, not {len(chosen)}")
    if path.suffix.lower() not in SUFFIXES:
        raise ConfigError(f"{path}: movies are written as {' or '.join(SUFFIXES)}")
    if not seconds > 0:
        raise ConfigError(f"a movie cannot take {seconds:g} seconds: it must be more than 0")
    count = len(result.frames.times)
    every = -(-count // _MOST_FRAMES)
    frames = range(0, count, every)
    speed = round(min(_FASTEST, max(_SLOWEST, len(frames) / seconds)))
    with plot_style():
        writer = _writer(path, speed)
        figure, update = _scene(result, chosen, axis, frames)
        headline(figure, result.unfinished)
        remark(figure, f"every {every}. frame" if every > 1 else "")
        figure.draw_without_rendering()
        figure.set_layout_engine("none")  # panels stay where they are
        _write(writer, figure, path, update, frames)
    return path


def _writer(path: Path, speed: int) -> Any:
    from matplotlib.animation import FFMpegWriter, PillowWriter

    if path.suffix.lower() == ".gif":
        return PillowWriter(fps=speed)
    if not FFMpegWriter.isAvailable():
        raise ConfigError(f"{path}: MP4 needs the program ffmpeg, which is missing; GIF does not")
    return FFMpegWriter(fps=speed, extra_args=["-pix_fmt", "yuv420p", "-vf", _EVEN])


_EVEN = "pad=ceil(iw/2)*2:ceil(ih/2)*2:color=white"  # players want even numbers of pixels


def _scene(
    result: RecordedLattice, names: list[str], axis: str | None, frames: range
) -> tuple[Figure, Any]:
    """The figure with the first frame, and what puts another one into it."""
    slices = {
        (name, frame): slice_of(result, name, frame, axis) for frame in frames for name in names
    }
    most = {name: max(int(slices[name, f].values.max()) for f in frames) for name in names}
    figure, panels = new_panels([None] * len(names))
    first, images = frames[0], {}
    for name, axes in zip(names, panels, strict=True):
        images[name] = draw_slice(axes, result, slices[name, first], most[name])
        axes.set_title(slice_title(result, name, first, slices[name, first]))

    def update(frame: int) -> None:
        for name, axes in zip(names, panels, strict=True):
            cut = slices[name, frame]
            images[name].set_data(np.asarray(cut.values))
            axes.set_title(slice_title(result, name, frame, cut))

    return figure, update


def _write(writer: Any, figure: Figure, path: Path, update: Any, frames: range) -> None:
    with replacing(path, path.suffix) as draft:
        writer.setup(figure, draft, dpi=_DPI)
        for frame in frames:
            update(frame)
            writer.grab_frame()
        writer.finish()
