"""SBML files by tauslab compared with libRoadRunner.

Rate equations: the amounts of all species, all recorded rules and all values that change are compared at
the same times. The difference of a quantity is the largest at any time, divided by its largest
value. With ``--ssa N``, the means of N exact simulations by libRoadRunner are compared with those of ten
times as many by tauslab, as Z at each time. ``--peer PYTHON`` is the Python of an environment with libroadrunner.

Files are those of ``--files`` (files and folders), and ``--generate N`` random documents of `sbml_documents`,
from seed ``--first`` on. Files with equal text are compared once. Each row is a file, with the quantity that
differs most: by at most ``--tolerance`` (Z: by at most 5).
"""

from __future__ import annotations

import hashlib
import json
import selectors
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import sbml_documents
from outcome import FAIL, Outcome, cells, say

import tauslab as ts
from tauslab.base.errors import TauslabError
from tauslab.formats.sbml.reader import read_sbml
from tauslab.model.network.diagnosis.check import require_support

FloatArray = npt.NDArray[np.float64]

WORKER = Path(__file__).resolve().parents[1] / "peers" / "sbml_worker.py"
ABSOLUTE = (1e-20, 1e-14)  # errors; models in moles have small amounts
LARGEST_Z = 5.0
OURS_TO_THEIRS = 10  # trajectories
FEWEST_VARIANCE = 1e-12
FLOOR = 1e-9  # smallest scale of a quantity
PATIENCE = 120.0  # seconds for the peer
HUGE = 1e100  # a solution that grows without bound is no test


@dataclass(frozen=True)
class Row:
    """Outcome of one file."""

    file: str
    outcome: str  # same, differs, refused, peer failed, failed, not comparable
    quantities: int = 0
    worst: str = ""
    difference: float = 0.0
    detail: str = ""


class Peer:
    """A worker with the other simulator, started again where it dies or hangs."""

    def __init__(self, python: str, seconds: float) -> None:
        self._command, self._seconds = (python, str(WORKER)), seconds
        self._process: subprocess.Popen[str] | None = None

    def ask(self, **request: Any) -> dict[str, Any]:
        """Answer to a request; ``error`` where there is none."""
        if self._process is None or self._process.poll() is not None:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            ready = selector.select(self._seconds)
        line = self._process.stdout.readline() if ready else ""
        if line:
            answer: dict[str, Any] = json.loads(line)
            return answer
        self.close()
        return {"error": "it ended" if ready else f"no answer in {self._seconds:g} s"}

    def close(self) -> None:
        """End the worker."""
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


def sampled_times(options: Any, network: ts.Network) -> list[float]:
    """Equally spaced, to the end that the file names."""
    end = options.t_end or network.t_end or 10.0
    return [float(t) for t in np.linspace(0.0, end, options.points)]


def solution(network: ts.Network, times: Sequence[float]) -> dict[str, FloatArray]:
    """Every recorded quantity at each time, by tauslab's equations engine.

    By the first solver and absolute tolerance with which all is finite: a Jacobian may not be, and
    a jump from 0 never is within too small a tolerance.
    """
    for atol in ABSOLUTE:
        for solver in ("rosenbrock", "dopri5"):
            result = solved(network, times, solver, atol)
            if all(np.isfinite(values).all() for values in result.values()):
                return result
    return result


def solved(
    network: ts.Network, times: Sequence[float], solver: Any, atol: float
) -> dict[str, FloatArray]:
    """Every recorded quantity at each time, by one of the solvers."""
    result = ts.run(
        network,
        method=ts.ODE(solver=solver, rtol=1e-9, atol=atol),
        n=1,
        times=times,
        max_steps=2_000_000,
        device=ts.CPU(threads=1),
        seed=1,
        record="trajectories",
    )
    rules = [name for name, rule in network.rules.items() if rule.recorded]
    return {name: result.mean(name) for name in (*network.species, *rules)}


def compare_equations(path: Path, network: ts.Network, peer: Peer, options: Any) -> Row:
    """Compare the solutions of one file's equations."""
    times = sampled_times(options, network)
    ours = solution(network, times)
    answer = peer.ask(file=str(path), times=times, names=list(ours), trajectories=0, seed=0)
    if "error" in answer:
        return Row(str(path), "peer failed", detail=answer["error"])
    differences: dict[str, float] = {}
    for name, values in answer["values"].items():
        theirs = np.array(values)
        if not np.isfinite(theirs).all() or np.abs(theirs).max() > HUGE:
            continue
        scale = max(float(np.abs(theirs).max()), FLOOR)
        apart = np.abs(np.nan_to_num(ours[name], nan=np.inf) - theirs)
        differences[name] = float(apart.max()) / scale
    return judged(path, differences, options.tolerance)


