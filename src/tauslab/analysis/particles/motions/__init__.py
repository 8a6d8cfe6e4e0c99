"""What holds the states of particles on a device, moves them and copies them: one module a kind.

`motion` says what an ensemble asks of each, `network` moves counts, `amounts` the amounts of
ordinary differential equations, `lattice` whole lattices.
"""
