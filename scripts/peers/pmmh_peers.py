"""PMMH of predators and prey beside `particles` with Numba: effective draws a second of one core.

    PYTHONPATH=/tmp/peers python scripts/peers/pmmh_peers.py      # has particles and numba
    python scripts/peers/pmmh_peers.py --device cuda --chains 512 --filters 102400

Both have the noisy time course of python-smfsb, priors of three rates (log-normal, deviation 0.5),
walks on logarithms that adapt and begin at the medians, bootstrap filters of as many particles, and
as many filters, of which the first third is the warm-up. Ours are eight chains side by side, theirs
is one. Effective sizes, of the worst parameter, bulk or tail, are by one function. Processor seconds
without imports and compilation; of a GPU, which runs ours alone, seconds of the clock.
"""

from __future__ import annotations

import argparse
import math
import sys
import time
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(1, str(Path(__file__).resolve().parents[1] / "benchmarks"))
from benchmark_peers import their_model
from measure_networks import INITIAL, OBSERVE, course

import tauslab as ts
from tauslab.analysis.filters.mixing import SIZES

RATES = {"birth": 1.0, "meet": 0.005, "death": 0.6}
SPREAD, FIRST = 0.5, 0.05  # deviations of the logarithms: of priors, and of the peer's first guess
CHAINS = 8  # the default


def ours(
    filters: int, n: int, seed: int, chains: int = CHAINS, device: str = "cpu"
) -> tuple[Any, float]:
    """Draws ``[chain, step, parameter]`` and seconds: of the processor, or of a GPU."""
    net, data = course()
    priors = {name: f"lognormal(median={value},sigma={SPREAD})" for name, value in RATES.items()}
    usual: dict[str, Any] = {
        "observe": OBSERVE, "initial": INITIAL, "n": n, "seed": seed,
        "device": ts.CPU(threads=1) if device == "cpu" else device, "quiet": True,
        "chains": chains,
    }  # fmt: skip
    clock = time.process_time if device == "cpu" else time.perf_counter
    ts.pmmh(net, data, priors, steps=2, warm_up=2, **usual)
    each, began = filters // chains, clock()
    result = ts.pmmh(net, data, priors, steps=each - each // 3, warm_up=each // 3, **usual)
    return result.values, clock() - began


def theirs(filters: int, n: int, seed: int) -> tuple[Any, float]:
    """The same of `particles`."""
    law, mcmc = (import_module(f"particles.{name}") for name in ("distributions", "mcmc"))
    prior = law.StructDist({
        name: law.Normal(loc=math.log(value), scale=SPREAD) for name, value in RATES.items()
    })  # fmt: skip
    start = np.zeros(1, prior.dtype)
    for name, value in RATES.items():
        start[name] = math.log(value)
    _, data = course()
    usual: dict[str, Any] = {
        "ssm_cls": their_model(
            np.diff(data["time"], prepend=data["time"][0]),
            lambda self: (math.exp(getattr(self, name)) for name in RATES),
        ),
        "data": list(np.stack([data["x1"], data["x2"]], axis=1)), "prior": prior, "Nx": n,
        "rw_cov": FIRST**2 * np.eye(len(RATES)),
    }  # fmt: skip
    mcmc.PMMH(niter=3, theta0=start.copy(), **usual).run()
    np.random.seed(seed)  # noqa: NPY002 - particles draws from NumPy's global generator
    walk, began = mcmc.PMMH(niter=filters, theta0=start.copy(), **usual), time.process_time()
    walk.run()
    seconds = time.process_time() - began
    kept = [walk.chain.theta[name][filters // 3 :] for name in RATES]
    return np.exp(np.stack(kept, axis=1))[None], seconds


def main() -> None:
    """Print a row of each program."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--n", type=int, default=100, help="particles")
    parser.add_argument("--filters", type=int, default=4800, help="of each program")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--chains", type=int, default=CHAINS, help="of ours")
    parser.add_argument("--device", default="cpu", help="of ours; cuda leaves the peer out")
    given = parser.parse_args()
    usual = given.filters, given.n, given.seed
    for name in ("tauslab", "particles") if given.device == "cpu" else ("tauslab",):
        own = name == "tauslab"
        values, seconds = ours(*usual, given.chains, given.device) if own else theirs(*usual)
        rows = np.moveaxis(values, -1, 0)
        size = min(SIZES[of](row) for row in rows for of in ("bulk", "tail"))
        means = ", ".join(f"{k} {row.mean():.4g}" for k, row in zip(RATES, rows, strict=True))
        print(
            f"{name}: {given.filters / seconds:.1f} filters/s, {size:.1f} effective draws, "
            f"{size / seconds:.3f} a second; {means}",
            flush=True,
        )


if __name__ == "__main__":
    main()
