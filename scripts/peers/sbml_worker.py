"""Simulates SBML files with libRoadRunner for `compare_sbml.py`, in its own Python environment.

Reads lines of JSON ``{"file", "times", "names", "trajectories", "seed"}`` and answers each with a
line of JSON. Without trajectories, ``values`` holds the equations' solution for each name at each
time: amounts of species, values of all else. With trajectories, ``mean`` and ``variance`` of exact
simulations stand in its place. A name that it does not know is left out; ``error`` says why there
is no answer.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import numpy as np
import roadrunner

RELATIVE = 1e-11
ABSOLUTE = (1e-20, 1e-14)  # small for models in moles; too small where variables fall to zero
MOST_STEPS = 20_000


def selected(model: Any, names: list[str]) -> list[str]:
    """Select the `names` that can be."""
    result = []
    for name in names:
        try:
            model.timeCourseSelections = ["time", name]
        except RuntimeError:
            continue
        result.append(name)
    model.timeCourseSelections = ["time", *result]
    return result


def solve(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Solution of the equations, by the smallest absolute tolerance with which there is one."""
    integrator = model.integrator
    integrator.relative_tolerance, integrator.maximum_num_steps = RELATIVE, MOST_STEPS
    names = selected(model, request["names"])
    try:
        integrator.absolute_tolerance = ABSOLUTE[0]
        rows = np.array(model.simulate(times=request["times"]), float)
    except RuntimeError:
        model.resetAll()
        integrator.absolute_tolerance = ABSOLUTE[1]
        rows = np.array(model.simulate(times=request["times"]), float)
    if rows.shape[0] != len(request["times"]):
        raise RuntimeError(f"{rows.shape[0]} rows for {len(request['times'])} times")
    return {"values": {name: rows[:, i + 1].tolist() for i, name in enumerate(names)}}


def sample(model: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Mean and variance of exact simulations; times are equally spaced and begin with 0."""
    model.setIntegrator("gillespie")
    model.integrator.variable_step_size = False
    names = selected(model, request["names"])
    times, n = request["times"], int(request["trajectories"])
    total, squares = np.zeros((2, len(times), len(names)))
    for i in range(n):
        model.reset()
        model.integrator.seed = int(request["seed"]) * n + i
        rows = np.array(model.simulate(times[0], times[-1], len(times)), float)[:, 1:]
        total += rows
        squares += rows**2
    mean = total / n
    variance = (squares - n * mean**2) / (n - 1)
    columns = range(len(names))
    return {
        "mean": {names[i]: mean[:, i].tolist() for i in columns},
        "variance": {names[i]: variance[:, i].tolist() for i in columns},
    }


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what the library prints must not mix with answers
    roadrunner.Logger.setLevel(roadrunner.Logger.LOG_FATAL)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            model = roadrunner.RoadRunner(request["file"])
            answer = (sample if request["trajectories"] else solve)(model, request)
        except Exception as error:  # noqa: BLE001 - whatever it raises is what there is to tell
            answer = {"error": " ".join(str(error).split())[:300]}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
