# %% [markdown]
# # From a CSV file to a posterior, in 25 statements
#
# [noisy_counts.csv](../../examples/noisy_counts.csv) contains 20 measurements of a molecule that is produced and degraded, with normal noise of standard deviation 2. Both rate constants are unknown.

# %%
import os

import matplotlib.pyplot as plt
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
# PMMH (particle marginal Metropolis-Hastings) samples both rate constants; `summary` shows with R-hat how well its chains agree.

# %%
priors = {"birth": "loguniform(0.5,50)", "decay": "loguniform(0.02,2)"}
chain = ts.pmmh(net, data, priors, observe={"X": "normal(sd=2)"}, steps=400, warm_up=200, seed=1)
print(chain.summary().to_string())

# %% [markdown]
# A corner plot of the samples, and the posterior prediction: a new time course with noise is simulated for each sample, and the band contains 90 % of them. ArviZ plots the same from `chain.to_arviz(data)`.

# %%
draws = {name: chain[name].ravel()[::4] for name in priors}
made = ts.run(net, n=len(draws["birth"]), times=list(data["time"]), set=draws, seed=2)
seen = made["X"] + np.random.default_rng(3).normal(0, 2, made["X"].shape)
low, high = np.percentile(seen, [5, 95], axis=0)
axes = pd.plotting.scatter_matrix(pd.DataFrame(draws), s=2, figsize=(5, 5))
figure, panel = plt.subplots(subplot_kw={"xlabel": "time", "ylabel": "X"})
band = panel.fill_between(data["time"], low, high, alpha=0.3)
points = panel.plot(data["time"], data["X"], "k.")
print("part in the band:", ((low <= data["X"]) & (data["X"] <= high)).mean())

# %% [markdown]
# More: [inference](../inference.md).
