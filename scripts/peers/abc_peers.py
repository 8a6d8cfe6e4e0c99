"""ABC-SMC of predators and prey beside pyABC with rebop: seconds to the same posterior.

    python scripts/peers/abc_peers.py --peer VENV/bin/python
    python scripts/peers/abc_peers.py --device cuda --n 10000

The peer's Python has pyabc and rebop. Both have the same data, priors, thresholds and population
size, and a core each; rebop is called through its compiled class. Processor seconds and seconds of
the clock, without imports and compilation, which a first run of ours makes.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import time
from importlib import import_module
from typing import Any

import numpy as np

SEEN = {  # made with the rates 1.0 and 0.6
    "X": [96, 188, 305, 203, 71, 20, 18, 32], "Y": [70, 82, 172, 384, 397, 262, 155, 104],
}  # fmt: skip
TIMES = [float(t) for t in range(1, 9)]
PRIORS = {"birth": (0.6, 1.6), "death": (0.3, 1.0)}  # uniform
EPSILONS = [600.0, 400.0, 300.0]
Moments = dict[str, tuple[float, float]]


def own(n: int, seed: int, on: str) -> tuple[Moments, float, float, int]:
    """Moments of the posterior, processor seconds, seconds, simulations."""
    import tauslab as ts

    net = ts.Network("prey")
    net.add_species("X", 50)
    net.add_species("Y", 100)
    for name in PRIORS:
        net.add_parameter(name, 1.0)
    net.add_reaction("X -> 2 X", rate="birth")
    net.add_reaction("X + Y -> 2 Y", rate=0.005)
    net.add_reaction("Y ->", rate="death")
    priors = {name: f"uniform({low},{high})" for name, (low, high) in PRIORS.items()}
    data: dict[str, Any] = {"time": TIMES, **SEEN}
    device = ts.CPU(threads=1) if on == "cpu" else ts.GPU()
    usual: dict[str, Any] = {
        "n": n, "epsilon": EPSILONS, "scale": 1, "seed": seed, "device": device, "quiet": True,
    }  # fmt: skip
    ts.abc_smc(net, data, priors, **usual)
    began, clock = time.process_time(), time.perf_counter()
    result = ts.abc_smc(net, data, priors, **usual)
    seconds = time.process_time() - began, time.perf_counter() - clock
    moments = {name: (result.mean(name), result.sd(name)) for name in PRIORS}
    return moments, *seconds, int(result.simulations.sum())


def peer(n: int, seed: int) -> tuple[Moments, float, float, int]:
    """The same of pyABC with rebop."""
    pyabc, rebop = import_module("pyabc"), import_module("rebop")
    logging.getLogger("ABC").setLevel(logging.WARNING)
    np.random.seed(seed)  # noqa: NPY002 - pyABC draws from NumPy's global generator
    system = rebop.Gillespie()
    system.add_reaction("birth * X", ["X"], ["X", "X"])
    system.add_reaction(0.005, ["X", "Y"], ["Y", "Y"])
    system.add_reaction("death * Y", ["Y"], [])
    core = system.gillespie
    core.set_init({"X": 50, "Y": 100})

    def model(rates: Any) -> dict[str, Any]:
        _, counts = core.run(
            TIMES[-1], len(TIMES), params={name: rates[name] for name in PRIORS},
            seed=int(np.random.randint(2**62)), sparse=False, var_names=None,  # noqa: NPY002
        )  # fmt: skip
        return {"course": np.concatenate([np.asarray(counts[c][1:], float) for c in SEEN])}

    prior = pyabc.Distribution({
        name: pyabc.RV("uniform", low, high - low) for name, (low, high) in PRIORS.items()
    })  # fmt: skip
    smc = pyabc.ABCSMC(
        model, prior, pyabc.PNormDistance(p=2), population_size=n,
        eps=pyabc.ListEpsilon(EPSILONS), sampler=pyabc.SingleCoreSampler(),
    )  # fmt: skip
    began, clock = time.process_time(), time.perf_counter()
    smc.new("sqlite://", {"course": np.concatenate([np.asarray(x, float) for x in SEEN.values()])})
    history = smc.run(max_nr_populations=len(EPSILONS))
    seconds = time.process_time() - began, time.perf_counter() - clock
    table, weights = history.get_distribution()
    moments = {}
    for name in PRIORS:
        x = table[name].to_numpy()
        mean = float(weights @ x)
        moments[name] = (mean, float(np.sqrt(weights @ (x - mean) ** 2)))
    return moments, *seconds, int(history.total_nr_simulations)


def main() -> None:
    """Print a row of each program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--peer", help="a Python that has pyabc and rebop")
    parser.add_argument("--n", type=int, default=500, help="particles")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--alone", action="store_true", help="the peer's row, as JSON")
    given = parser.parse_args()
    if given.alone:
        print(json.dumps(peer(given.n, given.seed)))
        return
    rows = {"tauslab": own(given.n, given.seed, given.device)}
    if given.peer:
        requested = [
            given.peer,
            __file__,
            "--alone",
            "--n",
            str(given.n),
            "--seed",
            str(given.seed),
        ]
        reported = subprocess.run(requested, check=True, capture_output=True, text=True).stdout
        rows["pyABC, rebop"] = json.loads(reported.splitlines()[-1])
    for name, (moments, seconds, clock, simulations) in rows.items():
        message = ", ".join(f"{k} {mean:.4f} +- {sd:.4f}" for k, (mean, sd) in moments.items())
        print(f"{name}: {message}; {seconds:.2f} s ({clock:.2f} s), {simulations} simulations")


if __name__ == "__main__":
    main()
