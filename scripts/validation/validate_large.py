"""`ssa` of large networks: means compared with rate equations, with the direct method, and with rebop.

On a GPU the time of a run depends on the number of events of a trajectory: `--until egfr_net=4` shortens
it. multistate has 10 times as many trajectories as `--n`, egfr_net 1/10, BCR_ssa 1/16.

BioNetGen networks. Means of the observables, by each selector for large networks, at five times, are
compared with the solution of the rate equations: that of BioNetGen for BCR, from the same initial counts,
and SciPy's for the others (tests/data/net). At 25 molecules or more they may differ by 0.5 % (the error of
rate equations and of rounded initial amounts) plus q standard errors of the sampled mean. q is the two-sided
quantile of Student's distribution with n - 1 degrees of freedom that a correct program exceeds in any test of
this kind in one of 1,000 seeds (Bonferroni). If a network is small enough for `linear`, the direct method, the
means of each selector must also be within q standard errors of those of `linear`.

Random network. 1,024 reactions of 1,024 species (Komarov & D'Souza, PLoS ONE 7:e46693, 2012, figure
6): means of all species at ten times, of `--exact` trajectories, must be within 4 % of those of rebop, an
independent exact simulator, and within the standard errors that a correct program exceeds in one of 1,000
seeds. This part needs rebop on PYTHONPATH (``pip install --target /tmp/peers rebop``).
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from generated_networks import random_network
from outcome import Outcome, cells, say
from scipy.stats import norm
from scipy.stats import t as student

import tauslab as ts
from tauslab.kernels.exact.selectors import LARGEST_UNROLLED, SELECTORS

FloatArray = npt.NDArray[np.float64]

NETS = Path(__file__).resolve().parents[2] / "tests" / "data" / "net"
TABLED: tuple[Any, ...] = SELECTORS[1:]
FALSE_ALARMS = 1e-3  # of all tests of a kind together
MEAN_FIELD = 0.005  # part of a course that means may be off by
FEWEST_MOLECULES = 25.0  # of a course that means are compared with
TIMES = 5
LARGEST_RESIDUAL = 0.04
SIZE, MOLECULES, T_END, STEPS = 1024, 100, 0.01, 10  # the random network


@dataclass(frozen=True)
class Case:
    """A network of tests/data/net, the file of its time course, and its part of ``--n``."""

    name: str
    course: str
    share: float
    start: str | None = None
    until: float = float("inf")


CASES = (
    Case("multistate", "multistate.ode.csv", 10.0),
    Case("multisite2", "multisite2.ode.csv", 1.0),
    Case("egfr_net", "egfr_net.ode.csv", 0.1),
    Case("BCR_ssa", "BCR_start.gdat", 0.0625, "BCR_start.csv"),
)


@dataclass(frozen=True)
class Moments:
    """Means and their standard errors, ``[group, time]``, of n trajectories."""

    n: int
    mean: FloatArray
    error: FloatArray


@dataclass(frozen=True)
class Row:
    """A group of a network against one reference: the largest differences over its times."""

    network: str
    quantity: str
    selector: str
    n: int
    reference: str
    tests: int
    largest: float
    percent: float
    standard_errors: float
    allowed: float
    verdict: str


COLUMNS = {
    "network": "BioNetGen network of tests/data/net, or the random network",
    "quantity": "observable of the BioNetGen file, or all species",
    "selector": "algorithm that selects the next reaction",
    "n": "trajectories",
    "reference": "`course`: rate equations; `linear`: the direct method; rebop",
    "tests": "means compared",
    "largest": "largest difference, molecules",
    "percent": "the same in percent of the reference",
    "standard_errors": "the same in standard errors",
    "allowed": "largest number of standard errors allowed, for `course` beyond {part:g} % of the reference",
    "verdict": "pass or FAIL",
}
ABOUT = (
    "Means are compared with rate equations (from {fewest:g} molecules on), with the direct method and with "
    "rebop (in addition within {residual:g} %). A correct program exceeds `allowed` in any of the {tests} "
    "means of BioNetGen networks in one of {runs:g} seeds, and as rarely in those of the random network."
)


def course_of(case: Case) -> tuple[FloatArray, tuple[str, ...], FloatArray]:
    """Times ``[time]``, names of groups, and their time course ``[group, time]``."""
    path = NETS / case.course
    split = (lambda line: line.split(",")) if path.suffix == ".csv" else str.split
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    table = np.array([split(line) for line in lines], np.float64)
    table = table[table[:, 0] <= case.until]
    kept = np.unique(np.linspace(0, len(table) - 1, TIMES + 1).round().astype(int))[1:]
    return table[kept, 0], tuple(split(header.lstrip("#"))[1:]), table[kept, 1:].T


def start_of(case: Case) -> dict[str, float]:
    """Initial molecules that differ from the network's own."""
    if case.start is None:
        return {}
    with (NETS / case.start).open(encoding="utf-8") as file:
        return {row["species"]: float(row["molecules"]) for row in csv.DictReader(file)}


