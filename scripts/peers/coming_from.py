"""Runs what the pages docs/coming-from show of other programs, and compares it with ours.

A page has one model twice: in the words of the other program, and in ours. Both are run here as
they stand, but for the number of trajectories and their seeds: molecules P that pair, and pairs D
that fall apart. The mean of D at t = 50 must agree with the master equation, which is solved here,
and so must ours: a factor of two in a rate is twenty standard errors and more.

    pip install --target /tmp/peers gillespy2 setuptools rebop copasi-basico libroadrunner \
        antimony pysb bionetgen
    PYTHONPATH=/tmp/peers python scripts/peers/coming_from.py -o docs/coming-from/agreement.csv

What is not installed is left out with its reason. PySB finds BioNetGen by BNGPATH, which is then
/tmp/peers/bionetgen/bng-linux. `loada` of tellurium is libRoadRunner and Antimony, which stand
for it where it is missing.
"""

from __future__ import annotations

import argparse
import csv
import hashlib
import importlib.metadata
import re
import sys
import tempfile
import types
from collections.abc import Callable
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

PAGES = Path(__file__).resolve().parents[2] / "docs" / "coming-from"
FloatArray = npt.NDArray[np.float64]
MOST_Z = 4.5  # a false alarm in 1.5e5 for each number that is compared
_FENCE = re.compile(r"```(\w*)\n(.*?)```", re.DOTALL)


@dataclass(frozen=True)
class Row:
    """Results of a page: `code` is the hash of the code that ran, so that a test sees a change."""

    page: str
    code: str
    program: str
    trajectories: int = 0
    mean: str = ""
    error: str = ""
    ours: str = ""
    our_error: str = ""
    expected: str = ""
    verdict: str = ""


def blocks(page: str) -> list[tuple[str, str]]:
    """Language and text of the fenced blocks of a page."""
    return _FENCE.findall((PAGES / f"{page}.md").read_text(encoding="utf-8"))


def code_hash(page: str) -> str:
    """Hash of the two models of a page, without the import of tauslab."""
    models = (text.removeprefix("import tauslab as ts\n\n") for _, text in blocks(page)[:2])
    text = "\0".join(models)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def exact_mean() -> float:
    """Mean of D at t = 50 of 100 molecules P: pairs at 0.001 x (x - 1), apart at 0.1 each."""
    pairs = np.arange(51)
    left = 100 - 2 * pairs
    up, down = 0.001 * left * (left - 1), 0.1 * pairs
    generator = np.diag(-up - down) + np.diag(up[:-1], -1) + np.diag(down[1:], 1)
    step = np.eye(51) + generator * 50 / 2**24
    for _ in range(24):
        step = step @ step
    return float(pairs @ step[:, 0])


def ours(page: str, n: int) -> FloatArray:
    """D at the end of our trajectories, by the code of the page."""
    import tauslab as ts

    language, text = blocks(page)[1]
    if language == "toml":
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.toml"
            path.write_text(text, encoding="utf-8")
            result: Any = ts.run(ts.read(path), n=n, t_end=50, points=2, seed=3, device="cpu")
    else:
        model = text[: text.index("ts.run(")].rpartition("\n")[0]
        names: dict[str, Any] = {"ts": ts, "np": np}
        exec(model, names)  # noqa: S102 - the page's own code
        result = ts.run(names["net"], n=n, t_end=50, points=2, seed=3, device="cpu")
    return np.asarray(result.counts("D")[:, -1], np.float64)


# ---------------------------------------------------------------- the others


def by_gillespy2(code: str, n: int) -> list[float]:
    """One run of many trajectories."""
    names = run(code.replace("number_of_trajectories=20", f"number_of_trajectories={n}"))
    return [float(one["D"][-1]) for one in names["results"]]


def by_rebop(code: str, n: int) -> list[float]:
    """The last line again and again."""
    return [float(x["ds"]["D"][-1]) for x in again(code, "rng=1", "rng={}", n)]


def by_basico(code: str, n: int) -> list[float]:
    """The last statement again and again."""
    return [float(x["course"]["D"].iloc[-1]) for x in again(code, "seed=1\n", "seed={}\n", n)]


def by_tellurium(code: str, n: int) -> list[float]:
    """Run as written, with a stand-in for `loada` where tellurium is missing; reset before each run."""
    try:
        import tellurium  # noqa: F401
    except ImportError:
        sys.modules["tellurium"] = _stand_in()
    start, last = code[: code.index("r.integrator.seed")], "one = r.simulate(0, 50, 51)"
    assert last in code
    names, result = run(start), []
    for seed in range(1, n + 1):
        exec(f"r.reset()\nr.integrator.seed = {seed}\n{last}", names)  # noqa: S102
        result.append(float(names["one"][-1, list(names["one"].colnames).index("[D]")]))
    return result


