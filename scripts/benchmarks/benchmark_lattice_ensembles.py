"""Many small lattices on one device: moved at once, and one after another.

    python scripts/benchmarks/benchmark_lattice_ensembles.py --device cuda
    taskset -c 0 python scripts/benchmarks/benchmark_lattice_ensembles.py --edges 4,8 --replicas 80 --looks 20

A + B <-> C in cubes of sites, which are counted at `--looks` times, as weighted ensembles do. Both ways alternate and
must give the same counts; medians of rounds are printed as a table, in nanoseconds for a site and a step, of a clock
and of user time.
"""

from __future__ import annotations

import argparse
import resource
import time
from unittest.mock import patch

import numpy as np

import tauslab as ts
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.lattice.lowering import lower_lattice
from tauslab.kernels.lattice.replicas import LatticeReplicas
from tauslab.model.arrays import FloatArray, IntArray


def main() -> None:
    """Measure what is asked for, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--edges", default="8,16,32", help="sites along each axis")
    parser.add_argument("--replicas", default="16,128")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--looks", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    chosen = parser.parse_args()
    backend = get_backend(chosen.device, BackendOptions())
    print(backend.describe())
    heads = "| sites | lattices | at once, ns (user) | one after another, ns (user) | gain (user) |"
    print(heads + "\n|---|---|---|---|---|")
    for edge in map(int, chosen.edges.split(",")):
        lattice = lower_lattice(cube(edge))
        for n in map(int, chosen.replicas.split(",")):
            found = [LatticeReplicas(backend, lattice) for _ in range(2)]
            for lattices in found:
                lattices.begin([(lattice, number) for number in range(n)], 1)
            marks = np.linspace(0, chosen.steps, chosen.looks + 1)[1:].astype(int).tolist()
            spent = np.array([measure(found, marks, turn) for turn in range(chosen.rounds + 1)])
            each = n * edge**3 * chosen.steps * 1e-9
            once, after = np.median(spent[1:], axis=0) / each  # the first compiles
            row = [f"{a:.2f} ({b:.2f})" for a, b in (once, after, after / once)]
            print("| " + " | ".join([f"{edge}³", str(n), *row]) + " |", flush=True)
    backend.close()


def cube(edge: int) -> ts.Lattice:
    """One particle in two sites."""
    model = ts.Lattice("cube", shape=(edge,) * 3, spacing=3e-8, boundary="periodic", step=1e-4)
    model.add_species("A", "B", "C")
    model.add_diffusion("*", 1e-12)
    model.add_reaction("A + B -> C", rate=1e7, unit="M^-1 s^-1")
    model.add_reaction("C -> A + B", rate=50)
    for name in ("A", "B"):
        model.place(name, count=edge**3 // 4)
    return model


def measure(found: list[LatticeReplicas], marks: list[int], seed: int) -> list[FloatArray]:
    """Seconds ``[way, clock]`` of both ways, which must agree."""
    spent, counts = [], []
    for at_once, lattices in zip((True, False), found, strict=True):
        before = seconds()
        counts.append(move(lattices, marks, seed, at_once=at_once))
        spent.append(seconds() - before)
    assert (counts[0] == counts[1]).all()
    return spent


def seconds() -> FloatArray:
    """Of a clock, and of this process's own work."""
    return np.array([time.perf_counter(), resource.getrusage(resource.RUSAGE_SELF).ru_utime])


def move(lattices: LatticeReplicas, marks: list[int], seed: int, *, at_once: bool) -> IntArray:
    """Steps up to the last of marks; counts at each."""
    numbers = range(len(lattices))
    if at_once:
        return lattices.run_sampled(marks, numbers, seed=seed)
    with patch.object(LatticeReplicas, "_of_a_launch", return_value=0):
        return lattices.run_sampled(marks, numbers, seed=seed)


if __name__ == "__main__":
    main()
