"""SHA-256 digests of a lattice result, a line per dataset and per species of the counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.errors import ConfigError, InputFileError
from tauslab.base.files.opening import reading
from tauslab.base.option_names import opt
from tauslab.store.checking.lattice import CheckedLattice
from tauslab.store.checking.opening import open_hdf5
from tauslab.store.results.columns import texts
from tauslab.store.results.digest import COVERED, Lines, begin_digest, canonical_bytes, text_digest

_OF_PLANES = {"lattice/particles": 4, "lattice/sites": 3}  # axes from z on
_FRAMES = ("lattice/time", "lattice/particles", "lattice/sites")


def lattice_digest_lines(path: Path, species: Sequence[str] | None = None) -> Lines:
    """Name and SHA-256 of every dataset that counts; of some species, only what is theirs.

    Raises
    ------
    InputFileError
        The run is unfinished.
    ConfigError
        A species is not in the file.
    """
    with reading(path, InputFileError), open_hdf5(path) as opened:
        file = CheckedLattice(path, opened)
        if not file.complete:
            raise InputFileError(
                f"{path} is unfinished, so it has no digest: complete it with {opt('resume')}"
            )
        names = texts(file["species"])
        for name in species or ():
            if name not in names:
                raise ConfigError(f"{name!r} is not a species of {path}; it has {', '.join(names)}")
        chosen = [name for name in names if species is None or name in species]
        columns = {name: column for column, name in enumerate(names)}
        lines: Lines = [("time", _digest("time", file["time"])),
                        ("species", text_digest("species", chosen))]  # fmt: skip
        if species is None:
            swept = [name for name in file if name.startswith("sweep/")]
            lines += [(name, _digest(name, file[name])) for name in swept]
        sampled = [each for each in file.sampled if each.since <= COVERED]
        per_species = [each.name for each in sampled if "species" in each.axes]
        for name in per_species:
            values = file[name][...]
            for one in chosen:
                column = values[..., columns[one]]
                lines.append((f"{name}/{one}", _digest(f"{name}/{one}", column)))
        if species is None:
            whole = [each.name for each in sampled if each.name not in per_species]
            lines += [
                (name, _digest(name, file[name])) for name in (*whole, *_FRAMES) if name in file
            ]
    return lines


def _digest(name: str, dataset: Any) -> str:
    """Digest of an array or a dataset; the lattice is read by chunks of planes."""
    sha = begin_digest(name, dataset.dtype, dataset.shape)
    axes = _OF_PLANES.get(name, dataset.ndim)
    for index in np.ndindex(*dataset.shape[: dataset.ndim - axes]):
        size = dataset.shape[len(index)]
        step = dataset.chunks[len(index)] if name in _OF_PLANES and dataset.chunks else max(1, size)
        for start in range(0, size, step):
            part = dataset[(*index, slice(start, start + step))]
            sha.update(canonical_bytes(np.asarray(part)))
    return str(sha.hexdigest())
