"""Statistics to convergence: what ``--until`` asks for, and whether sums so far fulfil it.

A condition is tested at every 4,096 trajectory ids, from integers, whatever blocks and ranks: the
first test that it passes decides how many trajectories the result has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tauslab.model.errors import ConfigError
from tauslab.model.option_names import assigned
from tauslab.runner.options.record import HistogramSpec

GROUP = 4096  # trajectories between two tests
_Z = 1.959963984540054  # 97.5 % quantile of the normal law: intervals hold 95 %
_MARGIN = 1.05  # more trajectories than seem to be needed, so that one more portion is enough
_MOST_GROWTH = 8

_NUMBER = r"([-+0-9.eE]+)"
_END = rf"(?:\s+at\s+{_NUMBER})?\s*\)\s+(rel|ci)\s+{_NUMBER}"
_MEAN = re.compile(rf"mean\(\s*([^\s()]+){_END}")
_SHARE = re.compile(rf"P\(\s*([^\s()<>=]+)\s*(>=|<=|>|<)\s*(\d+){_END}")


@dataclass(frozen=True)
class UntilSpec:
    """A bound on the half width of a 95 % confidence interval.

    Parameters
    ----------
    text
        As the user wrote it.
    species
        The species whose mean is estimated, or whose probability to pass `threshold`.
    t
        Sample time; None for the last.
    relation, threshold
        The relation in a probability ``P(species relation threshold)``; empty for a mean.
    relative
        Whether `goal` is a part of the estimate rather than a number.
    """

    text: str
    species: str
    t: float | None
    relative: bool
    goal: float
    relation: str = ""
    threshold: int = 0

    @classmethod
    def parse(cls, text: str) -> UntilSpec:
        """Read ``mean(X) rel 0.01`` or ``P(X>300 at 10) ci 0.001``.

        Raises
        ------
        ConfigError
            Another form, or a goal that is not above 0.
        """
        if not isinstance(text, str):
            raise ConfigError(
                f"{assigned('until')}{text!r}: a text is expected, such as 'mean(X) rel 0.01'"
            )
        mean, share = _MEAN.fullmatch(text.strip()), _SHARE.fullmatch(text.strip())
        found = mean or share
        if found is None:
            raise ConfigError(
                f"{assigned('until')}{text!r}: write mean(SPECIES [at TIME]) or P(SPECIES>COUNT "
                "[at TIME]), then rel or ci and a number, for instance 'mean(X) rel 0.01'"
            )
        *_, t, measure, goal = found.groups()
        try:
            numbers = None if t is None else float(t), float(goal)
        except ValueError:
            raise ConfigError(
                f"{assigned('until')}{text!r}: {t} or {goal} is not a number"
            ) from None
        if not 0 < numbers[1] < math.inf:
            raise ConfigError(
                f"{assigned('until')}{text!r}: {goal} is not allowed, a number above 0"
            )
        relation, threshold = ("", 0) if share is None else (share[2], int(share[3]))
        t_and_goal = numbers[0], measure == "rel", numbers[1]
        return cls(text.strip(), found[1], *t_and_goal, relation, threshold)

    @property
    def histogram(self) -> HistogramSpec | None:
        """A bin that tells a probability: those over `low` - 1 lie in it or above."""
        if not self.relation:
            return None
        low = self.threshold + (self.relation in (">", "<="))
        return HistogramSpec(self.species, float(low), float(low + 1), 1)

    def half_width(self, sums: Sequence[int]) -> float:
        """Half the width of the interval after trajectories with these `Convergence.sums`.

        Infinite for too few. That of a mean is the normal one, that of a probability Wilson's
        (1927), which is right also where no trajectory, or every one, fulfils the condition.
        """
        n, total, squares = sums
        if n < 2:
            return math.inf
        if not self.relation:
            spread = (n * squares - total * total) / (n * n * (n - 1))
            width, estimate = _Z * math.sqrt(spread), abs(total) / n
        else:
            p = total / n
            root = math.sqrt(p * (1 - p) / n + _Z * _Z / (4 * n * n))
            width, estimate = _Z / (1 + _Z * _Z / n) * root, p
        if not self.relative:
            return width
        if width == 0:
            return 0.0
        return width / estimate if estimate else math.inf


@dataclass
class Convergence:
    """The tests of a condition so far.

    Attributes
    ----------
    limit
        Trajectories at most; the last test is there.
    done
        Trajectories that were tested.
    sums
        Over these: how many count, sum, sum of squares; for a probability the last two are the
        number that fulfils it.
    met
        Whether the last test was passed.
    """

    until: UntilSpec
    limit: int
    done: int = 0
    sums: tuple[int, int, int] = (0, 0, 0)
    met: bool = False

    def test(self, groups: npt.NDArray[np.object_], rows: int) -> None:
        """Test after each of the next groups, sums ``[group, 3]`` of `rows` trajectories.

        Not where an earlier limit cut a group: a run with this limit alone has no test there.
        """
        end = self.done + rows
        for group in groups.tolist():
            self.done = min(self.done + GROUP, end)
            a, b, c = self.sums
            self.sums = a + int(group[0]), b + int(group[1]), c + int(group[2])
            if self.done % GROUP and self.done < self.limit:
                continue
            self.met = self.until.half_width(self.sums) <= self.until.goal
            if self.met:
                return

    def next_end(self) -> int:
        """Trajectories after the next portion; a function of the tests so far alone."""
        if not self.done or self.done % GROUP:
            return min((self.done // GROUP + 1) * GROUP, self.limit)
        ratio = self.until.half_width(self.sums) / self.until.goal
        wanted = self.done * min(_MOST_GROWTH, _MARGIN * ratio * ratio)
        groups = max(self.done // GROUP + 1, math.ceil(wanted / GROUP))
        return min(groups * GROUP, self.limit)
