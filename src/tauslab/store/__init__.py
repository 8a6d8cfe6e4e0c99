"""Results in HDF5: layout, writers, checks, and results as they are read."""
