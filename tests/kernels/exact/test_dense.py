"""Strongly coupled networks: looking at every owner gives the bits of looking at those listed."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import EmulatedBackend
from engine_runs import compiler, simulate
from generated_networks import colloidal_aggregation, cyclic_chain, random_network
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.exact import tree_pdm as large
from tauslab.kernels.exact.table_network import TEAMS, Expected, tables_of
from tauslab.kernels.exact.table_selector import fast_parts
from tauslab.kernels.network.lowering import lower
from tauslab.model.network.network import Network

TIMES = [0.0, 0.05, 0.1]


def colloidal(n: int, first: int = 4) -> Network:
    """Aggregation with species that own nothing, and a rate of its own for every kind of term."""
    net = Network("colloidal")
    for i in range(1, n + 1):
        net.add_species(f"S{i}", first if i == 1 else 3 + i % 4)
    net.add_species("fuel", 40)
    for i in range(1, n + 1):
        for j in range(i, n - i + 1):
            side = f"2 S{i}" if i == j else f"S{i} + S{j}"
            net.add_reaction(f"{side} -> S{i + j}", rate=0.7 if i == j else 0.9)
        for j in range(1, i // 2 + 1):
            net.add_reaction(f"S{i} -> S{j} + S{i - j}", rate=0.6)
        net.add_reaction(f"fuel + S{i} -> S{i}", rate=0.9)
    return net


def is_dense(network: Network, **options: object) -> bool:
    counts = {name: round(x) for name, x in network.initial_amounts({}).items()}
    lowered = lower(network, parameters=network.parameter_values(), counts=counts, **options)
    return bool(tables_of(lowered, "pdm")["IS_DENSE"])


def same(one, other) -> bool:
    arrays = zip(one, other, strict=True)
    return all(np.array_equal(a, b.get() if hasattr(b, "get") else b) for a, b in arrays)


@compiler
@pytest.mark.parametrize("n", ordinary([5, 70], 70))  # one group of owners, three
def test_the_bits_are_those_of_lists(monkeypatch, n):
    assert is_dense(colloidal(n))
    actual = []
    for chosen in (large.positions_of, lambda *_: None):
        monkeypatch.setattr(large, "positions_of", chosen)
        cpu = get_backend("cpu", BackendOptions(threads=1))
        actual.append(simulate(cpu, colloidal(n), TIMES, 4, "pdm"))
    assert actual[0][4][0] > 20 * n
    assert same(*actual)


@pytest.mark.validate
@compiler
@pytest.mark.parametrize(
    ("team", "order"), ordinary([(8, 1), (32, 1), (32, -1), (128, -1)], (128, -1))
)
def test_teams_give_the_bits_of_a_thread(tmp_path, team, order):
    cpu = get_backend("cpu", BackendOptions(threads=1))
    expected = simulate(cpu, colloidal(36), TIMES, 4, "pdm")
    device = EmulatedBackend(tmp_path, max(32, team), order)
    assert same(expected, simulate(device, colloidal(36), TIMES, 4, "pdm", team))


@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.gpu
def test_teams_of_a_gpu_give_the_bits_of_the_cpu(team):
    cpu = get_backend("cpu", BackendOptions(threads=2))
    cuda = get_backend("cuda", BackendOptions())
    expected = simulate(cpu, colloidal(70), TIMES, 100, "pdm")
    assert same(expected, simulate(cuda, colloidal(70), TIMES, 100, "pdm", team))


def test_what_is_dense():
    assert is_dense(colloidal_aggregation(252))
    assert not is_dense(cyclic_chain(300))  # no partners
    assert not is_dense(random_network(reactions=400, species=30, seed=1))  # many rates
    twice = colloidal(36)
    twice.add_reaction("S1 + S2 -> S1", rate=0.9)  # a partner that stands twice in a term
    assert not is_dense(twice)
    jumps = colloidal(36)
    jumps.add_reaction(f"S1 -> {(1 << 20) + 1} S2", rate=0.6)
    assert not is_dense(jumps)


@compiler
def test_a_count_that_passes_31_bits_ends_its_trajectory():
    net = colloidal(36, first=2**31 - 100)
    net.add_reaction("fuel -> 200 S1", rate=1e25)
    assert is_dense(net)
    cpu = get_backend("cpu", BackendOptions(threads=1))
    _, _, _, status, _ = simulate(cpu, net, TIMES, 4, "pdm")
    assert (status == 2).all()


class Device:
    """What `fast_parts` asks of a backend."""

    fast_memory, multiprocessors = 220_000, 100


@pytest.mark.parametrize(
    ("team", "trajectories", "least", "parts"),
    [
        (8, 0, 0, 0),  # small teams share warps
        (32, 0, 0, 1),  # 32 of them in a processor: 6,875 bytes each
        (32, 1600, 0, 2),  # 16: 13,750
        (32, 400, 0, 3),  # 4
        (32, 100, 0, 3),  # 1, but a block has 4
        (32, 0, 16, 2),
        (128, 0, 0, 3),  # 8: 27,500
    ],
)
def test_what_stands_in_fast_memory(team, trajectories, least, parts):
    assert fast_parts([6400, 2000, 12_000], team, trajectories, Device(), least) == parts


@pytest.mark.parametrize("most", [10, 2**29])
def test_narrow_whole_numbers_give_the_bits_of_wide_ones(most):
    """Hubs with many partners; with 2^29 molecules a sum would not fit into 32 bits."""
    net = colloidal_aggregation(24)
    results = []
    for expected in (Expected(), Expected(3, np.full(24, most))):
        counts = dict.fromkeys(net.species, 5)
        lowered = lower(net, parameters={}, counts=counts)
        results.append(tables_of(lowered, "tree", highest=expected.highest)["WIDE_WHOLE"])
    assert results == [1, int(most > 10)]
