# %% [markdown]
# # Inference by rejection
#
# `ts.simulator` converts parameter sets to summaries of simulations, for any simulation-based method of inference. The simplest method, rejection, estimates rates of birth and death from twenty measured cells.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tauslab as ts

net = ts.Network("birth and death")
net.add_species("X", 0)
net.add_parameter("birth", 1.0)
net.add_parameter("death", 1.0)
net.add_reaction("-> X", rate="birth")
net.add_reaction("X ->", rate="death")

# %% [markdown]
# The "data" are simulated: counts at two times, with birth rate 20 and death rate 0.5.

# %%
truth = {"birth": 20.0, "death": 0.5}
cells = ts.run(net, n=20, times=[1, 8], set=truth, seed=7).counts("X")
observed = np.array([cells[:, 0].mean(), cells[:, 1].mean(), cells[:, 1].std()])
print("mean at t = 1, mean and spread at t = 8:", np.round(observed, 2))

# %% [markdown]
# One call simulates a thousand parameter sets from the prior, with twenty cells for each.

# %%
rng = np.random.default_rng(0)
sets, each = 1_000, 20
theta = np.column_stack([rng.uniform(5, 50, sets), rng.uniform(0.1, 2, sets)])


def counts(result: ts.Result) -> np.ndarray:
    return result.counts("X").astype(float)


simulate = ts.simulator(net, ["birth", "death"], counts, times=[1, 8], seed=1)
x = simulate(np.repeat(theta, each, axis=0)).reshape(sets, each, 2)
found = np.column_stack([x[:, :, 0].mean(1), x[:, :, 1].mean(1), x[:, :, 1].std(1)])

# %%
distance = np.linalg.norm((found - observed) / found.std(axis=0), axis=1)
kept = theta[np.argsort(distance)[:40]]
for name, values in zip(truth, kept.T, strict=True):
    print(f"{name}: {values.mean():.2f} ± {values.std():.2f}, true {truth[name]}")
assert all(abs(v.mean() - t) < 3 * v.std() for v, t in zip(kept.T, truth.values(), strict=True))

# %%
figure, axes = plt.subplots(figsize=(6, 4))
axes.plot(*theta.T, ".", color="0.8", label="prior")
axes.plot(*kept.T, "o", label="the nearest forty")
axes.plot(*truth.values(), "k*", markersize=14, label="truth")
axes.set(xlabel="birth", ylabel="death")
legend = axes.legend()

# %% [markdown]
# The ratio of the rates, which is the mean, is determined best. Better samplers: [inference](../inference.md).
