"""What a run keeps of its trajectories: samples, sums over them, histograms, summaries."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned, opt
from tauslab.options.summary import PREFIX, SummarySpec

FloatArray = npt.NDArray[np.float64]

SAMPLED = "sampled"  # of what an ODE ensemble draws: the dataset /summary/sampled:NAME
_WORDS = ("trajectories", "statistics", "final", SAMPLED)


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
    """What a run keeps: samples, sums over them, histograms, summaries, what ``--sample`` drew."""

    trajectories: bool = False
    statistics: bool = False
    final: bool = False
    histograms: tuple[HistogramSpec, ...] = ()
    summaries: tuple[SummarySpec, ...] = ()
    sampled: bool = False

    @classmethod
    def parse(cls, text: str | Sequence[str]) -> Record:
        """Read ``trajectories,statistics,final,histogram:SPECIES:LO:HI:BINS,summary:...``.

        Raises
        ------
        ConfigError
            A word that is not one of these, a histogram without a range, or a summary that is
            not known or given twice.
        """
        words = text.split(",") if isinstance(text, str) else _words(text) or [""]
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
        """Whether only numbers per trajectory are kept of samples: summaries, and histograms."""
        return bool(self.summaries) and not (self.trajectories or self.statistics or self.final)


def _words(given: object) -> list[str]:
    words: list[str] = []
    for word in given if isinstance(given, Iterable) else [given]:
        if not isinstance(word, str):
            raise ConfigError(f"{opt('record')} takes texts such as 'statistics', not {word!r}")
        words.append(word)
    return words


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
