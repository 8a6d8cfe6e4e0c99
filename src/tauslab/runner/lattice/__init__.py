"""Running a lattice: batches of steps, slabs over ranks, replicas, balance.

`run` is the entry.
"""
