"""A hybrid that is killed at random times and resumed has the digest of an uninterrupted run.

A process runs a hybrid and saves its state after each round: `parts`, a network, equations, a
lattice and a function with all kinds of links; `cell`, the small cell of examples/minimal_cell.py
over a whole cycle; `grown`, the full cell shortly before and after its division, for a GPU and only
if `--cases` names it. SIGKILL ends the process at a random time, and the next one resumes the run, until
there were `--runs` kills. All digests must be equal, and both daughters together must have what their mother
had: particles, molecules, pools, debts. The division of particles is compared with the binomial
distribution by chi-square.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from outcome import FAIL, Outcome, say

import tauslab as ts

_PARTS = """
import sys
import tauslab as ts

net = ts.Network("net")
net.add_species("X", 30)
net.add_species("Y", 0)
net.add_parameter("k", 0.1)
net.add_reaction("X -> Y", rate="k")
net.add_reaction("Y -> X", rate=0.4)
net.add_reaction("-> X", rate=4.0, name="born")
pool = ts.Network("pool")
pool.add_species("Y", 0.0)
pool.add_species("E", 50.0)
pool.add_rate("Y", "-0.2 * Y")
pool.add_rate("E", "9 - 0.1 * E")
box = ts.Lattice("box", shape=(6, 6, 6), spacing=1e-6, boundary="periodic", step=0.005)
box.add_species("X")
box.add_diffusion("X", 3e-11)
box.place("X", count=30)
box.add_reaction("X ->", rate=0.1, name="gone")
cell = ts.Hybrid("busy", tick=0.25)
cell.add_part("net", net, every=0.5)
cell.add_part("pool", pool, method="ode")
cell.add_part("box", box)
cell.add_part("own", lambda t, dt, values: {"z": dt * values["Y"]}, values={"z": 0, "Y": 0})
cell.share("net.Y", "pool.Y")
cell.share("net.X", "box.X")
cell.drive("net.k", "0.1 + 0.01 * pool.E")
cell.drive("own.Y", "pool.Y + net.sum(X, Y)")
cell.bill("net.fired(born)", {"pool.E": 2})
cell.set_rate("box.gone", "k * (1 + 0.01 * pool.E)")
given = {"t_end": 12.0, "n": 5}
"""
_CELL = f"""
import sys
sys.path.append({str(Path(__file__).resolve().parents[2] / "examples")!r})
import tauslab as ts
from minimal_cell import SMALL, Cell

cell, given = Cell(SMALL).hybrid(), {{"t_end": 24.0}}
"""
_RUN = """
ts.run(
    cell, seed=1, device=ts.GPU() if sys.argv[2] == "cuda" else ts.CPU(threads=1), pilot=0,
    output=sys.argv[1], resume=True, checkpoint_every=0, quiet=True, **given,
)
"""
_GROWN = f"""
import sys
sys.path.append({str(Path(__file__).resolve().parents[1] / "benchmarks")!r})
import tauslab as ts
from measure_minimal_cell import GrownCell, Size

cell, given = GrownCell(Size(), 1.998).hybrid(), {{"t_end": 16.0}}
"""
# Programs, and the part of the time of a whole run after which they are killed.
_CASES = {
    "parts": (_PARTS, 0.4, 1.0), "cell": (_CELL, 0.2, 0.6), "grown": (_GROWN, 0.6, 0.9),
}  # fmt: skip
_NOT_DIVIDED = "expression.to_do", "expression.done"  # as at birth


def _started(folder: Path, output: Path, device: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, str(folder / "program.py"), str(output), device])


def _opened(path: Path) -> ts.HybridResult:
    result = ts.open(path)
    assert isinstance(result, ts.HybridResult)
    return result


def _divided(result: ts.HybridResult) -> tuple[int, str]:
    """Quantities whose daughters have not all of their mother, and a sentence."""
    divided = result.divisions
    if divided is None or not len(divided):
        return 0, ""
    lost = squares = 0.0
    several = list[str]()
    names = [one for one in divided.names if one.startswith(("space.", "expression."))]
    for name in (one for one in names if one not in _NOT_DIVIDED):
        mother, first, second = divided.of(name)
        lost += bool((np.floor(first) + np.floor(second) != np.floor(mother)).any())
        if name.startswith(("space.P", "space.M", "space.B")) and (mother > 0).all():
            squares += float(np.mean((first - second) ** 2 / mother))
            several.append(name)
    return int(lost), (
        f"divided at {', '.join(f'{t:g}' for t in divided.time)} s; {lost:g} of {len(names)} quantities "
        f"not conserved; chi-square {squares:.1f} for {len(several)} species"
    )


def run(given: Any) -> Outcome:
    """Kill each case again and again, and compare digests."""
    rows, reported = list[list[str]](), list[str]()
    for name in given.cases or ["parts", "cell"]:
        took, kills, resumed = _killed(name, given.runs, given.device, rows)
        reported.append(
            f"{name}: {kills} kills of a run of {took:.1f} s, {resumed} of them after a checkpoint"
        )
    about = f"{'; '.join(reported)}. A row passes if the completed run has the digest of an uninterrupted one."
    columns = {
        "case": "hybrid, in `validate_hybrid_kills.py`",
        "run": "number of the run; or how the cell was divided",
        "kills": "kills of this run",
        "verdict": "empty, or FAIL",
    }
    return Outcome("Hybrids that are killed and resumed", about, columns, rows)


def _killed(name: str, runs: int, device: str, rows: list[list[str]]) -> tuple[float, int, int]:
    """Seconds of an uninterrupted run of a case, kills, and kills after a checkpoint."""
    program, least, most = _CASES[name]
    drawn, number = np.random.default_rng(1), 0
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        (folder / "program.py").write_text(program + _RUN, encoding="utf-8")
        start = time.monotonic()
        _started(folder, folder / "whole.h5", device).wait()
        took = time.monotonic() - start
        result = _opened(folder / "whole.h5")
        whole, (lost, halves) = result.digest(), _divided(result)
        if halves:
            rows.append([name, halves, "", FAIL if lost else ""])
            say(*rows[-1])
        kills = resumed = 0
        while kills < runs:
            number += 1
            output, of_run = folder / f"cut{number}.h5", 0
            while not output.exists():  # it is there as a whole, or not at all
                process = _started(folder, output, device)
                try:
                    process.wait(timeout=drawn.uniform(least, most) * took)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    of_run += 1
                    resumed += Path(f"{output}.checkpoint").exists()
            kills += of_run
            same = _opened(output).digest() == whole
            rows.append([name, str(number), str(of_run), "" if same else FAIL])
            say(*rows[-1])
    return took, kills, resumed
