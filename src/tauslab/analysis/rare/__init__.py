"""Rare events: the probability or the rate of reaching a target that plain runs hardly ever reach.

`target` makes the target absorb and orders states by how near they are, `segments` moves
trajectories, `walkers` and `splitting` are the two methods, `search` has the steps of both, and
`estimate` is what users hold.
"""
