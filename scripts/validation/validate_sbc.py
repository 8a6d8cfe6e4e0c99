"""Simulation-based calibration of posteriors (Talts et al., arXiv:1804.06788, 2018).

A parameter is drawn from its prior, and data are simulated with it. Then its rank among 19 draws
from its posterior is uniformly distributed. A row fails if a chi-square test of ten bins of ranks has a
p-value below 0.001, or if the fraction of 90 % intervals that contain the parameter is four standard
deviations off: a correct program fails in one of 900 rows.

Short chains start at the median of the prior. Chains of published models start at draws of the
prior, and end at an effective size of 100 with R-hat 1.05 at most. Approximate posteriors of these
are exact too: their data have an error that is uniform within the last epsilon (Fearnhead and
Prangle, J. R. Stat. Soc. B 74, 419, 2012).

`--cases TEXT` runs the cases whose name contains the text. With `--seeds 0` the parameters are the
medians of the priors, for published models the published values, and intervals are printed.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import Any, TypeAlias

import inference_models
import numpy as np
import numpy.typing as npt
from outcome import Outcome, verdict
from outcome import table as markdown
from scipy.interpolate import CubicSpline
from scipy.stats import chisquare, f
from seeds import Key, answers

import tauslab as ts

FloatArray = npt.NDArray[np.float64]
DRAWS, BINS, ALARMS, LEVELS = 19, 10, 0.001, (0.05, 0.95)
CHAINS = 10  # that go on until they agree
ROUNDS, PROPOSED, FEWEST = 6, 400, 40  # of importance sampling; effective draws
# Rank of a true value, whether the interval holds it, whether draws are few, and the interval.
Ranked: TypeAlias = tuple[int, bool, bool, float, float]
# Draws ``[draw]`` of each parameter, and the interval of 90 % that the result prints.
Posterior = Mapping[str, tuple[FloatArray, tuple[float, float]]]


@dataclass(frozen=True)
class Case:
    """A method on a model.

    Attributes
    ----------
    priors
        Median and deviation of the logarithm of each unknown parameter.
    noise
        Deviation of what is seen, or that of each column; 0: counts.
    cells
        Cells with the same parameters that are seen.
    n
        Particles of the filter of a cell.
    """

    method: str
    model: inference_models.Short
    priors: Mapping[str, tuple[float, float]]
    noise: float | Mapping[str, float]
    posterior: Callable[..., Posterior]
    cells: int = 1
    n: int = 40

    def __str__(self) -> str:
        """Method, model and what is unknown."""
        return f"{self.method}: {self.model}, {', '.join(self.priors)}"

    def texts(self) -> dict[str, str]:
        """Priors as calls take them."""
        return {k: f"lognormal(median={m},sigma={s})" for k, (m, s) in self.priors.items()}

    def medians(self) -> dict[str, float]:
        """Medians of the priors."""
        return {k: median for k, (median, _) in self.priors.items()}

    def deviations(self) -> dict[str, float]:
        """Deviation of the noise of each column."""
        _, _, columns = self.model()
        return {
            c: self.noise[c] if isinstance(self.noise, Mapping) else self.noise for c in columns
        }

    def noises(self) -> dict[str, str]:
        """Noises as calls take them."""
        return {name: f"normal(sd={sd})" for name, sd in self.deviations().items()}


def chains(case: Case, net: ts.Network, data: dict[str, Any], seed: int, device: Any) -> Posterior:
    """The last places of chains, one draw each; the interval is of all steps."""
    result = ts.pmmh(
        net, data, case.texts(), observe=case.noises(), n=case.n, chains=DRAWS, warm_up=100,
        steps=60, seed=seed, device=device, quiet=True,
    )  # fmt: skip
    return {
        k: (result[k][:, -1], (result.quantile(k, LEVELS[0]), result.quantile(k, LEVELS[1])))
        for k in case.priors
    }


def long_chains(
    case: Case, net: ts.Network, data: dict[str, Any], seed: int, device: Any
) -> Posterior:
    """Steps of chains that begin far apart and go on until they agree."""
    draws = np.random.default_rng([seed, CHAINS])
    start = {k: m * np.exp(s * draws.standard_normal(CHAINS)) for k, (m, s) in case.priors.items()}
    result = ts.pmmh(
        net, data, case.texts(), observe=case.noises(), n=case.n, chains=CHAINS, warm_up=75,
        steps=600, target_ess=100, start=start, seed=seed, device=device, quiet=True,
    )  # fmt: skip
    chosen = draws.choice(result.log_likelihood.size, DRAWS, replace=False)
    return {
        k: (result[k].ravel()[chosen],
            (result.quantile(k, LEVELS[0]), result.quantile(k, LEVELS[1])))
        for k in case.priors
    }  # fmt: skip


def weighted(
    case: Case, net: ts.Network, data: dict[str, Any], seed: int, device: Any
) -> Posterior:
    """Weighted draws from Student-t proposals that follow the weights of the round before.

    Population Monte Carlo (Cappe et al., J. Comput. Graph. Stat. 13, 907, 2004) with estimated
    likelihoods, which have the right mean, so that the weights are exact. It has no chains.
    """
    draws, freedom = np.random.default_rng([seed, ROUNDS]), 5
    median, sigma = np.log([m for m, _ in case.priors.values()]), 0.5
    size = len(median)
    center, spread = median, np.eye(size) * sigma**2
    for number in range(ROUNDS):
        root = np.linalg.cholesky(spread)
        normal = draws.standard_normal((PROPOSED, size))
        tails = draws.chisquare(freedom, PROPOSED) / freedom
        logs = center + (normal / np.sqrt(tails)[:, None]) @ root.T
        density = -(freedom + size) / 2 * np.log1p((normal**2).sum(axis=1) / tails / freedom)
        filters = ts.particle_filters(
            net, data, observe=case.noises(), n=case.n, device=device,
            seed=10**6 + ROUNDS * seed + number,
            set=dict(zip(case.priors, np.exp(logs.T), strict=True)), quiet=True,
        )  # fmt: skip
        prior = -0.5 * (((logs - median) / sigma) ** 2).sum(axis=1)
        log_weights = filters.log_likelihood + prior - density
        power = 1.0
        while True:  # early rounds take roots of weights that few draws have
            weights = np.exp(power * (log_weights - log_weights.max()))
            weights /= weights.sum()
            effective = 1 / (weights**2).sum()
            if effective > FEWEST or number == ROUNDS - 1:
                break
            power *= 0.8
        center = weights @ logs
        spread = 1.3 * np.cov(logs.T, aweights=weights, ddof=0)
    if effective < FEWEST:
        warnings.warn(f"only {effective:.0f} effective draws", stacklevel=2)
    result = {}
    chosen = draws.choice(PROPOSED, DRAWS, p=weights)
    for name, places in zip(case.priors, logs.T, strict=True):
        order = np.argsort(places)
        low, high = np.interp(LEVELS, np.cumsum(weights[order]), places[order])
        result[name] = np.exp(places[chosen]), (math.exp(low), math.exp(high))
    return result


def clouds(case: Case, net: ts.Network, data: dict[str, Any], seed: int, device: Any) -> Posterior:
    """Draws of SMC² after the last row, by weight."""
    result = ts.smc2(
        net, data, case.texts(), observe=case.noises(), n=20, draws=150, seed=seed,
        device=device, quiet=True,
    )  # fmt: skip
    chosen = np.random.default_rng(seed).choice(150, DRAWS, p=result.weights[-1])
    return {
        k: (result[k][chosen], (result.quantile(k, LEVELS[0]), result.quantile(k, LEVELS[1])))
        for k in case.priors
    }


def populations(
    case: Case, net: ts.Network, data: dict[str, Any], seed: int, device: Any
) -> Posterior:
    """Particles of the last generation, drawn by weight; epsilon 0 of counts leaves no error."""
    result = ts.abc_smc(
        net, data, case.texts(), n=150, epsilon=[4.0, 1.0, 0.0], scale=1, seed=seed,
        device=device, least_acceptance=1e-5, quiet=True,
    )  # fmt: skip
    chosen = np.random.default_rng(seed).choice(150, DRAWS, p=result.weights[-1])
    return {
        k: (result[k][chosen], (result.quantile(k, LEVELS[0]), result.quantile(k, LEVELS[1])))
        for k in case.priors
    }


def near_populations(
    case: Case, net: ts.Network, data: dict[str, Any], seed: int, device: Any
) -> Posterior:
    """Particles of the last generation, where the data have an error within its epsilon."""
    scale = np.repeat(list(case.deviations().values()), len(data["time"]))
    epsilons = thresholds(case, scale, device)
    draws = np.random.default_rng([seed, len(scale)])
    error = draws.standard_normal(len(scale))
    error *= epsilons[-1] * draws.random() ** (1 / len(scale)) / np.linalg.norm(error)
    rows = dict(
        zip(case.deviations(), np.split(scale * error, len(case.deviations())), strict=True)
    )
    moved = {"time": data["time"], **{name: data[name] + row for name, row in rows.items()}}
    result = ts.abc_smc(
        net, moved, case.texts(), observe=case.noises(), n=300, epsilon=epsilons, scale=scale,
        seed=seed, device=device, least_acceptance=1e-6, quiet=True,
    )  # fmt: skip
    if len(result.epsilon) < len(epsilons):
        raise RuntimeError(f"{case}, seed {seed}: {result.ended}")
    chosen = draws.choice(300, DRAWS, p=result.weights[-1])
    return {
        k: (result[k][chosen], (result.quantile(k, LEVELS[0]), result.quantile(k, LEVELS[1])))
        for k in case.priors
    }


def thresholds(case: Case, scale: FloatArray, device: Any) -> list[float]:
    """Quantiles of distances between simulations with draws of the prior, of a fixed seed."""
    draws = np.random.default_rng(0)
    net, times, _ = case.model()
    rates = np.column_stack([
        m * np.exp(s * draws.standard_normal(1000)) for m, s in case.priors.values()
    ])  # fmt: skip
    simulate = ts.simulator(
        net, list(case.priors), times=times, seed=0, device=device,
        summary=lambda result: np.hstack([result.counts(name) for name in case.deviations()]),
    )  # fmt: skip
    seen = simulate(rates) / scale + draws.standard_normal((1000, len(scale)))
    far = np.linalg.norm(seen[:500] - seen[500:], axis=1)
    return [float(np.quantile(far, part)) for part in (0.5, 0.3, 0.15)]


def grid(case: Case, net: ts.Network, data: dict[str, Any], seed: int, device: Any) -> Posterior:
    """Draws of the posterior of the exact filter on a grid of one parameter, with cubics between."""
    del device
    ((name, (median, sigma)),) = case.priors.items()
    known = np.linspace(-3.5, 3.5, 15)
    logs = [
        ts.exact_filter(
            net, data, observe=case.noises(), set={name: median * math.exp(sigma * z)}
        ).log_likelihood
        for z in known.tolist()
    ]
    edges = np.linspace(-3.5, 3.5, 501)
    places = 0.5 * (edges[1:] + edges[:-1])
    logs = CubicSpline(known, logs)(places)
    shares = np.exp(logs - logs.max() - 0.5 * places**2)
    ladder = np.append(0.0, np.cumsum(shares / shares.sum()))
    levels = [*np.random.default_rng(seed).random(DRAWS), *LEVELS]
    result = median * np.exp(sigma * np.interp(levels, ladder, edges))
    return {name: (result[:DRAWS], (float(result[-2]), float(result[-1])))}


def cases() -> Iterator[Case]:
    """List all cases."""
    births, short = inference_models.birth_death, inference_models.Short
    both = {"birth": (4.0, 0.5), "decay": (0.2, 0.5)}
    methods = {"pmmh": chains, "abc_smc": populations, "exact_filter": grid, "smc2": clouds}
    for method, posterior in methods.items():
        counts = method == "abc_smc"
        unknown = {"birth": both["birth"]} if method == "exact_filter" else both
        table: list[tuple[Any, int, dict[str, tuple[float, float]]]] = [
            (births, 4, unknown),
            (
                inference_models.small_prey,
                2 if method in ("pmmh", "smc2") else 1,
                {"birth": (1.0, 0.4)},
            ),
            (inference_models.small_epidemic, 3, {"infection": (0.02, 0.5)}),
            (inference_models.gene, 4, {"making": (5.0, 0.5)}),
        ]
        for model, rows, priors in table:
            few = short(model, min(rows, 2) if counts else rows)
            yield Case(method, few, priors, 0.0 if counts else 2.0, posterior)
    of_published = {"pmmh": long_chains, "abc_smc": near_populations}
    for each in (of_published, {"particle_filters": weighted}):
        for published, of in inference_models.PUBLISHED.items():
            net, times, _ = published()
            priors = {name: (value, 0.5) for name, value in net.parameter_values().items()}
            every = short(published, len(times))
            for method, posterior in each.items():
                cells, n = (1, 40) if method == "abc_smc" else (of.cells, of.n)
                yield Case(method, every, priors, of.noises, posterior, cells, n)


def data_set(
    case: Case, rates: Mapping[str, float], seed: int, device: Any,
    draws: np.random.Generator | None = None,
) -> tuple[ts.Network, dict[str, Any]]:  # fmt: skip
    """The network, and what is seen of its cells with noise, as calls take it."""
    draws = np.random.default_rng(seed) if draws is None else draws
    given = case.model()
    return given[0], inference_models.seen(
        given, rates, case.deviations(), case.cells, draws, seed, device
    )


def rank(name: str, seed: int, device: Any) -> dict[str, Ranked]:
    """Ranks and intervals of the parameters that make a data set.

    PMMH of published models and particle filters have the same data sets.
    """
    every = {str(one): (number, one) for number, one in enumerate(cases())}
    (_, case), (number, _) = every[name], every[name.replace("particle_filters", "pmmh")]
    place = ts.CPU(threads=1) if device == "cpu" else device
    draws = np.random.default_rng([seed, number])
    true = {k: m * math.exp(s * draws.standard_normal()) for k, (m, s) in case.priors.items()}
    given = data_set(case, true, seed, place, draws)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        result = case.posterior(case, *given, seed, place)
    apart = any("effective" in str(one.message) for one in warned)
    return {
        k: (int((values < true[k]).sum()), bool(low <= true[k] <= high), apart, low, high)
        for k, (values, (low, high)) in result.items()
    }


def distance(draws: FloatArray, true: FloatArray) -> float:
    """p-value of Hotelling's test that true values ``[parameter]`` are one more of ``draws[m]``.

    It is exact if both are of one normal distribution.
    """
    m, size = draws.shape
    off = true - draws.mean(axis=0)
    square = float(off @ np.linalg.solve(np.atleast_2d(np.cov(draws.T)), off))
    return float(f.sf(square * m * (m - size) / ((m + 1) * (m - 1) * size), size, m - size))


def recovered(name: str, device: Any) -> list[list[str]]:
    """Rows of a case whose parameters are the medians of the priors; the last cell is a p-value."""
    case = next(one for one in cases() if str(one) == name)
    place = ts.CPU(threads=1) if device == "cpu" else device
    true, given = case.medians(), data_set(case, case.medians(), 1, place)
    began = time.process_time()
    result = case.posterior(case, *given, 1, place)
    seconds = time.process_time() - began
    draws = np.log(np.column_stack([values for values, _ in result.values()]))
    p_value = distance(draws, np.log(list(true.values())))
    return [
        [str(case.model), k, f"{true[k]:.4g}", f"{np.median(values):.3g}",
         f"{low:.3g} to {high:.3g}", f"{seconds:.0f}", "yes" if low <= true[k] <= high else "no",
         f"{p_value:.2g}"]
        for k, (values, (low, high)) in result.items()
    ]  # fmt: skip


def answered(
    chosen: Sequence[int], seeds: int, jobs: int, device: str, seconds: float | None = None,
    keep: Path | None = None,
) -> dict[Key, dict[str, Ranked]]:  # fmt: skip
    """What `rank` says of chosen cases; devices give the same bits."""
    names = [str(case) for i, case in enumerate(cases()) if i in chosen]
    asked = [(text, seed) for seed in range(seeds) for text in names]
    return answers(partial(rank, device=device), asked, jobs=jobs, seconds=seconds, keep=keep)


def table(
    ranks: Mapping[Key, dict[str, Ranked]],
) -> list[tuple[Case, str, list[int], float, float]]:
    """Of each parameter of each case the counts of ranks, the parts that hold it and that warn."""
    rows = []
    for case in cases():
        own = [result for key, result in ranks.items() if key[0] == str(case)]
        for name in case.priors if own else ():
            counts = np.bincount([one[name][0] for one in own], minlength=DRAWS + 1)
            held, warned = (float(np.mean([one[name][i] for one in own])) for i in (1, 2))
            rows.append((case, name, counts.tolist(), held, warned))
    return rows


def compared(ranks: Mapping[Key, dict[str, Ranked]]) -> list[list[str]]:
    """Of each published model the intervals of PMMH beside those by filters, of the same data."""
    rows = []
    for published in inference_models.PUBLISHED:
        pairs = [
            (one[name], other[name])
            for (text, seed), one in ranks.items()
            if str(text).startswith(f"pmmh: {published.__name__},")
            and (other := ranks.get((str(text).replace("pmmh", "particle_filters"), seed)))
            for name in one
        ]
        if pairs:
            logs = np.log([[one[3:], other[3:]] for one, other in pairs])
            widths, middles = np.diff(logs)[..., 0], logs.mean(axis=2)
            ratios = np.log(widths[:, 0] / widths[:, 1])
            moved = (middles[:, 0] - middles[:, 1]) / widths[:, 1]
            held = [sum(one[1] for one in each) for each in zip(*pairs, strict=True)]
            rows.append([
                published.__name__, str(len(pairs)), *map(str, held),
                f"{math.exp(ratios.mean()):.2f}", f"{moved.mean():+.2f}",
                f"{math.sqrt((moved**2).mean()):.2f}",
            ])  # fmt: skip
    return rows


COLUMNS = {
    "method": "`ts.pmmh`, `ts.abc_smc`, `ts.exact_filter` on a grid, or `ts.smc2`",
    "model": "network, in `inference_models.py`",
    "parameter": "unknown rate constant",
    "data sets": "number of simulated data sets",
    "ranks in ten bins": "data sets in each tenth of the ranks",
    "p-value": "of the chi-square test of a uniform distribution",
    "90 % hold %": "90 % intervals that contain the true value, in percent",
    "warned %": "data sets with a warning of few effective draws",
    "verdict": "pass or FAIL",
}


RECOVERED = {
    "model": COLUMNS["model"], "parameter": COLUMNS["parameter"],
    "true": "value with which data are simulated", "median": "of 19 draws of the posterior",
    "90 % interval": "of the posterior", "seconds": "processor time of the posterior",
    "held": "whether the interval contains the true value",
    "p-value": "of Hotelling's test that the true values are one more draw of the posterior",
}  # fmt: skip
COMPARED = ["model", "intervals", "held by pmmh", "held by filters", "ratio of widths",
            "mean shift", "root of mean squared shift"]  # fmt: skip


def line(
    case: Case, name: str, counts: Sequence[int], held: float, warned: float = 0.0
) -> list[str]:
    """A row of the table."""
    bins = np.reshape(counts, (BINS, -1)).sum(axis=1)
    seeds, p_value = int(bins.sum()), float(chisquare(bins).pvalue)
    off = abs(held - 0.9) / math.sqrt(0.09 / seeds)
    return [case.method, str(case.model), name, str(seeds), " ".join(map(str, bins)),
            f"{p_value:.3g}", f"{100 * held:.1f}", f"{100 * warned:.0f}",
            verdict(good=p_value >= ALARMS and off < 4)]  # fmt: skip


def run(given: Any) -> Outcome:
    """Run the cases."""
    parts = given.cases or [""]
    chosen = [i for i, one in enumerate(cases()) if any(part in str(one) for part in parts)]
    device = "cuda" if given.device == "cuda" else "cpu"
    if not given.seeds:
        names = [str(one) for i, one in enumerate(cases()) if i in chosen]
        rows = [row for own in map(partial(recovered, device=device), names) for row in own]
        return Outcome(
            "Recovered parameters", f"One data set of each model, {device}.", RECOVERED, rows
        )
    ranks = answered(chosen, given.seeds, given.jobs, device, given.seconds, given.keep)
    both = compared(ranks)
    return Outcome(
        "Simulation-based calibration", f"Up to {given.seeds} data sets, {device}.", COLUMNS,
        list(starmap(line, table(ranks))), markdown(COMPARED, both) if both else (),
    )  # fmt: skip
