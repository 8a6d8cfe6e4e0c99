"""Lattice runs for `test_lattice.py` on any number of ranks: ``lattice_program.py FOLDER CASE...``.

A case writes FOLDER/CASE-RANKS.h5.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
from lattice_factory import STEP, coefficient, empty_lattice
from object_factory import breathing, ribosomes

import tauslab as ts
from tauslab.api.api import ranks
from tauslab.cli.main import main
from tauslab.decomposition.halo import links as halo_links
from tauslab.decomposition.ranks.stopping import stop_on_signals
from tauslab.kernels.lattice import planes
from tauslab.options.lattice import LatticeOptions
from tauslab.options.sweep import choose_points
from tauslab.runner.lattice import group as lattice_group
from tauslab.runner.lattice import loop as lattice_loop
from tauslab.runner.lattice.run import run_lattice
from tauslab.store.lattice import layout as lattice_layout

SHAPE = (12, 9, 10)
STEPS = 40


def crowded():
    """Many particles wait, and more on the planes in the middle."""
    model = empty_lattice(SHAPE, {"A": 0.15, "B": 0.1, "C": 0.05}, slots=8)
    z, _, x = np.indices(SHAPE)
    model.add_site_type("water")
    model.add_site_type("gel", (x < 3) & (z > 2))
    model.add_diffusion("A", coefficient(0.05), within="gel")
    model.add_reaction("A + B -> C", rate=800, volume="site", name="bind")
    model.add_reaction("C -> A + B", rate=1000, name="unbind")
    model.place("A", count=4500, site_type="water")
    model.place("B", count=1300, site_type="gel")
    return model


def paced():
    """The same, with a species that hops faster at some points of a sweep."""
    model = crowded()
    model.add_parameter("D", coefficient(0.05))
    model.add_diffusion("B", "D", within="gel")
    return model


def alone():
    """A few particles in two planes: some slabs hold nothing."""
    model = empty_lattice(SHAPE, {"A": 0.1}, boundary="reflecting", slots=8)
    model.place("A", positions=[(10, y, x) for y in range(4) for x in range(5)] * 8)
    return model


def filling():
    """Few particles, which become many: one rank then chooses another kernel."""
    model = empty_lattice(SHAPE, {"A": 0.2, "B": 0.1}, slots=8)
    model.add_reaction("A -> 2 A", rate=1500)
    model.add_reaction("2 A -> B", rate=1000, volume="site")
    model.place("A", count=60)
    return model


def changing(view):
    """Change the lattice by all that a hook can do."""
    view.memory["calls"] = view.memory.get("calls", 0) + 1
    if view.count("C") > 5:
        view.relabel("C", "A", where=np.indices(SHAPE)[2] > 4)
    own = np.zeros((view.slab.end - view.slab.begin, *SHAPE[1:]), bool)
    own[:, :2] = True
    gone = view.remove("B", where=own)
    for _ in range(2):
        view.add("B", [(5, 0, 0)] * 9 + [(7, 1, 2)] * (gone % 7))
    z, y, _ = np.indices(SHAPE)
    view.paint("gel", where=z + y == 5 + view.memory["calls"])
    view.set_rate("bind", 100.0 * view.memory["calls"], "gel")
    view.memory["fired"] = view.memory.get("fired", 0) + int(view.fired().sum())
    taken = view.remove({"A": 30 + view.memory["fired"] % 5, "B": 2})
    view.relabel({"A": "C", "C": "A"}, where=own)
    view.place({"A": taken["A"] + int(view.counts()[1]) % 3, "C": 40}, "gel")
    tube = np.hypot(z - 3, y - 4) < 2 + 0.7 * view.memory["calls"]
    moved = view.reshape({"gel": tube}, particles={"B": "shell", "C": "pinned"}, reach=3)
    view.memory["moved"] = view.memory.get("moved", []) + list(moved)
    view.place({"A": 3}, "gel")
    view.add({"C": [(5, 0, 0)] * 4 + [(0, 1, 1)], "A": [(5, 0, 0), (7, 1, 2)]})


def killed(view):
    """End rank 1 as the kernel would."""
    if view.step == 30 and ranks().rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)


def asked(view):
    """Ask the last rank to stop."""
    if view.step == 25 and ranks().rank == ranks().size - 1:
        os.kill(os.getpid(), signal.SIGTERM)


def both(last, view):
    """The hook of an unbroken run, and one that breaks it: a run goes on with equal intervals."""
    changing(view)
    last(view)


_HOOKS = {"frame_every": 20, "hooks": [(10, changing)]}
_KILLED = {"checkpoint_steps": 8, "hooks": [(10, changing)]}
_ASKED = {"replicas": 3, "hooks": [(5, changing)]}
_OBJECTS = {"frame_every": 20, "hooks": [(5, breathing)]}
_SWEPT = {"D": [coefficient(0.05), coefficient(0.3)], "A": [2000, 4500]}
UNBROKEN = {
    "whole": (crowded, {"frame_every": 10}),
    "slots": (crowded, {"frame_every": 10}),
    "hooks": (crowded, _HOOKS),
    "hooks in planes": (crowded, {**_HOOKS, "engine": "planes"}),
    "alone": (alone, {"frame_every": 20}),
    "filling": (filling, {"frame_every": 20}),
    "replicas": (crowded, {"replicas": 3, "frame_every": 20}),
    "sweep": (paced, {"sweep": choose_points(_SWEPT), "frame_every": 20}),
    "killed": (crowded, _KILLED),
    "asked": (crowded, _ASKED),
    "objects": (ribosomes, _OBJECTS),
}
CASES = UNBROKEN | {
    "tight": (crowded, {"frame_every": 10}),
    "deep": (crowded, {"frame_every": 10, "halo_depth": 3}),
    "chosen": (crowded, {"frame_every": 10}),
    "cuts": (crowded, {"frame_every": 10, "rebalance_every": 1e-9}),
    "hooked": (crowded, {**_HOOKS, "rebalance_every": 1e-9, "halo_depth": 2}),
    "hooked in planes": (crowded, {**_HOOKS, "rebalance_every": 1e-9, "engine": "planes"}),
    "killed": (crowded, {**_KILLED, "hooks": [(10, partial(both, killed))]}),
    "asked": (crowded, {**_ASKED, "hooks": [(5, partial(both, asked))]}),
    "objects cut anew": (ribosomes, {**_OBJECTS, "rebalance_every": 1e-9, "halo_depth": 2}),
}
THIN = ("cuts", "hooked", "hooked in planes", "objects cut anew")  # cut anew
IN_SLOTS = ("slots", "deep", "chosen", "filling", "hooks", "hooked")  # the others are in planes


def run(folder, name, ranks_before):
    """One case; ``NAME=RANKS`` completes the file that so many left, without what broke it."""
    model, chosen = (UNBROKEN if ranks_before else CASES)[name]
    comm = ranks()
    options = LatticeOptions(
        t_end=STEPS * STEP, count_every=3, seed=7, quiet=True, threads=1,
        device=os.environ.get("LATTICE_DEVICE", "cpu"), share_gpu=True,
        output=Path(folder) / f"{name}-{ranks_before or comm.size}.h5", resume=True, **chosen,
    )  # fmt: skip
    return run_lattice(model(), options, comm, stop_on_signals())


def thin_slabs(bounds, _, __, least):
    """In place of `balanced`: all slabs but one have few planes, in turn the last and the first."""
    thin = least * (len(bounds) - 2)
    if bounds[1] == least:
        return (0, *range(SHAPE[0] - thin, SHAPE[0] + 1, least))
    return (*range(0, thin + 1, least), SHAPE[0])


def by_latency(planes, way):
    """In place of `choose_depth`: two planes where messages are slow, and the slab is as told."""
    assert planes.number == SHAPE[0] // ranks().size
    assert planes.size == SHAPE[1] * SHAPE[2] * 8
    return 1 + (way.latency > 5e-5)


def run_without_output():
    """The result lies in a temporary file that all ranks see, and that goes with it."""
    result = ts.run(
        crowded(), t_end=STEPS * STEP, count_every=3, seed=7, engine="planes",
        device=ts.CPU(threads=1),
    )  # fmt: skip
    everyone = ranks().allgather((result.path, result.counts("A").tolist()))
    assert all(other == everyone[0] for other in everyone)
    result.close()
    ranks().barrier()
    assert not result.path.parent.exists()
    lines = ranks().allgather(f"counts {len(result.times)} {everyone[0][1][-1]}")
    if ranks().rank == 0:
        print("\n".join(lines), flush=True)


def run_all(folder, names):
    """Cases in turn, ``NAME`` or ``NAME=RANKS``."""
    lattice_layout._CHUNK_BYTES = 5 * SHAPE[1] * SHAPE[2] * 8
    lattice_loop._BATCH_SECONDS = 0.02
    least = planes.MANY_SITES
    usual = lattice_group.balanced, lattice_group.HaloOptions, halo_links.choose_depth
    for name, _, ranks_before in (text.partition("=") for text in names):
        lattice_group.balanced = thin_slabs if name in THIN else usual[0]
        tight = partial(usual[1], capacity=3)  # too few may wait: batches are done again
        lattice_group.HaloOptions = tight if name == "tight" else usual[1]
        halo_links.choose_depth = by_latency if name == "chosen" else usual[2]
        planes.MANY_SITES = np.inf if name in IN_SLOTS else 0
        try:
            run(folder, name, ranks_before).close()
        except ts.StoppedEarly:
            print("stopped", ranks().rank, flush=True)
        finally:
            planes.MANY_SITES = least


if __name__ == "__main__":
    if sys.argv[2].startswith("rdme"):
        codes = [main(line.split()) for line in sys.argv[2:]]
        print(f"rank {ranks().rank} returned {codes}", flush=True)
    elif sys.argv[2] == "temporary":
        run_without_output()
    else:
        run_all(sys.argv[1], sys.argv[2:])
