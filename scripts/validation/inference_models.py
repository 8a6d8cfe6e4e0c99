"""Models whose parameters are inferred: each with the times and the columns of its data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

import tauslab as ts

Given = tuple[ts.Network, npt.NDArray[np.float64], tuple[str, ...]]


def birth_death() -> Given:
    """Births at a constant rate, and deaths."""
    net = ts.Network("birth_death")
    net.add_species("X", 10)
    net.add_parameter("birth", 4.0)
    net.add_parameter("decay", 0.2)
    net.add_reaction("-> X", rate="birth")
    net.add_reaction("X ->", rate="decay")
    return net, np.arange(1.0, 21), ("X",)


def prey() -> Given:
    """Lotka and Volterra's prey X and predators Y."""
    net = ts.Network("lotka_volterra")
    net.add_species("X", 50)
    net.add_species("Y", 100)
    net.add_parameter("birth", 1.0)
    net.add_parameter("meeting", 0.005)
    net.add_parameter("death", 0.6)
    net.add_reaction("X -> 2 X", rate="birth")
    net.add_reaction("X + Y -> 2 Y", rate="meeting")
    net.add_reaction("Y ->", rate="death")
    return net, np.arange(1.0, 9), ("X", "Y")


def small_prey() -> Given:
    """The same with few of both, whose states are few."""
    net = ts.Network("few_prey")
    net.add_species("X", 8)
    net.add_species("Y", 6)
    net.add_parameter("birth", 1.0)
    net.add_reaction("X -> 2 X", rate="birth")
    net.add_reaction("X + Y -> 2 Y", rate=0.1)
    net.add_reaction("Y ->", rate=0.8)
    return net, np.array([0.5, 1.0, 1.5]), ("X", "Y")


def epidemic(people: int = 200, infection: float = 0.004) -> Given:
    """Susceptible, infected and recovered."""
    net = ts.Network("epidemic")
    for name, count in (("S", people - people // 20), ("I", people // 20), ("R", 0)):
        net.add_species(name, count)
    net.add_parameter("infection", infection)
    net.add_parameter("recovery", 0.3)
    net.add_reaction("S + I -> 2 I", rate="infection")
    net.add_reaction("I -> R", rate="recovery")
    return net, np.arange(1.0, 13), ("I",)


def small_epidemic() -> Given:
    """The same among 40."""
    return epidemic(40, 0.02)


def gene() -> Given:
    """A gene that is on or off, and its mRNA."""
    net = ts.Network("gene")
    for name, count in (("OFF", 1), ("ON", 0), ("M", 0)):
        net.add_species(name, count)
    net.add_parameter("on", 0.5)
    net.add_parameter("making", 5.0)
    net.add_reaction("OFF -> ON", rate="on")
    net.add_reaction("ON -> OFF", rate=1.0)
    net.add_reaction("ON -> ON + M", rate="making")
    net.add_reaction("M ->", rate=0.5)
    return net, np.arange(1.0, 11), ("M",)


@dataclass(frozen=True)
class Short:
    """A model with the first rows of its data alone."""

    model: Callable[[], Given]
    rows: int

    def __call__(self) -> Given:
        """As of the model."""
        net, times, columns = self.model()
        return net, times[: self.rows], columns

    def __str__(self) -> str:
        """Its name."""
        return self.model.__name__
