"""Launches begin with the particles that took longest: that changes no result."""

import numpy as np
import pytest

import tauslab as ts
from tauslab.analysis.particles.motions import network

N = 50


def birth_and_death():
    """Events grow with the birth rate, of which each particle has its own."""
    net = ts.Network("birth_and_death")
    net.add_species("X", 0)
    net.add_parameter("k", 1.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=1.0)
    return net


def moved(device):
    """Counts after some advances, and the last order of particles."""
    rates = np.random.default_rng(1).permutation(N) * 20.0 + 20.0
    with ts.Ensemble(birth_and_death(), N, seed=1, device=device, set={"k": rates}) as made:
        for t in range(1, 5):
            made.advance(float(t))
        turns = made._motion._turns
        return made.counts, None if turns is None else (made._motion._rows.host(turns.order), rates)


def test_the_longest_begin(monkeypatch):
    device = ts.CPU(threads=1)
    counts, (order, rates) = moved(device)
    assert sorted(order) == list(range(N))
    first, last = rates[order[: N // 5]], rates[order[-N // 5 :]]
    assert first.min() > last.max()
    monkeypatch.setattr(network, "turns_of", lambda *_: None)
    plain, none = moved(device)
    assert none is None
    assert (plain == counts).all()


@pytest.mark.gpu
def test_devices_agree():
    assert (moved("cuda")[0] == moved(ts.CPU(threads=1))[0]).all()
