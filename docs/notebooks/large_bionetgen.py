# %% [markdown]
# # A large BioNetGen model
#
# The EGF receptor with its adaptors: 356 species and 3,749 reactions, generated from rules by BioNetGen. Such a network runs from tables, so it is ready within a second.

# %%
import os
import time
from pathlib import Path

import matplotlib.pyplot as plt

import tauslab as ts

# Set TAUSLAB_ROOT to a checkout if this notebook is not in one.
root = Path(os.environ.get("TAUSLAB_ROOT", "../.."))
net = ts.read(root / "tests" / "data" / "net" / "egfr_net.net")
print(f"{len(net.species)} species, {len(net.reactions)} reactions, {len(net.rules)} observables")

# %%
began = time.perf_counter()
result = ts.run(net, n=16, t_end=5, points=51, seed=1)
print("observables:", ", ".join(result.observables[:6]), "...")
assert (result.status <= 1).all(), "every trajectory reached its end"
assert time.perf_counter() > began

# %% [markdown]
# Observables are sums over species, recorded with them.

# %%
figure, axes = plt.subplots(figsize=(6, 4))
for name in result.observables[:4]:
    axes.plot(result.times, result.mean(name), label=name)
axes.set(xlabel="time (s)", ylabel="molecules, mean of 16", ylim=(0, None))
legend = axes.legend()

# %% [markdown]
# The selector is chosen by the network and a pilot: `tauslab check egfr_net.net` names it, and [large networks](../large-networks.md) explains it.
