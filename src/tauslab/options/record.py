"""The record of a run: samples, sums over them, histograms, summaries."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tauslab.base.arrays import FloatArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.kernels.ensemble.summaries import KINDS, Summary

SAMPLED = "sampled"  # of what an ODE ensemble draws: the dataset /summary/sampled:NAME
STATE = "state"  # of where trajectories stand at the end: datasets /summary/state:NAME
_WORDS = ("trajectories", "statistics", "final", SAMPLED, STATE)
PREFIX = "summary:"
SAME_TIME = 1e-9  # of the longest time: a difference of two times that rounding may make
_DIRECTIONS = {"up": 1, "down": -1}


@dataclass(frozen=True)
class HistogramSpec:
    """Equal bins of one species over [low, high), plus a cell under and a cell over the range."""

    species: str
    low: float
    high: float
    bins: int

    @property
    def edges(self) -> FloatArray:
        """Edges of the bins ``[bins + 1]``, in molecules."""
        return np.linspace(self.low, self.high, self.bins + 1)


@dataclass(frozen=True)
class Record:
    """The record of a run: samples, sums, histograms, summaries, draws of ``--sample``, states."""

    trajectories: bool = False
    statistics: bool = False
    final: bool = False
    histograms: tuple[HistogramSpec, ...] = ()
    summaries: tuple[SummarySpec, ...] = ()
    sampled: bool = False
    state: bool = False

    @classmethod
    def parse(cls, text: str | Sequence[str]) -> Record:
        """Read ``trajectories,statistics,final,histogram:SPECIES:LO:HI:BINS,summary:...``.

        Raises
        ------
        ConfigError
            A word that is not one of these, a histogram without a range, or a summary that is
            not known or given twice.
        """
        words = text.split(",") if isinstance(text, str) else [*text] or [""]
        histograms = tuple(_histogram(w) for w in words if w.startswith("histogram"))
        summaries = tuple(SummarySpec.parse(w) for w in words if w.startswith(PREFIX))
        for word in words:
            if word not in _WORDS and not word.startswith(("histogram", PREFIX)):
                raise ConfigError(
                    f"{assigned('record')}{word!r} is not known; allowed are {', '.join(_WORDS)}, "
                    "histogram:SPECIES:LO:HI:BINS and summary:KIND:SPECIES[:...]"
                )
        for index, summary in enumerate(summaries):
            if summary in summaries[:index]:
                raise ConfigError(f"{opt('record', PREFIX + summary.name)} is given twice")
        chosen = {word: word in words for word in _WORDS}
        return cls(histograms=histograms, summaries=summaries, **chosen)

    @property
    def reduced(self) -> bool:
        """Return whether samples leave only numbers per trajectory: summaries, and histograms."""
        return bool(self.summaries) and not (self.trajectories or self.statistics or self.final)


def _histogram(word: str) -> HistogramSpec:
    parts = word.split(":")
    try:
        name, species, low, high, bins = parts
        spec = HistogramSpec(species, float(low), float(high), int(bins))
    except ValueError:
        raise ConfigError(
            f"{assigned('record')}{word!r}: write histogram:SPECIES:LO:HI:BINS, for instance "
            "histogram:X:0:800:100"
        ) from None
    if name != "histogram" or not spec.low < spec.high or not math.isfinite(spec.high - spec.low):
        raise ConfigError(f"{assigned('record')}{word!r}: LO must be less than HI, and both finite")
    if not 1 <= spec.bins <= 2**20:
        raise ConfigError(f"{assigned('record')}{word!r}: the number of bins must be 1 to {2**20}")
    return spec


@dataclass(frozen=True)
class SummarySpec:
    """A summary as the user spells it; definitions in docs/run.md.

    Parameters
    ----------
    kind
        What is computed: a key of the forms above.
    quantity
        A species or an observable.
    numbers
        What follows: of a level first this, then the window's ends, as far as they are given.
    direction
        Of ``first-passage``: ``up``, ``down`` or empty.
    """

    kind: str
    quantity: str
    numbers: tuple[float, ...] = ()
    direction: str = ""

    @classmethod
    def parse(cls, text: str) -> SummarySpec:
        """Read ``KIND:SPECIES[:...]``, with or without ``summary:`` before it.

        Raises
        ------
        ConfigError
            An unknown kind, a wrong number of fields, or one that is not a finite number.
        """
        kind, *fields = text.removeprefix(PREFIX).split(":")
        option = opt("record", PREFIX + text.removeprefix(PREFIX))
        if kind not in KINDS:
            raise ConfigError(
                f"{option}: {kind!r} is not a summary; allowed are {', '.join(KINDS)}"
            )
        form, (fewest, most) = KINDS[kind].form, KINDS[kind].numbers
        direction = ""
        if kind == "first-passage" and len(fields) == 3 and fields[-1] in _DIRECTIONS:
            direction = fields.pop()
        try:
            numbers = tuple(float(field) for field in fields[1:])
        except ValueError:
            numbers = (math.nan,)
        good = fields and fields[0] and fewest <= len(fields) - 1 <= most
        if not good or not all(math.isfinite(value) for value in numbers):
            raise ConfigError(f"{option}: write {PREFIX}{kind}:{form}, with finite numbers")
        return cls(kind, fields[0], numbers, direction)

    @property
    def name(self) -> str:
        """Normal form, also the name of its dataset: ``amplitude:cAMP:500``."""
        words = [self.kind, self.quantity, *(_short(value) for value in self.numbers)]
        return ":".join([*words, self.direction] if self.direction else words)

    def summary(
        self, times: FloatArray, species: Sequence[str], observables: Sequence[str]
    ) -> Summary:
        """Return what the device computes for the sample times and recorded quantities of a run.

        Raises
        ------
        ConfigError
            The quantity is not recorded, or the window holds too few samples, or of an
            oscillation unevenly spaced ones.
        """
        option = opt("record", PREFIX + self.name)
        real = self.quantity not in species
        names = observables if real else species
        if self.quantity not in names:
            known = [*species, *observables]
            listed = ", ".join(known[:8]) + (", ..." if len(known) > 8 else "")
            raise ConfigError(
                f"{option}: {self.quantity} is not a recorded species or observable; "
                f"recorded are {listed}"
            )
        leveled = KINDS[self.kind].numbers[0]
        given = self.numbers[leveled:]
        ends = given[0] if given else -math.inf, given[1] if len(given) > 1 else math.inf
        begin, end = self._window(times, *ends)
        level = self.numbers[0] if leveled else 0.0
        direction = _DIRECTIONS.get(self.direction, 0)
        self._check_window(option, times[begin:end])
        return Summary(
            self.kind, names.index(self.quantity), real, begin, end, level, direction, ends
        )

    def _window(self, times: FloatArray, first: float, last: float) -> tuple[int, int]:
        """Samples between two times, both included; of times spent, also those around them."""
        slack = SAME_TIME * max(abs(float(times[0])), abs(float(times[-1])))
        begin = int(np.searchsorted(times, first - slack, side="left"))
        end = int(np.searchsorted(times, last + slack, side="right"))
        if KINDS[self.kind].cut:
            begin -= begin > 0 and (begin == len(times) or times[begin] > first + slack)
            end += end < len(times) and (end == 0 or times[end - 1] < last - slack)
        return begin, end

    def _check_window(self, option: str, times: FloatArray) -> None:
        least = KINDS[self.kind].least
        if len(times) < least:
            raise ConfigError(
                f"{option}: its window holds {len(times)} sample times; it needs {least} or more"
            )
        steps = np.diff(times)
        if KINDS[self.kind].even and not np.allclose(steps, steps[0], rtol=1e-6, atol=0):
            raise ConfigError(f"{option}: it needs evenly spaced sample times in its window")


def _short(value: float) -> str:
    """The shortest text that gives the number back: 500, 0.1, 1e-07."""
    return str(int(value)) if value == int(value) and abs(value) < 1e15 else repr(value)


def quantity_of(name: str) -> str:
    """Species or observable of a summary's name."""
    return name.split(":")[1]
