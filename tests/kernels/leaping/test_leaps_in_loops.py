"""Leaps in loops over tables have the bits of leaps without loops."""

from __future__ import annotations

import pytest

import tauslab as ts
from tauslab.kernels.leaping import codegen, event_codegen
from tauslab.model.network.network import Network


def dimers() -> Network:
    """Reactions of all forms: no reactant, two and three of a kind, laws, shared changes, needs."""
    net = Network("dimers")
    for name, count in (("A", 300), ("B", 20), ("C", 5), ("D", 0)):
        net.add_species(name, count)
    net.add_parameter("k", 0.01)
    net.add_reaction("-> A", rate=20.0)
    net.add_reaction("A ->", rate=0.1)
    net.add_reaction("2 A -> B", rate="k")
    net.add_reaction("B -> 2 A", rate=0.5)
    net.add_reaction("3 A -> C", rate=1e-5)
    net.add_reaction("A + B -> C", rate=0.001)
    net.add_reaction("2 A + B -> C + D", rate=1e-5)
    net.add_reaction("C -> A + B", rate=0.2)
    net.add_reaction("D ->", law="vmax * D / (km + D + 0.1 * A)", parameters={"vmax": 9, "km": 4})
    net.add_reaction("-> D", law="1 + A / (50 + A)")
    net.add_reaction("-> A", rate=3.0)  # as the first changes
    return net


def dosed() -> Network:
    """The same with events, one of which bounds leaps."""
    net = dimers()
    net.add_event("dose", 0.5, {"A": "A + 100"})
    net.add_event("full", trigger="B > 150", assignments={"B": "B - 100"})
    return net


def model(name, data):
    if name == "dosed":
        return dosed()
    return dimers() if name == "dimers" else ts.read(data / "sbml" / f"{name}.xml")


@pytest.mark.parametrize(
    ("name", "sweep"),
    [
        ("dimers", None),
        ("dimers", {"k": [0.005, 0.02]}),
        ("dosed", None),
        ("heat_shock_mass_action", None),
    ],
)
def test_loops_change_no_bit(name, sweep, data, monkeypatch):
    network = model(name, data)

    def digest():
        result = ts.run(
            network, n=3, t_end=2.0, points=5, method="tau", seed=1, device="cpu", sweep=sweep
        )
        return result.digest()

    plain = digest()
    network = model(name, data)
    asked = []
    for module in (codegen, event_codegen):
        monkeypatch.setattr(module, "in_loops", lambda *_: asked.append(True) or True)
    assert digest() == plain
    assert asked
