"""The galactose switch of yeast as a hybrid, against an independent program."""

from __future__ import annotations

import numpy as np
import pytest
from outcome import FAIL
from validate_galactose import MINUTES, compared, example, totals_of_hybrid, totals_of_network

import tauslab as ts


def require_like(totals, outside, minutes):
    """Two in 1,000 seeds fail by chance, were the comparisons independent."""
    lines = compared(totals, outside, minutes)
    assert not [line for line in lines if line[-1] == FAIL]


@pytest.mark.validate
def test_first_minutes():
    """30 cells: the mean of inner galactose after a minute is known to 1 in 1,000."""
    switch = example().switch()
    result = ts.run(switch, t_end=120.0, n=30, seed=1, device="cpu", pilot=0)
    require_like(totals_of_hybrid(result), "11.1", (1, 2))
    shared = [result.values(f"genes.{n}") <= result.values(f"transport.{n}") + 1e-6
              for n in example().SHARED]  # fmt: skip
    assert np.all(shared)


@pytest.mark.validate
@pytest.mark.parametrize("outside", ["11.1", "0.055"])
def test_first_minutes_as_one_network(outside):
    """Transport by equations, and jumps of all else: 100 cells."""
    method = ts.Partitioned(ode="transport_*", jump="*", pilot=0)
    net, times = example().one_network(float(outside)), [0.0, 60.0, 120.0]
    result = ts.run(net, times=times, n=100, seed=1, device="cpu", method=method)
    require_like(totals_of_network(result), outside, (1, 2))


@pytest.mark.validate
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(("outside", "n"), [("11.1", 500), ("0.055", 1000)])
def test_one_hour(outside, n):
    switch = example().switch(float(outside))
    result = ts.run(switch, t_end=3600.0, n=n, seed=2, device="cpu", pilot=0)
    require_like(totals_of_hybrid(result), outside, MINUTES)
