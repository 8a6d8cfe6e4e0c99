"""What can be said of a lattice model before it runs: time step, occupancy, reach, warnings.

Nothing here changes a model.
"""
