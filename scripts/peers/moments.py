"""Sums of counts over exact trajectories of rebop, for `validate_large.py`.

Reads a network of mass action as JSON from its input: `initial` (species to count), `reactions`
(constant, reactants, products; the constant is stochastic: propensity = constant x combinations),
`t_end`, `steps`, `trajectories`, `seed`. Writes JSON: `trajectories`, and of the counts at
k t_end / steps, k = 1 .. steps, `sum` and `squares` ``[time][species]`` in the order of `initial`.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from worker import Model, rebop_model


def main() -> int:
    """Answer one request; 1 where rebop is not installed."""
    asked = json.load(sys.stdin)
    reactions = tuple((c, " ".join(left), " ".join(right)) for c, left, right in asked["reactions"])
    try:
        system = rebop_model(Model(asked["initial"], reactions, asked["t_end"], ""))
    except ImportError:
        return 1
    core = system.gillespie  # without a labelled array a trajectory
    names, steps = list(asked["initial"]), int(asked["steps"])
    core.set_init(asked["initial"])
    total = np.zeros((steps, len(names)), np.int64)
    squares = np.zeros_like(total)
    for i in range(asked["trajectories"]):
        seed = (int(asked["seed"]) << 32) + i
        _, counts = core.run(
            asked["t_end"], steps, params={}, seed=seed, sparse=True, var_names=None
        )
        x = np.stack([np.asarray(counts[name], np.int64)[1:] for name in names], axis=1)
        total += x
        squares += x * x
    answer = {
        "trajectories": asked["trajectories"], "sum": total.tolist(), "squares": squares.tolist()
    }  # fmt: skip
    json.dump(answer, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