def sample(
    network: ts.Network, times: FloatArray, names: Sequence[str], n: int, **options: Any
) -> Moments:
    """Run n trajectories; moments of groups or species."""
    result = ts.run(network, n=n, times=times, record="statistics", **options)
    if (np.asarray(result.status) > 1).any():
        raise SystemExit(f"{network.name}: a trajectory ended early")
    mean = np.array([result.mean(name) for name in names])
    return Moments(n, mean, np.array([result.std(name) for name in names]) / np.sqrt(n))


def quantile(tests: int, degrees: float) -> float:
    """Standard errors that one of `tests` exceeds with the probability `FALSE_ALARMS` at most."""
    return float(student.isf(FALSE_ALARMS / (2 * tests), degrees))


def in_errors(difference: FloatArray, error: FloatArray) -> FloatArray:
    """Differences in standard errors; none where both are zero."""
    size = np.abs(difference)
    return np.divide(size, error, out=np.where(size > 1e-9, np.inf, 0.0), where=error > 0)


def against_course(
    case: Case, names: Sequence[str], course: FloatArray, found: Moments, selector: str, tests: int
) -> Iterator[Row]:
    """A row for each group that has molecules enough."""
    allowed = quantile(tests, found.n - 1)
    for name, expected, mean, error in zip(names, course, found.mean, found.error, strict=True):
        high = expected >= FEWEST_MOLECULES
        if not high.any():
            continue
        off = np.abs(mean - expected)[high]
        beyond = np.maximum(off - MEAN_FIELD * expected[high], 0.0)
        good = bool((in_errors(beyond, error[high]) <= allowed).all())
        yield Row(
            case.name, name, selector, found.n, "course", int(high.sum()),
            float(off.max()), 100 * float((off / expected[high]).max()),
            float(in_errors(off, error[high]).max()), allowed, "pass" if good else "FAIL",
        )  # fmt: skip


def against_linear(
    case: Case, names: Sequence[str], linear: Moments, found: Moments, selector: str, tests: int
) -> Iterator[Row]:
    """A row for each group; both samples err."""
    allowed = quantile(tests, linear.n + found.n - 2)
    off = np.abs(found.mean - linear.mean)
    errors = in_errors(off, np.hypot(linear.error, found.error))
    for i, name in enumerate(names):
        percent = 100 * float((off[i] / np.maximum(linear.mean[i], 1e-9)).max())
        yield Row(
            case.name, name, selector, found.n, "linear", TIMES, float(off[i].max()), percent,
            float(errors[i].max()), allowed, "pass" if errors[i].max() <= allowed else "FAIL",
        )  # fmt: skip


def validate(
    case: Case, n: int, *, tests: int, seed: int = 1, device: Any = "auto", threads: int = 0
) -> list[Row]:
    """Run a network by every selector and compare."""
    network = ts.read(NETS / f"{case.name}.net")
    assert isinstance(network, ts.Network)
    times, names, time_course = course_of(case)
    run = partial(sample, network, times, names, n, set=start_of(case),
                  device=ts.CPU(threads=threads) if device == "cpu" else device)  # fmt: skip
    rows: list[Row] = []
    linear = None
    if len(network.reactions) <= LARGEST_UNROLLED:
        linear = run(method=ts.SSA(selector="linear"), seed=seed)
    for k, selector in enumerate(TABLED):
        result = run(method=ts.SSA(selector=selector), seed=seed + 1 + k)
        rows += against_course(case, names, time_course, result, selector, tests)
        if linear is not None:
            rows += against_linear(case, names, linear, result, selector, tests)
    return rows


