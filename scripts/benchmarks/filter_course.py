"""Two networks with data, for filters: predators and prey, and a turnover of cheap events."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from machine import DATA

import tauslab as ts

SD = 10.0
OBSERVE = {"x1": f"normal({SD})", "x2": f"normal({SD})"}
INITIAL = {"x1": "poisson(50)", "x2": "poisson(100)"}


def course() -> tuple[ts.Network, dict[str, Any]]:
    """Lotka and Volterra's reactions, and the noisy course of python-smfsb."""
    file = DATA / "ensembles" / "lotka_volterra_noise_10.json"
    net = ts.Network("lotka_volterra")
    net.add_species("x1", 50)
    net.add_species("x2", 100)
    for name, value in (("birth", 1.0), ("meet", 0.005), ("death", 0.6)):
        net.add_parameter(name, value)
    net.add_reaction("x1 -> 2 x1", rate="birth")
    net.add_reaction("x1 + x2 -> 2 x2", rate="meet")
    net.add_reaction("x2 ->", rate="death")
    columns = np.array(json.loads(file.read_text(encoding="utf-8"))["data"], float).T
    return net, dict(zip(("time", "x1", "x2"), columns, strict=True))


def turnover() -> tuple[ts.Network, dict[str, Any]]:
    """A model with few events between 50 rows."""
    net = ts.Network("turnover")
    net.add_species("x1", 10)
    net.add_species("x2", 0)
    net.add_reaction("-> x1", rate=5.0)
    net.add_reaction("x1 -> x2", rate=0.5)
    net.add_reaction("x2 ->", rate=0.5)
    noise = np.random.default_rng(1).normal(0, 3, (2, 50))
    return net, {"time": 0.1 * np.arange(1, 51), "x1": 10 + noise[0], "x2": 6 + noise[1]}
