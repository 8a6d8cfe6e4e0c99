"""Entries of conditional probability tables: how they are numbered, and how counts are added."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import UintArray
from tauslab.base.errors import ConfigError
from tauslab.base.option_names import opt

_WORD = 1 << 63  # what a word of a key stays below


@dataclass(frozen=True)
class NodeFamily:
    """A node after a step and its parents before it, by number: variables first, then parameters.

    `parents` have an order, in which their bins are the digits of an entry's number; the node's
    own bin is the last digit.
    """

    name: str
    node: int
    parents: tuple[int, ...]


@dataclass(frozen=True)
class Keys:
    """A split of the number of an entry into two words of 63 bits.

    The digits of an entry are the bins of the parents and the node's own, which has most weight
    at the front. The high word is the step (0 for the first) with the first `split` digits behind
    it, the low word the others; so both words in order sort by step and then by bins.
    """

    sizes: tuple[int, ...]
    split: int

    @classmethod
    def of(cls, family: NodeFamily, bins: Sequence[int], times: int) -> Keys:
        """Put as many digits as fit into the low word.

        Raises
        ------
        ConfigError
            The rest does not fit into the high word.
        """
        sizes = (*(bins[p] for p in family.parents), bins[family.node])
        split = 0
        while math.prod(sizes[split:]) >= _WORD:
            split += 1
        if math.prod(sizes[:split]) * (times - 1) >= _WORD:
            raise ConfigError(
                f"the table of {family.name} has {float(math.prod(sizes)):.3g} entries at each of "
                f"{times - 1} steps, since {len(family.parents)} nodes decide it: at most "
                f"{float(_WORD) ** 2:.3g} can be numbered; take fewer {opt('intervals')}"
            )
        return cls(sizes, split)

    @property
    def entries(self) -> int:
        """Number of entries at one step."""
        return math.prod(self.sizes)

    def words(self, steps: UintArray, bins: npt.NDArray[np.uint8]) -> tuple[UintArray, UintArray]:
        """High and low words ``[entry]`` of entries by step and bins."""
        words = [steps.astype(np.uint64), np.zeros(len(bins), np.uint64)]
        for d, size in enumerate(self.sizes):
            word = int(d >= self.split)
            words[word] = words[word] * np.uint64(size) + bins[:, d]
        return words[0], words[1]

    def digits(self, high: UintArray, low: UintArray) -> tuple[UintArray, npt.NDArray[np.uint8]]:
        """Steps ``[entry]`` and bins u8 ``[entry, digit]``."""
        bins = np.empty((len(low), len(self.sizes)), np.uint8)
        words = [high.copy(), low.copy()]
        for d in reversed(range(len(self.sizes))):
            word = int(d >= self.split)
            words[word], bins[:, d] = np.divmod(words[word], np.uint64(self.sizes[d]))
        return words[0], bins


@dataclass(frozen=True)
class Entries:
    """The entries of a node's table that occur, in order of their keys.

    `high` and `low` u64 ``[entry]`` are the words of `Keys`; `counts` u64 ``[entry]`` how many
    trajectories fell there.
    """

    high: UintArray
    low: UintArray
    counts: UintArray

    @classmethod
    def merged(cls, parts: Sequence[Entries]) -> Entries:
        """Counts of the same entries added, in order; of parts in any order."""
        none = np.zeros(0, np.uint64)
        high, low, counts = (
            np.concatenate([none, *(getattr(part, name) for part in parts)])
            for name in ("high", "low", "counts")
        )
        order = np.lexsort((low, high))
        high, low, counts = high[order], low[order], counts[order]
        first = np.ones(len(high), bool)
        first[1:] = (high[1:] != high[:-1]) | (low[1:] != low[:-1])
        starts = np.flatnonzero(first)
        return cls(
            high[starts], low[starts], np.add.reduceat(counts, starts) if len(starts) else counts
        )
