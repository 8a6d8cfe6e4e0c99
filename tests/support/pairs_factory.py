"""A small network that is run with many options."""

from __future__ import annotations

import tauslab as ts


def pairs() -> ts.Network:
    """Immigration and pairwise death, with an observable."""
    net = ts.Network("pairs")
    net.add_species("X", 10)
    net.add_species("Y", 0)
    net.add_parameter("k", 5.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("2 X -> Y", rate=0.1)
    net.add_rule("total", "X + 2 * Y")
    net.add_rule("spread", "exp(8 * X - 9 * Y)")  # whose windows move as portions are joined
    return net


def run(device="cpu", **options):
    chosen = {"times": [0.0, 1.0, 2.0], "seed": 3, "method": "ssa", "device": device}
    return ts.run(pairs(), **{**chosen, **options})
