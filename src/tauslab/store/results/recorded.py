"""Records of an ensemble: settings, points of a sweep, and samples that may not fit in memory."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.arrays import BoolArray, FloatArray, is_number
from tauslab.base.errors import ConfigError
from tauslab.base.files.text import plain
from tauslab.options.record import SAME_TIME, STATE
from tauslab.store.checking.ensemble import OF_AMOUNTS
from tauslab.store.format.layout import Layout
from tauslab.store.results import columns
from tauslab.store.results.approximation import OF_SAMPLING, approximation
from tauslab.store.results.of_run import RunResult


class Recorded(RunResult):
    """Arrays of a run by the names that they have in a file, and what they say of the run.

    Parameters
    ----------
    data
        Arrays, or HDF5 datasets, by the names they have in a file (``counts``,
        ``statistics/sum``, ...).
    attributes
        Root attributes: method, seed, model_sha256, choices made, ...
    path
        The file the data comes from, if any.
    close
        Called by `close`.
    reopen
        Opens a file again, for copies in other processes and for reads of a part: a function of a
        module, as `open_result`.
    layout
        Of a result in memory: how it would lie in a file.
    saves
        Whether this rank writes what all ranks have.
    """

    def __init__(
        self, data: Mapping[str, Any], attributes: Mapping[str, Any], path: Path | None = None,
        close: Callable[[], None] | None = None, reopen: Callable[..., Any] | None = None,
        layout: Layout | None = None, *, saves: bool = True,
    ) -> None:  # fmt: skip
        self.data = data
        self.path = path
        self.attributes = {name: plain(value) for name, value in attributes.items()}
        self._close, self.reopen, self.layout = close, reopen, layout
        self.warned = self._warned_of_ends = False
        self._saves = saves

    # --- what was run ---

    @property
    def _in_memory(self) -> bool:
        return self.path is None

    @property
    def approximate(self) -> str:
        """Description of the approximation; empty if the run is exact.

        The errors of leaps do not decrease with the number of trajectories.
        """
        if self.method in ("hybrid", "cle"):
            return str(self.attributes.get("approximate", ""))
        if self.method != "tau":
            return ""
        text = approximation(float(self.attributes["epsilon"]))
        tested = str(self.attributes.get("approximate", "")).endswith(OF_SAMPLING)
        return f"{text}; {OF_SAMPLING}" if tested else text

    @property
    def continuous(self) -> bool:
        """Return whether species are real amounts instead of counts."""
        return self.method in OF_AMOUNTS

    @property
    def amount_unit(self) -> str:
        """Unit of species: molecules, or the unit of the model; empty if the model states none."""
        return str(self.attributes.get("amount_unit", "molecules"))

    @property
    def time_unit(self) -> str:
        """Unit of time of the model; empty if it states none."""
        return str(self.attributes.get("time_unit", ""))

    @property
    def n(self) -> int:
        """Number of trajectories; with a sweep, at each point."""
        return int(self.data["status"].shape[-1])

    @cached_property
    def points(self) -> dict[str, FloatArray]:
        """Swept values ``[point]`` by name; empty without a sweep."""
        names = str(self.attributes["sweep"]).split(",") if self.swept else []
        return {name: np.asarray(self.data[f"sweep/{name}"][()], np.float64) for name in names}

    @property
    def n_points(self) -> int:
        """Number of points; 1 without a sweep."""
        return int(self.data["status"].shape[0]) if self.swept else 1

    @cached_property
    def times(self) -> FloatArray:
        """Sample times ``[time]``, in the model's unit."""
        return np.asarray(self.data["time"][()], np.float64)

    @cached_property
    def species(self) -> tuple[str, ...]:
        """Names of the recorded species."""
        return columns.texts(self.data["species"]) if "species" in self.data else ()

    @cached_property
    def observables(self) -> tuple[str, ...]:
        """Names of the recorded observables."""
        return columns.texts(self.data["observable"]) if "observable" in self.data else ()

    @cached_property
    def summaries(self) -> tuple[str, ...]:
        """Names of the recorded summaries, in alphabetical order."""
        return tuple(name for name in self._numbers() if name not in self.states)

    @property
    def states(self) -> tuple[str, ...]:
        """Names of the numbers from which `extend` continues."""
        return tuple(name for name in self._numbers() if name.startswith(f"{STATE}:"))

    def _numbers(self) -> list[str]:
        prefix = "summary/"
        return sorted(key.removeprefix(prefix) for key in self.data if key.startswith(prefix))

    def time_index(self, t: float) -> int:
        """Index of a sample time.

        Raises
        ------
        ConfigError
            `t` is none; the nearest one is named.
        """
        if not is_number(t) or isinstance(t, bool):
            raise ConfigError(f"t={t!r} is not allowed: a sample time is a number")
        nearest = int(np.argmin(np.abs(self.times - t)))
        span = max(abs(float(self.times[-1])), abs(float(self.times[0])))
        if abs(float(self.times[nearest]) - t) <= SAME_TIME * span:
            return nearest
        raise ConfigError(
            f"{t:g} is not a sample time of {self.name}: {len(self.times)} times from "
            f"{self.times[0]:g} to {self.times[-1]:g}, the nearest is {self.times[nearest]:g}"
        )

    @property
    def complete(self) -> bool:
        """Return whether the run is complete."""
        return "progress/complete" not in self.data or int(self.data["progress/complete"][()]) == 1

    @cached_property
    def completed_blocks(self) -> BoolArray:
        """Mask of the storage blocks that are there, ``[block]``."""
        if "progress/blocks" not in self.data:
            return np.ones(-(-self.n_points * self.n // self.block), np.bool_)
        return np.asarray(self.data["progress/blocks"][()] == 1, np.bool_)

    @property
    def block(self) -> int:
        """Trajectories in a storage block."""
        return int(self.attributes.get("block", self.n))

    @property
    def unfinished(self) -> str:
        """Description of the finished part of an unfinished run; empty for a complete run."""
        if self.complete:
            return ""
        done = self.completed_blocks
        return f"{int(done.sum()):,} of {len(done):,} blocks"
