# %% [markdown]
# # A lattice with a membrane
#
# The lattice is a box with a ball that has a membrane. Species A is inside the ball. It is converted to B only at the membrane, where B remains.

# %%
import matplotlib.pyplot as plt
import numpy as np

import tauslab as ts

lattice = ts.Lattice("ball", shape=(16, 16, 16), spacing=50e-9, boundary="reflecting")
z, y, x = np.indices(lattice.shape) - 7.5
radius = np.sqrt(x**2 + y**2 + z**2)
lattice.add_site_type("outside")  # the first fills the lattice
lattice.add_site_type("inside", radius < 6)
lattice.add_site_type("membrane", (radius >= 6) & (radius < 7))

# %% [markdown]
# The diffusion rules allow hops within and between the two site types, but not to sites outside the ball.

# %%
lattice.add_species("A", "B")
lattice.add_diffusion("A", 1e-12, within="inside")
lattice.add_diffusion("A", 1e-12, between=("inside", "membrane"))
lattice.add_diffusion("A", 1e-12, within="membrane")
lattice.add_diffusion("B", 1e-13, within="membrane")
lattice.add_reaction("A -> B", rate=20.0, unit="s^-1", name="bind", site_types="membrane")
lattice.place("A", count=500, site_type="inside")

# %%
result = ts.run(lattice, t_end=0.05, count_every=5, frame_every=50, seed=1)
a, b = result.counts("A"), result.counts("B")
print(f"A {a[0]} -> {a[-1]}, B {b[0]} -> {b[-1]}")
assert ((a + b) == 500).all(), "nothing is lost"
assert (result.counts("B", "membrane") == b).all(), "B cannot leave the membrane"

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6))
left.plot(result.times, a, label="A")
left.plot(result.times, b, label="B")
left.set(xlabel="time (s)", ylabel="particles", ylim=(0, None))
left.legend()
shown = right.imshow(result.density("B", frame=-1).sum(axis=0), origin="lower")
right.set(xlabel="x (sites)", ylabel="y (sites)", title="B, summed along z")
colours = figure.colorbar(shown, label="particles")
