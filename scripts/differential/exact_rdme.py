"""Lattices by their exact master equation: a program to hold the lattice engine against.

    python scripts/differential/exact_rdme.py examples/minde.toml --seconds 2 --runs 4 -o exact.npz

runs a lattice model event by event, on one core, from the same places at the start as the lattice
engine with the same seed: no time step, no slots.  `exact_rdme.cc` is the program.  From the
model it takes site types, rates of hops and of reactions per site, and the start; neither code nor
random numbers of the lattice kernels.  MinDE has 6e7 events in a second of model time.  Needs g++
or clang++.
"""

from __future__ import annotations

import argparse
import ctypes
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

import tauslab as ts
from tauslab.kernels.backends.compilers import NATIVE, chosen_flags, find_compilers
from tauslab.kernels.lattice.lowering import LoweredLattice, lower_lattice
from tauslab.model.lattice.lattice import Lattice

IntArray = npt.NDArray[np.int64]
SOURCE = Path(__file__).with_suffix(".cc")
FLAGS = ("-std=c++17", "-O3", NATIVE, "-fPIC", "-shared")
LIBRARIES = ("-lstdc++", "-lm")  # TAUSLAB_CXXFLAGS of tests omits them


class _Model(ctypes.Structure):
    """Model of exact_rdme.cc."""

    _fields_ = [
        *((name, ctypes.c_int64) for name in ("nz", "ny", "nx")),
        *((name, ctypes.c_int32) for name in ("n_types", "n_species", "n_reactions")),
        *((name, ctypes.c_void_p) for name in ("types", "periodic", "hops", "reactants",
                                               "made_start", "made", "rates")),
    ]  # fmt: skip


@dataclass(frozen=True)
class ExactRun:
    """Counts of a run.

    Attributes
    ----------
    planes
        Particles ``[time, species, z]``.
    fired
        Reactions until the last time ``[reaction]``.
    events
        Hops and reactions, with candidates that were refused.
    """

    planes: IntArray
    fired: IntArray
    events: int

    @property
    def counts(self) -> IntArray:
        """Particles ``[time, species]``."""
        return np.asarray(self.planes.sum(axis=2), np.int64)


def run_exact(lattice: LoweredLattice, times: Sequence[float], seed: int, start: int | None = None
              ) -> ExactRun:  # fmt: skip
    """Simulate the master equation of a lattice.

    Parameters
    ----------
    times
        Sample times in seconds, ascending.
    seed
        Of the events; also of the particles' places, if no `start` is given for these.

    Raises
    ------
    ValueError
        A face is neither periodic nor reflecting.
    """
    for face in lattice.boundary:
        if face not in {"periodic", "reflecting"}:
            raise ValueError(f"{lattice.name}: exact runs have no {face} faces")
    held = _arrays(lattice)
    model = _Model(*lattice.shape, len(lattice.site_types), len(lattice.species),
                   len(lattice.reactions), *(a.ctypes.data for a in held))  # fmt: skip
    particles = lattice.particles(0, lattice.shape[0], seed if start is None else start)
    occupied = np.flatnonzero(particles)
    sites = np.ascontiguousarray(occupied // lattice.slots, np.int64)
    species = np.ascontiguousarray(particles.ravel()[occupied].astype(np.int32) - 1)
    sampled = np.ascontiguousarray(times, np.float64)
    planes = np.zeros((len(sampled), len(lattice.species), lattice.shape[0]), np.int64)
    fired = np.zeros(max(1, len(lattice.reactions)), np.int64)
    pointers = (a.ctypes.data_as(ctypes.c_void_p) for a in (species, sites))
    results = (a.ctypes.data_as(ctypes.c_void_p) for a in (sampled, planes, fired))
    events = _program().exact_rdme(
        ctypes.byref(model), ctypes.c_uint64(seed), ctypes.c_int64(len(sites)), *pointers,
        ctypes.c_int64(len(sampled)), *results,
    )  # fmt: skip
    return ExactRun(planes, fired[: len(lattice.reactions)], int(events))


def _arrays(lattice: LoweredLattice) -> list[npt.NDArray[np.generic]]:
    """The arrays of `_Model`, in its order."""
    reactions = lattice.reactions
    reactants = [[*r.reactants, -1, -1][:2] for r in reactions]
    made = [len(r.products) for r in reactions]
    arrays = (
        (lattice.sites(0, lattice.shape[0]), np.uint8),
        ([lattice.boundary[2 * axis] == "periodic" for axis in range(3)], np.uint8),
        (lattice.hop * (lattice.diffusion_substeps / lattice.step), np.float64),
        (reactants, np.int32),
        (np.concatenate(([0], np.cumsum(made))), np.int32),
        ([species for r in reactions for species in r.products], np.int32),
        ([r.rates for r in reactions], np.float64),
    )
    return [np.ascontiguousarray(values, kind) for values, kind in arrays]


@cache
def _program() -> ctypes.CDLL:
    compiler = next(c for c in find_compilers() if c.name in {"g++", "clang++"})
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "exact_rdme.so"
        command = [*compiler.command, *FLAGS, *chosen_flags()]
        subprocess.run([*command, "-o", str(library), str(SOURCE), *LIBRARIES], check=True)
        program = ctypes.CDLL(str(library))
    program.exact_rdme.restype = ctypes.c_int64
    return program


def main() -> None:
    """Run a model's file a few times, and return the counts."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--seconds", type=float, required=True)
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE")
    parser.add_argument("-o", "--output", type=Path,
                        help="npz: planes [run, time, species, z], times, fired")  # fmt: skip
    options = parser.parse_args()
    model = ts.read(options.model)
    if not isinstance(model, Lattice):
        parser.error(f"{options.model}: it is no lattice")
    given = (text.split("=") for text in options.set)
    lattice = lower_lattice(model, parameters={name: float(value) for name, value in given})
    times = np.linspace(0, options.seconds, options.points + 1)
    runs = []
    for seed in range(options.seed, options.seed + options.runs):
        runs.append(run_exact(lattice, times.tolist(), seed))
        last = zip(lattice.species, runs[-1].counts[-1].tolist(), strict=True)
        print(f"seed {seed}: {runs[-1].events:,} events;", *(f"{a} {n}" for a, n in last),
              flush=True)  # fmt: skip
        if options.output:
            planes = np.array([r.planes for r in runs], np.int32)
            np.savez_compressed(options.output, times=times, planes=planes, seed=options.seed,
                                fired=[r.fired for r in runs])  # fmt: skip


if __name__ == "__main__":
    main()
