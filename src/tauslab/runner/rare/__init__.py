"""Rare events: the probability or the rate of reaching a target that plain runs hardly ever reach.

`target` makes the target absorb and orders states by how near they are, `segments` moves
trajectories, `weighted` (with `bins` and `resampling`) and `splitting` are the two methods, and
`estimate` is what users hold.
"""
