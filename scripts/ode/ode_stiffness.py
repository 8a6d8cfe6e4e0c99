"""Steps of both adaptive solvers on stiff equations and others, and an equation without a solution.

    python scripts/ode/ode_stiffness.py

The first table is that of ``docs/ode.md``: steps made and rejected by `dopri5` and `rosenbrock`,
and what ``auto`` takes. The second follows PYR_1 of MODEL2310250001 of BioModels, whose equations
do not have one solution after t = 8.6, by both solvers at tolerances from 1e-4 to 1e-12.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import tauslab as ts
from tauslab.model.readers.sbml.reader import read_sbml

ROOT = Path(__file__).resolve().parents[2]
MODEL = ROOT / "tests" / "data" / "sbml" / "MODEL2310250001.xml"
MOST_STEPS = 3_000_000


def robertson() -> ts.Network:
    """Robertson's reactions (1966): rate constants from 0.04 to 3e7."""
    network = ts.Network("Robertson")
    for name, start in (("a", 1.0), ("b", 0.0), ("c", 0.0)):
        network.add_species(name, start)
    network.add_rate("a", "-0.04 * a + 1e4 * b * c")
    network.add_rate("b", "0.04 * a - 1e4 * b * c - 3e7 * b * b")
    network.add_rate("c", "3e7 * b * b")
    return network


def van_der_pol(mu: float) -> ts.Network:
    """An oscillator that is stiff where mu is large."""
    network = ts.Network(f"van der Pol, mu = {mu:g}")
    network.add_species("x", 2.0)
    network.add_species("y", 0.0)
    network.add_rate("x", "y")
    network.add_rate("y", f"{mu} * (1 - x * x) * y - x")
    return network


def integrated(network: ts.Network, times: list[float], solver: Any, **options: Any) -> ts.Result:
    """One trajectory."""
    return ts.run(
        network, n=1, times=times, method=ts.ODE(solver=solver, **options), device="cpu",
        seed=1, max_steps=MOST_STEPS,
    )  # fmt: skip


def steps(result: ts.Result) -> str:
    """Steps made and rejected."""
    total = sum(int(np.sum(result.data[f"profile/{name}"][()])) for name in ("events", "rejected"))
    return f"more than {MOST_STEPS}" if total >= MOST_STEPS else str(total)


def main() -> int:
    """Print both tables."""
    print("model,t,dopri5,rosenbrock,auto")
    for network, end, options in (
        (robertson(), 4e5, {"atol": 1e-12}),
        (van_der_pol(1000), 1000.0, {}),
        (van_der_pol(1.5), 50.0, {}),
    ):
        found = [
            steps(integrated(network, [0, end], s, **options)) for s in ("dopri5", "rosenbrock")
        ]
        chosen = integrated(network, [0, end], "auto", **options).attributes["ode_solver"]
        print(f'"{network.name}",{end:g},{",".join(found)},{chosen}')
    network = read_sbml(MODEL)
    print("solver,rtol,PYR_1 at 8,8.3,9,10.137")
    for solver in ("dopri5", "rosenbrock"):
        for rtol in (1e-4, 1e-6, 1e-8, 1e-10, 1e-12):
            options = {"rtol": rtol, "atol": 1e-6 * rtol}
            result = integrated(network, [8.0, 8.3, 9.0, 10.137], solver, **options)
            print(f"{solver},{rtol:g},{','.join(f'{x:.8f}' for x in result.amounts('PYR_1')[0])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
