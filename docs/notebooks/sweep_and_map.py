# %% [markdown]
# # A sweep, and a map of it
#
# Schlögl's model has two states that it rarely leaves. The inflow and the initial amount determine which state a trajectory reaches. One job simulates all points.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tauslab as ts

net = ts.Network("schlogl")
net.add_species("X", 250)
net.add_parameter("inflow", 200.0)
net.add_reaction("2 X -> 3 X", rate=0.03)
net.add_reaction("3 X -> 2 X", rate=1e-4)
net.add_reaction("-> X", rate="inflow")
net.add_reaction("X ->", rate=3.5)

# %% [markdown]
# The sweep has twelve inflows times eight initial amounts, with 60 trajectories at each point; only the last state is stored.

# %%
inflows, starts = np.linspace(150, 250, 12), np.linspace(50, 400, 8)
result = ts.run(
    net, n=60, times=[0, 10], seed=1, sweep={"inflow": inflows, "X": starts}, record="final"
)
high = (result.final("X") > 300).mean(axis=1).reshape(len(inflows), len(starts))
print(
    f"{result.n_points} points; share of trajectories in the upper state: {high.min():.2f} to {high.max():.2f}"
)

# %%
figure, axes = plt.subplots(figsize=(6, 4))
drawn = axes.pcolormesh(starts, inflows, high, vmin=0, vmax=1, shading="nearest")
axes.set(xlabel="X at t = 0 (molecules)", ylabel="inflow (molecules per unit of time)")
colours = figure.colorbar(drawn, label="share with X > 300 at t = 10")

# %% [markdown]
# More inflow, or a larger initial amount, leads to the upper state more often.

# %%
assert high[-1].mean() > high[0].mean()
assert high[:, -1].mean() > high[:, 0].mean()
