"""A network whose equations differ much in cost, for the layouts of the ODE engine."""

from __future__ import annotations

from tauslab.model.network.network import Network

TIMES = (0.0, 0.5, 2.0, 3.0)


def network() -> Network:
    """Eight variables that differ much in cost, a boundary value, an event, the time, a NaN."""
    model = Network("mixed")
    model.add_parameter("k", 0.7)
    model.add_parameter("n", 2.5)
    for i in range(6):
        model.add_species(f"X{i}", 1.0 + 0.3 * i)
    for i in range(6):
        model.add_reaction(f"X{i} -> X{(i + 1) % 6}", law=f"k * X{i} / (0.5 + X{(i + 2) % 6})")
    model.add_reaction("-> X0", law="k / (1 + X3) + X1 ^ 4 / (n + X1 ^ 4)")
    model.add_species("Y", -0.2)
    model.add_rate("Y", "time - Y * X0")
    model.add_species("Z", 0.0)
    model.add_rate("Z", "sqrt(1.3 - time * k) - Z")
    model.add_rule("total", "X0 + X1 + X2 + X3 + X4 + X5")
    model.add_event("push", "1.25", {"X2": "X2 + k", "Y": "X0"})
    return model
