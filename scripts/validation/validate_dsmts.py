"""`ssa` or `tau` compared with the stochastic cases of the SBML Test Suite.

Cases and published moments are in tests/data/dsmts. Mean m and variance s^2 of n trajectories are
compared with the published mean mu and standard deviation sigma at each time:

    Z = sqrt(n) (m - mu) / sigma                                     inside (-3, 3)
    Y = sqrt(n / 2) (s^2 / sigma^2 - 1) / sqrt((k + 2) / 2)          inside (-5, 5)

k is the sample excess kurtosis. The suite's own Y lacks the last factor: it assumes normally
distributed counts, so a correct program would fail cases with heavy tails. The cases state both ranges
(`meanRange`, `sdRange`; some have (-3, 3) or (-4, 4) for Y). If a case publishes only a mean, the
sample's s replaces sigma, and Y is not computed. Two cases publish moments of ln(X). If sigma = 0,
every trajectory must equal mu. A case fails if more than 3 of its points are outside, if any abs(Z) > 5,
or if a trajectory differs from mu at a point with sigma = 0.

A correct program fails a case in about 1.5 % of runs (14 of 920, n = 1,000, 40 seeds), because
samples at neighbouring times are correlated. All cases use the same seed; cases that describe the same
process in different ways use the same random numbers, so their rows are not independent.

With ``--method tau``, if leaps fire at least 1 % of the events of a case, its means may be off by
epsilon and its standard deviations by 2 epsilon; Z and Y contain only the remaining error.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from outcome import Outcome, say, verdict

import tauslab as ts
from tauslab.formats.read import read_network
from tauslab.model.network.diagnosis.check import refusing
from tauslab.store.results.samples import column_of

FloatArray = npt.NDArray[np.float64]

CASES = Path(__file__).resolve().parents[2] / "tests" / "data" / "dsmts"
POINTS_ALLOWED_OUTSIDE = 3
LARGEST_Z = 5.0
LEAPS_APPLY = 0.01  # part of a case's events that leaps fire
ROWS_AT_ONCE = 1 << 12  # keeps the powers of deviations in the processor's cache


@dataclass(frozen=True)
class Case:
    """A case of the suite: what to run, and what the samples should look like.

    `mean` and `sd` hold ``[time]`` for each of `variables`, `sd` not where none is published;
    moments of `logarithms` are those of the logarithm. Ranges are open intervals.
    """

    name: str
    model: Path
    times: FloatArray
    variables: tuple[str, ...]
    mean: Mapping[str, FloatArray]
    sd: Mapping[str, FloatArray]
    z_range: tuple[float, float]
    y_range: tuple[float, float]
    logarithms: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Comparison:
    """A variable of a case: Z and Y ``[time]`` (NaN where sigma = 0).

    `inexact` counts points with sigma = 0 that some trajectory missed.
    """

    variable: str
    z: FloatArray
    y: FloatArray
    outside_z: int
    outside_y: int
    inexact: int

    @property
    def worst(self) -> tuple[float, float]:
        """Largest abs(Z) and abs(Y); 0 where there is no such point."""
        z, y = (np.abs(v[np.isfinite(v)]).max(initial=0.0) for v in (self.z, self.y))
        return float(z), float(y)


class Validation(NamedTuple):
    """A case compared; `by_leaps` is the part of its events that leaps fired."""

    comparisons: list[Comparison]
    device: Any
    by_leaps: float


def settings_of(folder: Path) -> dict[str, str]:
    """Lines ``key: value`` of a case's settings."""
    lines = (folder / f"{folder.name}-settings.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(":") for line in lines if ":" in line)
    return {key.strip(): value.strip() for key, _, value in pairs}


def exclusion(folder: Path) -> str | None:
    """Why a case cannot be run with exact SSA on counts; None if it can."""
    settings = settings_of(folder)
    if settings["concentration"]:
        return f"asks for concentrations of {settings['concentration']}"
    unknown = [o for o in names_of(settings["output"]) if not o.endswith(("-mean", "-sd"))]
    if unknown:
        return f"asks for {settings['output']}"
    network = read_network(model_of(folder))
    refused = [f for f in network.features if refusing(f, ["ssa"])]
    return "; ".join(sorted({f"{f.kind} ({f.element})" for f in refused})) or None


def model_of(folder: Path) -> Path:
    """The model of a case."""
    return folder / f"{folder.name}-sbml-l3v1.xml"


def read_case(folder: Path) -> Case:
    """Read settings and published moments of a case."""
    settings = settings_of(folder)
    with (folder / f"{folder.name}-results.csv").open(encoding="utf-8") as file:
        header, *rows = [row for row in csv.reader(file) if row]
    table = dict(zip(map(str.strip, header), np.array(rows, np.float64).T, strict=True))
    start, duration = float(settings["start"]), float(settings["duration"])
    times = np.linspace(start, start + duration, int(settings["steps"]) + 1)
    variables = tuple(names_of(settings["variables"]))
    logarithms = frozenset(v for v in variables if f"ln({v})-mean" in table)
    columns = {v: f"ln({v})" if v in logarithms else v for v in variables}
    if logarithms:  # of 0 at the start there is none
        times, table = times[1:], {name: column[1:] for name, column in table.items()}
    if not np.allclose(times, table["time"], rtol=0, atol=1e-9):
        raise SystemExit(f"{folder.name}: settings and results give different times")
    return Case(
        name=folder.name,
        model=model_of(folder),
        times=times,
        variables=variables,
        mean={v: table[f"{c}-mean"] for v, c in columns.items()},
        sd={v: table[f"{c}-sd"] for v, c in columns.items() if f"{c}-sd" in table},
        z_range=_range(settings["meanRange"]),
        y_range=_range(settings["sdRange"]),
        logarithms=logarithms,
    )


def moments(
    pieces: Iterable[npt.NDArray[np.generic]], about: FloatArray
) -> tuple[int, FloatArray, FloatArray, FloatArray]:
    """Number of samples, mean, variance (n - 1) and excess kurtosis, each ``[time]``.

    `pieces` are samples ``[trajectories, time]``; `about` is a number near their mean, subtracted
    before powers are taken.
    """
    n, sums = 0, np.zeros((4, len(about)))
    for piece in pieces:
        n += len(piece)
        for first in range(0, len(piece), ROWS_AT_ONCE):
            d = np.ascontiguousarray(piece[first : first + ROWS_AT_ONCE], np.float64) - about
            d2 = d * d
            sums += np.stack([d.sum(0), d2.sum(0), (d2 * d).sum(0), (d2 * d2).sum(0)])
    d1, d2, d3, d4 = sums / n
    second = np.maximum(d2 - d1**2, 0.0)
    fourth = d4 - 4 * d1 * d3 + 6 * d1**2 * d2 - 3 * d1**4
    kurtosis = np.divide(fourth, second**2, out=np.full_like(fourth, np.nan), where=second > 0)
    return n, about + d1, second * n / (n - 1), kurtosis - 3


def compare(case: Case, variable: str, result: ts.Result, epsilon: float = 0.0) -> Comparison:
    """Z and Y of one variable, after means and standard deviations were forgiven for leaping."""
    mu, sigma = case.mean[variable], case.sd.get(variable)
    pieces: Iterable[npt.NDArray[Any]] = column_of(result, variable).pieces()
    if variable in case.logarithms:
        pieces = (np.log(piece) for piece in pieces)
    n, mean, variance, kurtosis = moments(pieces, np.round(mu))
    if sigma is None:
        moves = variance > 0
        z = np.sqrt(n) * (mean - mu) / np.sqrt(np.where(moves, variance, np.nan))
        inexact = int((~moves & (mean != mu)).sum())
        outside = _outside(z[moves], case.z_range)
        return Comparison(variable, z, np.full_like(z, np.nan), outside, 0, inexact)
    moves = sigma > 0
    inexact = ~moves & ((mean != mu) | (variance != 0))
    scale = np.where(moves, sigma, np.nan)
    z = np.sqrt(n) * _beyond(mean - mu, epsilon * np.abs(mu)) / scale
    forgiven = np.full_like(mu, (1 + 2 * epsilon) ** 2 - 1)
    normal = np.sqrt(n / 2) * _beyond(variance / scale**2 - 1, forgiven)
    # Samples that never differ have no kurtosis; the factor of a normal distribution then leaves Y as it is.
    factor = np.sqrt((kurtosis + 2) / 2, out=np.ones_like(z), where=kurtosis > -2)
    y = normal / factor
    both = (_outside(z[moves], case.z_range), _outside(y[moves], case.y_range))
    return Comparison(variable, z, y, *both, int(inexact.sum()))


def _beyond(error: FloatArray, forgiven: FloatArray) -> FloatArray:
    """The part of an error that is larger than what is forgiven."""
    return error - np.clip(error, -forgiven, forgiven)


def passes(comparisons: Sequence[Comparison]) -> bool:
    """The rule for a case, over all its variables."""
    outside = sum(c.outside_z + c.outside_y for c in comparisons)
    worst = max(c.worst[0] for c in comparisons)
    exact = all(c.inexact == 0 for c in comparisons)
    return outside <= POINTS_ALLOWED_OUTSIDE and worst <= LARGEST_Z and exact


def validate(
    case: Case,
    *,
    n: int,
    seed: int,
    device: Any,
    threads: int = 0,
    method: Any = "ssa",
    epsilon: float = 0.03,
    selector: Any = None,
) -> Validation:
    """Run a case and compare it."""
    result = ts.run(
        case.model,
        n=n,
        times=case.times,
        method=ts.TauLeaping(epsilon=epsilon) if method == "tau" else ts.SSA(selector=selector),
        seed=seed,
        device=ts.CPU(threads=threads) if device == "cpu" else device,
        record="trajectories",
    )
    work = {k: int(result.data[f"profile/{k}"][()].sum()) for k in ("events", "exact_events")}
    leaps = method == "tau" and work["events"] > 0  # where nothing fires, none does by a leap
    by_leaps = 1 - work["exact_events"] / work["events"] if leaps else 0.0
    forgiven = epsilon if by_leaps >= LEAPS_APPLY else 0.0
    comparisons = [compare(case, variable, result, forgiven) for variable in case.variables]
    return Validation(comparisons, result.data["profile/device"][()][0].decode(), by_leaps)


ABOUT = (
    "A case fails if more than 3 of its points are outside the range of Z or Y, if any |Z| > 5, or if "
    "a point is inexact."
)
COLUMNS = {
    "case": "case of the suite",
    "variable": "species, or another variable",
    "points": "time points",
    "max_abs_z": "largest |Z|, Z = sqrt(n) (m - mu) / sigma, of the sample mean m and the published "
    "mean mu and standard deviation sigma (if there is no sigma: the sample's)",
    "outside_z": "points with Z outside (-3, 3)",
    "max_abs_y": "largest |Y|, Y = sqrt(n / 2) (s² / sigma² - 1) / sqrt((k + 2) / 2), of the sample "
    "variance s² and excess kurtosis k",
    "outside_y": "points with Y outside the range of the case: (-3, 3), (-4, 4) or (-5, 5)",
    "inexact": "points with sigma = 0 at which a trajectory differs from mu",
    "by_leaps": "fraction of reaction events in leaps; from 0.01 on, Z and Y contain only the error "
    "beyond epsilon of the mean and 2 epsilon of the standard deviation",
    "verdict": "pass or FAIL, of the case",
}


def run(given: Any) -> Outcome:
    """Compare all cases."""
    excluded: dict[str, list[str]] = {}
    rows: list[list[str]] = []
    device = given.device
    for folder in sorted(path for path in CASES.iterdir() if path.is_dir()):
        if given.cases and folder.name not in given.cases:
            continue
        if (reason := exclusion(folder)) is not None:
            excluded.setdefault(reason, []).append(folder.name)
            continue
        case = read_case(folder)
        keys = ("n", "seed", "device", "threads", "method", "epsilon")
        result = validate(case, **{key: getattr(given, key) for key in keys})
        device, good = result.device, passes(result.comparisons)
        rows += [_line(case, one, result.by_leaps, good=good) for one in result.comparisons]
        say(folder.name, verdict(good=good))
    method = f"tau, epsilon {given.epsilon:g}" if given.method == "tau" else "ssa"
    about = f"{given.n} trajectories of each case, {method}, seed {given.seed}, {device}. {ABOUT}"
    below = [
        f"- not run, {reason}: {', '.join(names)}" for reason, names in sorted(excluded.items())
    ]
    return Outcome("SBML Test Suite, stochastic cases", about, COLUMNS, rows, below)


def _line(case: Case, c: Comparison, by_leaps: float, *, good: bool) -> list[str]:
    z, y = c.worst
    return [
        case.name, c.variable, str(len(case.times)), f"{z:.2f}", str(c.outside_z), f"{y:.2f}",
        str(c.outside_y), str(c.inexact), f"{by_leaps:.2f}", verdict(good=good),
    ]  # fmt: skip


def names_of(text: str) -> list[str]:
    """Names with commas between."""
    return [name.strip() for name in text.split(",") if name.strip()]


def _range(text: str) -> tuple[float, float]:
    low, high = text.strip("()").split(",")
    return float(low), float(high)


def _outside(values: FloatArray, allowed: tuple[float, float]) -> int:
    return int((~((values > allowed[0]) & (values < allowed[1]))).sum())
