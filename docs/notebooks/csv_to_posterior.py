# %% [markdown]
# # From a CSV file to a posterior, in 25 statements
#
# [noisy_counts.csv](../../examples/noisy_counts.csv) contains 20 measurements of a molecule that is produced and degraded, with normal noise of standard deviation 2. Both rate constants are unknown. The plots are those of [ArviZ](https://python.arviz.org): `pip install "arviz<1"`.

# %%
import os

import arviz as az
import numpy as np
import pandas as pd

import tauslab as ts

# Set TAUSLAB_ROOT to a checkout if this notebook is not in one.
folder = os.environ.get("TAUSLAB_ROOT", "../..") + "/examples"
data = pd.read_csv(folder + "/noisy_counts.csv")
net = ts.Network("turnover")
net.add_species("X", 10)
net.add_parameter("birth", 1.0)
net.add_parameter("decay", 1.0)
net.add_reaction("-> X", rate="birth")
net.add_reaction("X ->", rate="decay")

# %% [markdown]
# PMMH (particle marginal Metropolis-Hastings) samples both rate constants; the summary shows with R-hat (`r_hat`) how well its chains agree.

# %%
priors = {"birth": "loguniform(0.5,50)", "decay": "loguniform(0.02,2)"}
chain = ts.pmmh(net, data, priors, observe={"X": "normal(sd=2)"}, steps=400, warm_up=200, seed=1)
groups = chain.to_arviz(data)
print(az.summary(groups).to_string())

# %% [markdown]
# Posterior prediction: a new time course with noise is simulated for every fourth sample.

# %%
draws = {name: chain[name][:, ::4] for name in priors}
rates = {name: values.ravel() for name, values in draws.items()}
made = ts.run(net, n=draws["birth"].size, times=list(data["time"]), set=rates, seed=2)
seen = made["X"] + np.random.default_rng(3).normal(0, 2, made["X"].shape)
predicted = {"X": seen.reshape(*draws["birth"].shape, -1)}
groups.add_groups(posterior_predictive=predicted, dims={"X": ["time"]})

# %% [markdown]
# A corner plot of the samples, and the distribution of the measurements with those of the predictions.

# %%
corner = az.plot_pair(groups, kind="kde", marginals=True)
check = az.plot_ppc(groups, kind="cumulative", num_pp_samples=100, random_seed=4)

# %% [markdown]
# More: [inference](../inference.md).
