"""Intervals of a probability hold what they state, for every probability."""

import math

import numpy as np
import pytest

from tauslab.store.format.intervals import share


@pytest.mark.parametrize("n", [5, 20, 1000])
def test_intervals_of_a_probability_hold_95_percent(n):
    """Exact sums over the binomial law: Wilson's own interval would hold 83.6 to 84.1 %."""
    hits = np.arange(n + 1)
    low, high = share(hits / n, n)
    ways = np.array(
        [math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in hits]
    )
    for p in np.geomspace(0.02 / n, 0.5, 200):
        chances = np.exp(ways + hits * math.log(p) + (n - hits) * math.log1p(-p))
        assert chances[(low <= p) & (p <= high)].sum() > 0.949


def test_published_intervals():
    """Newcombe (1998), Table I, method 4."""
    for hits, n, ends in (
        (81, 263, (0.2535, 0.3682)),
        (15, 148, (0.0598, 0.1644)),
        (0, 20, (0, 0.2005)),
    ):
        assert share(hits / n, n) == pytest.approx(ends, abs=6e-5)
