"""Statistics to convergence: what ``--until`` asks for, and whether sums so far fulfil it.

A condition is tested at every 4,096 trajectory ids, from integers, whatever blocks and ranks: the
first test that it passes decides how many trajectories the result has.

A mean needs samples that tell something of it: a rare count that carries the mean, and was not
seen, leaves equal samples and an error of 0. Groups of trajectories show how unevenly the squares
of the deviations are spread, which is their kurtosis, and so how many samples are informative.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from tauslab.base.errors import ConfigError
from tauslab.base.option_names import assigned
from tauslab.options.record import HistogramSpec
from tauslab.store.format.intervals import Z, share, widening

GROUP = 4096  # trajectories between two tests
FEWEST_INFORMATIVE = 20  # without which no test of a mean is passed
FIRST_GROUP = 256  # of which sums are kept until the first test, so that it has several
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
        result = mean or share
        if result is None:
            raise ConfigError(
                f"{assigned('until')}{text!r}: write mean(SPECIES [at TIME]) or P(SPECIES>COUNT "
                "[at TIME]), then rel or ci and a number, for instance 'mean(X) rel 0.01'"
            )
        *_, t, measure, goal = result.groups()
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
        return cls(text.strip(), result[1], *t_and_goal, relation, threshold)

    @property
    def histogram(self) -> HistogramSpec | None:
        """A bin that tells a probability: those over `low` - 1 lie in it or above."""
        if not self.relation:
            return None
        low = self.threshold + (self.relation in (">", "<="))
        return HistogramSpec(self.species, float(low), float(low + 1), 1)


@dataclass
class ConvergenceSums:
    """Sums from which a condition is tested, as whole numbers.

    Attributes
    ----------
    totals
        How many trajectories count, sum, sum of squares; for a probability the last two are the
        number that fulfils it.
    open
        The same of the last group, which is not whole yet.
    products
        Over whole groups, times 4,096 over their size: products of the three by each other.
    groups
        How many are whole.
    """

    totals: tuple[int, int, int] = (0, 0, 0)
    open: tuple[int, int, int] = (0, 0, 0)
    products: tuple[int, ...] = (0,) * 6
    groups: int = 0

    def add(self, sums: Sequence[int], size: int, *, whole: bool) -> None:
        """Add sums of trajectories of the last group, of `size` where it is whole."""
        n, total, squares = (int(one) for one in sums)
        a, b, c = self.totals
        self.totals = a + n, b + total, c + squares
        a, b, c = self.open
        n, total, squares = self.open = a + n, b + total, c + squares
        if whole:
            new = (n * n, n * total, n * squares, total * total, total * squares, squares * squares)
            scale = GROUP // size
            self.products = tuple(
                old + scale * one for old, one in zip(self.products, new, strict=True)
            )
            self.groups, self.open = self.groups + 1, (0, 0, 0)

    @property
    def informative(self) -> float:
        """Number of equal deviations that would spread as unevenly: n / kurtosis.

        The variance of sums of squares over groups of w samples is w variance^2 (kurtosis - 1). 0
        of a single group, and where all samples are equal.
        """
        n, total, squares = self.totals
        if n * squares == total * total or self.groups < 2:
            return 0.0
        mean = Fraction(total, n)
        variance = Fraction(squares, n) - mean * mean
        a, b, c = mean * mean - variance, -2 * mean, 1
        nn, nt, ns, tt, ts, ss = self.products
        spread = a * a * nn + b * b * tt + ss + 2 * (a * b * nt + a * c * ns + b * c * ts)
        excess = float(spread / (GROUP * (self.groups - 1) * variance * variance))
        return n / (1 + max(0.0, excess))

    def text(self) -> str:
        """Return all numbers as text, from which a file goes on."""
        return " ".join(map(str, (*self.totals, *self.open, *self.products, self.groups)))

    @classmethod
    def parse(cls, text: str) -> ConvergenceSums:
        """Parse `text`; an earlier version wrote the first three numbers alone."""
        numbers = [int(word) for word in text.split()]
        a, b, c, d, e, f, *rest = [*numbers, *([0] * (13 - len(numbers)))]
        return cls((a, b, c), (d, e, f), tuple(rest[:6]), rest[6])


def half_width(until: UntilSpec, sums: ConvergenceSums) -> float:
    """Distance of the estimate from the further end of its interval of 95 %.

    Infinite for too few. That of a probability is `share`, which is right also where no
    trajectory, or every one, fulfils the condition. That of a mean is the normal one, widened for
    its informative samples, and infinite where fewer than `FEWEST_INFORMATIVE` are: tests at a
    growing number stop too early where by chance few have shown yet.
    """
    n, total, squares = sums.totals
    if n < 2:
        return math.inf
    estimate = abs(total) / n
    if until.relation:
        low, high = share(estimate, n)
        width = float(max(high - estimate, estimate - low))
    elif (informative := sums.informative) < FEWEST_INFORMATIVE:
        return math.inf
    else:
        spread = (n * squares - total * total) / (n * n * (n - 1))
        width = Z * math.sqrt(spread) * float(widening(informative))
    if not until.relative:
        return width
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
        Over these.
    met
        Whether the last test was passed.
    """

    until: UntilSpec
    limit: int
    done: int = 0
    sums: ConvergenceSums = field(default_factory=ConvergenceSums)
    met: bool = False

    @property
    def group(self) -> int:
        """Trajectories of the groups of the next portion."""
        return GROUP if self.done >= GROUP else FIRST_GROUP

    def test(self, groups: npt.NDArray[np.object_], rows: int, size: int = GROUP) -> None:
        """Test after each 4,096 of `rows` trajectories, sums ``[group, 3]`` of groups of `size`.

        Not where an earlier limit cut a group: a run with this limit alone has no test there.
        """
        end = self.done + rows
        for group in groups.tolist():
            self.done = min((self.done // size + 1) * size, end)
            self.sums.add(group, size, whole=self.done % size == 0)
            if self.done % GROUP and self.done < self.limit:
                continue
            self.met = half_width(self.until, self.sums) <= self.until.goal
            if self.met:
                return

    def next_end(self) -> int:
        """Trajectories after the next portion; a function of the tests so far alone."""
        if not self.done or self.done % GROUP:
            size = FIRST_GROUP if self.done < GROUP and self.done % FIRST_GROUP else GROUP
            return min((self.done // size + 1) * size, self.limit)
        ratio = half_width(self.until, self.sums) / self.until.goal
        wanted = self.done * min(_MOST_GROWTH, _MARGIN * ratio * ratio)
        groups = max(self.done // GROUP + 1, math.ceil(wanted / GROUP))
        return min(groups * GROUP, self.limit)
