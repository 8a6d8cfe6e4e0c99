# %% [markdown]
# # A small whole cell
#
# One `ts.Hybrid` couples translation on a lattice, a gene simulated by discrete events, and metabolism simulated by rate equations. The parts exchange quantities once per second.

# %%
import os

import tauslab as ts

space = ts.Lattice("space", shape=(10, 10, 10), spacing=50e-9, step=2e-3)
space.add_species("mRNA", "ribosome", "enzyme")
space.add_diffusion("*", 1e-13)
space.add_reaction(
    "mRNA + ribosome -> mRNA + ribosome + enzyme", rate=4e6, unit="M^-1 s^-1", name="translate"
)
space.place("mRNA", count=1)
space.place("ribosome", count=20)
# Set TAUSLAB_ROOT to a checkout if this notebook is not in one.
gene = ts.read(os.environ.get("TAUSLAB_ROOT", "../..") + "/examples/telegraph.toml")

# %% [markdown]
# The enzyme produces ATP, in mM. A link below subtracts the ATP that each protein needs.

# %%
metabolism = ts.Network("metabolism")
metabolism.add_species("ATP", 1.0)
metabolism.add_parameter("enzyme", 0.0)
metabolism.add_rate("ATP", "0.002 * (50 + enzyme) * (5 - ATP) - 0.1 * ATP")

# %% [markdown]
# Four links: gene and lattice share the mRNA, the rate of transcription depends on ATP, the rate of metabolism depends on the enzyme, and each protein consumes 600 ATP (0.008 mM in this volume).

# %%
cell = ts.Hybrid("cell")
cell.add_part("space", space, every=1.0)
cell.add_part("gene", gene, every=1.0)
cell.add_part("metabolism", metabolism, method="ode", every=1.0)
cell.share("space.mRNA", "gene.M")
cell.set_rate("gene.transcribe", "k * metabolism.ATP / (1 + metabolism.ATP)")
cell.drive("metabolism.enzyme", "space.enzyme")
cell.bill("space.fired(translate)", {"metabolism.ATP": 0.008})
print("\n".join(cell.check()))

# %%
result = ts.run(cell, t_end=120, n=4, seed=1)
figure = result.plot(["space.mRNA", "space.enzyme", "metabolism.ATP"])

# %% [markdown]
# More: [hybrids](../hybrids.md), which explains the error of the interval, and [galactose_switch.py](../../examples/galactose_switch.py).
