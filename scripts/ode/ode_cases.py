"""The eight systems that a paper measured ODE ensembles on, and how long they took there.

Hagiescu et al., ACM TACO 10(4):55 (2013), tables II to VII: three published models, and five
synthetic systems, here those of `tauslab.model.generators.equations`, of the same sizes. Figures of the
paper are of a Tesla S2050. Beside them systems of other sizes: some to which the constants of
predictions were fitted too, and some to which they were not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tauslab.formats.sbml.reader import read_sbml
from tauslab.kernels.ode.codegen import fused_products
from tauslab.kernels.ode.graph import RUNNING
from tauslab.kernels.ode.lowering import OdeSystem, lower_ode
from tauslab.kernels.ode.priors import Prior, Priors
from tauslab.model.expressions.expression import Call, symbols
from tauslab.model.generators.equations import (
    SYNTHETIC,
    SyntheticSize,
    equations_of_size,
    synthetic_equations,
)
from tauslab.model.network.network import Network

DATA = Path(__file__).resolve().parents[2] / "tests" / "data" / "sbml"
_STAGES = 4
_SPREAD = 0.2  # unknown parameters are drawn uniformly within this share of their values


@dataclass(frozen=True)
class Case:
    """A system and its run: trajectories of `points` samples, `substeps` Runge-Kutta steps each.

    `step` is the duration of a step in the model's unit. `heterogeneous`, `homogeneous` are the
    seconds of the paper, `memory` what its memory threads gained (table VI), `balancing` what its
    balancing gained (table VII), `warps` the threads that it spread a trajectory over (table V);
    `goal` is what the whole run should take here, seconds.
    """

    name: str
    source: str | int | SyntheticSize
    unknown: int
    trajectories: int
    points: int
    substeps: int
    step: float
    homogeneous: float
    heterogeneous: float
    memory: float
    balancing: float
    warps: int
    goal: float | None = None

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
        found = read_sbml(DATA / f"{self.source}.xml")
        assert isinstance(found, Network)
        return found


MODELS = (
    Case("EGF-NGF", "BIOMD0000000033", 20, 3_000_000, 100, 100, 0.005,
         280.29, 157.14, 1.09, 1.11, 6, 2.0),
    Case("segmentation clock", "BIOMD0000000201", 40, 3_000_000, 100, 500, 0.002,
         1563.6, 403.5, 1.13, 1.03, 4, 10.0),
    Case("thrombin", "BIOMD0000000088", 164, 30_000, 100, 20_000, 0.0002,
         8190.0, 4596.0, 1.01, 1.20, 22, 30.0),
)  # fmt: skip
_GAINS = {1: (1.11, 1.50, 28), 2: (1.10, 1.20, 24), 3: (1.03, 1.25, 16),
          4: (1.11, 1.30, 7), 5: (1.09, 1.11, 16)}  # fmt: skip
SYNTHETIC_CASES = tuple(
    Case(f"synthetic{number}", number, size.parameters, size.trajectories, size.points,
         size.substeps, size.step, size.homogeneous, size.heterogeneous, *_GAINS[number])
    for number, size in SYNTHETIC.items()
)  # fmt: skip
PAPER = (*MODELS, *SYNTHETIC_CASES)
# Equations, parameters, additions, multiplications, divisions, lengths, trajectories.
_OTHER_SIZES = (
    SyntheticSize(30, 24, 96, 84, 4, "unbalanced", 100_000, 100, 60.0, 500, 0, 0),
    SyntheticSize(60, 40, 240, 280, 0, "equal", 50_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(80, 60, 420, 560, 0, "mostly long", 20_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(130, 100, 600, 1380, 0, "shared", 5_000, 100, 2.0, 500, 0, 0),
    SyntheticSize(150, 80, 450, 500, 0, "disparate", 10_000, 100, 300.0, 500, 0, 0),
)
_UNFITTED_SIZES = (
    SyntheticSize(24, 20, 120, 130, 0, "equal", 2_000, 100, 60.0, 500, 0, 0),
    SyntheticSize(45, 30, 150, 170, 0, "disparate", 200_000, 100, 60.0, 500, 0, 0),
    SyntheticSize(70, 50, 250, 260, 6, "unbalanced", 30_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(100, 70, 500, 1180, 0, "shared", 20_000, 100, 2.0, 500, 0, 0),
    SyntheticSize(120, 90, 400, 480, 0, "equal", 15_000, 100, 300.0, 500, 0, 0),
    SyntheticSize(180, 110, 620, 700, 0, "mostly long", 8_000, 100, 300.0, 500, 0, 0),
)


def _of_sizes(sizes: Sequence[SyntheticSize]) -> tuple[Case, ...]:
    return tuple(
        Case(f"other{size.equations}", size, size.parameters, size.trajectories, size.points,
             size.substeps, size.step, 0, 0, 0, 0, 0)
        for size in sizes
    )  # fmt: skip


# Systems that the paper has not.
OTHERS = (
    Case("MAPK cascade", "BIOMD0000000010", 10, 1_000_000, 100, 100, 0.1, 0, 0, 0, 0, 0),
    Case("Vilar oscillator", "BIOMD0000000035", 10, 1_000_000, 100, 100, 0.001, 0, 0, 0, 0, 0),
    Case("p53", "BIOMD0000000188", 15, 300_000, 100, 100, 0.5, 0, 0, 0, 0, 0),
    *_of_sizes(_OTHER_SIZES),
)
# And systems that no constant of a prediction was fitted to.
UNFITTED = (
    Case("repressilator", "BIOMD0000000012", 5, 50_000, 100, 100, 0.01, 0, 0, 0, 0, 0),
    *_of_sizes(_UNFITTED_SIZES),
)
CASES = {case.name: case for case in (*PAPER, *OTHERS, *UNFITTED)}


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
        Prior(n, "uniform", (1 - _SPREAD) * values[n], 2 * _SPREAD * values[n]) for n in names
    )
    variables = lower_ode(network, parameters=values).variables
    system = lower_ode(network, parameters=values, varying=names, recorded=variables)
    return system, Priors(priors)


def exponents(network: Network) -> set[str]:
    """Names that a power is taken to."""
    found: set[str] = set()
    left = [reaction.law for reaction in network.reactions]
    left += [*network.rule_expressions().values(), *network.rates.values()]
    while left:
        node = left.pop()
        if isinstance(node, Call):
            if node.function == "pow":
                found |= symbols(node.arguments[1])
            left.extend(node.arguments)
    return found


@dataclass(frozen=True)
class Work:
    """Arithmetic of a Runge-Kutta step: instructions, and floating-point operations.

    A fused multiply-add is one instruction and two operations; a quotient or a function counts as
    one of each, so what they take beyond that is not counted as achieved.
    """

    instructions: int
    operations: int


def work_of_a_step(system: OdeSystem) -> Work:
    """What the equations need after equal parts are joined, and the sums of the method.

    A stage takes a multiply-add for the next state and one for the sum, the last the sum alone.
    """
    graph = system.graph
    moving = [n for n in graph.reached(list(system.rates)) if graph.stages[n] == RUNNING]
    counted = [n for n in moving if graph.nodes[n].kind not in ("variable", "time")]
    fused = len(fused_products(graph, system.rates))
    sums = (2 * _STAGES - 1) * len(system.variables)
    instructions = _STAGES * (len(counted) - fused) + sums
    return Work(instructions, _STAGES * len(counted) + 2 * sums)