def judged(path: Path, differences: Mapping[str, float], tolerance: float) -> Row:
    """Row of a file whose quantities differ by `differences`."""
    if not differences:
        return Row(str(path), "not comparable", detail="no quantity is finite")
    worst = max(differences, key=lambda name: differences[name])
    outcome = "same" if differences[worst] <= tolerance else "differs"
    return Row(str(path), outcome, len(differences), worst, differences[worst])


def compare_samples(path: Path, network: ts.Network, peer: Peer, options: Any) -> Row:
    """Compare the means of exact simulations."""
    times, n = sampled_times(options, network), options.ssa
    names = list(network.species)
    answer = peer.ask(file=str(path), times=times, names=names, trajectories=n, seed=options.seed)
    if "error" in answer:
        return Row(str(path), "peer failed", detail=answer["error"])
    ours = ts.run(
        network,
        method="ssa",
        n=n * OURS_TO_THEIRS,
        times=times,
        device=ts.CPU(threads=1),
        seed=options.seed,
        record="statistics",
    )
    z: dict[str, float] = {}
    for name in answer["mean"]:
        variance = ours.variance(name) / (n * OURS_TO_THEIRS)
        variance = variance + np.array(answer["variance"][name]) / n + FEWEST_VARIANCE
        apart = np.abs(ours.mean(name) - np.array(answer["mean"][name]))
        z[name] = float((apart / np.sqrt(variance)).max())
    return judged(path, z, LARGEST_Z)


def compare(path: Path, peer: Peer, options: Any) -> Row:
    """Compare one file, or say why it cannot be."""
    method = "ssa" if options.ssa else "ode"
    try:
        network = read_sbml(path)
        if options.molecules:
            network = ts.in_molecules(network)
        require_support(network, method)
    except TauslabError as error:
        return Row(str(path), "refused", detail=str(error))
    try:
        return (compare_samples if options.ssa else compare_equations)(path, network, peer, options)
    except TauslabError as error:
        return Row(str(path), "failed", detail=str(error))


def files(options: Any, folder: Path) -> Iterator[Path]:
    """Files to compare; files with equal text once."""
    seen = set()
    for given in options.files:
        result = sorted(p for p in given.rglob("*") if p.suffix in (".xml", ".sbml"))
        for path in result if given.is_dir() else [given]:
            data = path.read_bytes()
            digest = hashlib.sha256(data).hexdigest()
            if digest not in seen and b"<sbml" in data:
                seen.add(digest)
                yield path
    for seed in range(options.first, options.first + options.generate):
        path = folder / f"generated_{seed}.xml"
        path.write_text(sbml_documents.document(seed, exact=options.ssa > 0), encoding="utf-8")
        yield path


def run(given: Any) -> Outcome:
    """Compare all files."""
    if given.peer is None:
        raise SystemExit("validate sbml needs --peer PYTHON, which has libroadrunner")
    rows, peer = [], Peer(given.peer, PATIENCE)
    with tempfile.TemporaryDirectory() as folder:
        for path in files(given, Path(folder)):
            rows.append(compare(path, peer, given))
            if rows[-1].outcome != "same":
                say(*cells(rows[-1], 3))
    peer.close()
    counts = Counter(row.outcome for row in rows)
    same = [row for row in rows if row.outcome == "same"]
    about = ", ".join(f"{name}: {count} files" for name, count in counts.most_common()) + (
        f"; {sum(row.quantities for row in same)} quantities agree, the largest difference is "
        f"{max((row.difference for row in same), default=0.0):.2g}."
    )
    table = [[*cells(row, 3), FAIL if row.outcome in {"differs", "failed"} else ""] for row in rows]
    columns = {
        "file": "file",
        "outcome": "same, differs, refused, peer failed, failed, or not comparable",
        "quantities": "quantities compared",
        "worst": "quantity that differs most",
        "difference": "relative difference; with `--ssa` Z",
        "detail": "message",
        "verdict": "empty, or FAIL",
    }
    return Outcome("SBML files compared with libRoadRunner", about, columns, table)
