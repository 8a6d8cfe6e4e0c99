"""The models that fault_every_write.py runs: small, and of reactions that change every count."""

MODEL = """
[species]
X = 40
[[reactions]]
equation = "X -> 2 X"
rate = 1.0
[[reactions]]
equation = "X ->"
rate = 1.05
"""
LATTICE = """
name = "box"
[lattice]
shape = [8, 8, 8]
spacing = 32e-9
step = 1e-4
boundary = "periodic"
[species]
A = {}
[[diffusion]]
species = "A"
coefficient = 1e-12
[[reactions]]
equation = "A -> 2 A"
rate = 5.0
[[place]]
species = "A"
count = 300
"""
