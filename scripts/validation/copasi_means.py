"""Means of exact trajectories by COPASI, of a network as it is written in SBML.

Needs ``pip install copasi-basico``. COPASI refuses stochastic runs of rate rules and of stoichiometries
that are not whole.
"""

from __future__ import annotations

import contextlib
import io
import logging
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import tauslab as ts

FEWEST = 20  # trajectories that are worth comparing
ABSENT = "basico is not installed"
_TRIAL = 2


@dataclass(frozen=True)
class Means:
    """Means and their standard errors, ``[time]`` of each species, and of how many trajectories."""

    means: dict[str, npt.NDArray[np.float64]]
    errors: dict[str, npt.NDArray[np.float64]]
    trajectories: int


def copasi_means(
    network: ts.Network, times: Sequence[float], n: int, seconds: float
) -> Means | str:
    """Means at evenly spaced `times` from 0, of `n` trajectories or what `seconds` allow.

    Returns
    -------
    Means, or why there are none.
    """
    try:
        basico = import_module("basico")
    except ImportError:
        return ABSENT
    logging.disable(logging.CRITICAL)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        path = Path(folder) / "model.xml"
        try:
            network.to_sbml(path)
        except ts.TauslabError as error:
            return f"not written: {error}"
        model = basico.load_model(str(path))
        try:
            return _run(basico, network, list(times), n, seconds)
        finally:
            basico.remove_datamodel(model)


def _run(
    basico: Any, network: ts.Network, times: list[float], n: int, seconds: float
) -> Means | str:
    species = basico.get_species()
    if species is None:
        return "no species"
    names = {
        row.sbml_id: name for name, row in species.iterrows() if row.sbml_id in network.species
    }
    found: list[npt.NDArray[np.float64]] = []
    start = time.monotonic()
    while len(found) < n and (time.monotonic() - start < seconds or len(found) < _TRIAL):
        course = basico.run_time_course(
            method="directMethod", start_time=0, duration=times[-1], intervals=len(times) - 1,
            use_initial_values=True, use_numbers=True, use_seed=True, seed=len(found) + 1,
            max_steps=10_000_000,
        )  # fmt: skip
        if course is None or len(course) != len(times):
            return "COPASI refuses it, or stops"
        names = {own: name for own, name in names.items() if name in course}
        if not names:
            return "no species that moves"
        found.append(np.column_stack([course[name].to_numpy(float) for name in names.values()]))
        elapsed = time.monotonic() - start
        if len(found) == _TRIAL and elapsed / _TRIAL * FEWEST > 2 * seconds:
            return "too slow"
    values = np.array(found)
    spread = values.std(axis=0, ddof=1) / np.sqrt(len(found))
    means = values.mean(axis=0)
    columns = dict(enumerate(names))
    return Means(
        {name: means[:, k] for k, name in columns.items()},
        {name: spread[:, k] for k, name in columns.items()},
        len(found),
    )
