"""How often the switch of Schlögl's model flips: by the time, and as a steady rate.

    python examples/rare_switch.py

Exact values, by finite state projection: 2.4139e-7 by t = 2, and a rate of 2.2250e-5. A core needs
half a minute.
"""

from __future__ import annotations

import tauslab as ts


def model() -> ts.Network:
    """The usual constants, in the low state."""
    net = ts.Network("schlogl")
    net.add_species("X", 82)
    net.add_reaction("2 X -> 3 X", rate=0.03)
    net.add_reaction("3 X -> 2 X", rate=1e-4)
    net.add_reaction("-> X", rate=200.0)
    net.add_reaction("X ->", rate=3.5)
    return net


def flips(runs: int = 20, walkers: int = 100) -> tuple[ts.RareResult, ts.RareResult]:
    """Of reaching 300 molecules: the probability by t = 2, and the steady rate."""
    given = {"target": "X >= 300", "runs": runs, "walkers": walkers, "seed": 1, "device": "cpu"}
    soon = ts.weighted_ensemble(model(), t_end=2.0, **given)
    steady = ts.weighted_ensemble(model(), t_end=25.0, steady=True, **given)
    return soon, steady


if __name__ == "__main__":
    for found in flips():
        print("\n".join(found.lines()), end="\n\n")
