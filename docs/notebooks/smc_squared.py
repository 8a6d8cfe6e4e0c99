# %% [markdown]
# # SMC²: a posterior that follows the data
#
# A gene makes RNA, measured eight times with noise. SMC² (Chopin, Jacob and Papaspiliopoulos, J. R. Stat. Soc. B 75, 397, 2013) carries a cloud of parameter sets through the rows of data: each set has a particle filter,
# whose likelihood is its weight. `ts.particle_filters` runs all filters in one call; the sampler is a few lines of NumPy. `ts.exact_filter` on a grid gives the exact posterior.

# %%
from itertools import count

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
# The prior is uniform in the logarithms of both rates. On a grid, the exact filter gives the likelihood after every row, and so the posterior and the evidence (the mean likelihood over the prior).

# %%
names, low, high = ("birth", "decay"), np.log([2.0, 0.1]), np.log([20.0, 1.5])
axis = (np.arange(24) + 0.5) / 24
grid = low + (high - low) * np.stack(np.meshgrid(axis, axis, indexing="ij"), -1).reshape(-1, 2)
exact = np.array([
    ts.exact_filter(
        net, data, observe=observe, parameters=dict(zip(names, np.exp(place).tolist(), strict=True))
    ).terms.cumsum()
    for place in grid
])  # fmt: skip
exact_evidence = np.log(np.exp(exact).mean(axis=0))
exact_law = np.exp(exact - exact_evidence) / len(grid)
print("log of the evidence after each row:", exact_evidence.round(2))

# %% [markdown]
# A filter has a term for each row, and the cloud takes one row at a time. If few sets carry most of the weight, sets are resampled, and each makes PMMH steps: a new set is proposed by the spread of the cloud, a new filter is run, and the likelihoods of the rows *so far* decide.
# Terms of later rows are not used before their turn, so the algorithm equals one that runs filters row by row.

# %%
seeds = count(1)


def terms_of(cloud: np.ndarray, particles: int) -> np.ndarray:
    """Terms of the log-likelihood, one row for each set: filters with noise of their own."""
    values = dict(zip(names, np.exp(cloud).T, strict=True))
    return ts.particle_filters(
        net, data, observe=observe, n=particles, parameters=values, seed=next(seeds)
    ).terms


def moved(
    cloud: np.ndarray, terms: np.ndarray, row: int, particles: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """One step of PMMH of every set, given the rows up to `row`; and the part that moved."""
    root = np.linalg.cholesky(np.cov(cloud.T) * 2.38**2 / 2)
    tried = cloud + rng.normal(size=cloud.shape) @ root.T
    inside = ((tried > low) & (tried < high)).all(axis=1)
    found = terms_of(np.where(inside[:, None], tried, cloud), particles)
    gain = found[:, : row + 1].sum(axis=1) - terms[:, : row + 1].sum(axis=1)
    taken = inside & (np.log(1 - rng.random(len(cloud))) < gain)
    better = np.where(taken[:, None], tried, cloud), np.where(taken[:, None], found, terms)
    return *better, taken.mean()


def smc_squared(sets: int, particles: int, steps: int = 2) -> list[tuple]:
    """The cloud, its weights, and the log of the evidence, after each row."""
    cloud, logs, evidence = rng.uniform(low, high, (sets, 2)), np.zeros(sets), 0.0
    terms, course = terms_of(cloud, particles), []
    for row in range(len(times)):
        before = np.exp(logs - logs.max())
        logs = logs + terms[:, row]
        weights = np.exp(terms[:, row]) * before
        evidence += np.log(weights.sum() / before.sum())
        weights /= weights.sum()
        course.append((cloud, weights, evidence))
        if 1 / (weights**2).sum() < sets / 2:
            places = (np.arange(sets) + rng.random()) / sets  # systematic resampling
            chosen = np.searchsorted(weights.cumsum(), places).clip(max=sets - 1)
            cloud, terms, logs = cloud[chosen], terms[chosen], np.zeros(sets)
            for _ in range(steps):
                cloud, terms, part = moved(cloud, terms, row, particles)
            print(f"t = {times[row]:g}: copied, and {part:.0%} moved in the last step")
    return course


course = smc_squared(sets=1000, particles=100)
calls = next(seeds) - 1
print(f"{calls} calls, {calls * 1000:,} filters of 100 particles")

# %% [markdown]
# Cloud and grid agree in the evidence after each row, and in mean and spread of both rates after the last one.

# %%
cloud, weights, _ = course[-1]
evidence = np.array([one[2] for one in course])
print("evidence, cloud less grid:", (evidence - exact_evidence).round(2))
assert np.abs(evidence - exact_evidence).max() < 0.25
for i, name in enumerate(names):
    mean, exact_mean = weights @ cloud[:, i], exact_law[:, -1] @ grid[:, i]
    sd = np.sqrt(weights @ (cloud[:, i] - mean) ** 2)
    exact_sd = np.sqrt(exact_law[:, -1] @ (grid[:, i] - exact_mean) ** 2)
    print(f"log {name}: {mean:.3f} ± {sd:.3f}, exact {exact_mean:.3f} ± {exact_sd:.3f}")
    assert abs(mean - exact_mean) < 0.2 * exact_sd
    assert abs(sd / exact_sd - 1) < 0.15

# %%
figure, axes = plt.subplots(1, 3, figsize=(10, 3.4), sharex=True, sharey=True)
for ax, row in zip(axes, (0, 2, 7), strict=True):
    law = exact_law[:, row].reshape(24, 24)
    ax.contour(
        np.exp(low[0] + (high - low)[0] * axis), np.exp(low[1] + (high - low)[1] * axis), law.T
    )
    cloud, weights, _ = course[row]
    shown = rng.choice(len(cloud), 400, p=weights)
    ax.plot(*np.exp(cloud[shown]).T, "k.", markersize=2, alpha=0.4)
    ax.plot(6.0, 0.5, "r+", markersize=12)
    ax.set(xscale="log", yscale="log", xlabel="birth", title=f"after {row + 1} of 8 rows")
    ax.minorticks_off()
    ax.set_xticks([2, 5, 10, 20], ["2", "5", "10", "20"])
label = axes[0].set_ylabel("decay")

# %% [markdown]
# Points are 400 samples of the cloud, lines the exact posterior, the cross the true rates. More sets refine the cloud; more particles let more of it move, without changing the posterior. The notebook `filtering` solves such a problem by chains (`ts.pmmh`).
