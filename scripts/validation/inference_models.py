"""Models whose parameters are inferred: each with the times and the columns of its data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

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


def three_stages() -> Given:
    """Promoter, mRNA and protein, per second (Shahrezaei and Swain 2008, figure 3D)."""
    net = ts.Network("three_stages")
    for name, count in (("OFF", 1), ("ON", 0), ("M", 0), ("P", 0)):
        net.add_species(name, count)
    for name, rate in (("on", 3e-4), ("off", 1e-4), ("transcription", 2e-3), ("translation", 0.05)):
        net.add_parameter(name, rate)
    net.add_reaction("OFF -> ON", rate="on")
    net.add_reaction("ON -> OFF", rate="off")
    net.add_reaction("ON -> ON + M", rate="transcription")
    net.add_reaction("M -> M + P", rate="translation")
    net.add_reaction("M ->", rate=5e-3)
    net.add_reaction("P ->", rate=5e-4)
    return net, np.arange(1000.0, 15001, 1000), ("M", "P")


def self_activation() -> Given:
    """A protein that activates its own gene, per second (Lin and Doering 2016, section II)."""
    net = ts.Network("self_activation")
    for name in ("M", "P"):
        net.add_species(name, 0)
    for name, value in (
        ("burst", 40.0),
        ("basal", 2 / 3600),
        ("induced", 10 / 3600),
        ("half", 200.0),
    ):
        net.add_parameter(name, value)
    net.add_reaction("-> M", law="basal + induced * P^4 / (half^4 + P^4)")
    net.add_reaction("M -> M + P", law="burst / 120 * M")
    net.add_reaction("M ->", rate=1 / 120)
    net.add_reaction("P ->", rate=1 / 3600)
    return net, np.arange(2400.0, 36001, 2400), ("P",)


def cycles() -> Given:
    """Predators A and prey B on 3,200 places, E of them empty (McKane and Newman 2005, figure 1)."""
    net = ts.Network("cycles")
    for name, count in (("A", 800), ("B", 800), ("E", 1600)):
        net.add_species(name, count)
    for name, rate in (("birth", 0.1), ("death", 0.1), ("eating", 0.25), ("killing", 0.05)):
        net.add_parameter(name, rate)
    net.add_reaction("B + E -> 2 B", law="2 * birth * B * E / 3200")
    net.add_reaction("A -> E", rate="death")
    net.add_reaction("A + B -> 2 A", law="2 * eating * A * B / 3200")
    net.add_reaction("A + B -> A + E", law="2 * killing * A * B / 3200")
    return net, np.arange(5.0, 76, 5), ("A", "B")


def proofreading() -> Given:
    """Ligands join two receptors R, and dimers are modified five times, per second.

    Hlavacek and others 2001: a dimer D of k modifications that loses a receptor loses these too.
    """
    net = ts.Network("proofreading")
    for name, count in (("L", 602), ("R", 300_000), ("S", 0), *((f"D{k}", 0) for k in range(6))):
        net.add_species(name, count)
    for name, rate in (("bind", 1.661e-8), ("join", 3.333e-6), ("leave", 0.1), ("modify", 0.4)):
        net.add_parameter(name, rate)
    net.add_reaction("L + R -> S", rate="bind")
    net.add_reaction("S + R -> D0", rate="join")
    net.add_reaction("S -> L + R", rate="leave")
    for k in range(6):
        net.add_reaction(f"D{k} -> S + R", law=f"2 * leave * D{k}")
        if k < 5:
            net.add_reaction(f"D{k} -> D{k + 1}", rate="modify")
    return net, np.arange(10.0, 121, 10), ("L", "D0", "D5")


def promoter(factor: int) -> Given:
    """One of three genes that switch slowly and fast, per second (Munsky 2012, figure 2B)."""
    net = ts.Network("promoter")
    for name, count in (("OFF", 1), ("ON", 0), ("M", 0)):
        net.add_species(name, count)
    net.add_parameter("on", factor / 2250)
    net.add_parameter("off", factor / 750)
    net.add_reaction("OFF -> ON", rate="on")
    net.add_reaction("ON -> OFF", rate="off")
    net.add_reaction("ON -> ON + M", rate=1 / 3)
    net.add_reaction("M ->", rate=1 / 300)
    return net, np.arange(200.0, 3001, 200), ("M",)


def slow_promoter() -> Given:
    """The gene that switches once in hours."""
    return promoter(1)


def middle_promoter() -> Given:
    """The gene that switches five times as often."""
    return promoter(5)


def fast_promoter() -> Given:
    """The gene that switches 25 times as often."""
    return promoter(25)


@dataclass(frozen=True)
class Published:
    """How data of a published model are simulated and its likelihood is estimated.

    Attributes
    ----------
    noises
        Deviation of the noise of each column.
    cells
        Cells that are seen.
    n
        Particles of the filter of a cell: log-likelihoods of all cells scatter by about 1.
    """

    noises: Mapping[str, float]
    cells: int
    n: int


PUBLISHED: dict[Callable[[], Given], Published] = {
    three_stages: Published({"M": 1.0, "P": 10.0}, 6, 200),
    self_activation: Published({"P": 60.0}, 3, 200),
    cycles: Published({"A": 30.0, "B": 30.0}, 1, 100),
    proofreading: Published({"L": 10.0, "D0": 5.0, "D5": 5.0}, 1, 100),
    slow_promoter: Published({"M": 15.0}, 4, 200),
    middle_promoter: Published({"M": 15.0}, 4, 200),
    fast_promoter: Published({"M": 15.0}, 4, 200),
}


def seen(
    given: Given, rates: Mapping[str, float], noises: Mapping[str, float], cells: int,
    draws: np.random.Generator, seed: int, device: Any,
) -> dict[str, Any]:  # fmt: skip
    """Data of so many cells with normal noise, as calls take them."""
    net, times, _ = given
    result = ts.run(net, n=cells, times=times, set=dict(rates), seed=seed, device=device)
    data: dict[str, Any] = {"time": np.tile(times, cells)}
    if cells > 1:
        data["cell"] = np.repeat(np.arange(cells), len(times))
    for name, sd in noises.items():
        errors = draws.standard_normal((cells, len(times)))
        data[name] = (result.counts(name) + sd * errors).ravel()
    return data


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
