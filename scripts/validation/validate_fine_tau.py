"""Leaps from tables against generated code: means and standard deviations of many runs.

A random network of as many species as reactions, 1,000 molecules of each, rates uniform in [0, 1)
(Komarov, D'Souza & Tapia, PLoS ONE 7:e37370, 2012), is run by both engines of ``--method tau`` with
other seeds, and exactly by ``--method ssa`` if ``--exact`` is given. Differences are relative, over
species with ten molecules; beside each stands what sampling alone gives: the root mean square of its
standard error. Compiling generated code for a thousand reactions takes minutes.
"""

from __future__ import annotations

import time
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
from outcome import Outcome, say

import tauslab as ts
from tauslab.kernels.leaping import choice as leaping

FloatArray = npt.NDArray[np.float64]
T_END = 0.002


def moments(model: ts.Network, method: Any, n: int, seed: int, args: Any,
            largest: int) -> tuple[FloatArray, FloatArray, dict[str, object]]:  # fmt: skip
    """Means and standard deviations of the species at the end, and what the run was."""
    began = time.perf_counter()
    with patch.object(leaping, "LARGEST_LEAPING", largest):
        result = ts.run(model, n=n, times=[T_END], method=method, seed=seed,
                        record="statistics", device=args.device)  # fmt: skip
    names = list(model.species)
    means = np.array([result.mean(name)[-1] for name in names])
    sds = np.sqrt([result.variance(name)[-1] for name in names])
    told = {
        "engine": result.attributes.get("leaper", method),
        "n": n, "seconds": round(time.perf_counter() - began, 2),
        "device": result.data["profile/device"][0].decode(),
        "reactions_fired_per_run": int(result.data["profile/events"][()].sum()) / n,
    }  # fmt: skip
    return means, sds, told


def compare(one: tuple[FloatArray, FloatArray], n: int, other: tuple[FloatArray, FloatArray],
            other_n: int) -> dict[str, float]:  # fmt: skip
    """Relative differences over species with a mean of at least 10."""
    kept = other[0] >= 10
    mean, sd = other[0][kept], other[1][kept]
    means = (one[0][kept] - mean) / mean
    sds = (one[1][kept] - sd) / sd
    error = sd / mean * np.sqrt(1 / n + 1 / other_n)
    return {
        "species": int(kept.sum()),
        "mean_rms": float(np.sqrt(np.mean(means**2))),
        "mean_largest": float(np.abs(means).max()),
        "mean_bias": float(means.mean()),
        "mean_sampling_error": float(np.sqrt(np.mean(error**2))),
        "sd_rms": float(np.sqrt(np.mean(sds**2))),
        "sd_largest": float(np.abs(sds).max()),
        "sd_bias": float(sds.mean()),
        "sd_sampling_error": float(np.sqrt(0.5 / n + 0.5 / other_n)),
    }


def run(given: Any) -> Outcome:
    """Run the engines; how far they are apart."""
    model = ts.random_network(
        species=given.size, reactions=given.size, rates="uniform", initial=1000, seed=1
    )
    tables = moments(model, "tau", given.n, 1, given, 0)
    say(tables[2])
    rows: list[list[str]] = []
    others = [("generated code", "tau", given.n, 2)]
    others += [("ssa", "ssa", given.exact, 3)] if given.exact else []
    for name, method, n, seed in others:
        other = moments(model, method, n, seed, given, 10**9)
        found = {**other[2], **compare(tables[:2], given.n, other[:2], n)}
        rows += [
            [name, key, f"{x:.4g}" if isinstance(x, float) else str(x)] for key, x in found.items()
        ]
    about = f"{given.size} reactions to t = {T_END}, {given.n} runs: {tables[2]}."
    return Outcome("Leaps from tables", about, ("against", "measure", "value"), rows)
