"""Analysis of a lattice model before it runs: time step, occupancy, reach, warnings.

No function of this package changes a model.
"""
