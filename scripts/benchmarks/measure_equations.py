"""Ensembles of equations: systems of Hagiescu et al., ACM TACO 10(4):55 (2013), and of other sizes.

Three published models and five synthetic systems, those of `synthetic_equations`, of the
paper's sizes; figures of the paper, of a Tesla S2050, are in docs/benchmarks/ode.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from machine import DATA, Machine
from synthetic_equations import (
    SYNTHETIC,
    SyntheticSize,
    equations_of_size,
    synthetic_equations,
)

from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.ode.engine import Ode
from tauslab.kernels.ode.layouts import alone, spread
from tauslab.kernels.ode.lowering import OdeSystem, lower_ode
from tauslab.kernels.ode.priors import Priors, SampledPrior
from tauslab.kernels.ode.settings import OdeSettings
from tauslab.model.expressions.expression import Call, symbols
from tauslab.model.network.network import Network

LAUNCH_BYTES = 4 << 30  # of samples that a launch leaves on the device
WARM_UP = 1024  # trajectories of the launch before
MOST_STEPS = 10_000  # of a trajectory: more change no result
_SPREAD = 0.2  # unknown parameters are drawn uniformly within this share of their values


@dataclass(frozen=True)
class Case:
    """A system and its run: trajectories of `points` samples, `substeps` Runge-Kutta steps each.

    `step` is the duration of a step in the model's unit; `unknown` parameters are drawn.
    """

    name: str
    source: str | int | SyntheticSize
    unknown: int
    trajectories: int
    points: int
    substeps: int
    step: float

    @property
    def steps(self) -> int:
        """Steps of a trajectory in the whole run."""
        return self.points * self.substeps

    def network(self) -> Network:
        """The model."""
        if isinstance(self.source, int):
            return synthetic_equations(self.source)
        if isinstance(self.source, SyntheticSize):
            decays = self.source.equations
            return equations_of_size(self.name, self.source, decays, (0, self.source.equations))
        result = read_sbml(DATA / "sbml" / f"{self.source}.xml")
        assert isinstance(result, Network)
        return result


MODELS = (
    Case("EGF-NGF", "BIOMD0000000033", 20, 3_000_000, 100, 100, 0.005),
    Case("segmentation clock", "BIOMD0000000201", 40, 3_000_000, 100, 500, 0.002),
    Case("thrombin", "BIOMD0000000088", 164, 30_000, 100, 20_000, 0.0002),
    Case("MAPK cascade", "BIOMD0000000010", 10, 1_000_000, 100, 100, 0.1),
    Case("Vilar oscillator", "BIOMD0000000035", 10, 1_000_000, 100, 100, 0.001),
    Case("p53", "BIOMD0000000188", 15, 300_000, 100, 100, 0.5),
    Case("repressilator", "BIOMD0000000012", 5, 50_000, 100, 100, 0.01),
)
# Equations, parameters, additions, multiplications, divisions, lengths, trajectories.
_SIZES = (
    SyntheticSize(30, 24, 96, 84, 4, "unbalanced", 100_000, 100, 60.0, 500, 0, 0),
    SyntheticSize(60, 40, 240, 280, 0, "equal", 50_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(80, 60, 420, 560, 0, "mostly long", 20_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(130, 100, 600, 1380, 0, "shared", 5_000, 100, 2.0, 500, 0, 0),
    SyntheticSize(150, 80, 450, 500, 0, "disparate", 10_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(24, 20, 120, 130, 0, "equal", 2_000, 100, 60.0, 500, 0, 0),
    SyntheticSize(45, 30, 150, 170, 0, "disparate", 200_000, 100, 60.0, 500, 0, 0),
    SyntheticSize(70, 50, 250, 260, 6, "unbalanced", 30_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(100, 70, 500, 1180, 0, "shared", 20_000, 100, 2.0, 500, 0, 0),
    SyntheticSize(120, 90, 400, 480, 0, "equal", 15_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(180, 110, 620, 700, 0, "mostly long", 8_000, 100, 300.0, 500, 0, 0),
)


def _synthetic(name: str, source: int | SyntheticSize, size: SyntheticSize) -> Case:
    return Case(
        name, source, size.parameters, size.trajectories, size.points, size.substeps, size.step
    )


CASES = {
    case.name: case
    for case in (
        *MODELS,
        *(_synthetic(f"synthetic{number}", number, size) for number, size in SYNTHETIC.items()),
        *(_synthetic(f"other{size.equations}", size, size) for size in _SIZES),
    )
}


@cache
def equations(name: str, unknown: int | None = None) -> tuple[OdeSystem, Priors]:
    """The system with as many parameters unknown as in the paper, the first of the model.

    Left out are compartments, zeros, and exponents: rate constants are what is unknown, and a power
    whose exponent varies takes a logarithm. `unknown` is another number of them.
    """
    case = CASES[name]
    network = case.network()
    values = network.parameter_values()
    sizes = {species.compartment for species in network.species.values()}
    powers = exponents(network)
    able = [n for n, v in values.items() if v != 0 and n not in sizes and n not in powers]
    names = able[: case.unknown if unknown is None else unknown]
    priors = tuple(
        SampledPrior(n, "uniform", (1 - _SPREAD) * values[n], 2 * _SPREAD * values[n])
        for n in names
    )
    variables = lower_ode(network, parameters=values).variables
    system = lower_ode(network, parameters=values, varying=names, recorded=variables)
    return system, Priors(priors)


def exponents(network: Network) -> set[str]:
    """Names that a power is taken to."""
    result: set[str] = set()
    left = [reaction.law for reaction in network.reactions]
    left += [*network.rule_expressions().values(), *network.rates.values()]
    while left:
        node = left.pop()
        if isinstance(node, Call):
            if node.function == "pow":
                result |= symbols(node.arguments[1])
            left.extend(node.arguments)
    return result


def whole_run(machine: Machine, name: str, warps: int | None = None, share: float = 0.02) -> float:
    """Seconds of all trajectories and steps, from a share of their steps, in single precision.

    Unknown parameters are drawn within a fifth of their values; samples stay in device memory. A
    share of the steps is fewer points, but two, and then fewer steps between them. `warps` of a
    trajectory in place of those of the rule: 0 for a thread each.
    """
    case, backend = CASES[name], machine.backend()
    steps = max(2, round(min(case.steps * share, MOST_STEPS)))
    substeps = min(case.substeps, steps // 2)
    points = round(steps / substeps)
    system, priors = equations(name)
    settings = OdeSettings("rk4", substeps=substeps, precision="single")
    times = [case.step * substeps * k for k in range(1, points + 1)]
    rows = machine.many(case.trajectories)
    choice = None if warps is None else spread(system, 1, warps) if warps else alone(system, 1)
    engine = Ode(
        backend, system, times, settings, priors=priors, wide=False, choice=choice,
        trajectories=rows,
    )  # fmt: skip
    seconds = _timed(engine, rows, points)
    backend.close()
    return seconds * case.steps / (points * substeps)


def _timed(engine: Ode, rows: int, points: int) -> float:
    """Seconds of the device, the faster of two."""
    backend = engine.backend
    inputs = backend.upload(np.zeros((1, max(1, len(engine.system.inputs)))))
    width = points * len(engine.system.quantities) * engine.sample_dtype.itemsize
    together = max(1, min(rows, min(LAUNCH_BYTES, backend.free_memory() // 2) // width))
    buffers, stream = _buffers(engine, points, together), backend.stream()
    seconds = []
    for many in (min(rows, WARM_UP), rows, rows):
        begun = stream.record()
        for first in range(0, many, together):
            part = Launch(first, min(together, many - first), None, inputs, seed=1)
            engine.start_columns(part, buffers, stream)
        done = stream.record()
        done.wait()
        seconds.append(float(done.seconds_since(begun)))
    return min(seconds[1:])


def _buffers(engine: Ode, points: int, rows: int) -> SampleBuffers:
    empty: Any = engine.backend.empty
    shape = (points, len(engine.system.quantities), rows)
    reals = empty(shape, engine.sample_dtype)
    return SampleBuffers.of(engine.backend, rows, reals=reals, scratch=engine.scratch(rows))