def planned_tests(cases: Sequence[Case]) -> int:
    """Numbers that `validate` compares in all cases together, at most."""
    count = 0
    for case in cases:
        _, names, time_course = course_of(case)
        count += len(TABLED) * int((time_course >= FEWEST_MOLECULES).sum())
        if case.name == "multistate":
            count += len(TABLED) * len(names) * TIMES
    return count


def against_peer(selector: str, found: Moments, peer: Moments) -> Row:
    """Residuals of all means of the random network."""
    tests = len(TABLED) * peer.mean.size
    allowed = float(norm.isf(FALSE_ALARMS / (2 * tests)))
    off = np.abs(found.mean - peer.mean)
    scale = np.maximum(peer.mean, 1e-9)
    error = np.hypot(peer.error, found.error)
    residual, worst = float((off / scale).max()), float(in_errors(off, error).max())
    sampling = f"standard error <= {100 * float((error / scale).max()):.2f} %"
    good = residual < LARGEST_RESIDUAL and worst <= allowed
    return Row(
        f"random {SIZE} x {SIZE}", f"{SIZE} species; {sampling}", selector, found.n,
        f"rebop, n = {peer.n}", off.size, float(off.max()), 100 * residual, worst, allowed,
        "pass" if good else "FAIL",
    )  # fmt: skip


def validate_random(given: Any) -> list[Row]:
    """The random network by every selector against rebop; none without it."""
    try:
        import_module("rebop")
    except ImportError:
        return []
    peers: Any = import_module("exact_peers")
    network = random_network(reactions=SIZE, species=SIZE, initial=MOLECULES, seed=1)
    times, n = np.linspace(0, T_END, STEPS + 1)[1:], given.exact
    model = peers.mass_action(network, T_END)
    result = peers.rebop_moments(model, STEPS, n, given.seed)
    total, squares = (np.asarray(x, np.float64).T for x in result)
    mean = total / n
    peer = Moments(n, mean, np.sqrt(np.maximum(squares - n * mean**2, 0.0) / (n - 1) / n))
    return [
        against_peer(selector, sample(
            network, times, tuple(network.species), n, seed=given.seed + 1 + k,
            method=ts.SSA(selector=selector),
            device=ts.CPU(threads=given.threads) if given.device == "cpu" else given.device,
        ), peer)
        for k, selector in enumerate(TABLED)
    ]  # fmt: skip


def run(given: Any) -> Outcome:
    """Run all parts."""
    until = {name: float(end) for name, _, end in (text.partition("=") for text in given.until)}
    known = [replace(case, until=until.get(case.name, case.until)) for case in CASES]
    tests = planned_tests(known)
    rows: list[Row] = []
    for case in known:
        if given.cases and case.name not in given.cases:
            continue
        n = max(4, round(given.n * case.share))
        rows += validate(case, n, tests=tests, seed=given.seed, device=given.device,
                         threads=given.threads)  # fmt: skip
        say(f"{case.name}: {n} trajectories")
    wanted = not given.cases or "random" in given.cases
    drawn = validate_random(given) if wanted else []
    about = f"Seed {given.seed}, device {given.device}. " + ABOUT.format(
        tests=tests,
        runs=1 / FALSE_ALARMS,
        fewest=FEWEST_MOLECULES,
        residual=100 * LARGEST_RESIDUAL,
    )
    below = (
        ["The random network was not simulated, because rebop is not installed."]
        if wanted and not drawn
        else []
    )
    columns = {name: text.format(part=100 * MEAN_FIELD) for name, text in COLUMNS.items()}
    return Outcome("Large networks", about, columns, [cells(r, 3) for r in (*rows, *drawn)], below)
