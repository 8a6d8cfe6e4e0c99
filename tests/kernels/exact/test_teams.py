"""Thread, warp and block give the same bits; warps and blocks are emulated without a GPU."""

from __future__ import annotations

import numpy as np
import pytest
from emulation import EmulatedBackend
from engine_runs import compiler, lowered, simulate
from sampling import ordinary

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.exact import plans
from tauslab.kernels.exact.selectors import SELECTORS
from tauslab.kernels.exact.table_network import TEAMS, Expected, tables_of
from tauslab.kernels.network.tables import LANES
from tauslab.model.network.network import Network

SELECTORS_OF_TABLES = SELECTORS[1:]


def mixture(seed=3, n_species=40, n_reactions=300, hub_partners=70) -> Network:
    """Every kind of propensity: hubs with long lists of partners, own rates, laws, homodimers."""
    rng = np.random.default_rng(seed)
    net = Network("mixture")
    for i in range(n_species + hub_partners):
        net.add_species(f"S{i}", int(rng.integers(0, 12)))
    names = list(net.species)
    for j in range(hub_partners):  # one rate: a term with runs of 32 partners
        net.add_reaction(f"S0 + {names[n_species + j]} -> S0 + S1", rate=0.01)
        net.add_reaction(f"S1 -> {names[n_species + j]}", rate=0.05)
        net.add_reaction(f"S2 + {names[n_species + j]} -> S3", rate=0.001 * (1 + j))
    while len(net.reactions) < n_reactions:
        a, b, c, d = (names[k] for k in rng.integers(0, n_species, 4))
        kind = rng.integers(0, 5)
        if kind == 0:
            net.add_reaction(f"{a} -> {c}", rate=float(rng.choice([0.1, 0.2])))
        elif kind == 1 and a != b:
            net.add_reaction(f"{a} + {b} -> {c} + {d}", rate=float(rng.choice([0.01, 0.02])))
        elif kind == 2:
            net.add_reaction(f"2 {a} -> {c} + {d}", rate=0.01)
        elif kind == 3:
            net.add_reaction(f"-> {a}", rate=0.3)
        else:
            net.add_reaction(f"{a} -> {c}", law=f"0.4 * {a} / (5 + {a})")
    net.add_reaction("S4 ->", law="0.02 * S4 * S4")
    net.add_rule("total", " + ".join(f"2 * {name}" for name in names))
    net.add_rule("ratio", "S1 / (1 + S2)")
    net.add_rule("squares", " + ".join(f"{name} * {name}" for name in names), recorded=False)
    net.add_reaction("S5 ->", law="0.1 * S5 * total / (1 + total)")
    net.add_reaction("S6 ->", law="0.1 * S6 * squares / (total + squares)")
    net.add_reaction("S6 -> S7", law="0.2 * S6 * squares / (total + squares)")
    return net


WAYS = [(team, order) for team in (8, 32, 128) for order in (1, -1)]


@compiler
@pytest.mark.parametrize(
    ("selector", "team", "order"),
    ordinary(
        [(selector, *way) for selector in SELECTORS_OF_TABLES for way in WAYS],
        ("rssa", 8, 1),
    ),
)
def test_warps_and_blocks_give_the_bits_of_a_thread(tmp_path, selector, team, order):
    times = [0.0, 0.3, 0.5]
    cpu = get_backend("cpu", BackendOptions(threads=1))
    expected = simulate(cpu, mixture(), times, 4, selector)
    assert expected[4][0] > 150
    device = EmulatedBackend(tmp_path, max(32, team), order)  # four teams of 8 in a warp
    actual = simulate(device, mixture(), times, 4, selector, team)
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other)


@compiler
@pytest.mark.parametrize("selector", ordinary(["tree", "pdm"], "pdm"))
def test_sums_in_registers_give_the_same_bits(tmp_path, monkeypatch, selector):
    """As few trajectories keep them, with a part of the whole numbers in fast memory."""
    cpu = get_backend("cpu", BackendOptions(threads=1))
    wanted = simulate(cpu, mixture(), [0.0, 0.2], 2, selector)
    device = EmulatedBackend(tmp_path, 32)
    monkeypatch.setattr(device, "fast_memory", 4 * 6_000, raising=False)
    few = Expected(2)
    actual = simulate(device, mixture(), [0.0, 0.2], 2, selector, 32, few)
    text = (tmp_path / "model.h").read_text()
    assert "#define KEEPS_SUMS 1" in text
    assert selector == "tree" or "constexpr i64 SHARED_WHOLE = 0;" not in text
    for one, other in zip(wanted, actual, strict=True):
        assert np.array_equal(one, other)


def sparse(n_species: int, n_reactions: int, seed: int = 5) -> Network:
    """Reactions of all short kinds, each of which changes few propensities, near it or far away."""
    rng = np.random.default_rng(seed)
    net = Network("sparse")
    for i in range(n_species):
        net.add_species(f"S{i}", int(rng.integers(0, 9)))
    for j in range(n_reactions):
        a, b, c = (int(i) for i in rng.integers(0, n_species, 3))
        near = f"S{(a + 1) % n_species}"
        kind = j % 5
        if kind == 0:
            net.add_reaction(f"S{a} -> {near}", rate=1 + j / n_reactions)
        elif kind == 1:
            net.add_reaction(f"S{a} -> S{c}", rate=0.5)
        elif kind == 2 and a != b:
            net.add_reaction(f"S{a} + S{b} -> {near}", rate=0.05)
        elif kind == 3:
            net.add_reaction(f"2 S{a} -> S{b}", rate=0.02)
        else:
            net.add_reaction(f"-> S{c}", rate=0.3)
    return net


