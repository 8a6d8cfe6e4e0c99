"""Small dynamic Bayesian networks whose probabilities are known exactly."""

from __future__ import annotations

import itertools

import numpy as np

from tauslab.analysis.dbn.results.network import Structure, from_trajectories

# A model whose solution is written down easily.
CHAIN = """
name = "chain"
t_end = 4
[species]
A = 100
B = 0
[parameters]
a = 0.6
b = 0.3
[[reactions]]
equation = "A -> B"
rate = "a"
[[reactions]]
equation = "B ->"
rate = "b"
"""

HALVES = np.array([0.0, 0.5, 1.0])
THIRDS = np.array([0.0, 1.0, 2.0, 3.0])
# Trajectories in twelfths: of A given A and the parameter q, of B given A and B.
A_NEXT = {(0, 0): (9, 3), (0, 1): (3, 9), (1, 0): (6, 6), (1, 1): (2, 10)}
B_NEXT = {(0, 0): (6, 3, 3), (0, 1): (0, 6, 6), (0, 2): (1, 1, 10),
          (1, 0): (12, 0, 0), (1, 1): (4, 4, 4), (1, 2): (3, 6, 3)}  # fmt: skip
STRUCTURE = Structure(("A", "B"), ("q",), {"A": ("A", "q"), "B": ("A", "B")})


def known_network():
    """Every trajectory as often as its probability says: 2 time steps, 2 * 12^4 in all per start.

    A starts in its first or second interval 1 : 3, B in 2 : 1 : 1, q in 1 : 1.
    """
    rows, weights = [], []
    for q, a0, b0, a1, b1, a2, b2 in itertools.product((0, 1), *[(0, 1), (0, 1, 2)] * 3):
        start = (1, 3)[a0] * (2, 1, 1)[b0]
        first = A_NEXT[a0, q][a1] * B_NEXT[a0, b0][b1]
        second = A_NEXT[a1, q][a2] * B_NEXT[a1, b1][b2]
        rows.append((q, a0, b0, a1, b1, a2, b2))
        weights.append(start * first * second)
    weights = np.array(weights)
    weights = weights // np.gcd.reduce(weights)
    table = np.repeat(np.array(rows), weights, axis=0)
    values = np.stack([(table[:, 1::2] + 0.5) / 2, table[:, 2::2] + 0.5], axis=2)
    edges = {"A": HALVES, "B": THIRDS, "q": HALVES}
    times = np.array([0.0, 1.0, 2.0])
    return from_trajectories(STRUCTURE, times, values, (table[:, :1] + 0.5) / 2, edges)


def brute_force(evidence, given=None):
    """Marginals ``[time, bin]`` by summing over all trajectories, and the evidence's likelihood."""
    sums = {"A": np.zeros((3, 2)), "B": np.zeros((3, 3)), "q": np.zeros((3, 2))}
    for q, *states in itertools.product((0, 1), *[(0, 1), (0, 1, 2)] * 3):
        if given is not None and q != given:
            continue
        a, b = states[::2], states[1::2]
        p = (1, 3)[a[0]] / 4 * (2, 1, 1)[b[0]] / 4 * (1.0 if given is not None else 0.5)
        for t in (1, 2):
            p *= A_NEXT[a[t - 1], q][a[t]] / 12 * B_NEXT[a[t - 1], b[t - 1]][b[t]] / 12
        for t in range(3):
            p *= evidence.get("A", np.ones((3, 2)))[t, a[t]]
            p *= evidence.get("B", np.ones((3, 3)))[t, b[t]]
        for t in range(3):
            sums["A"][t, a[t]] += p
            sums["B"][t, b[t]] += p
            sums["q"][t, q] += p
    total = sums["A"][0].sum()
    return {name: actual / total for name, actual in sums.items()}, float(np.log(total))
