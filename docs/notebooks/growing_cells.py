# %% [markdown]
# # Cells that grow and divide
#
# The model describes one cell: a volume that grows, a protein that is produced in proportion to the volume, and an event that divides the cell. `ts.population` simulates all descendants.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tauslab as ts

cell = ts.Network("adder")
cell.add_species("protein", 20)
cell.add_species("V", 1.0)
cell.add_species("V0", 1.0, fixed=True)
cell.add_rate("V", "0.5 * V")
cell.add_reaction("-> protein", law="10 * V")
cell.add_event("divide", trigger="V - V0 >= 1", assignments={"V0": "V"})
cell.add_rule("concentration", "protein / V")

# %% [markdown]
# This cell is an adder: it divides when its volume has grown by 1 since birth. Daughters are unequal: the first gets 40 to 60 % of the volume, and each protein molecule with the same probability. Volumes at birth converge to 1 on average.

# %%
times = np.arange(1.0, 13.0)
found = ts.population(
    cell, times, division="divide", partition={"V0": "share"}, fraction="uniform(0.4,0.6)",
    cells=2_000, set={"V": 2.5, "V0": 2.5}, seed=1,
)  # fmt: skip
print(found)
volume = found.log_size + np.log([one.mean("V") for one in found.snapshots])
rate = (volume[-1] - volume[0]) / (times[-1] - times[0])
print(f"growth rate of the whole volume {rate:.3f}: that of each cell, 0.5")
assert abs(rate - 0.5) < 0.01

# %%
births = found.generations()[:9]  # of later ones only the quick cells have divided by now
print("volume at birth by generation:", np.round([one.birth_mean["V"] for one in births], 2))
print("time to division:", np.round([one.time_mean for one in births], 2), "ln 2 / 0.5 = 1.39")

# %%
figure = found.plot(["protein", "V", "concentration"])
plt.show()

# %% [markdown]
# The volume at birth is a fraction of the mother's, and the added volume does not depend on the volume at birth, as for an adder:

# %%
late = found.divisions.generation >= 4
at_birth = found.divisions.at_birth[late, 1]
added = found.divisions.at_division[late, 1] - at_birth
print(f"added {added.mean():.3f} ± {added.std():.3f}")
assert abs(added.mean() - 1) < 1e-3
figure, axes = plt.subplots(figsize=(6, 4))
axes.hist(at_birth, 40, density=True, label="volume at birth")
axes.set(xlabel="volume", ylabel="density of births")
legend = axes.legend()

# %% [markdown]
# The population contains more young cells than a lineage in a mother machine, because each division produces two.

# %%
line = ts.population(
    cell, [12.0], division="divide", partition={"V0": "share"}, fraction="uniform(0.4,0.6)",
    cells=2_000, set={"V": 2.5, "V0": 2.5}, follow="lineage", seed=2,
)  # fmt: skip
ages = found.snapshots[-1].age.mean(), line.snapshots[-1].age.mean()
print("mean age: population {:.2f}, lineage {:.2f}".format(*ages))
print("with one period T = 1.39: (1 / ln 2 - 1) T = 0.61 and T / 2 = 0.69")
assert ages[0] < ages[1]

# %% [markdown]
# More: [populations](../populations.md); concentrations as a function of age: [dividing_cells.py](../../examples/dividing_cells.py).