@pytest.mark.validate
@compiler
@pytest.mark.parametrize(
    ("n_reactions", "n_species", "fast"),
    ordinary(
        [(*size, fast) for size in ((90, 300), (1100, 2500)) for fast in (0, 1 << 20)],
        (1100, 2500, 1 << 20),
    ),
)  # fmt: skip
def test_short_events_give_the_bits_of_a_thread(
    tmp_path, monkeypatch, n_reactions, n_species, fast
):
    """With few slots an event, and upper sums in fast memory or not."""
    network = sparse(n_species, n_reactions)
    cpu = get_backend("cpu", BackendOptions(threads=1))
    expected = simulate(cpu, network, [0.0, 0.2, 0.3], 5, "tree")
    assert expected[4][0] > 200
    device = EmulatedBackend(tmp_path, 32)
    monkeypatch.setattr(device, "fast_memory", fast, raising=False)
    actual = simulate(device, network, [0.0, 0.2, 0.3], 5, "tree", 8)
    text = (tmp_path / "model.h").read_text()
    assert "#define SHORT_SLOTS 8" in text or "#define SHORT_SLOTS 4" in text
    assert ("constexpr i64 FAST_VALUES = 0;" in text) == (fast == 0)
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.validate
@compiler
def test_short_events_that_change_nothing(tmp_path):
    """Networks of catalysts alone have events, but no change that a record would have room for."""
    net = Network("catalysts")
    for i in range(70):
        net.add_species(f"S{i}", i % 3)
        net.add_reaction(f"S{i} -> S{i}", rate=1 + i)
    cpu = get_backend("cpu", BackendOptions(threads=1))
    expected = simulate(cpu, net, [0.0, 0.1], 5, "tree")
    assert expected[4][0] > 200
    actual = simulate(EmulatedBackend(tmp_path, 32), net, [0.0, 0.1], 5, "tree", 8)
    assert "#define SHORT_SLOTS 0" not in (tmp_path / "model.h").read_text()
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.validate
@compiler
def test_plans_by_species_give_the_same_bits(tmp_path, monkeypatch):
    """As plans by reaction do."""
    cpu = get_backend("cpu", BackendOptions(threads=1))
    expected = simulate(cpu, mixture(), [0.0, 0.2], 2, "pdm")
    monkeypatch.setattr(plans, "MOST_PLANNED", 0)
    monkeypatch.setattr(plans, "MOST_TOUCHED", 0)
    actual = simulate(EmulatedBackend(tmp_path, 32), mixture(), [0.0, 0.2], 2, "pdm", 32)
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other)


@pytest.mark.parametrize("selector", SELECTORS_OF_TABLES)
@pytest.mark.parametrize("team", TEAMS)
@pytest.mark.gpu
def test_teams_of_a_gpu_give_the_bits_of_the_cpu(selector, team):
    times = np.linspace(0, 5, 7)
    cpu = get_backend("cpu", BackendOptions(threads=2))
    cuda = get_backend("cuda", BackendOptions())
    expected = simulate(cpu, mixture(), times, 100, selector)
    actual = simulate(cuda, mixture(), times, 100, selector, team)
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other.get() if hasattr(other, "get") else other)


@pytest.mark.parametrize(("n_reactions", "n_species"), [(90, 300), (1100, 2500), (33_000, 40_000)])
@pytest.mark.gpu
def test_short_events_of_a_gpu_give_the_bits_of_the_cpu(n_reactions, n_species):
    network = sparse(n_species, n_reactions)
    expected = simulate(
        get_backend("cpu", BackendOptions(threads=2)), network, [0.0, 0.3], 70, "tree"
    )
    cuda = get_backend("cuda", BackendOptions())
    actual = simulate(cuda, network, [0.0, 0.3], 70, "tree", 8, Expected(70))
    for one, other in zip(expected, actual, strict=True):
        assert np.array_equal(one, other.get() if hasattr(other, "get") else other)


@pytest.mark.parametrize("species", [1, 2, 3, 5])
@pytest.mark.parametrize("selector", ["pdm", "tree"])
def test_the_first_entries_of_every_plan_are_in_the_tables(selector, species):
    # A warp loads them, one pair for each thread, however few the plan has: csrc/tables/firing.h.
    net = Network("chain")
    for i in range(species):
        net.add_species(f"S{i}", 1)
    for i in range(species):
        net.add_reaction(f"S{i} -> " + (f"S{i + 1}" if i + 1 < species else ""), rate=1.0)
    book = tables_of(lowered(net)[0], selector)
    whole, leaves, plan = book.arrays()[0], book["AT_LEAF_EVENT"], book["AT_PLAN"]
    for begin in whole[leaves + 1 : plan : 2]:  # none where plans are not near
        assert book["AT_ENTRY"] + 2 * (begin + LANES) <= len(whole)
