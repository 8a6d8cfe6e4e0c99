"""Vilar's oscillator with its proteins as equations and its genes and mRNA as jumps, against exact events."""

from __future__ import annotations

import numpy as np
import pytest
from places import ROOT

import tauslab as ts

PROTEINS = ["rx1", "rx2", "rx3", "rx4", "rx10", "rx16"]
HIGH, LOW = 1000, 300  # an oscillation of C begins above the first, after it was below the other
TIMES = np.arange(100, 601, 0.5)


def measured(method, n, seed):
    """Periods ``[trajectory]``, standard deviations of C ``[trajectory]``, and the least amount."""
    net = ts.read(ROOT / "tests" / "data" / "sbml" / "vilar_oscillator.xml")
    result = ts.run(net, n=n, times=TIMES, method=method, seed=seed, device="cpu", quiet=True)
    amounts = result.counts if method == "ssa" else result.amounts
    found = amounts("C")
    values = amounts()
    return np.array([period(row) for row in found]), found.std(axis=1), values.min()


def period(values):
    """Mean time between two rises through HIGH."""
    armed, rises = False, []
    for time, value in zip(TIMES, values, strict=True):
        if value < LOW:
            armed = True
        elif armed and value > HIGH:
            armed = False
            rises.append(time)
    return np.diff(rises).mean()
