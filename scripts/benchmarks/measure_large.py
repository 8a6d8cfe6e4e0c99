"""Large networks: time of an event, by size, trajectories, threads, selector; leaps from tables."""

from __future__ import annotations

import functools
import os
import tempfile
import time
import warnings
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import numpy as np
from generated_networks import colloidal_aggregation, cyclic_chain, random_network
from machine import DATA, Answer, Machine

import tauslab as ts
from tauslab.kernels.ensemble.launch import (
    LAUNCHES_IN_FLIGHT,
    MAX_STEPS,
    Launch,
    SampleBuffers,
)
from tauslab.kernels.exact.selectors import SELECTORS, selector_of
from tauslab.kernels.exact.ssa import TableSsa
from tauslab.kernels.exact.table_network import Expected
from tauslab.kernels.leaping.fine_tau import LAYOUT, FineTau
from tauslab.kernels.network.lowering import lower

ENDLESS = 1e9  # end time of runs that a number of updates ends
TABLED: tuple[str, ...] = SELECTORS[1:]  # selectors of networks in tables
CORE_SECONDS = 3.0  # about so long leaps of a core are measured


@dataclass(frozen=True)
class Work:
    """One run: `updates` of each trajectory, or to `t_end` where it is given.

    `kind` names the network: a rule and `size`, or a file. Initial counts are multiplied by
    `counts`. `selector` and `presimulation` None choose; `core` trajectories run on a CPU.
    """

    kind: str
    size: int
    trajectories: int
    updates: int = 0
    t_end: float = ENDLESS
    selector: Any = None  # a word of `tauslab.SSA`
    team: int = 0
    presimulation: int | None = None
    core: int = 2
    counts: float = 1.0


@functools.lru_cache(maxsize=2)
def network_of(kind: str, size: int) -> ts.Network:
    """A cyclic chain, colloidal aggregation, a random network of so many dependents, or a file."""
    if kind == "chain":
        return cyclic_chain(size)
    if kind == "colloidal":
        return colloidal_aggregation(size)
    if kind == "start":
        return random_network(reactions=size, species=3744, seed=1)
    if kind.startswith("random"):
        dependents = int(kind.removeprefix("random"))
        return random_network(reactions=size, dependents=dependents, seed=size + dependents)
    network = ts.read(DATA / "net" / f"{kind}.net")
    assert isinstance(network, ts.Network)
    return network


def started(machine: Machine, work: Work) -> ts.Result:
    """Run a network, recording next to nothing."""
    network = network_of(work.kind, work.size)
    start = network.initial_amounts(network.parameter_values())
    counts = {name: float(round(x * work.counts)) for name, x in start.items()}
    rows = work.core if machine.device == "cpu" else work.trajectories
    with warnings.catch_warnings(action="ignore"):  # of steps, by which the work is measured out
        return ts.run(
            network, n=machine.many(rows), times=[0.0, work.t_end], seed=1, quiet=True,
            method=ts.SSA(selector=work.selector, team=work.team, presimulation=work.presimulation),
            species=next(iter(network.species)), record="final", device=machine.place(),
            max_steps=machine.many(work.updates) if work.updates else MAX_STEPS,
            set=counts if work.counts != 1 else {},
        )  # fmt: skip


def event(machine: Machine, work: Work) -> float:
    """Seconds of kernels for an event, T_up of Komarov & D'Souza, PLoS ONE 7:e46693 (2012)."""
    result = started(machine, work)
    seconds, events = (float(result.data[f"profile/{k}"][0]) for k in ("compute", "events"))
    return seconds / max(1.0, events)


def times_a_core(machine: Machine, work: Work) -> float:
    """Trajectories a second of the device to those of one core, each as its pilot chooses."""
    rates = []
    for where in (Machine("cpu", 1, machine.scale), machine):
        result = started(where, work)
        rates.append(result.n / float(result.data["profile/compute"][0]))
    return rates[1] / rates[0]


def prepared(machine: Machine, kind: str, size: int, rows: int = 1024) -> Answer:
    """Seconds to read, to write tables and to compile; bytes of a trajectory, and how many run."""
    clock = [time.perf_counter()]
    network = network_of.__wrapped__(kind, size)
    clock.append(time.perf_counter())
    values = network.parameter_values()
    counts = {name: round(x) for name, x in network.initial_amounts(values).items()}
    lowered = lower(network, parameters=values, counts=counts)
    backend = machine.backend()
    clock.append(time.perf_counter())
    expected = Expected(rows, np.array(list(counts.values())))
    with tempfile.TemporaryDirectory() as cache, patch.dict(os.environ, TAUSLAB_CACHE_DIR=cache):
        for _ in ("compiled", "cached"):
            engine = TableSsa(backend, lowered, [ENDLESS], selector_of(lowered), expected=expected)
            clock.append(time.perf_counter())
    read, lowering, cold, warm = (b - a for a, b in pairwise(clock))
    backend.close()
    return {
        "reading, s": read, "tables, s": lowering + warm, "compiling, s": max(0.0, cold - warm),
        "bytes of a trajectory": engine.bytes_per_trajectory,
        "trajectories at a time": engine.trajectories_in_flight(LAUNCHES_IN_FLIGHT),
    }  # fmt: skip


def from_nothing(machine: Machine, work: Work) -> float:
    """Seconds until a generated network has made its updates."""
    network_of.cache_clear()
    began = time.perf_counter()
    started(machine, replace(work, core=work.trajectories))
    return time.perf_counter() - began


def leap(machine: Machine, size: int, steps: int = 300) -> float:
    """Seconds of a step of leaps from tables, one trajectory of a random network.

    As many species as reactions, rates uniform in [0, 1), 1,000 molecules of each species: Komarov,
    D'Souza & Tapia, PLoS ONE 7:e37370 (2012), figures 2 and 3.
    """
    net = random_network(species=size, reactions=size, rates="uniform", initial=1000, seed=1)
    network = lower(net, parameters={}, counts=dict.fromkeys(net.species, 1000))
    backend = machine.backend()
    if machine.device == "cpu":
        steps = max(2, min(500, round(CORE_SECONDS / (1.5e-7 * size))))
    engine = FineTau(backend, network, [ENDLESS], 0.03, layout=LAYOUT, blocks=0)
    buffers = SampleBuffers.of(backend, 1, scratch=engine.scratch(1))
    stream, initial = backend.stream(), np.full((1, size), 1000, np.int32)
    inputs = backend.upload(initial), backend.upload(np.zeros((1, 1)))
    for many in (2, machine.many(steps)):
        begun = stream.record()
        engine.start(Launch(0, 1, *inputs, seed=1, max_steps=many), buffers, stream)
        ended = stream.record()
        ended.wait()
    seconds = ended.seconds_since(begun) / many
    backend.close()
    return seconds
