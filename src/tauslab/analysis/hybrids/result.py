"""Result of a hybrid: the series of each part at times of its own, accounts, and the pilot."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tauslab.analysis.particles.sums import fixed_sum
from tauslab.base.arrays import Array, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.model.network.counts import some
from tauslab.store.checking.opening import HYBRID
from tauslab.store.results.array_result import ArrayResult, named_columns, numbers_or_none
from tauslab.store.results.tables import ResultTable
from tauslab.store.state import State
from tauslab.views.states import plot_moments

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_MOST_LINES = 12
_OWED, _MOST_TOLD = 0.1, 3  # of bills, and how many pools are named that owe more
_BY_CHANCE = NormalDist().cdf(-3.0)  # probability of a change above three standard errors
_EACH, _BOTH = "divisions/number", "divisions/number divisions/quantity"
_DIVIDED = {  # axes of arrays of `Divisions`
    **dict.fromkeys(("time", "cell", "fraction", "first_in", "second_in"), _EACH),
    **dict.fromkeys(("mother", "first", "second"), _BOTH),
}
_OF_PARTS = {"time": "time", "quantity": "quantity", "values": "trajectory time quantity"}


@dataclass(frozen=True)
class Pilot:
    """Change of means where the interval was halved.

    Attributes
    ----------
    names
        Quantities, ``part.quantity``.
    mean, halved
        f64 ``[name]``: means over cells at the end of the pilot, as run and with half the interval.
    error
        f64 ``[name]``: standard error of their difference; NaN where one cell draws, and 0 where
        nothing is drawn.
    """

    names: tuple[str, ...] = ()
    mean: FloatArray = field(default_factory=lambda: np.zeros(0))
    halved: FloatArray = field(default_factory=lambda: np.zeros(0))
    error: FloatArray = field(default_factory=lambda: np.zeros(0))

    @property
    def change(self) -> FloatArray:
        """Relative change ``[name]``."""
        return self._relative(self.halved - self.mean)

    @property
    def relative_error(self) -> FloatArray:
        """Standard error of `change` ``[name]``."""
        return self._relative(self.error)

    def _relative(self, amounts: FloatArray) -> FloatArray:
        scale = np.maximum(np.abs(self.mean), np.abs(self.halved))
        result: FloatArray = amounts / np.where(scale > 0, scale, 1.0)
        return result

    def large(self, least: float = 0.02) -> list[str]:
        """Sentences on changes above `least` and above what chance gives.

        That is three standard errors of one quantity, and more if many are compared, so that a
        warning by chance is as rare.
        """
        most = -NormalDist().inv_cdf(_BY_CHANCE / max(1, int(np.count_nonzero(self.error))))
        clear = np.abs(self.halved - self.mean) > most * self.error
        return [
            f"{name} changes by {change:+.2%}"
            for name, change, sure in zip(self.names, self.change.tolist(), clear, strict=True)
            if sure and abs(change) > least
        ]


@dataclass(frozen=True, eq=False)
class Series:
    """A part over time.

    Attributes
    ----------
    time
        f64 ``[time]``.
    names
        Quantities; ``X.paid``, ``X.debt`` and ``X.credit`` are accounts of the pool X.
    values
        f64 ``[trajectory, time, quantity]``; NaN of cells that have ended.
    """

    time: FloatArray
    names: tuple[str, ...]
    values: FloatArray


@dataclass(frozen=True, eq=False)
class Divisions:
    """Cells that divided, in the order of time.

    Attributes
    ----------
    names
        Quantities, ``part.quantity``; ``part.pool.debt`` of pools that pay bills.
    time, cell, fraction
        ``[division]``: when, which trajectory, and the part of the first daughter.
    first_in, second_in
        Trajectories ``[division]`` in which the daughters go on; -1 of one that is not followed.
    mother, first, second
        f64 ``[division, quantity]``: what the mother had, and each daughter got.
    """

    names: tuple[str, ...]
    time: FloatArray
    cell: IntArray
    fraction: FloatArray
    first_in: IntArray
    second_in: IntArray
    mother: FloatArray
    first: FloatArray
    second: FloatArray

    def __len__(self) -> int:
        """How many."""
        return len(self.time)

    def of(self, name: str) -> tuple[FloatArray, FloatArray, FloatArray]:
        """A quantity ``[division]`` of mothers, first and second daughters.

        Raises
        ------
        ConfigError
            It is not recorded.
        """
        if name not in self.names:
            raise ConfigError(f"{name!r} is not divided; {some(dict.fromkeys(self.names))} are")
        at = self.names.index(name)
        return self.mother[:, at], self.first[:, at], self.second[:, at]

    def columns(self) -> dict[str, Array]:
        """Arrays ``[division]`` by the names of a table."""
        result = {name: getattr(self, name) for name, axes in _DIVIDED.items() if axes == _EACH}
        for name in self.names:
            for who, amounts in zip(("mother", "first", "second"), self.of(name), strict=True):
                result[f"{name}_{who}"] = amounts
        return result

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file has them."""
        own = {name: getattr(self, name) for name in _DIVIDED}
        return {"number": np.arange(len(self)), "quantity": np.array(self.names, str), **own}


