"""Exact simulation of three models by rebop and GillesPy2, and rebop's moments of any network.

`rebop` is its Python API; `rebop_core` the compiled class inside it, without the labelled arrays that
the API makes of every trajectory, dense or sparse as is faster; `gillespy2` its C++ solver. Each builds
its model and returns a function that runs it.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

import tauslab as ts
from tauslab.model.expressions.host_math import evaluate

POINTS = 101


@dataclass(frozen=True)
class Model:
    """Mass action with stochastic constants: propensity = constant x combinations of reactants."""

    initial: dict[str, int]
    reactions: tuple[tuple[float, str, str], ...]  # constant, reactants, products
    t_end: float
    watched: str
    points: int = POINTS


RUNS = {"schlogl": (10.0, "X"), "vilar_oscillator": (50.0, "R"), "dimer_decay": (10.0, "S2")}


def mass_action(
    network: ts.Network, t_end: float, watched: str = "", points: int = POINTS
) -> Model:
    """A network in numbers: a rate law at one combination of its reactants is its constant."""
    values = network.parameter_values()
    start = network.initial_amounts(values)

    def moved(side: Mapping[str, int]) -> dict[str, int]:
        return {name: count for name, count in side.items() if not network.species[name].fixed}

    def spelled(side: Mapping[str, int]) -> str:
        return " ".join(name for name, count in moved(side).items() for _ in range(count))

    reactions = tuple(
        (evaluate(one.law, {**values, **start, **moved(one.reactants)}), spelled(one.reactants),
         spelled(one.products))
        for one in network.reactions
    )  # fmt: skip
    return Model({name: round(start[name]) for name in moved(dict.fromkeys(start, 1))}, reactions,
                 t_end, watched, points)  # fmt: skip


Run = Callable[[int, int], Any]  # trajectories, seed -> values of the watched species at the end


def rebop_model(model: Model) -> Any:
    """Build the model; rebop's constants hold the 1 / k! of k equal reactants."""
    rebop: Any = import_module("rebop")
    system = rebop.Gillespie()
    for constant, reactants, products in model.reactions:
        names = reactants.split()
        ways = math.prod(math.factorial(names.count(name)) for name in set(names))
        system.add_reaction(constant / ways, names, products.split())
    return system


def rebop(model: Model) -> Run:
    """The Python API: one labelled dataset a trajectory."""
    system = rebop_model(model)

    def run(n: int, seed: int) -> Any:
        initial, t_end, steps = model.initial, model.t_end, model.points - 1
        sets = [system.run(initial, t_end, steps, rng=seed * n + i) for i in range(n)]
        return lambda: [int(s[model.watched][-1]) for s in sets]

    return run


def rebop_core(model: Model) -> Run:
    """The compiled class."""
    core = rebop_model(model).gillespie
    core.set_init(model.initial)

    def trajectories(n: int, seed: int, *, sparse: bool) -> list[Any]:
        return [
            core.run(
                model.t_end,
                model.points - 1,
                params={},
                seed=seed * n + i,
                sparse=sparse,
                var_names=None,
            )
            for i in range(n)
        ]

    def seconds(*, sparse: bool) -> float:
        begin = time.perf_counter()
        trajectories(20, 1, sparse=sparse)
        return time.perf_counter() - begin

    fastest = min((False, True), key=lambda sparse: min(seconds(sparse=sparse) for _ in range(3)))

    def run(n: int, seed: int) -> Any:
        sets = trajectories(n, seed, sparse=fastest)
        return lambda: [int(values[model.watched][-1]) for _, values in sets]

    return run


def gillespy2(model: Model) -> Run:
    """The C++ solver, compiled here once."""
    g2: Any = import_module("gillespy2")

    # It runs SCons with the interpreter that a virtual environment's link points to, which does not
    # see that environment by itself.
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    network = g2.Model(name="model")
    network.add_species([g2.Species(name=s, initial_value=x) for s, x in model.initial.items()])
    for j, (constant, reactants, products) in enumerate(model.reactions):
        names = reactants.split()
        sides = [{s: side.split().count(s) for s in side.split()} for side in (reactants, products)]
        # Its own mass action ends at two reactants, so every propensity is spelled out.
        factors = [
            f"({name} - {taken})" if taken else name
            for name in dict.fromkeys(names)
            for taken in range(names.count(name))
        ]
        ways = math.prod(math.factorial(names.count(name)) for name in set(names))
        text = " * ".join([repr(constant / ways), *factors])
        network.add_reaction(
            g2.Reaction(
                name=f"r{j}", reactants=sides[0], products=sides[1], propensity_function=text
            )
        )
    network.timespan(g2.TimeSpan.linspace(t=model.t_end, num_points=model.points))
    solver = g2.SSACSolver(model=network)

    def run(n: int, seed: int) -> Any:
        results = network.run(solver=solver, number_of_trajectories=n, seed=seed)
        return lambda: [int(r[model.watched][-1]) for r in results]

    return run


TOOLS: dict[str, Callable[[Model], Run]] = {
    "rebop": rebop,
    "rebop_core": rebop_core,
    "gillespy2": gillespy2,
}


def rebop_moments(model: Model, steps: int, n: int, seed: int) -> tuple[Any, Any]:
    """Sums of counts and of their squares ``[time][species]`` over exact trajectories of rebop."""
    core = rebop_model(model).gillespie
    core.set_init(model.initial)
    total = np.zeros((steps, len(model.initial)), np.int64)
    squares = np.zeros_like(total)
    for i in range(n):
        _, counts = core.run(
            model.t_end, steps, params={}, seed=(seed << 32) + i, sparse=True, var_names=None
        )
        x = np.stack([np.asarray(counts[name], np.int64)[1:] for name in model.initial], axis=1)
        total += x
        squares += x * x
    return total, squares
