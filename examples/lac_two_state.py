"""The lac switch in a crowded E. coli cell: writes the model file lac_two_state.h5.

Model: E. Roberts, A. Magis, J. O. Ortiz, W. Baumeister, Z. Luthey-Schulten, PLoS Comput. Biol. 7,
e1002010 (2011); constants and geometry as in tutorial 2.2 of the Lattice Microbes instruction
guide.  The inducer is TMG; 14448 molecules are 11.2 uM in the whole lattice:
``tauslab rdme lac_two_state.h5 --set inducer=6466`` makes it 5 uM.
"""

import sys

import tauslab as ts
from tauslab import geometry

# Radius in m and per cent of the cytoplasm: a fast-growing cell.
CROWDERS = [
    (10.4e-9, 17.8), (5.2e-9, 18.6), (4.3e-9, 0.7), (4.1e-9, 0.3), (4.0e-9, 1.7), (3.8e-9, 1.2),
    (3.5e-9, 0.9), (3.4e-9, 2.5), (3.0e-9, 2.0), (2.7e-9, 2.0), (2.3e-9, 1.8), (1.7e-9, 0.4),
]  # fmt: skip
# M^-1 s^-1 as published; the tutorial turns them into constants of the lattice with this scale.
PAIRS = [
    ("R2 + O -> R2O", 2.43e6), ("IR2 + O -> IR2O", 1.21e6), ("I2R2 + O -> I2R2O", 2.43e4),
    ("I + R2 -> IR2", 2.27e4), ("I + IR2 -> I2R2", 1.14e4), ("I + R2O -> IR2O", 667.0),
    ("I + IR2O -> I2R2O", 333.0),
]  # fmt: skip
SCALE = 2.076e-9
SINGLES = [
    ("R2O -> R2 + O", 6.3e-4), ("IR2O -> IR2 + O", 6.3e-4), ("I2R2O -> I2R2 + O", 0.315),
    ("O -> O + mY", 0.126), ("IR2 -> I + R2", 0.2), ("I2R2 -> I + IR2", 0.4),
    ("IR2O -> I + R2O", 1.0), ("I2R2O -> I + IR2O", 2.0),
]  # fmt: skip
AT_THE_MEMBRANE = [
    ("mY -> mY + Y", 0.0444), ("Y ->", 2.1e-4), ("Iex -> I", 2.33e-3), ("I -> Iex", 2.33e-3),
    ("YI -> Y + Iex", 0.12), ("YI -> Y + I", 12.0),
]  # fmt: skip


def build() -> ts.Lattice:
    """The model."""
    cell = ts.Lattice(
        "lac_two_state",
        shape=(128, 64, 64),
        spacing=16e-9,
        step=5e-5,
        boundary="periodic",
        t_end=60,
    )
    envelope = geometry.capsule(cell, length=1.8e-6, radius=0.25e-6)
    cytoplasm = geometry.capsule(cell, length=1.8e-6 - 64e-9, radius=0.25e-6 - 32e-9)
    cell.add_site_type("extracellular")
    cell.add_site_type("membrane", geometry.difference(envelope, cytoplasm))
    cell.add_site_type("cytoplasm", cytoplasm)
    cell.add_site_type("obstacle")
    free = cytoplasm.copy()
    for number, (radius, per_cent) in enumerate(CROWDERS):
        fraction = per_cent / 100 * cytoplasm.sum() / free.sum()
        crowders = geometry.obstacles(cell, free, radius, fraction, seed=number)
        cell.paint("obstacle", crowders)
        free &= ~crowders

    cell.add_species("R2", "O", "R2O", "IR2", "IR2O", "I2R2", "I2R2O", "mY", "Y", "I", "Iex", "YI")
    cell.add_parameter("inducer", 14448)
    cell.place("R2", count=9, site_type="cytoplasm")
    cell.place("O", count=1, site_type="cytoplasm")
    cell.place("I", count="inducer", site_type="cytoplasm")
    cell.place("Y", count=30, site_type="membrane")
    cell.place("Iex", count="inducer", site_type="extracellular")

    for name, coefficient in (("I", 1.28e-12), ("mY", 1e-13)):
        cell.add_diffusion(name, coefficient, within="cytoplasm")
        cell.add_diffusion(name, coefficient, within="membrane")
        cell.add_diffusion(name, coefficient, between=("cytoplasm", "membrane"))
    cell.add_diffusion("Iex", 1.28e-12, within="extracellular")
    cell.add_diffusion("Iex", 1.28e-12, between=("membrane", "extracellular"))
    cell.add_diffusion("R2", 1e-12, within="cytoplasm")

    for equation, rate in PAIRS:
        cell.add_reaction(equation, rate=rate * SCALE, volume="lattice", site_types="cytoplasm")
    for equation, rate in SINGLES:
        cell.add_reaction(equation, rate=rate, site_types="cytoplasm")
    cell.add_reaction("mY ->", rate=0.0111, site_types=("cytoplasm", "membrane"))
    for equation, rate in AT_THE_MEMBRANE:
        cell.add_reaction(equation, rate=rate, site_types="membrane")
    cell.add_reaction("Y + Iex -> YI", rate=30300 * SCALE, volume="lattice", site_types="membrane")
    return cell


if __name__ == "__main__":
    print(build().write(sys.argv[1] if len(sys.argv) > 1 else "lac_two_state.h5"))
