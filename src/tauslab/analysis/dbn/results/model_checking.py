"""Statistical model checking: how likely trajectories have a property, by as few as will do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, BoolArray, FloatArray, IntArray
from tauslab.base.errors import ConfigError
from tauslab.model.expressions.array_math import apply
from tauslab.model.expressions.expression import Expression, Number, Symbol
from tauslab.model.expressions.host_math import value_of
from tauslab.model.network.properties import (
    And,
    Atom,
    Not,
    Or,
    Property,
    horizon,
    parse_property,
    quantities,
)

MOST_SAMPLES = 1_000_000
Samples = Iterator[Mapping[str, Array]]
"""For each sample time in order, the value of each quantity ``[trajectory]``."""


@dataclass(frozen=True)
class SequentialTest:
    """Wald's (1945) sequential test of ``probability >= p`` (Younes and Simmons 2006).

    Between p - delta and p + delta either answer is accepted. If the probability is p + delta or
    more, the answer is no with probability `alpha` at most; if it is p - delta or less, it is yes
    with probability `beta` at most.

    Raises
    ------
    ConfigError
        A region that is not inside 0 .. 1, or error probabilities that are not below 0.5.
    """

    p: float
    delta: float = 0.01
    alpha: float = 0.05
    beta: float = 0.05

    def __post_init__(self) -> None:
        """Check the settings."""
        if not (self.delta > 0 and self.p - self.delta > 0 and self.p + self.delta < 1):
            raise ConfigError(
                f"p = {self.p:g} with delta = {self.delta:g} is not allowed: p - delta must be "
                "above 0 and p + delta below 1, and delta above 0"
            )
        for name in ("alpha", "beta"):
            if not 0 < getattr(self, name) < 0.5:
                raise ConfigError(f"{name} = {getattr(self, name):g}: it must be in (0, 0.5)")

    def decide(self, outcomes: Iterable[bool], most: int = MOST_SAMPLES) -> Verdict:
        """Take outcomes, in their order, until the test ends or `most` were taken."""
        upper, lower = self.p + self.delta, self.p - self.delta
        # Not the C library's logarithm: another machine must not stop at another trajectory.
        yes, no = value_of("log", lower / upper), value_of("log", (1 - lower) / (1 - upper))
        reject = value_of("log", (1 - self.beta) / self.alpha)
        accept = value_of("log", self.beta / (1 - self.alpha))
        ratio, taken, held = 0.0, 0, 0
        for outcome in outcomes:
            taken, held = taken + 1, held + int(outcome)
            ratio = held * yes + (taken - held) * no  # of the likelihoods of lower and upper
            if ratio <= accept:
                return Verdict(self, True, taken, held)
            if ratio >= reject:
                return Verdict(self, False, taken, held)
            if taken >= most:
                break
        return Verdict(self, None, taken, held)


@dataclass(frozen=True)
class Verdict:
    """End of a test: `holds` is True, False, or None if its samples did not suffice.

    `samples` trajectories were looked at, of which `satisfied` have the property.
    """

    test: SequentialTest
    holds: bool | None
    samples: int
    satisfied: int

    def __str__(self) -> str:
        """One line for people."""
        claim = f"probability >= {self.test.p:g}"
        answer = {True: f"{claim}: yes", False: f"{claim}: no", None: f"{claim}: not decided"}
        return f"{answer[self.holds]}, after {self.samples} trajectories ({self.satisfied} hold)"


def check(
    formula: str | Property,
    test: SequentialTest,
    times: FloatArray,
    simulate: Callable[[int, int], Samples],
    *,
    batch: int = 256,
    most: int = MOST_SAMPLES,
) -> Verdict:
    """Test the probability of a property on trajectories that a function makes.

    Trajectories count in the order of their numbers, so the batch size does not change the answer.
    A batch stops as soon as the property is decided for all of it.

    Parameters
    ----------
    formula
        As for `tauslab.dbn.parse_property`.
    test
        The probability to be tested, and the errors that are accepted.
    times
        Sample times ``[time]``.
    simulate
        From the number of the first trajectory and how many, to their samples, time by time.
    batch
        Trajectories per batch.
    most
        Trajectories at most.

    Raises
    ------
    ConfigError
        As `parse_property` and `Monitor` do.
    """
    parsed = parse_property(formula) if isinstance(formula, str) else formula
    return test.decide(_outcomes(parsed, times, simulate, batch), most)


def _outcomes(
    formula: Property, times: FloatArray, simulate: Callable[[int, int], Samples], batch: int
) -> Iterator[bool]:
    first = 0
    while True:
        monitor: Monitor | None = None
        verdicts = np.zeros(0, np.int8)
        for values in simulate(first, batch):
            if monitor is None:
                monitor = Monitor(formula, times, values)
            verdicts = monitor.push(values)
            if (verdicts >= 0).all():
                break
        yield from (verdicts == 1).tolist()
        first += batch


class Monitor:
    """Evaluates a property of several trajectories sample by sample, as early as possible.

    Between samples a trajectory keeps its last sample; a window includes the sample that holds at
    its start. A comparison with NaN is false.

    Parameters
    ----------
    times
        All sample times ``[time]``.
    names
        Quantities that trajectories have.

    Raises
    ------
    ConfigError
        The property looks beyond the last sample time, or reads a quantity that is not there.
    """

    def __init__(self, formula: Property, times: FloatArray, names: Mapping[str, Any]) -> None:
        ahead = float(times[0]) + horizon(formula)
        if ahead > times[-1] * (1 + 1e-12):
            raise ConfigError(
                f"the property looks to t = {ahead:g}, but trajectories end at t = {times[-1]:g}"
            )
        for name in sorted(quantities(formula)):
            if name not in names:
                raise ConfigError(
                    f"the property reads {name!r}, which trajectories do not have; "
                    f"they have {', '.join(names)}"
                )
        self._formula, self._times = formula, np.asarray(times, np.float64)
        self._atoms = {atom: index for index, atom in enumerate(_atoms(formula))}
        self._truth: npt.NDArray[np.int8] | None = None
        self._seen = 0

    def push(self, values: Mapping[str, Array]) -> npt.NDArray[np.int8]:
        """Take the next samples, ``[trajectory]`` of each quantity.

        Returns
        -------
        For each trajectory 1 if the property holds, 0 if not, -1 while this is open.
        """
        for atom, index in self._atoms.items():
            found = np.atleast_1d(_value(atom.comparison, values)).astype(np.int8)
            if self._truth is None:
                shape = (len(self._atoms), len(found), len(self._times))
                self._truth = np.full(shape, -1, np.int8)
            self._truth[index, :, self._seen] = found
        self._seen += 1
        return self.verdicts()

    def verdicts(self) -> npt.NDArray[np.int8]:
        """The decisions so far, as `push` returns them."""
        if self._truth is None:
            return np.zeros(0, np.int8)
        holds, fails = (array[:, 0] for array in self._evaluate(self._formula))
        return np.where(holds, 1, np.where(fails, 0, -1)).astype(np.int8)

    def _evaluate(self, formula: Property) -> tuple[BoolArray, BoolArray]:
        """Masks where a formula surely holds, and surely fails: ``[trajectory, time]``."""
        assert self._truth is not None
        if isinstance(formula, Atom):
            truth = self._truth[self._atoms[formula]]
            return truth == 1, truth == 0
        if isinstance(formula, Not):
            holds, fails = self._evaluate(formula.inner)
            return fails, holds
        right = self._evaluate(formula.right)
        if formula.left is None:
            always = np.ones_like(right[0])
            left = (always, ~always)
        else:
            left = self._evaluate(formula.left)
        if isinstance(formula, And):
            return left[0] & right[0], left[1] | right[1]
        if isinstance(formula, Or):
            return left[0] | right[0], left[1] & right[1]
        return self._until(left, right, formula.begin, formula.end)

    def _until(
        self,
        left: tuple[BoolArray, BoolArray],
        right: tuple[BoolArray, BoolArray],
        begin: float,
        end: float,
    ) -> tuple[BoolArray, BoolArray]:
        times = self._times
        slack = 1e-9 * (times[-1] - times[0]) / max(1, len(times) - 1)
        first = np.searchsorted(times, times + begin + slack, side="right") - 1
        last = np.searchsorted(times, times + end + slack, side="right") - 1
        # Beyond the last sample nothing is known, and never will be: such places are not asked for.
        beyond = times + end > times[-1] + slack
        # `right` must hold no later than where `left` first is not sure to hold, or surely fails.
        holds = _any_within(right[0], first, np.minimum(last, _first_from(~left[0])))
        reach = np.minimum(last, _first_from(left[1]))
        fails = ~_any_within(~right[1], first, reach)
        return holds, fails & ~beyond


def _any_within(where: BoolArray, first: IntArray, last: IntArray) -> BoolArray:
    """Return whether `where` holds at any place from `first` to `last`; places ``[..., time]``."""
    sums = np.zeros((where.shape[0], where.shape[1] + 1), np.int64)
    np.cumsum(where, axis=1, out=sums[:, 1:])
    first = np.broadcast_to(first, where.shape)
    last = np.broadcast_to(last, where.shape)
    upper = np.take_along_axis(sums, last + 1, axis=1)
    found: BoolArray = (last >= first) & (upper > np.take_along_axis(sums, first, axis=1))
    return found


def _first_from(where: BoolArray) -> IntArray:
    """Number of the first place from each on where it holds; one past the last if there is none."""
    size = where.shape[1]
    places = np.where(where, np.arange(size), size)
    return np.minimum.accumulate(places[:, ::-1], axis=1)[:, ::-1]


def _atoms(formula: Property) -> list[Atom]:
    if isinstance(formula, Atom):
        return [formula]
    if isinstance(formula, Not):
        return _atoms(formula.inner)
    left = [] if formula.left is None else _atoms(formula.left)
    return list(dict.fromkeys(left + _atoms(formula.right)))


def _value(tree: Expression, values: Mapping[str, Array]) -> Any:
    """Value of an expression for all trajectories."""
    if isinstance(tree, Number):
        return tree.value
    if isinstance(tree, Symbol):
        return values[tree.name]
    return apply(tree.function, *(_value(argument, values) for argument in tree.arguments))
