"""From a CSV file of noisy counts to ArviZ's corner plot and posterior predictive check.

    pip install "arviz<1" matplotlib
    python examples/inference_arviz.py

A molecule is made and lost; 20 counts have normal noise of standard deviation 2. PMMH draws both
rates, and a new time course, with noise, for every fourth of the draws.
"""

from pathlib import Path

import arviz as az
import numpy as np
import pandas as pd

import tauslab as ts

data = pd.read_csv(Path(__file__).with_name("noisy_counts.csv"))
net = ts.Network("turnover")
net.add_species("X", 10)
net.add_parameter("birth", 1.0)
net.add_parameter("decay", 1.0)
net.add_reaction("-> X", rate="birth")
net.add_reaction("X ->", rate="decay")

priors = {"birth": "loguniform(0.5,50)", "decay": "loguniform(0.02,2)"}
chain = ts.pmmh(net, data, priors, observe={"X": "normal(sd=2)"}, steps=400, warm_up=200, seed=1)
draws = {name: chain[name][:, ::4] for name in priors}
rates = {name: values.ravel() for name, values in draws.items()}
made = ts.run(net, n=draws["birth"].size, times=list(data["time"]), set=rates, seed=2)
seen = made["X"] + np.random.default_rng(3).normal(0, 2, made["X"].shape)

groups = chain.to_arviz(data)
seen = seen.reshape(*draws["birth"].shape, -1)
groups.add_groups(posterior_predictive={"X": seen}, dims={"X": ["time"]})
print(az.summary(groups))
az.plot_pair(groups, kind="kde", marginals=True).ravel()[0].figure.savefig("corner.png")
az.plot_ppc(groups, kind="cumulative").figure.savefig("predictive.png")
