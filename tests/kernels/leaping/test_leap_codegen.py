"""The generated step selection of tau-leaping against the formulas of docs/tau-leaping.md."""

from __future__ import annotations

import ctypes
import math
import subprocess

import numpy as np
import pytest
from places import TESTS

from tauslab.kernels.backends.base import Style
from tauslab.kernels.backends.cache import CSRC
from tauslab.kernels.backends.compilers import STRICT, host_compiler
from tauslab.kernels.leaping.codegen import channels, leap_header
from tauslab.kernels.leaping.estimate import leap_reach
from tauslab.kernels.network.lowering import lower
from tauslab.model.network.network import Network

PROBE = TESTS / "support" / "kernels" / "csrc_leap_probe.cc"
EPSILON = 0.03
# By what part, over its order, a species may change: expected change, one deviation, what is lost.
DRIFT, LOSS = EPSILON, math.sqrt(4 / 3 * EPSILON)
NOISE = LOSS / 2


def lowered(network):
    counts = {name: int(v) for name, v in network.initial_amounts().items()}
    return lower(network, parameters=network.parameter_values(), counts=counts)


def probe(network, states, folder):
    """Step limits [n] and propensities left to leap with [n, channels]."""
    low = lowered(network)
    (folder / "model.h").write_text(leap_header(low, Style(branches=True)))
    compiler = host_compiler()
    library = folder / "probe.so"
    command = [*compiler.command, *compiler.flags(), *STRICT, f"-I{folder}", f"-I{CSRC}"]
    done = subprocess.run(
        [*command, str(PROBE), "-o", str(library)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    limits = np.empty(len(states))
    leaping = np.empty((len(states), len(channels(low))))
    pointer = [ctypes.c_void_p(a.ctypes.data) for a in (states, limits, leaping)]
    ctypes.CDLL(str(library)).leap_probe(
        ctypes.c_longlong(0), ctypes.c_longlong(1), pointer[0], ctypes.c_longlong(len(states)),
        ctypes.c_double(EPSILON), pointer[1], pointer[2],
    )  # fmt: skip
    return limits, leaping


def by_hand(x, reactions, orders):
    """Step limit as documented: `reactions` of (rate, reactants, change), g from `orders`.

    `orders` gives for each species that reacts a function of its count.
    """
    a = []
    for rate, reactants, _ in reactions:
        a.append(rate * math.prod(math.comb(int(x[i]), k) for i, k in reactants.items()))
    critical = [
        any(by < 0 and x[i] // -by < 10 for i, by in change.items()) for _, _, change in reactions
    ]
    leaping = [0.0 if c else value for c, value in zip(critical, a, strict=True)]
    limit = math.inf
    for i, g in orders.items():
        changes = [
            (change.get(i, 0), value)
            for (_, _, change), value in zip(reactions, leaping, strict=True)
        ]
        mean = sum(by * value for by, value in changes)
        variance = sum(by * by * value for by, value in changes)
        loss = sum(-by * value for by, value in changes if by < 0)
        drift, noise, lost = (max(part * x[i] / g(x[i]), 1.0) for part in (DRIFT, NOISE, LOSS))
        if mean:
            limit = min(limit, drift / abs(mean))
        if variance:
            limit = min(limit, noise**2 / variance)
        if loss:
            limit = min(limit, lost / loss)
    return limit, leaping


def by_change(reactions, leaping):
    """Sums over reactions that change the same, in order of the first of each."""
    sums = {}
    for (_, _, change), value in zip(reactions, leaping, strict=True):
        key = tuple(sorted(change.items()))
        sums[key] = sums.get(key, 0.0) + value
    return list(sums.values())


CASES = {
    # A + B -> C, C -> A + B, first and second order
    "bimolecular": (
        [(0.001, {0: 1, 1: 1}, {0: -1, 1: -1, 2: 1}), (0.5, {2: 1}, {0: 1, 1: 1, 2: -1})],
        {0: lambda x: 2.0, 1: lambda x: 2.0, 2: lambda x: 1.0},
    ),
    # 2 A -> B, A -> 0: both molecules of an order of 2
    "pair": (
        [(0.002, {0: 2}, {0: -2, 1: 1}), (0.1, {0: 1}, {0: -1}), (0.3, {1: 1}, {1: -1})],
        {0: lambda x: 2 + 1 / (x - 1), 1: lambda x: 1.0},
    ),
    # 3 A -> B and 2 A + B -> 3 B: three of three; two of three; one of three
    "triple": (
        [(1e-6, {0: 3}, {0: -3, 1: 1}), (1e-6, {0: 2, 1: 1}, {0: -2, 1: 2})],
        {
            0: lambda x: max(3 + 1 / (x - 1) + 2 / (x - 2), 1.5 * (2 + 1 / (x - 1))),
            1: lambda x: 3.0,
        },
    ),
    # Schlögl: A and B are held constant and bound nothing
    "schlogl": (
        [
            (0.03, {0: 2}, {0: 1}),
            (1e-4, {0: 3}, {0: -1}),
            (200.0, {}, {0: 1}),
            (3.5, {0: 1}, {0: -1}),
        ],
        {0: lambda x: max(3 + 1 / (x - 1) + 2 / (x - 2), 2 + 1 / (x - 1))},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_step_limit(name, tmp_path):
    reactions, orders = CASES[name]
    n_species = 1 + max(i for _, reactants, change in reactions for i in (*reactants, *change))
    network = Network(name)
    for i in range(n_species):
        network.add_species(f"S{i}", 100)
    for rate, reactants, change in reactions:
        products = {i: reactants.get(i, 0) + change.get(i, 0) for i in {*reactants, *change}}
        sides = [
            " + ".join(f"{k} S{i}" for i, k in side.items() if k) for side in (reactants, products)
        ]
        network.add_reaction(" -> ".join(sides), rate=rate)
    rng = np.random.default_rng(5)
    states = rng.integers(3, 3000, (200, n_species)).astype(np.int32)
    states[:50] = rng.integers(3, 40, (50, n_species))
    limits, leaping = probe(network, states, tmp_path)
    reach = leap_reach(lowered(network), states, np.zeros((200, 0)), EPSILON)
    np.testing.assert_allclose(reach.limit, limits, rtol=1e-12)
    np.testing.assert_allclose(reach.total - reach.critical, leaping.sum(axis=1), rtol=1e-12)
    for row, x in enumerate(states):
        limit, expected = by_hand(x, reactions, orders)
        np.testing.assert_allclose(leaping[row], by_change(reactions, expected), rtol=1e-12)
        np.testing.assert_allclose(limits[row], limit, rtol=1e-12)


def test_a_law_of_another_form_has_the_order_of_its_slope(tmp_path):
    """Death at rate 5 X^2 / (400 + X^2): elasticity 2 at X << 20 and 0 at X >> 20, at least 1."""
    network = Network("hill")
    network.add_species("X", 100)
    network.add_reaction("X ->", law="5 * X ^ 2 / (400 + X ^ 2)")
    states = np.array([[15], [50], [100000]], np.int32)
    limits, _ = probe(network, states, tmp_path)
    reach = leap_reach(lowered(network), states, np.zeros((3, 0)), EPSILON)
    np.testing.assert_allclose(reach.limit, limits, rtol=1e-12)

    def law(x):
        return 5 * x**2 / (400 + x**2)

    for (x,), limit in zip(states.tolist(), limits, strict=True):
        order = max(1.0, x * (law(x + 1) - law(x)) / law(x))
        drift, noise = max(DRIFT * x / order, 1.0), max(NOISE * x / order, 1.0)
        assert limit == pytest.approx(min(drift, noise**2) / law(x), rel=1e-9)


def test_nothing_limits_a_birth_that_no_law_reads(tmp_path):
    network = Network("birth")
    network.add_species("X", 0)
    network.add_reaction("-> X", rate=2.0)
    limits, leaping = probe(network, np.array([[0], [5]], np.int32), tmp_path)
    assert np.isinf(limits).all()
    assert (leaping == 2.0).all()
