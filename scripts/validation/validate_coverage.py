"""Coverage of confidence intervals: how often they contain the exact value, over many seeds.

A seed is bad if the 95 % interval does not contain the exact value, or is not stated, without a warning.
A row fails if more of its seeds are bad than 5 % plus four standard deviations, and more than 8 %: with 200
seeds 11.2 %, which a correct program exceeds in one of 5,000 rows. Intervals of another level have their own
percentage. `--cases TEXT` runs the cases whose name contains the text.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import inference_models
import numpy as np
from outcome import Outcome, verdict
from scipy.linalg import expm
from seeds import answers

import tauslab as ts
from tauslab.analysis.filters.chains import Chain
from tauslab.analysis.filters.walk import Walk
from tauslab.cli.commands.machine import schlogl
from tauslab.options.values.priors import Prior
from tauslab.runner.ensemble.convergence import ConvergenceSums, UntilSpec, half_width
from tauslab.store.format import intervals

SEEDS, WORST = 200, 0.03  # percent / 100 above what a level leaves out, that a row may have
Device = Any
LEVELS = (0.5, 0.95)  # of intervals of fits
Part = tuple[str, float]  # what a case states: a name, and the level of its interval
Priors = dict[str, tuple[float, float]]

# --- models, each with a value that is known


def immigration(k: float = 5.0, decay: float = 0.5, x: int = 10) -> ts.Network:
    """X is Poisson beside what is left of the start."""
    net = ts.Network("immigration")
    net.add_species("X", x)
    net.add_parameter("k", k)
    net.add_parameter("decay", decay)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate="decay")
    return net


def rare() -> ts.Network:
    """X is 1000 with the probability 1e-4, else 0."""
    net = ts.Network("rare")
    for name, count in (("S", 1), ("X", 0), ("D", 0)):
        net.add_species(name, count)
    net.add_reaction("S -> 1000 X", rate=1e-4)
    net.add_reaction("S -> D", rate=1 - 1e-4)
    return net


def bursts() -> ts.Network:
    """X is 20 times a Poisson number of mean 0.01 t."""
    net = ts.Network("bursts")
    net.add_species("X", 0)
    net.add_reaction("-> 20 X", rate=0.01)
    return net


def gene(k_on: float = 1e-3) -> ts.Network:
    """A slow gene: most trajectories have no mRNA."""
    net = ts.Network("gene")
    for name, count in (("OFF", 1), ("ON", 0), ("M", 0)):
        net.add_species(name, count)
    net.add_parameter("k_on", k_on)
    net.add_reaction("OFF -> ON", rate="k_on")
    net.add_reaction("ON -> OFF", rate=0.1)
    net.add_reaction("ON -> ON + M", rate=5.0)
    net.add_reaction("M ->", rate=0.5)
    return net


def gene_mean(k_on: float, t: float = 10.0) -> float:
    """Mean of M."""
    rates = np.array([[-(k_on + 0.1), 0, k_on], [5, -0.5, 0], [0, 0, 0]])
    return float((expm(rates * t) @ [0, 0, 1])[1])


@cache
def schlogl_mean() -> float:
    """Mean at t = 5, by finite state projection."""
    return float(ts.cme(schlogl(), 5.0).mean("X")[0])


def two_species() -> ts.Network:
    """X and Y, independent of each other."""
    net = ts.Network("two")
    for name in "XY":
        net.add_species(name, 10)
        net.add_reaction(f"-> {name}", rate=5.0)
        net.add_reaction(f"{name} ->", rate=0.5)
    return net


@cache
def first_passage(births: float, deaths: float, start: int, target: int, t: float) -> float:
    """Probability to reach `target` by t of a linear birth and death chain."""
    rates = np.zeros((target + 1, target + 1))
    for x in range(target):
        rates[x + 1, x] += births
        rates[x, x] -= births
        if x:
            rates[x - 1, x] += deaths * x
            rates[x, x] -= deaths * x
    return float(expm(rates * t)[target, start])


def mean_passage(births: float, deaths: float, start: int, target: int) -> float:
    """Mean time to reach it."""
    up, down = np.full(target, births), deaths * np.arange(target)
    rates = np.diag(-(up + down)) + np.diag(up[:-1], 1) + np.diag(down[1:], -1)
    return float(np.linalg.solve(rates, -np.ones(target))[start])


def yule() -> ts.Network:
    """A pure birth process, whose tail few walkers make."""
    net = ts.Network("yule")
    net.add_species("X", 3)
    net.add_reaction("X -> 2 X", rate=0.7)
    return net


def dividing(rate: float = 0.7) -> ts.Network:
    """Cells that divide at a constant rate."""
    net = ts.Network("dividing")
    net.add_species("D", 0)
    net.add_reaction("-> D", rate=rate)
    net.add_event("divide", trigger="D >= 1", assignments={"D": 0})
    return net


# --- what is stated: whether it holds the exact value; None where nothing is stated


def within(low: float, exact: float, high: float) -> bool | None:
    """Return whether an interval holds a value."""
    return None if math.isnan(low + high) else bool(low <= exact <= high)


def until(
    seed: int, device: Device, *, model: Callable[[], ts.Network], text: str, t: float,
    exact: Callable[[], float],
) -> bool | None:  # fmt: skip
    """The interval of the last test of a run until confidence."""
    result = ts.run(
        model(), n=4_000_000, times=[t], until=text, record="statistics", seed=seed, device=device
    )
    spec, sums = UntilSpec.parse(text), ConvergenceSums.parse(str(result.attributes["until_sums"]))
    n, total, _ = sums.totals
    wide = half_width(spec, sums) * (total / n if spec.relative else 1)
    return within(total / n - wide, exact(), total / n + wide)


def share(seed: int, _: Device, *, n: int, p: float) -> bool | None:
    """The interval of a probability in pictures."""
    hits = np.random.default_rng(seed).binomial(n, p)
    low, high = intervals.share(hits / n, n)
    return within(float(low), p, float(high))


def derivative(  # noqa: PLR0913 - keywords of a case
    seed: int, device: Device, *, model: Callable[[], ts.Network], name: str, output: str, n: int,
    t: float, method: Any, exact: Callable[[bool], float],
) -> bool | None:  # fmt: skip
    """1.96 errors around a derivative; `exact` is told whether that of a difference is wanted."""
    result = ts.sensitivity(
        model(), [name], [output], times=t, n=n, method=method, seed=seed, device=device
    )
    value, error = result[name, output][0], 1.96 * result.error(name, output)[0]
    return within(value - error, exact(method != "likelihood-ratio"), value + error)


def gene_derivative(difference: bool) -> float:  # noqa: FBT001 - as `derivative` calls
    """Derivative of the mean of M by k_on."""
    step = 2e-5 if difference else 1e-8
    return (gene_mean(1e-3 + step) - gene_mean(1e-3 - step)) / (2 * step)


def tail(
    seed: int, device: Device, *, model: Callable[[], ts.Network], exact: float, **given: Any
) -> bool | None:
    """Bounds of a rare event."""
    result = ts.weighted_ensemble(model(), seed=seed, device=device, **given)
    return within(result.bounds[0], exact, result.bounds[1])


def growth(seed: int, device: Device, *, cells: int, t: float) -> bool | None:
    """1.96 errors around the growth rate of cells that divide at a constant rate."""
    result = ts.population(
        dividing(), [0.0, t], division="divide", cells=cells, seed=seed, device=device
    )
    rate, error = result.growth_rate, 1.96 * result.growth_error
    return within(rate - error, 0.7, rate + error)


def chain(seed: int, _: Device, *, steps: int) -> bool | None:
    """The mean of a chain, by its effective size, of a normal distribution."""
    walk = Walk(
        {"a": Prior.parse("a", "normal(0, 10)")},
        lambda values, _step: -0.5 * (values["a"] - 3.0) ** 2,
        chains=1, steps=steps, warm_up=500, seed=seed, start={"a": 3.0}, proposal=None,
    )  # fmt: skip
    walk.begin()
    walk.run()
    values, logs, moved = walk.result()
    result = Chain(("a",), values[0], logs[0], moved[0])
    mean, sd = float(result["a"].mean()), float(result["a"].std())
    wide = 1.96 * sd / math.sqrt(result.effective_size("a", "mean"))
    return within(mean - wide, 3.0 * 100 / 101, mean + wide)


def fitted(
    seed: int, device: Device, *, model: Any, noise: float | Mapping[str, float],
    priors: Priors | None = None, cells: int = 1, n: int = 100,
) -> dict[Part, bool | None]:  # fmt: skip
    """Intervals of a fit to time courses of a model, with normal noise or none.

    With `priors`, medians and deviations of logarithms, the true values are drawn, as for
    simulation-based calibration; without, they are the model's own.
    """
    given = model()
    made, _, columns = given
    noises = noise if isinstance(noise, Mapping) else dict.fromkeys(columns, noise)
    draws = np.random.default_rng(seed)
    true = made.parameter_values()
    for name, (median, sigma) in (priors or {}).items():
        true[name] = median * math.exp(sigma * draws.standard_normal())
    names = list(priors or true)
    rates = {name: true[name] for name in names}
    data = inference_models.seen(given, rates, noises, cells, draws, seed, device)
    seen: dict[str, Any] = (
        {"observe": {name: f"normal(sd={sd})" for name, sd in noises.items()}} if noise else {}
    )
    result = ts.fit(
        made, data, start=names, n=n, swarm=300, seed=seed, device=device, quiet=True, **seen
    )
    bounds = {(name, level): result.interval(name, level) for name in names for level in LEVELS}
    return {part: within(low, true[part[0]], high) for part, (low, high) in bounds.items()}


# --- the table


@dataclass(frozen=True)
class Case:
    """A statement under settings, or several, each a part."""

    name: str
    settings: str
    held: Callable[[int, Device], bool | dict[Part, bool | None] | None]

    def __str__(self) -> str:
        """Name and settings."""
        return f"{self.name}: {self.settings}"


def cases() -> Iterator[Case]:
    """List all cases."""
    yield from _until_cases()
    for n, p in ((20, 0.3), (20, 0.02), (1000, 0.3), (1000, 1e-3), (100_000, 1e-4)):
        yield Case("share", f"n {n}, p {p:g}", partial(share, n=n, p=p))
    yield from _derivative_cases()
    yield from _tail_cases()
    for cells, t in ((1000, 4.0), (1000, 12.0), (100, 4.0), (20, 3.0), (5, 6.0)):
        yield Case("growth rate", f"{cells} cells, t {t:g}", partial(growth, cells=cells, t=t))
    for steps in (300, 3000):
        yield Case("chain", f"{steps} steps", partial(chain, steps=steps))
    yield from _fit_cases()


def _fit_cases() -> Iterator[Case]:
    fixed = (
        (inference_models.birth_death, 2.0), (inference_models.birth_death, 0.0),
        (inference_models.small_prey, 2.0), (inference_models.small_epidemic, 2.0),
        (inference_models.epidemic, 5.0), (inference_models.prey, 10.0),
    )  # fmt: skip
    for made, noise in fixed:
        held = partial(fitted, model=made, noise=noise)
        yield Case("fit", f"{made.__name__}, noise {noise:g}", held)
    drawn: tuple[tuple[Any, Priors], ...] = (
        (inference_models.birth_death, {"birth": (4.0, 0.5), "decay": (0.2, 0.5)}),
        (inference_models.small_prey, {"birth": (1.0, 0.4)}),
        (inference_models.small_epidemic, {"infection": (0.02, 0.5)}),
        (inference_models.gene, {"making": (5.0, 0.5)}),
    )
    for made, priors in drawn:
        held = partial(fitted, model=made, noise=2.0, priors=priors)
        yield Case("fit, drawn", f"{made.__name__}, noise 2", held)
    for published, of in inference_models.PUBLISHED.items():
        priors = {name: (value, 0.5) for name, value in published()[0].parameter_values().items()}
        held = partial(
            fitted, model=published, noise=of.noises, priors=priors, cells=of.cells, n=of.n
        )
        yield Case("fit, drawn", f"{published.__name__}, published", held)


def _until_cases() -> Iterator[Case]:
    poisson = 10.0
    zero_inflated = partial(gene_mean, 1e-3)
    table: list[tuple[Any, str, float, Callable[[], float]]] = [
        (immigration, "mean(X) rel 0.004", 4.0, lambda: poisson),
        (rare, "mean(X) ci 0.05", 60.0, lambda: 0.1),
        (rare, "mean(X) rel 0.5", 60.0, lambda: 0.1),
        (rare, "mean(X) ci 1", 60.0, lambda: 0.1),
        (bursts, "mean(X) ci 0.02", 1.0, lambda: 0.2),
        (gene, "mean(M) rel 0.1", 10.0, zero_inflated),
        (schlogl, "mean(X) rel 0.01", 5.0, schlogl_mean),
        (rare, "P(X>0) ci 0.0001", 60.0, lambda: 1e-4),
        (rare, "P(X>0) rel 0.5", 60.0, lambda: 1e-4),
    ]
    for model, text, t, exact in table:
        held = partial(until, model=model, text=text, t=t, exact=exact)
        yield Case("until", f"{model.__name__}, {text}", held)


def _derivative_cases() -> Iterator[Case]:
    by_k = (1 - math.exp(-0.5 * 4)) / 0.5
    for method in ("coupled", "likelihood-ratio"):
        for n in (100, 1000, 10_000):
            given: dict[str, Any] = {"n": n, "method": method}
            held = partial(derivative, model=immigration, name="k", output="X", t=4.0,
                           exact=lambda _: by_k, **given)  # fmt: skip
            yield Case("sensitivity", f"immigration, {method}, n {n}", held)
            held = partial(derivative, model=gene, name="k_on", output="M", t=10.0,
                           exact=gene_derivative, **given)  # fmt: skip
            yield Case("sensitivity", f"gene, {method}, n {n}", held)
    held = partial(derivative, model=gene, name="k_on", output="M", t=10.0, n=100_000,
                   method="coupled", exact=gene_derivative)  # fmt: skip
    yield Case("sensitivity", "gene, coupled, n 100000", held)


def _tail_cases() -> Iterator[Case]:
    exact = first_passage(5.0, 0.5, 10, 26, 4.0)
    one = {"model": immigration, "target": "X >= 26", "t_end": 4.0, "exact": exact}
    both = {"model": two_species, "target": "X + Y >= 42", "t_end": 4.0}
    both["exact"] = first_passage(10.0, 0.5, 20, 42, 4.0)
    births = {"model": yule, "target": "X >= 110", "t_end": 2.0, "exact": 2.6319e-11}
    rate = {"model": immigration, "target": "X >= 22", "steady": True, "t_end": 60.0, "rounds": 300}
    rate["exact"] = 1 / mean_passage(5.0, 0.5, 10, 22)
    few = {"rounds": 20, "walkers": 10}
    table: list[tuple[str, dict[str, Any]]] = [
        ("defaults", one),
        ("5 runs, 10 walkers", {**one, **few, "runs": 5}),
        ("10 runs, 10 walkers, adaptive:8",
         {**one, **few, "runs": 10, "bins": "adaptive:8"}),
        ("20 runs, 10 walkers, adaptive:8",
         {**one, **few, "runs": 20, "bins": "adaptive:8"}),
        ("poor coordinate, 20 walkers, adaptive:8",
         {**both, "coordinate": "X", "rounds": 20, "walkers": 20, "bins": "adaptive:8"}),
        ("pure birth, 20 walkers", {**births, "walkers": 20}),
        ("rate, 10 runs, 10 walkers, 6 bins",
         {**rate, "runs": 10, "walkers": 10, "bins": 6}),
    ]  # fmt: skip
    for settings, given in table:
        yield Case("weighted ensemble", settings, partial(tail, **given))


@dataclass
class Row:
    """Counts of a case, or of a part of it, whose intervals have a level."""

    level: float = 0.95
    seeds: int = 0
    stated: int = 0
    held: int = 0
    warned: int = 0
    bad: int = 0

    def add(self, counts: Sequence[int]) -> None:
        """Add the counts of another seed."""
        for name, one in zip(("seeds", "stated", "held", "warned", "bad"), counts, strict=True):
            setattr(self, name, getattr(self, name) + one)

    @property
    def fails(self) -> bool:
        """Return whether more are bad than `WORST` allows, and than four standard deviations."""
        out = 1 - self.level
        allowed = out + max(WORST, 4 * math.sqrt(out * self.level / self.seeds))
        return self.bad > allowed * self.seeds


def count(name: str, seed: int, device: str) -> list[tuple[str, float, list[int]]]:
    """Name and level of each part, and fields of its `Row`, for one seed."""
    case = next(one for one in cases() if str(one) == name)
    place = ts.CPU(threads=1) if device == "cpu" else device
    with warnings.catch_warnings(record=True) as message:
        warnings.simplefilter("always")
        held = case.held(seed, place)
    each = held if isinstance(held, dict) else {("", 0.95): held}
    return [
        (*part, [1, int(one is not None), int(bool(one)), int(bool(message)),
                 int(not one and not message)])
        for part, one in each.items()
    ]  # fmt: skip


def table(
    chosen: Sequence[int], seeds: int, jobs: int, device: str, seconds: float | None = None,
    keep: Path | None = None,
) -> list[tuple[Case, str, Row]]:  # fmt: skip
    """Rows of the parts of chosen cases, if at least one seed is complete."""
    every = {str(case): case for i, case in enumerate(cases()) if i in chosen}
    requested = [(name, seed, device) for seed in range(seeds) for name in every]
    rows: dict[tuple[str, str, float], Row] = {}
    for key, parts in answers(count, requested, jobs=jobs, seconds=seconds, keep=keep).items():
        for part, level, counts in parts:
            rows.setdefault((str(key[0]), part, level), Row(level)).add(counts)
    return [(every[name], part, row) for (name, part, _), row in rows.items()]


COLUMNS = {
    "statement": "function or option that states the interval",
    "settings": "model and options",
    "part": "parameter, if an estimate has several",
    "level %": "level of the interval",
    "seeds": "number of seeds",
    "stated %": "seeds with an interval that is not NaN",
    "held % of stated": "of these, seeds whose interval contains the exact value",
    "warned %": "seeds with a warning",
    "bad %": "seeds without a warning whose interval is missing or wrong",
    "verdict": "pass or FAIL",
}


def line(case: Case, part: str, row: Row) -> list[str]:
    """A row of the table."""
    held = f"{100 * row.held / row.stated:.1f}" if row.stated else ""
    rest = (f"{100 * part / row.seeds:.1f}" for part in (row.warned, row.bad))
    return [case.name, case.settings, part, f"{100 * row.level:g}", str(row.seeds),
            f"{100 * row.stated / row.seeds:.0f}", held, *rest,
            verdict(good=not row.fails)]  # fmt: skip


def run(given: Any) -> Outcome:
    """Run the cases."""
    parts = given.cases or [""]
    chosen = [i for i, one in enumerate(cases()) if any(part in str(one) for part in parts)]
    device = "cuda" if given.device == "cuda" else "cpu"
    result = table(chosen, given.seeds, given.jobs, device, given.seconds, given.keep)
    about = f"Up to {given.seeds} seeds, {device}."
    return Outcome("Coverage of confidence intervals", about, COLUMNS,
                   [line(*row) for row in result])  # fmt: skip
