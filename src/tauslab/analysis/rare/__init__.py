"""Rare events: the probability or the rate of reaching a target that plain runs hardly ever reach.

`target` makes the target absorb and orders states by how near they are, `segments` moves
trajectories, `walkers` is the method, `run` and `spatial` are its shells for networks and lattices,
and `estimate` is what users hold.
"""
