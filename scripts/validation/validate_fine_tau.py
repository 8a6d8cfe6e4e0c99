#!/usr/bin/env python3
"""Leaps from tables against generated code: means and standard deviations of many runs.

    python scripts/validation/validate_fine_tau.py --device cuda -o docs/validation/fine-tau.json

A random network of as many species as reactions, 1,000 molecules of each, rates uniform in [0, 1)
(Komarov, D'Souza & Tapia, PLoS ONE 7:e37370, 2012), is run by both engines of ``--method tau`` with
other seeds, and exactly by ``--method ssa`` if ``--exact-n`` is given. Differences are relative, by
species; beside each stands what sampling alone gives: the root mean square of its standard error.
Compiling generated code for a thousand reactions takes minutes.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt

import tauslab as ts
from tauslab.kernels.leaping import choice as leaping

FloatArray = npt.NDArray[np.float64]


def moments(model: ts.Network, method: Any, n: int, seed: int, args: argparse.Namespace,
            largest: int) -> tuple[FloatArray, FloatArray, dict[str, object]]:  # fmt: skip
    """Means and standard deviations of the species at the end, and what the run was."""
    began = time.perf_counter()
    with patch.object(leaping, "LARGEST_LEAPING", largest):
        result = ts.run(model, n=n, times=[args.t_end], method=method, seed=seed,
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


def main() -> None:
    """Run the engines and write how far they are apart."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--size", type=int, default=1000, help="reactions and species")
    parser.add_argument("-n", type=int, default=100_000, help="runs of each engine that leaps")
    parser.add_argument("--exact-n", type=int, default=0, help="runs of ssa")
    parser.add_argument("--t-end", type=float, default=0.002)
    parser.add_argument("--device", default="auto")
    parser.add_argument("-o", "--output", type=Path, help="JSON")
    args = parser.parse_args()
    model = ts.random_network(
        species=args.size, reactions=args.size, rates="uniform", initial=1000, seed=1
    )
    tables = moments(model, "tau", args.n, 1, args, 0)
    print(json.dumps(tables[2]), flush=True)
    found: dict[str, object] = {"size": args.size, "t_end": args.t_end, "runs": [tables[2]]}
    others = [("generated code", "tau", args.n, 2)]
    others += [("ssa", "ssa", args.exact_n, 3)] if args.exact_n else []
    for name, method, n, seed in others:
        other = moments(model, method, n, seed, args, 10**9)
        row = {"against": name, **other[2], **compare(tables[:2], args.n, other[:2], n)}
        print(json.dumps(row), flush=True)
        found[name] = row
    if args.output:
        args.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
