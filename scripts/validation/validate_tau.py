"""`tau` compared with the exact distribution of the Schlögl model, and with `ssa`.

Schlögl model, t = 2 to 10: the Kolmogorov-Smirnov distance of the samples from the exact
distribution must be at most epsilon + 1.36 / sqrt(n); exact samples exceed 1.36 / sqrt(n) once in 20
times. Other models: means must agree within epsilon, standard deviations within 2 epsilon, plus 5
standard errors, for all species and samples, relative to the larger of the value and 1 / epsilon
molecules (leaps allow each count to change by one molecule). In none of the four models may a sample
be negative; histograms of all species at all sample times count such samples.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from outcome import Outcome, cells, verdict
from validate_cme import DATA, PROBLEMS, exact_distribution

import tauslab as ts
from tauslab.cli.commands.machine import michaelis_menten
from tauslab.cli.commands.machine import schlogl as schlogl_model
from tauslab.formats.read import read_network

# A model, its initial amounts, the last of 50 samples.
MODELS = {
    "michaelis_menten": (michaelis_menten, {"E": 750.0, "S": 1000.0}, 5.0),
    "prokaryotic_gene_network": (
        lambda: read_network(DATA / "sbml" / "prokaryotic_gene_network.xml"), {}, 50.0,
    ),
    "ras_camp_pka": (lambda: read_network(DATA / "sbml" / "ras_camp_pka.xml"), {}, 10.0),
}  # fmt: skip
COUNTED = {**MODELS, "schlogl": (schlogl_model, {}, 10.0)}
ANY_COUNT = "0:2147483648:1"  # one bin, with a cell below it and one above
HEADER = {
    "model": "network",
    "epsilon": "error bound of leaps",
    "n": "trajectories",
    "compared_with": "exact distribution, `ssa`, or the number 0",
    "measure": "what is compared: the largest over species and samples",
    "value": "measured value",
    "bound": "largest value allowed; nan: not a criterion",
    "verdict": "pass or FAIL",
}
Row = tuple[str, float, int, str, str, float, float, str]


def schlogl(epsilon: float, n: int, device: Any, seed: int) -> list[Row]:
    """Distances of distributions at the times of the exact solution."""
    network = next(p for p in PROBLEMS if p.name == "schlogl").model()
    times, exact = exact_distribution("schlogl", "X")
    result = ts.run(network, method=ts.TauLeaping(epsilon=epsilon), n=n, times=times, species="X",
                    record="trajectories", device=device, seed=seed)  # fmt: skip
    x = result.counts("X")
    rows: list[Row] = []
    for k, t in enumerate(times):
        size = max(int(x[:, k].max()) + 1, exact.shape[1])
        law = np.zeros(size)
        law[: exact.shape[1]] = exact[k]
        sampled = np.cumsum(np.bincount(x[:, k], minlength=size)) / n
        distance = float(np.abs(sampled - np.cumsum(law)).max())
        bound = 1.36 / n**0.5 + epsilon
        good = distance < bound and int(x.min()) >= 0
        measure = f"KS distance at t = {t:g} (1.36 / sqrt(n) = {1.36 / n**0.5:.1e})"
        rows.append(("schlogl", epsilon, n, "exact", measure, distance, bound, verdict(good=good)))
    return rows


def against_ssa(name: str, epsilon: float, n: int, device: Any, seed: int) -> list[Row]:
    """Largest differences of means and standard deviations over species and samples."""
    make, values, t_end = MODELS[name]
    options: dict[str, Any] = {"n": n, "times": np.linspace(t_end / 50, t_end, 50), "set": values,
               "device": device, "record": "statistics,final"}  # fmt: skip
    exact = ts.run(make(), method="ssa", seed=seed, **options)
    leaped = ts.run(make(), method=ts.TauLeaping(epsilon=epsilon), seed=seed + 1, **options)
    means, errors, spreads, good, least = 0.0, 0.0, 0.0, True, 1 / epsilon
    for species in exact.species:
        mean, std = exact.mean(species), exact.std(species)
        error = np.sqrt((exact.variance(species) + leaped.variance(species)) / n)
        difference = np.abs(leaped.mean(species) - mean)
        change = np.abs(leaped.std(species) - std)
        means = max(means, float((difference / np.maximum(mean, least)).max()))
        errors = max(errors, float((difference / np.maximum(error, 1e-300)).max()))
        spreads = max(spreads, float((change / np.maximum(std, least)).max()))
        noise = 5 * std * np.sqrt(1.0 / n)
        good = good and bool((difference <= epsilon * np.maximum(mean, least) + 5 * error).all())
        good = good and bool((change <= 2 * epsilon * np.maximum(std, least) + noise).all())
        good = good and int(leaped.final(species).min()) >= 0
    word = verdict(good=good)
    return [
        (name, epsilon, n, "ssa", "means, relative", means, epsilon, word),
        (name, epsilon, n, "ssa", "means, standard errors", errors, float("nan"), word),
        (name, epsilon, n, "ssa", "standard deviations, relative", spreads, 2 * epsilon, word),
    ]


def below_zero(name: str, epsilon: float, n: int, device: Any, seed: int) -> Row:
    """Number of negative counts in the samples of all species; every sample must have been looked at."""
    make, values, t_end = COUNTED[name]
    network = make()
    record = [f"histogram:{species}:{ANY_COUNT}" for species in network.species]
    times = np.linspace(t_end / 50, t_end, 50)
    result = ts.run(network, method=ts.TauLeaping(epsilon=epsilon), n=n, set=values, seed=seed,
                    times=times, device=device, record=record)  # fmt: skip
    cells = np.stack([result.data[f"statistics/histogram/{s}"][()] for s in network.species])
    negative = float(cells[..., 0].sum())
    good = negative == 0 and bool((cells[..., 1] == n).all())
    measure = f"samples below zero, of {cells.sum():.3g}"
    return (name, epsilon, n, "0", measure, negative, 0.0, verdict(good=good))


def run(given: Any) -> Outcome:
    """Compare all models."""
    n, rest = given.n, (given.device, given.seed)
    rows = [row for epsilon in (0.03, 0.01) for row in schlogl(epsilon, n, *rest)]
    for name in MODELS:
        rows += against_ssa(name, 0.03, n if name != "ras_camp_pka" else max(1, n // 100), *rest)
    rows += [below_zero(name, 0.03, n, *rest) for name in COUNTED]
    about = (
        f"{n} trajectories, seed {given.seed}, {given.device}; ras_camp_pka by a hundredth of them."
    )
    return Outcome(
        "Errors of tau-leaping on four models", about, HEADER, [cells(row) for row in rows]
    )
