# %% [markdown]
# # A large BioNetGen model
#
# The model of the EGF receptor with its adaptors has 356 species and 3,749 reactions, which BioNetGen generated from rules. Networks of this size are stored in tables instead of generated code, so compilation takes only a second.

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
# Observables are sums over species and are recorded like species.

# %%
figure, axes = plt.subplots(figsize=(6, 4))
for name in result.observables[:4]:
    axes.plot(result.times, result.mean(name), label=name)
axes.set(xlabel="time (s)", ylabel="molecules, mean of 16", ylim=(0, None))
legend = axes.legend()

# %% [markdown]
# The algorithm that selects the next reaction (selector) is chosen by the network and a pilot run. `tauslab check egfr_net.net` prints it, and [large networks](../large-networks.md) explains it.
