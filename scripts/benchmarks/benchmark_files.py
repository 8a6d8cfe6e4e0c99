"""Exact simulation of models of tests/data/sbml: seconds of kernels, medians.

    python scripts/benchmarks/benchmark_files.py --device cuda
    PYTHONPATH=/tmp/old/src python scripts/benchmarks/benchmark_files.py --device cuda  # other sources

On a CPU take `--scale 0.001` or so: the numbers of trajectories are those of a GPU.
"""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path

import tauslab as ts

MODELS = Path(__file__).parents[2] / "tests/data/sbml"
# Trajectories and end time.
CASES = {
    "vilar_oscillator": (2**17, 20.0),
    "toggle_switch": (2**18, 20.0),
    "lac_two_state": (2**16, 20.0),
    "heat_shock_mass_action": (2**13, 20.0),
    "dimerization": (2**19, 20.0),
    "telegraph": (2**18, 50.0),
    "lotka_volterra": (2**18, 5.0),
    "prokaryotic_gene_network": (2**17, 50.0),
    "BIOMD0000000012": (2**14, 50.0),
}


def main() -> None:
    """A line for each model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--scale", type=float, default=1.0, help="fraction of the trajectories")
    parser.add_argument(
        "--repeat", type=int, default=3, help="runs, of which the first is left out"
    )
    given = parser.parse_args()
    for name, (n, t_end) in CASES.items():
        network = ts.read(MODELS / f"{name}.xml")
        assert isinstance(network, ts.Network)
        seconds = []
        for _ in range(given.repeat):
            result = ts.run(
                network, n=max(1, round(n * given.scale)), t_end=t_end, points=101, seed=1,
                method="ssa", record="statistics", device=given.device,
            )  # fmt: skip
            seconds.append(float(result.data["profile/compute"][()].max()))
        print(f"{name} {statistics.median(seconds[1:] or seconds):.4f}", flush=True)


if __name__ == "__main__":
    main()
