# %% [markdown]
# # A rare event, compared with direct simulation
#
# The enzymatic futile cycle of Kuwahara and Mura (2008): what is the probability that S5 falls from 50 to 25 by t = 100? Finite state projection gives 1.738e-7; in direct simulation it occurs once in six million trajectories.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tauslab as ts

net = ts.Network("futile_cycle")
for name, count in (("S1", 1), ("S2", 50), ("S3", 0), ("S4", 1), ("S5", 50), ("S6", 0)):
    net.add_species(name, count)
for equation, rate in (
    ("S1 + S2 -> S3", 1.0), ("S3 -> S1 + S2", 1.0), ("S3 -> S1 + S5", 0.1),
    ("S4 + S5 -> S6", 1.0), ("S6 -> S4 + S5", 1.0), ("S6 -> S4 + S2", 0.1),
):  # fmt: skip
    net.add_reaction(equation, rate=rate)

# %% [markdown]
# Direct simulation: 20,000 trajectories, and the fraction that has reached each level. None falls below 32.

# %%
plain = ts.run(net, n=20_000, t_end=100, record="summary:minimum:S5", seed=1)
lowest = plain.summary("minimum:S5")
levels = np.arange(25, 42)
shares = np.array([(lowest <= level).mean() for level in levels])
print("lowest level of 20,000 trajectories:", int(lowest.min()))

# %% [markdown]
# The weighted ensemble reaches all levels. The weights of its trajectories (walkers) sum to 1, and each bin has a hundred of them.

# %%
found = ts.weighted_ensemble(net, target="S5 <= 25", t_end=100, seed=1)
print("\n".join(found.lines()))
exact = 1.7381531e-7
assert abs(found.estimate - exact) < 4 * found.standard_error
needed = (found.estimate / found.standard_error) ** 2 / exact
print(f"plain trajectories for the same error: {needed:.1e}")

# %%
figure = found.plot()
plt.show()

# %% [markdown]
# At levels that both reach, they agree.

# %%
near = ts.weighted_ensemble(net, target="S5 <= 36", t_end=100, seed=2, runs=10, walkers=40)
error = np.sqrt(shares[11] * (1 - shares[11]) / plain.n)
print(f"S5 <= 36: {near.told()}; plain {shares[11]:.4f} ± {error:.4f}")
assert abs(near.estimate - shares[11]) < 4 * np.hypot(near.standard_error, error)

# %%
figure, axes = plt.subplots(figsize=(6, 4))
seen = shares > 0
axes.semilogy(levels[seen], shares[seen], "o", label="20,000 plain trajectories")
axes.errorbar([36], [near.estimate], [2 * near.standard_error], fmt="s", label="weighted ensemble")
axes.errorbar([25], [found.estimate], [2 * found.standard_error], fmt="s", color="C1")
axes.plot([25], [exact], "k_", markersize=14, label="exact")
axes.set(xlabel="level of S5", ylabel="probability of having come down to it")
legend = axes.legend()

# %% [markdown]
# More: [rare events](../rare-events.md), with steady-state rates, lattices and checkpoints.
