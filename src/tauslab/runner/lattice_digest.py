"""SHA-256 digests of a lattice result, a line per dataset and per species of the counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.model.errors import ConfigError, InputFileError
from tauslab.runner.columns import texts
from tauslab.runner.digest import Lines, begin_digest, canonical_bytes, text_digest

_PER_SPECIES = ("counts", "counts_by_site_type")
_WHOLE = ("reactions_fired", "overflow", "lattice/time", "lattice/particles", "lattice/sites")


def lattice_digest_lines(path: Path, species: Sequence[str] | None = None) -> Lines:
    """Name and SHA-256 of every dataset that counts; of some species, only what is theirs.

    Raises
    ------
    InputFileError
        The run is unfinished.
    ConfigError
        A species is not in the file.
    """
    import h5py

    with h5py.File(path, "r") as file:
        if "progress/complete" in file and not file["progress/complete"][()]:
            raise InputFileError(
                f"{path} is unfinished, so it has no digest: complete it with --resume"
            )
        names = texts(file["species"])
        for name in species or ():
            if name not in names:
                raise ConfigError(f"{name!r} is not a species of {path}; it has {', '.join(names)}")
        chosen = [name for name in names if species is None or name in species]
        lines: Lines = [("time", _digest("time", file["time"])),
                        ("species", text_digest("species", chosen))]  # fmt: skip
        for name in _PER_SPECIES:
            values = file[name][...]
            for one in chosen:
                column = values[..., names.index(one)]
                lines.append((f"{name}/{one}", _digest(f"{name}/{one}", column)))
        if species is None:
            lines += [(name, _digest(name, file[name])) for name in _WHOLE if name in file]
    return lines


def _digest(name: str, dataset: Any) -> str:
    """Of an array, or of a dataset read a chunk of planes or a row at a time."""
    sha = begin_digest(name, dataset.dtype, dataset.shape)
    for index in np.ndindex(*dataset.shape[: max(0, dataset.ndim - 4)]):
        part = dataset[index] if index else dataset
        step = (getattr(dataset, "chunks", None) or (1,) * dataset.ndim)[len(index)]
        step = step if dataset.ndim > 4 else max(1, dataset.shape[0])
        for start in range(0, part.shape[0], step):
            sha.update(canonical_bytes(np.asarray(part[start : start + step])))
    return str(sha.hexdigest())
