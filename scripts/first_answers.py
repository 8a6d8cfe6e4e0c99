#!/usr/bin/env python3
"""Measure what a user waits for: the first answer of a new model, with an empty kernel cache.

Each row is a process of its own: seconds to import, of the first ``ts.run``, of compilers in it (by
kernel file), and of the fastest of some runs afterwards, with a digest of what they computed::

    python scripts/first_answers.py --device cuda
    python scripts/first_answers.py --device cuda --only chain:tau --nvrtc=--Ofast-compile=min
"""

from __future__ import annotations

import argparse
import compileall
import fcntl
import hashlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).parents[1]
_DATA = _ROOT / "tests" / "data"
_RUNS = 4  # timed runs after the first


def births() -> Any:
    """Births and deaths of one species."""
    import tauslab as ts

    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=100.0)
    net.add_reaction("X ->", rate=1.0)
    return net


def schlogl() -> Any:
    """Schlögl's model."""
    import tauslab as ts

    return ts.read(_DATA / "sbml" / "schlogl.xml")


def chain(reactions: int = 90) -> Any:
    """A ring of species that turn into the next, alone and in pairs."""
    import tauslab as ts

    net, n = ts.Network("chain"), reactions // 2
    for i in range(n):
        net.add_species(f"S{i}", 1000)
    for i in range(n):
        net.add_reaction(f"S{i} -> S{(i + 1) % n}", rate=1.0 + i * 0.01)
        pair = f"S{i} + S{(i + 3) % n} -> S{(i + 1) % n} + S{(i + 7) % n}"
        net.add_reaction(pair, rate=0.0001 + i * 1e-6)
    return net


def shock() -> Any:
    """The heat shock response of E. coli, 61 reactions."""
    import tauslab as ts

    return ts.read(_DATA / "sbml" / "heat_shock_mass_action.xml")


def dosed() -> Any:
    """Four reactions, with a dose and a condition."""
    import tauslab as ts

    net = ts.Network("dosed")
    net.add_species("X", 100)
    net.add_species("Y", 10)
    for reaction, rate in (("-> X", 100.0), ("X ->", 1.0), ("X -> Y", 0.1), ("Y ->", 0.2)):
        net.add_reaction(reaction, rate=rate)
    net.add_event("dose", 3, {"X": "X + 100"})
    net.add_event("high", trigger="Y > 60", assignments={"Y": "30"})
    return net


def dosed_chain() -> Any:
    """`chain` with the same."""
    net = chain()
    net.add_event("dose", 3, {"S0": "S0 + 100"})
    net.add_event("high", trigger="S1 > 2000", assignments={"S1": "30"})
    return net


def ras() -> Any:
    """Ras, cAMP and protein kinase A: 39 reactions."""
    import tauslab as ts

    return ts.read(_DATA / "sbml" / "ras_camp_pka.xml")


def galactose() -> Any:
    """The galactose switch of yeast, with rate laws."""
    import tauslab as ts

    return ts.read(_ROOT / "examples" / "galactose_switch.toml")


def lattice(species: int = 300) -> Any:
    """A lattice of many species."""
    import tauslab as ts

    model = ts.Lattice("species", shape=(32, 32, 32), spacing=1e-8, step=1e-6, slots=16)
    model.add_species(*(f"S{i}" for i in range(species)))
    model.add_diffusion("*", 1e-12)
    for i in range(0, species - 2, 3):
        model.add_reaction(f"S{i} + S{i + 1} -> S{i + 2}", rate=1e3, volume="site")
        model.add_reaction(f"S{i + 2} -> S{i} + S{i + 1}", rate=1e3)
        model.place(f"S{i}", count=20)
        model.place(f"S{i + 1}", count=20)
    return model


def lattice_5000() -> Any:
    """The same of 5,000 species."""
    return lattice(5000)


_ALL = (
    births, schlogl, chain, shock, ras, dosed, dosed_chain, galactose, lattice, lattice_5000,
)  # fmt: skip
_MODELS: dict[str, Callable[[], Any]] = {one.__name__: one for one in _ALL}
# Model, method, trajectories of the first run and of timed ones, last time.
_ROWS = (
    ("births", "ssa", 10_000, 200_000, 10.0), ("births", "tau", 10_000, 1_000_000, 10.0),
    ("schlogl", "ssa", 10_000, 65_536, 5.0), ("schlogl", "tau", 10_000, 200_000, 5.0),
    ("schlogl", "ode", 10_000, 200_000, 5.0), ("shock", "tau", 10_000, 16_384, 5.0),
    ("ras", "ssa", 1000, 10_000, 1.0), ("ras", "tau", 10_000, 65_536, 15.0),
    ("chain", "ssa", 1000, 10_000, 1.0), ("chain", "tau", 10_000, 65_536, 5.0),
    ("chain", "ode", 10_000, 65_536, 5.0), ("dosed", "ssa", 10_000, 65_536, 10.0),
    ("dosed", "tau", 10_000, 200_000, 10.0), ("dosed_chain", "ssa", 1000, 10_000, 1.0),
    ("dosed_chain", "tau", 1000, 16_384, 5.0),
    ("galactose", "ode", 1000, 10_000, 5.0), ("lattice", "rdme", 0, 0, 1e-3),
    ("lattice_5000", "rdme", 0, 0, 1e-3),
)  # fmt: skip


