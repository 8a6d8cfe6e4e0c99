"""Leaps as loops over tables, which a GPU runs until their text without loops is compiled."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from engine_runs import compiler, leap

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.leaping import tau_leap
from tauslab.model.network.network import Network

pytestmark = compiler


def mixed() -> Network:
    """A ring with all orders, a law, a channel of two reactions, and species that grow scarce."""
    net = Network("mixed")
    for i in range(6):
        net.add_species(f"S{i}", 2000 if i < 4 else 12)
    net.add_reaction("-> S0", rate=300.0)
    for i in range(6):
        net.add_reaction(f"S{i} -> S{(i + 1) % 6}", rate=1.0 + 0.1 * i)
        net.add_reaction(f"S{i} + S{(i + 2) % 6} -> S{(i + 1) % 6}", rate=0.0002)
    net.add_reaction("2 S0 -> S1", rate=0.0003)
    net.add_reaction("3 S1 -> 3 S2", rate=1e-8)
    net.add_reaction("S5 -> S0", rate="4*S4/(20 + S4)")
    net.add_reaction("S2 ->", rate=0.2)
    return net


@pytest.mark.parametrize("name", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_bits_of_text_and_tables(monkeypatch, name):
    """Samples, status and work are equal, by leaps and by exact events between them."""
    options = {"engine": tau_leap.TauLeap, "epsilon": 0.1}
    runs = []
    for in_tables in (False, True):
        header = partial(tau_leap.leap_header, in_tables=in_tables)
        with monkeypatch.context() as patch:
            patch.setattr(tau_leap, "leaps_on_lanes", lambda *_: False)
            patch.setattr(tau_leap, "has_tables", lambda *_: False)  # nothing is compiled aside
            patch.setattr(tau_leap, "leap_header", lambda *given, checked, h=header: h(*given))
            runs.append(
                leap(
                    get_backend(name, BackendOptions(threads=1)),
                    mixed(),
                    [0.5, 1.0, 2.0],
                    40,
                    **options,
                )
            )
    text, tables = runs
    firings, leaps, exact, *_ = text[-1]
    assert min(leaps, exact) > 0
    assert firings > 10 * (leaps + exact)
    for one, other in zip(text, tables, strict=True):
        np.testing.assert_array_equal(one, other)
