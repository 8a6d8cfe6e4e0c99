"""Propensities of any size in the groups of the selector `cr`."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.kernels.exact.composition import HIGHEST, highest_exponent
from tauslab.kernels.network.lowering import lower
from tauslab.runner.cli.commands.answer import summary


def switch(rate: float, back: float) -> ts.Network:
    """A molecule that is A or B, and one that falls apart slowly; 70 more reactions do nothing."""
    net = ts.Network("switch")
    for name, count in (("A", 20), ("B", 0), ("C", 100)):
        net.add_species(name, count)
    net.add_reaction("A -> B", rate=rate)
    net.add_reaction("B -> A", rate=back)
    net.add_reaction("C ->", rate=rate / 50)
    for k in range(70):
        net.add_species(f"D{k}", 0)
        net.add_reaction(f"D{k} -> A", rate=1.0)
    return net


def exponent(net: ts.Network) -> int:
    counts = dict.fromkeys(net.species, 0)
    return highest_exponent(lower(net, parameters={}, counts=counts).reactions)


@pytest.mark.parametrize("scale", [1.0, 1e60, 1e250])
def test_propensities_far_beyond_2_to_128_fire(scale):
    """Means within 4.5 standard errors; all scales together, one of 12,000 right ones is off."""
    t = np.array([0.5, 2.0]) / scale
    result = ts.run(
        switch(scale, 3 * scale),
        n=2000,
        times=t,
        seed=4,
        device=ts.CPU(threads=1),
        method=ts.SSA(selector="cr"),
    )
    assert (np.asarray(result.status) <= 1).all()
    relaxed, left = 0.75 + 0.25 * np.exp(-4 * t * scale), np.exp(-t * scale / 50)
    for name, n, p in (("A", 20, relaxed), ("C", 100, left)):
        error = np.sqrt(n * p * (1 - p) / 2000)
        assert (np.abs(result.mean(name) - n * p) < 4.5 * error).all()


def test_groups_reach_as_far_as_constants_and_counts_can():
    assert exponent(switch(1.0, 3.0)) == HIGHEST[0]
    assert exponent(switch(2.0**100, 1.0)) == 101 + 31
    assert exponent(switch(1e300, 1.0)) == HIGHEST[1]


def test_a_law_beyond_them_ends_its_trajectory_and_says_so(tmp_path):
    net = switch(1.0, 1.0)
    net.add_reaction("A ->", law="1e50 * A / (1 + A)")
    options = {"n": 3, "times": [0, 1], "seed": 1, "device": "cpu", "output": tmp_path / "x.h5"}
    with pytest.warns(UserWarning, match="no trajectory is valid: 3 ended by nan"):
        result = ts.run(net, method=ts.SSA(selector="cr"), **options)
    assert (np.asarray(result.status) == 4).all()
    assert "groups for, which --selector tree" in "\n".join(summary(result))
