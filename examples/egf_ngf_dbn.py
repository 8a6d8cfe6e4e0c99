"""Signalling by EGF and NGF (Brown et al. 2004) as a dynamic Bayesian network.

Four rate constants are taken as unknown. Noisy measurements of three proteins, made here from the
model's own values, tell which intervals they are in.
"""

import argparse
from pathlib import Path

import numpy as np

import tauslab as ts
from tauslab import dbn

MODEL = Path(__file__).parents[1] / "tests" / "data" / "sbml" / "BIOMD0000000033.xml"
UNKNOWN = ("kpMekCytoplasmic", "kdErk", "kdMek", "kRasGap")
MEASURED = ("RasActive", "MekActive", "ErkActive")

parser = argparse.ArgumentParser()
parser.add_argument("--samples", type=int, default=50_000)
parser.add_argument("--seed", type=int, default=1)
chosen = parser.parse_args()

network = dbn.build(
    MODEL, unknown=UNKNOWN, samples=chosen.samples, t_end=10, points=11, method=ts.ODE(substeps=200),
    intervals=dict.fromkeys(MEASURED, 12), seed=chosen.seed, output=ts.Output("egf_ngf.h5", overwrite=True),
)  # fmt: skip
if network is None:  # another rank than 0
    raise SystemExit
print(
    f"{network.samples} trajectories, {sum(len(t.counts) for t in network.tables.values())} entries"
)

beliefs = dbn.factored_frontier(network)
print("at t = 10:       nominal   samples  frontier")
for name in MEASURED:
    course = network.nominal[-1, network.variables.index(name)]
    print(f"{name:12} {course:11.0f} {network.mean(name)[-1]:9.0f} {beliefs.mean(name)[-1]:9.0f}")

rng = np.random.default_rng(chosen.seed)
data = []
for name in MEASURED:
    course = network.nominal[:, network.variables.index(name)]
    sd = 0.05 * course.max()
    for t, value in zip(network.times[1:], course[1:], strict=True):
        data.append(dbn.Measurement(name, float(t), float(value + rng.normal(0, sd)), sd))
estimate = dbn.estimate(network, data)
print("posterior of the intervals (in brackets: the one that made the data)")
truth = ts.read(MODEL).parameter_values()
for name in UNKNOWN:
    own = network.bin_of(name, truth[name])
    shares = [f"{share:.2f}" for share in estimate.marginal(name)]
    shares[own] = f"[{shares[own]}]"
    print(f"{name:18} {' '.join(shares)}")