@dataclass(frozen=True, eq=False)
class HybridResult(ArrayResult):
    """Result of `tauslab.run` of a `Hybrid`.

    Tables of `to_pandas`: a part, by default the first, with a row per time; ``divisions``.

    Attributes
    ----------
    name, seed, tick
        As given or drawn.
    splitting
        ``strang`` or ``lie``, as given to `tauslab.run`.
    parts
        By name of the part: its samples, with the attributes `time`, `names` and `values`
        ``[cell, time, quantity]``.
    pilot
        The pilot run: `error`, and the `change` of means of `names` when the interval is halved.
    links
        Description of each link.
    divisions
        Divided cells: `time`, `cell`, `fraction` of the first daughter, and ``of(name)``; None if
        cells cannot divide.
    """

    _METHODS = (HYBRID,)
    _AXES: ClassVar = {
        "trajectory": "trajectory", "part": "part", "link": "link", "pilot/name": "pilot/name",
        **dict.fromkeys(("pilot/mean", "pilot/halved", "pilot/error"), "pilot/name"),
        "divisions/number": "divisions/number", "divisions/quantity": "divisions/quantity",
        **{f"divisions/{name}": axes for name, axes in _DIVIDED.items()},
    }  # fmt: skip

    _OPTIONAL = tuple(f"divisions/{name}" for name in ("number", "quantity", *_DIVIDED))

    name: str
    parts: Mapping[str, Series]
    pilot: Pilot
    links: tuple[str, ...]
    seed: int
    tick: float
    splitting: str
    divisions: Divisions | None = None

    @classmethod
    def axes_of(cls, names: Collection[str]) -> Mapping[str, str]:
        """Axes of the arrays of a file, whose parts it names."""
        result = dict(cls._AXES)
        for name in names:
            group, _, last = name.rpartition("/")
            if group.startswith("parts/") and last in _OF_PARTS:
                axes = _OF_PARTS[last].split()
                result[name] = " ".join(a if a == "trajectory" else f"{group}/{a}" for a in axes)
        return result

    @property
    def n(self) -> int:
        """Number of cells."""
        return int(next(iter(self.parts.values())).values.shape[0])

    @property
    def quantities(self) -> tuple[str, ...]:
        """All names, ``part.quantity``."""
        return tuple(f"{name}.{one}" for name, own in self.parts.items() for one in own.names)

    def time(self, name: str) -> FloatArray:
        """Sample times of a part, or of a quantity ``part.quantity``."""
        return self._part(name.partition(".")[0]).time

    def values(self, name: str) -> FloatArray:
        """A quantity ``part.quantity``, f64 ``[cell, time]``.

        Raises
        ------
        ConfigError
            The name is unknown.
        """
        part, _, quantity = name.partition(".")
        own = self._part(part)
        if quantity not in own.names:
            known = some(dict.fromkeys(own.names))
            raise ConfigError(f"part {part} has no {quantity!r}; it has {known}")
        return own.values[:, :, own.names.index(quantity)]

    def mean(self, name: str) -> FloatArray:
        """Mean ``[time]`` over cells that have not ended early."""
        return _over_cells(self.values(name))[0]

    def variance(self, name: str) -> FloatArray:
        """Variance ``[time]`` over cells that have not ended early; NaN for one cell."""
        return _over_cells(self.values(name))[1]

    def std(self, name: str) -> FloatArray:
        """Square root of `variance`, ``[time]``."""
        return np.sqrt(self.variance(name))

    def __getitem__(self, name: str) -> FloatArray:
        """As `values`."""
        return self.values(name)

    def paid(self, pool: str) -> FloatArray:
        """Units ``[cell, time]`` taken by `Hybrid.bill` from the pool ``part.quantity`` so far."""
        return self.values(f"{pool}.paid")

    def debt(self, pool: str) -> FloatArray:
        """Units ``[cell, time]`` that the pool ``part.quantity`` lacked and still owes."""
        return self.values(f"{pool}.debt")

    def owing(self) -> dict[str, float]:
        """Unpaid fraction, over all cells at the end, of what each pool with debts had to pay."""
        result = {}
        for part, series in self.parts.items():
            for name in (one for one in series.names if one.endswith(".debt")):
                pool = f"{part}.{name.removesuffix('.debt')}"
                debt, paid = (np.nansum(one(pool)[:, -1]) for one in (self.debt, self.paid))
                if debt > 0:
                    result[pool] = float(debt / (debt + paid))
        return result

    def _part(self, name: str) -> Series:
        if name not in self.parts:
            known = some(dict.fromkeys(self.parts))
            raise ConfigError(f"{self.name} has no part {name!r}; it has {known}")
        return self.parts[name]

    def __repr__(self) -> str:
        """One line."""
        end = max(float(own.time[-1]) for own in self.parts.values())
        short = {pool: part for pool, part in self.owing().items() if part > _OWED}
        owed = [f"{pool} owes {part:.0%} of its bills" for pool, part in short.items()]
        more = ["..."] if len(owed) > _MOST_TOLD else []
        reported = ", ".join([*self.parts, *owed[:_MOST_TOLD], *more, f"seed {self.seed}"])
        return f"<HybridResult of {self.name}: {self.n} cells to t = {end:g}, parts {reported}>"

    def arrays(self) -> dict[str, Array]:
        """All arrays by name, as a file and a digest have them."""
        result: dict[str, Array] = {
            "trajectory": np.arange(self.n), "part": np.array(list(self.parts)),
            "link": np.array(self.links, str), "pilot/name": np.array(self.pilot.names, str),
            "pilot/mean": self.pilot.mean, "pilot/halved": self.pilot.halved,
            "pilot/error": self.pilot.error,
        }  # fmt: skip
        for name, own in self.parts.items():
            result[f"parts/{name}/time"] = own.time
            result[f"parts/{name}/quantity"] = np.array(own.names, str)
            result[f"parts/{name}/values"] = own.values
        if self.divisions is not None:
            result |= {f"divisions/{k}": v for k, v in self.divisions.arrays().items()}
        return result

    def facts(self) -> dict[str, Any]:
        """The result as a dictionary for JSON, with None for NaN."""
        return {
            "method": HYBRID, "model": self.name, "seed": self.seed, "tick": self.tick,
            "splitting": self.splitting, "n": self.n, "links": list(self.links),
            "mean": {name: numbers_or_none(self.mean(name)) for name in self.quantities},
            "variance": {name: numbers_or_none(self.variance(name)) for name in self.quantities},
            "halved": dict(zip(self.pilot.names, self.pilot.change.tolist(), strict=True)),
        }  # fmt: skip

    def lines(self) -> list[str]:
        """The result in lines of text, as `tauslab info` prints it."""
        lines = [repr(self)[1:-1], f"tick {self.tick:g}, splitting {self.splitting}", *self.links]
        if self.divisions is not None:
            lines.append(f"{len(self.divisions)} divisions")
        for name in self.quantities[:_MOST_LINES]:
            mean, variance = self.mean(name)[-1], self.variance(name)[-1]
            at = self.time(name)[-1]
            lines.append(f"{name} at t = {at:g}: mean {mean:.6g}, sd {np.sqrt(variance):.4g}")
        pilot = self.pilot
        for name, change, error in zip(
            pilot.names, pilot.change, pilot.relative_error, strict=True
        ):
            lines.append(f"half the interval: {name} {change:+.3%} +- {error:.2%}")
        return lines

    def _tables(self) -> Mapping[str, Callable[[], ResultTable]]:
        result = {name: partial(self._statistics, name) for name in self.parts}
        own = self.divisions
        return (
            result if own is None else result | {"divisions": lambda: named_columns(own.columns())}
        )

    def _statistics(self, name: str) -> ResultTable:
        """A row per time of a part: means and standard deviations."""
        own = self._part(name)
        columns = {"time": own.time}
        for one in own.names:
            mean, variance = _over_cells(self.values(f"{name}.{one}"))
            columns |= {f"{one}_mean": mean, f"{one}_sd": np.sqrt(variance)}
        return named_columns(columns)

    def plot(
        self, names: str | Sequence[str] = (), path: str | os.PathLike[str] | None = None
    ) -> Figure:
        """Draw mean and two standard deviations of quantities over time; `path` as of `Chain.plot`.

        By default the first four quantities of the first part; all parts drawn need equal sample
        times.
        """
        names = [names] if isinstance(names, str) else names
        first = self.time(names[0] if names else next(iter(self.parts)))
        known = [n for n in self.quantities if np.array_equal(self.time(n), first)]
        for name in names:
            self.values(name)
            if name not in known:
                raise ConfigError(f"{name} and {names[0]} have other times: draw them apart")
        moments = {
            name: (self.mean(name), np.sqrt(np.nan_to_num(self.variance(name)))) for name in known
        }
        return plot_moments(first, moments, path, names)

    def _attributes(self) -> dict[str, Any]:
        return {
            "method": HYBRID, "model": self.name, "seed": np.uint64(self.seed), "tick": self.tick,
            "splitting": self.splitting,
        }  # fmt: skip

    @classmethod
    def _of(cls, stored: State) -> Self:
        parts = {}
        for name in stored["part"].tolist():
            own = stored.below(f"parts/{name}")
            if not {"time", "quantity", "values"} <= own.keys():
                raise stored.damaged(f"it has no series of part {name}")
            times, names = own["time"], tuple(own["quantity"].tolist())
            values = own.take("values", np.float64, None, len(times), len(names), nan=True)
            parts[name] = Series(times, names, values)
        pilot, divisions = stored.below("pilot"), None
        if "divisions/quantity" in stored:
            own = stored.below("divisions")
            names = tuple(own["quantity"].tolist())
            divisions = Divisions(names, **{name: own[name] for name in _DIVIDED})
        return cls(
            stored.text("model"), parts,
            Pilot(tuple(pilot["name"].tolist()), pilot["mean"], pilot["halved"], pilot["error"]),
            tuple(stored["link"].tolist()), stored.whole("seed"), stored.real("tick"),
            stored.text("splitting"), divisions,
        )  # fmt: skip


def _over_cells(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and variance ``[time]`` of values ``[cell, time]``, in one order of adding."""
    means, variances = np.full((2, values.shape[1]), np.nan)
    for column in range(values.shape[1]):
        held = values[:, column][np.isfinite(values[:, column])]
        if len(held):
            means[column] = mean = fixed_sum(held) / len(held)
        if len(held) > 1:
            variances[column] = fixed_sum((held - mean) ** 2) / (len(held) - 1)
    return means, variances
