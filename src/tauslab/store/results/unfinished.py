"""An unfinished run on disk: the blocks that count, and the sums over their trajectories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import InputFileError, OutputError
from tauslab.base.files.seals import SealedFile
from tauslab.base.option_names import opt, warn
from tauslab.options.record import HistogramSpec
from tauslab.store.checking.ensemble import OF_AMOUNTS
from tauslab.store.checking.opening import ended_by_signals
from tauslab.store.format.layout import BoolArray, Layout
from tauslab.store.format.statistics import statistics_contents
from tauslab.store.targets import part_files, parts_folder
from tauslab.store.writers.progress import Source, progress, read_source

if TYPE_CHECKING:
    import h5py  # imported where it is used: an h5py that was built with MPI starts MPI

_HISTOGRAMS, _EDGES = "statistics/histogram/", "_edges"


def layout_in(file: h5py.File, sealed: SealedFile) -> Layout:
    """Axes and recorded data of a file, which was checked."""
    attributes, names = sealed.attributes, sealed.names
    swept = str(attributes["sweep"]).split(",") if "sweep" in attributes else []
    recorded = [n[len(_HISTOGRAMS) : -len(_EDGES)] for n in names if n.endswith(_EDGES)]
    edges = {name: file[f"{_HISTOGRAMS}{name}{_EDGES}"][()] for name in recorded}
    return Layout(
        n=int(attributes["n"]),
        times=file["time"][()],
        species=_texts(file["species"]) if "species" in names else (),
        observables=_texts(file["observable"]) if "observable" in names else (),
        trajectories=any(name in names for name in ("counts", "amounts", "observables")),
        final="final" in names,
        statistics="statistics/n" in names,
        histograms=tuple(
            HistogramSpec(name, float(e[0]), float(e[-1]), len(e) - 1) for name, e in edges.items()
        ),
        summaries=tuple(n.removeprefix("summary/") for n in names if n.startswith("summary/")),
        block=int(attributes["block"]),
        sweep={name: file[f"sweep/{name}"][()] for name in swept} or None,
        group=int(attributes.get("group", 0)),
        amounts=attributes["method"] in OF_AMOUNTS,
        format_version=int(attributes["format_version"]),
    )


def _texts(dataset: h5py.Dataset) -> tuple[str, ...]:
    return tuple(name.decode() for name in dataset[()].tolist())


class FinishedBlocks:
    """Blocks of an unfinished run that `--resume` would not run again.

    A block whose sums no checkpoint holds yet is none of them, though its rows are on disk.

    Parameters
    ----------
    done
        Which they are ``[block]``, as of now.
    """

    def __init__(self, path: Path, file: h5py.File, sealed: SealedFile) -> None:
        self._path, self._sealed = path, sealed
        self._layout = layout_in(file, sealed)
        sources = list(self._sources())
        samples = replace(self._layout, statistics=False, histograms=())
        needs = self._layout.needs_checkpoint
        stored = progress(self._layout if needs else samples, sources)
        self.done: BoolArray = stored.completed
        self._restored = stored.restored

    def _sources(self, *, verify: bool = False) -> Iterator[Source]:
        plain = self._sealed.attributes["storage"] == "plain"
        files = [self._path] if plain else part_files(parts_folder(self._path))
        for where in files:
            try:
                with ended_by_signals():
                    run = str(self._sealed.attributes["run"])
                    source = read_source(where, self._layout, run, verify=verify)
            except OutputError as error:
                if plain:
                    raise InputFileError(str(error)) from None
                warn(f"{error}; {opt('resume')} runs the blocks of {where} again")
                continue
            if source is not None and source.damaged:
                raise InputFileError(
                    f"{where} is damaged, or was changed after it had been written: "
                    f"{len(source.damaged)} of its blocks do not agree with their checksums"
                )
            if source is not None:
                yield source

    @cached_property
    def statistics(self) -> dict[str, npt.NDArray[Any]]:
        """All datasets under /statistics by their names, of the trajectories of `done` alone."""
        totals = self._restored
        if totals is None:  # to be summed from samples, which are compared with their checksums
            sources = []
            for source in self._sources(verify=True):
                there = (source.blocks >= 0) & self.done[source.blocks]
                sources.append(replace(source, blocks=np.where(there, source.blocks, -1)))
            totals = progress(self._layout, sources).restored
        return {} if totals is None else statistics_contents(self._layout, totals)
