"""States of particles on a device, and kernels that move and copy them: one module a kind.

`motion` says what an ensemble asks of each, `network` moves counts, `amounts` the amounts of
ordinary differential equations, `lattice` whole lattices.
"""