def _child(name: str, method: str, device: str, nvrtc: list[str], runs: int) -> dict[str, Any]:
    """Run one row in this process."""
    began = time.perf_counter()
    import tauslab as ts
    from tauslab.kernels.backends import cache, cuda

    imported = time.perf_counter() - began
    usual = vars(cuda)["nvrtc_flags"]
    vars(cuda)["nvrtc_flags"] = lambda *given: (*usual(*given), *nvrtc)
    compilers: list[float] = []
    cache.listeners.append(lambda starts: compilers.append((-1) ** starts * time.perf_counter()))
    row = next(row for row in _ROWS if row[:2] == (name, method))
    few, many, end = row[2:]
    model = _MODELS[name]()

    def run(n: int) -> Any:
        keywords: dict[str, Any] = {"t_end": end, "seed": 1, "device": device}
        keywords |= {} if method == "rdme" else {"n": n, "method": method}
        keywords |= {} if method == "rdme" else {"points": 6}
        if method == "ode":
            keywords |= {"sample": {next(iter(model.species)): "normal(100,10)"}}
        return ts.run(model, **keywords)

    began = time.perf_counter()
    result = run(few)
    first = time.perf_counter() - began
    warm = []
    with open(Path(tempfile.gettempdir()) / "first_answers.lock", "w") as lock:  # noqa: PTH123
        fcntl.flock(lock, fcntl.LOCK_EX)  # one row at a time on the device
        for _ in range(runs):
            began = time.perf_counter()
            result = run(many or few)
            warm.append(time.perf_counter() - began)
    return {
        "import": imported, "first": first, "compile": sum(compilers), "files": len(compilers) // 2,
        "warm": min(warm, default=0.0), "digest": _digest(result),
    }  # fmt: skip


def _digest(result: Any) -> str:
    return hashlib.sha256(repr(result.digest()).encode()).hexdigest()[:12]


def _row(name: str, method: str, given: argparse.Namespace) -> str:
    # Another process may still compile into it.
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        child = [sys.executable, __file__, "--child", f"{name}:{method}", "--device", given.device]
        child += [f"--nvrtc={flag}" for flag in given.nvrtc] + ["--runs", str(given.runs)]
        done = subprocess.run(
            child, capture_output=True, text=True, check=False,
            env={**os.environ, "TAUSLAB_CACHE_DIR": folder, "CUDA_CACHE_DISABLE": "1"},
        )  # fmt: skip
    if done.returncode:
        return f"{name:12} {method:5} failed: {done.stderr.strip().splitlines()[-1:]}"
    result = json.loads(done.stdout.splitlines()[-1])
    return (
        f"{name:12} {method:5} {result['import']:6.2f} {result['first']:6.2f} {result['compile']:7.2f}"
        f" {result['files']:5} {result['warm']:8.4f}  {result['digest']}"
    )


def main() -> None:
    """Run what the command asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="auto")
    parser.add_argument("--only", default="", help="rows as model:method, separated by commas")
    parser.add_argument("--nvrtc", action="append", default=[], help="a further flag of NVRTC")
    parser.add_argument("--runs", type=int, default=_RUNS)
    parser.add_argument("--jobs", type=int, default=1, help="rows at the same time")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        name, method = given.child.split(":")
        print(json.dumps(_child(name, method, given.device, given.nvrtc, given.runs)))
        return
    compileall.compile_dir(_ROOT / "src", quiet=1)  # as modules are when they are installed
    wanted = [one for one in given.only.split(",") if one]
    rows = [row[:2] for row in _ROWS if not wanted or ":".join(row[:2]) in wanted]
    print("model        method import  first compile files     warm  digest", flush=True)
    with ThreadPoolExecutor(given.jobs) as pool:
        for line in pool.map(lambda row: _row(row[0], row[1], given), rows):
            print(line, flush=True)


if __name__ == "__main__":
    main()
