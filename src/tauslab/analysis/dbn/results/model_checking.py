"""Statistical model checking: how likely trajectories have a property, by as few as will do."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.analysis.dbn.results.monitor import FloatArray, Monitor
from tauslab.base.errors import ConfigError
from tauslab.model.expressions.host_math import value_of
from tauslab.model.network.properties import Property, parse_property

MOST_SAMPLES = 1_000_000
Samples = Iterator[Mapping[str, npt.NDArray[Any]]]
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
    """How a test ended: `holds` is True, False, or None if its samples did not suffice.

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
    """Test how likely a property is, on trajectories that are made as they are needed.

    Trajectories count in the order of their numbers, so the size of a batch changes nothing. A
    batch is given up at the sample time at which the property is decided for all of it.

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
        Trajectories that are made at a time.
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
