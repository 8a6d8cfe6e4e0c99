# %% [markdown]
# # SMC²: a posterior that follows the data
#
# The RNA of a gene is measured eight times with noise. SMC² (Chopin, Jacob and Papaspiliopoulos, J. R. Stat. Soc. B 75, 397, 2013) processes the data row by row for many parameter sets. Each set has a particle filter,
# whose estimate of the likelihood is the weight of the set. `ts.exact_filter` on a grid gives the exact posterior for comparison.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tauslab as ts

net = ts.Network("gene")
net.add_species("RNA", 0)
net.add_parameter("birth", 6.0)
net.add_parameter("decay", 0.5)
net.add_reaction("-> RNA", rate="birth")
net.add_reaction("RNA ->", rate="decay")

rng = np.random.default_rng(1)
times = np.arange(1.0, 9.0)
true = ts.run(net, n=1, times=times, seed=3).counts("RNA")[0]
data = {"time": times, "RNA": true + rng.normal(0, 2, len(times))}
observe = {"RNA": "normal(sd=2)"}

# %% [markdown]
# The prior is uniform in the logarithms of both rate constants. On a grid, the exact filter computes the likelihood after every row, and thus the posterior and the evidence (the mean likelihood over the prior).

# %%
names, low, high = ("birth", "decay"), np.log([2.0, 0.1]), np.log([20.0, 1.5])
axis = (np.arange(24) + 0.5) / 24
grid = low + (high - low) * np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
exact = np.array([
    ts.exact_filter(
        net, data, observe=observe, set=dict(zip(names, np.exp(place).tolist(), strict=True))
    ).terms.cumsum()
    for place in grid
])  # fmt: skip
exact_evidence = np.log(np.exp(exact).mean(axis=0))
exact_posterior = np.exp(exact - exact_evidence) / len(grid)
print("log of the evidence after each row:", exact_evidence.round(2))

# %% [markdown]
# `ts.smc2` starts with samples of the prior. It multiplies their weights by the likelihood of each row in turn. When few samples have most of the weight, they are resampled, and each is moved by PMMH given the rows so far.

# %%
drawn = ts.smc2(
    net,
    data,
    {"birth": "loguniform(2,20)", "decay": "loguniform(0.1,1.5)"},
    observe=observe,
    seed=1,
    quiet=True,
)
drawn.to_pandas("rows")

# %% [markdown]
# SMC² and the grid agree in the evidence after each row, and in the mean and standard deviation of both rate constants after the last row.

# %%
cloud, weights = np.log(drawn.values[-1]), drawn.weights[-1]
print("log-evidence, SMC² less grid:", (drawn.log_evidence - exact_evidence).round(2))
assert np.abs(drawn.log_evidence - exact_evidence).max() < 0.25
for i, name in enumerate(names):
    mean, exact_mean = weights @ cloud[:, i], exact_posterior[:, -1] @ grid[:, i]
    sd = np.sqrt(weights @ (cloud[:, i] - mean) ** 2)
    exact_sd = np.sqrt(exact_posterior[:, -1] @ (grid[:, i] - exact_mean) ** 2)
    print(f"log {name}: {mean:.3f} ± {sd:.3f}, exact {exact_mean:.3f} ± {exact_sd:.3f}")
    assert abs(mean - exact_mean) < 0.2 * exact_sd
    assert abs(sd / exact_sd - 1) < 0.15

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharex=True, sharey=True)
for ax, row in zip(axes, (0, 2, 7), strict=True):
    posterior = exact_posterior[:, row].reshape(24, 24)
    ax.contour(
        np.exp(low[0] + (high - low)[0] * axis),
        np.exp(low[1] + (high - low)[1] * axis),
        posterior.T,
    )
    shown = rng.choice(len(cloud), 400, p=drawn.weights[row])
    ax.plot(*drawn.values[row, shown].T, "k.", markersize=2, alpha=0.4)
    ax.plot(6.0, 0.5, "r+", markersize=12)
    ax.set(xscale="log", yscale="log", xlabel="birth", title=f"after {row + 1} of 8 rows")
    ax.minorticks_off()
    ax.set_xticks([2, 5, 10, 20], ["2", "5", "10", "20"])
label = axes[0].set_ylabel("decay")

# %% [markdown]
# Points are 400 samples, lines the exact posterior, the cross the true values. With more samples the posterior is resolved better; with more particles more moves are accepted, and the posterior is the same. The notebook `filtering` solves a similar problem by Markov chains (`ts.pmmh`).
