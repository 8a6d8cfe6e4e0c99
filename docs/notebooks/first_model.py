# %% [markdown]
# # First model: a gene that switches
#
# A gene is on or off. While it is on, it is transcribed. The number of mRNA molecules differs from cell to cell, so the mean alone is misleading.

# %%
import tauslab as ts

net = ts.Network("gene")
net.add_species("Off", 1)
net.add_species("On", 0)
net.add_species("M", 0)
net.add_reaction("Off -> On", rate=0.05)
net.add_reaction("On -> Off", rate=0.2)
net.add_reaction("On -> On + M", rate=4.0)
net.add_reaction("M ->", rate=0.5)

# %% [markdown]
# `rate` is a stochastic rate constant: the propensity of `On -> On + M` is 4 times the number of active genes. 10,000 exact trajectories:

# %%
result = ts.run(net, n=10_000, t_end=60, points=121, seed=1)
print(f"mean {result.mean('M')[-1]:.3f}, standard deviation {result.std('M')[-1]:.3f}")

# %% [markdown]
# The exact mean is 4 / 0.5 times 1/5, the fraction of time in which the gene is on. The exact variance is known too (Peccoud and Ycart, 1995). Both agree with the run.

# %%
on, off, make, decay = 0.05, 0.2, 4.0, 0.5
mean = on / (on + off) * make / decay
variance = mean + on * off / (on + off) ** 2 * make**2 / (decay * (decay + on + off))
error = variance**0.5 / result.n**0.5
print(f"exact mean {mean:.3f}, standard deviation {variance**0.5:.3f}")
assert abs(result.mean("M")[-1] - mean) < 5 * error, "five standard errors: once in two million"

# %% [markdown]
# The distribution at the end time: two thirds of the cells have no mRNA; the others have up to fifteen molecules.

# %%
figure = result.plot("M", kind="histogram", t=60)

# %% [markdown]
# The same seed gives the same numbers on every machine. `result.to_pandas()`, `result.to_xarray()` and `tauslab export` convert them.
