"""Verbs of programs that act between two steps: of ensembles, and of hooks of lattices."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from machine import Answer, Machine, seconds_of

import tauslab as ts

TURNS = 7  # the least of so many is taken
SHAPE = (128, 64, 64)
ADDED = 500


def least(verbs: Mapping[str, Callable[[], object]]) -> dict[str, float]:
    """Least seconds of each verb."""
    return {name: min(seconds_of(act) for _ in range(TURNS)) for name, act in verbs.items()}


def chain(size: int) -> ts.Network:
    """Molecules that go from each species to the next."""
    net = ts.Network("chain")
    for i in range(size):
        net.add_species(f"X{i}", 10)
        net.add_parameter(f"k{i}", 0.5)
    for i in range(size):
        net.add_reaction(f"X{i} -> X{(i + 1) % size}", rate=f"k{i}")
    return net


def of_ensembles(machine: Machine, *, size: int, n: int) -> Answer:
    """Verbs of n particles of a chain, each of all its names."""
    names = [f"X{i}" for i in range(size)]
    counts, rates = dict.fromkeys(names, 9), {f"k{i}": 0.25 for i in range(size)}
    with ts.Ensemble(
        chain(size), n, seed=1, device=machine.place(), count_reactions=True
    ) as particles:
        particles.set(rates)
        particles.advance(0.01)
        return least({
            "set counts": lambda: particles.set(counts),
            "set rates": lambda: particles.set({k: v + particles.round for k, v in rates.items()}),
            "counts": lambda: particles.counts,
            "values": lambda: particles.values(names),
            "advance": lambda: particles.advance(particles.time + 1e-6),
            "fired": particles.fired,
            "reset": particles.reset,
        })  # fmt: skip


def ball(shift: int = 0) -> npt.NDArray[np.uint8]:
    """Numbers of site types ``[z, y, x]``: a ball of type 1, and a shell around it of type 2."""
    z, y, x = np.indices(SHAPE)
    distance = (x - 32) ** 2 + (y - 32) ** 2 + (z - 64 - shift) ** 2
    return np.select([distance <= 400, distance <= 484], [1, 2], 0).astype(np.uint8)


def cell(species: int) -> ts.Lattice:
    """A ball of cytoplasm and a shell, about 80,000 particles, half of the species react."""
    made = ts.Lattice("cell", shape=SHAPE, spacing=10e-9, step=50e-6)
    made.add_site_type("outside")
    made.add_site_type("cytoplasm", ball() == 1)
    made.add_site_type("shell", ball() == 2)
    names = [f"S{i}" for i in range(species)]
    made.add_species(*names)
    made.add_diffusion("*", 1e-13, within="cytoplasm")
    made.add_diffusion("*", 1e-13, within="shell")
    made.add_diffusion("*", 1e-13, between=("cytoplasm", "shell"))
    for i in range(0, species, 2):
        made.add_reaction(f"S{i} -> S{i + 1}", rate=1.0, site_types="cytoplasm", name=f"turn{i}")
        made.place(f"S{i}", count=160_000 // species, site_type="cytoplasm")
    return made


def of_hooks(machine: Machine, *, species: int) -> Answer:
    """Verbs of a hook, of as many species or reactions as there are, or up to 910."""
    some = range(0, min(species, 910), 2)
    swapped = {f"S{i}": f"S{i + 1}" for i in some} | {f"S{i + 1}": f"S{i}" for i in some}
    where = np.argwhere(np.indices(SHAPE)[2] == 32)
    rng = np.random.default_rng(0)
    shapes = ball(2), ball()
    result: dict[str, float] = {}

    def hook(view: Any) -> None:
        positions = where[rng.choice(len(where), ADDED, replace=False)]
        spread = {f"S{2 * i}": positions[50 * i : 50 * i + 50] for i in range(ADDED // 50)}
        rates = {f"turn{i}": 1.0 + view.step / 100 for i in some}
        ones = {f"S{i}": 1 for i in some}

        def counted(act: Callable[[], object]) -> Callable[[], object]:
            def anew() -> object:
                view.changed()  # so that counts are made again
                return act()

            return anew

        verbs: dict[str, Callable[[], object]] = {
            "counts": counted(view.counts),
            "counts by type": counted(lambda: view.counts(by="site_type")),
            "fired": counted(view.fired),
            "relabel": lambda: view.relabel(swapped),
            "remove one": lambda: view.remove("S1"),
            "remove numbers": lambda: view.remove(ones),
            "set_rates": lambda: view.set_rates(rates),
            "add": lambda: view.add(spread),
            "place after reshape": lambda: view.place(ones, "cytoplasm"),
            "place": lambda: view.place(ones, "cytoplasm"),
            "reshape": lambda: view.reshape(shapes[view.step // 10 % 2]),
        }  # fmt: skip
        for name, act in verbs.items():
            began = time.perf_counter()
            act()
            took = time.perf_counter() - began
            result[name] = min(took, result.get(name, took))
            if name == "relabel":
                act()  # so that each call finds the same numbers of particles

    hooks = [(10, hook)]
    with ts.run(
        cell(species), t_end=10 * TURNS * 50e-6, hooks=hooks, seed=1, device=machine.place(),
        quiet=True, count_every=10 * TURNS,
    ):  # fmt: skip
        return result


def of_lattices(machine: Machine, *, species: int) -> Answer:
    """Verbs of an ensemble of one lattice."""
    made = cell(species)
    made.add_parameter("k", 1.0)
    made.add_reaction("S1 -> S0", rate="k", name="back")
    few = {f"S{i}": 160_000 // species + 1 for i in range(0, min(species, 910), 2)}
    with ts.Ensemble(made, 1, seed=1, device=machine.place()) as particles:
        particles.advance(50e-6)
        return least({
            "set counts": lambda: particles.set({k: v + particles.round for k, v in few.items()}),
            "set a rate": lambda: particles.set(k=1.0 + 0.1 * particles.round),
            "counts": lambda: particles.counts,
            "fired": particles.fired,
            "advance": lambda: particles.advance(particles.time + 50e-6),
        })  # fmt: skip
