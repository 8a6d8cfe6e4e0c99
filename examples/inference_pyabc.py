"""The rates of `inference_abc.py` again, with pyABC's sampler (``pip install pyabc``).

    python examples/inference_pyabc.py

pyABC asks for one parameter set at a time, so a simulation costs a call of some milliseconds; its
populations, distances and database are those of pyABC.
"""

from __future__ import annotations

import argparse
import logging
from collections.abc import Mapping

import numpy as np
import pyabc
from inference_abc import HIGH, LOW, NAMES, TRUTH, FloatArray, courses, enzyme

import tauslab as ts


def infer(seed: int = 0, device: str = "auto") -> tuple[FloatArray, FloatArray]:
    """Posterior mean and standard deviation of the decimal logarithms of the rates."""
    np.random.seed(seed)  # noqa: NPY002 - pyABC draws from NumPy's global generator
    simulate = ts.simulator(
        enzyme(), NAMES, courses, times=np.linspace(2.0, 40.0, 20), seed=seed, device=device
    )
    observed = simulate(TRUTH)

    def model(rates: Mapping[str, float]) -> dict[str, FloatArray]:
        return {"course": simulate(10.0 ** np.array([rates[name] for name in NAMES]))}

    prior = pyabc.Distribution(
        {
            name: pyabc.RV("uniform", low, high - low)
            for name, low, high in zip(NAMES, LOW, HIGH, strict=True)
        }
    )
    sampler = pyabc.SingleCoreSampler()
    smc = pyabc.ABCSMC(
        model, prior, pyabc.AdaptivePNormDistance(p=2), population_size=50, sampler=sampler
    )
    smc.new("sqlite://", {"course": observed})
    history = smc.run(max_nr_populations=5)
    table, weights = history.get_distribution()
    found = table[list(NAMES)].to_numpy()
    mean = weights @ found
    return mean, np.sqrt(weights @ (found - mean) ** 2)


def main() -> None:
    """Print what was found beside the truth."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    arguments = parser.parse_args()
    logging.getLogger("ABC").setLevel(logging.WARNING)
    for name, mean, sd, truth in zip(
        NAMES, *infer(arguments.seed, arguments.device), TRUTH, strict=True
    ):
        print(f"log10 {name}: {mean:.3f} (sd {sd:.3f}); truth {np.log10(truth):.3f}")


if __name__ == "__main__":
    main()
