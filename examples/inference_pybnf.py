"""Two rates fitted by PyBNF, whose objective is a particle filter (``pip install pybnf``).

    python examples/inference_pybnf.py

PyBNF 1.8 (edition 2) minimises or samples a Python function that its job names:
`negative_log_likelihood` is that function. Change `MODEL` and `OBSERVE` for another model, name its
parameters in the job, and give each cell a file of data. Every algorithm of PyBNF without gradients
can be the `job_type`.
"""

from __future__ import annotations

import argparse
import hashlib
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import tauslab as ts

PARTICLES = 200
OBSERVE = {"X": "normal(sd=2)"}  # of each column of the data
JOB = """edition = 2
job_type = de
objective = callable
callable = {program}:negative_log_likelihood
data = {folder}/cell.exp
output_dir = {folder}/output
population_size = {population}
max_iterations = {iterations}
parallel_count = 2
random_seed = {seed}
verbosity = 0
loguniform_var = birth 0.5 50
loguniform_var = death 0.05 5
"""


def model() -> ts.Network:
    """Production and degradation; any model of `ts.read` can take its place."""
    net = ts.Network("turnover")
    net.add_species("X", 0)
    net.add_parameter("birth", 5.0)
    net.add_parameter("death", 0.5)
    net.add_reaction("-> X", rate="birth")
    net.add_reaction("X ->", rate="death")
    return net


MODEL = model()


def negative_log_likelihood(params: Mapping[str, float], data: Mapping[str, Any]) -> float:
    """Estimate minus the log-likelihood of all cells; `data` has a table of PyBNF for each.

    The seed follows from the parameters: the same parameters give the same estimate, and others a
    new one, so that samplers of PyBNF are pseudo-marginal and have the exact posterior.
    """
    cells = [
        {"time" if name == table.indvar else name: table[name] for name in table.cols}
        for table in data.values()
    ]
    values = np.array([params[name] for name in sorted(params)])
    seed = int.from_bytes(hashlib.sha256(values.tobytes()).digest()[:8], "little")
    result = ts.particle_filter(
        MODEL, cells, observe=OBSERVE, set=dict(params), n=PARTICLES, seed=seed,
        device=ts.CPU(threads=1), comm="self", quiet=True,
    )  # fmt: skip
    return -result.log_likelihood


def fit(
    folder: Path, population: int = 10, iterations: int = 20, seed: int = 1
) -> dict[str, float]:
    """Run PyBNF on `noisy_counts.csv` in a folder; the best parameters."""
    here = Path(__file__).resolve()
    table = here.with_name("noisy_counts.csv").read_text("utf-8")
    (folder / "cell.exp").write_text("# " + table.replace(",", " "), "utf-8")
    given = {"population": population, "iterations": iterations, "seed": seed}
    (folder / "fit.conf").write_text(JOB.format(program=here, folder=folder, **given), "utf-8")
    command = [sys.executable, "-m", "pybnf", "-c", str(folder / "fit.conf"), "-o"]
    subprocess.run(command, check=True, cwd=folder)
    results = (folder / "output" / "Results" / "sorted_params_final.txt").read_text("utf-8")
    names, best = (line.split()[-2:] for line in results.splitlines()[:2])
    return dict(zip(names, map(float, best), strict=True))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path())
    for parameter, estimate in fit(parser.parse_args().folder.resolve()).items():
        print(f"{parameter} = {estimate:.3f}")