def by_pysb(code: str, n: int) -> list[float]:
    """One run of many trajectories."""
    names = run(code.replace("n_runs=1000", f"n_runs={n}"))
    return [float(one["D"][-1]) for one in names["runs"].observables]


def _stand_in() -> types.ModuleType:
    """`loada` of tellurium: Antimony's SBML in libRoadRunner."""
    import antimony
    import roadrunner

    def loada(text: str) -> Any:
        if antimony.loadAntimonyString(text) < 0:
            raise ValueError(antimony.getLastError())
        return roadrunner.RoadRunner(antimony.getSBMLString(antimony.getMainModuleName()))

    made = types.ModuleType("tellurium")
    made.loada = loada  # type: ignore[attr-defined]
    return made


def run(code: str) -> dict[str, Any]:
    """Names after the code of a page; PySB wants a module of its own."""
    module = types.ModuleType("page")
    sys.modules["page"] = module
    exec(compile(code, "page", "exec"), module.__dict__)  # noqa: S102
    return module.__dict__


def again(code: str, old: str, new: str, n: int) -> list[dict[str, Any]]:
    """Names after each run of the last statement, whose seed is another each time."""
    lines = code.splitlines(keepends=True)
    first = max(at for at, line in enumerate(lines) if re.match(r"\w+ = ", line))
    statement = "".join(lines[first:])
    assert old in statement
    names, result = run("".join(lines[:first])), []
    for seed in range(1, n + 1):
        exec(statement.replace(old, new.format(seed)), names)  # noqa: S102
        result.append({name: names[name] for name in names if f"{name} = " in statement})
    return result


@dataclass(frozen=True)
class Peer:
    """Program of a page: `packages` give the versions, `n` trajectories of theirs, 20 n of ours."""

    packages: tuple[str, ...]
    run: Callable[[str, int], list[float]]
    n: int


PEERS = {
    "gillespy2": Peer(("gillespy2",), by_gillespy2, 200),
    "rebop": Peer(("rebop",), by_rebop, 400),
    "copasi": Peer(("copasi-basico",), by_basico, 400),
    "tellurium": Peer(("libroadrunner", "antimony"), by_tellurium, 400),
    "pysb": Peer(("pysb", "bionetgen"), by_pysb, 400),
}
NOT_RUN = {
    "jumpprocesses": "Julia",
    "lattice-microbes": "no package to install; it needs a GPU",
    "smoldyn": "measured by hand, see the page",
    "stochkit2": "no package to install",
}


def row_of(page: str) -> Row:
    """Run a page, and judge."""
    if page in NOT_RUN:
        return Row(page, code_hash(page), "", verdict=f"not run: {NOT_RUN[page]}")
    peer = PEERS[page]
    try:
        theirs = np.array(peer.run(blocks(page)[0][1], peer.n))
        program = ", ".join(f"{x} {importlib.metadata.version(x)}" for x in peer.packages)
    except (ImportError, OSError) as error:
        return Row(page, code_hash(page), "", verdict=f"not run: {error}")
    own = ours(page, 20 * peer.n)
    expected = exact_mean()
    means, errors = [], []
    for values in (theirs, own):
        means.append(float(values.mean()))
        errors.append(float(values.std(ddof=1)) / len(values) ** 0.5)
    near = [abs(m - expected) < MOST_Z * e for m, e in zip(means, errors, strict=True)]
    near.append(abs(means[0] - means[1]) < MOST_Z * np.hypot(*errors))
    shown = [f"{value:.4g}" for pair in zip(means, errors, strict=True) for value in pair]
    verdict = "agrees" if all(near) else "differs"
    return Row(page, code_hash(page), program, len(theirs), *shown, f"{expected:.4g}", verdict)


def main() -> None:
    """Print a row for each page, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("pages", nargs="*", default=[*PEERS, *NOT_RUN], help="some pages only")
    parser.add_argument("-o", "--output", type=Path, help="a table, CSV")
    given = parser.parse_args()
    rows = []
    for page in sorted(given.pages):
        rows.append(row_of(page))
        print(*astuple(rows[-1]), sep=" | ", flush=True)
    if given.output is not None:
        with given.output.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow([one.name for one in fields(Row)])
            writer.writerows(astuple(row) for row in rows)


if __name__ == "__main__":
    main()
