"""Runs of large networks: choices that are stored and kept, memory, tables."""

from __future__ import annotations

import time

import numpy as np
import pytest
from places import TESTS
from sampling import ordinary

import tauslab as ts
from tauslab.cli.main import main
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.backends.cuda import CudaBackend
from tauslab.kernels.exact import plans
from tauslab.kernels.exact.selectors import SELECTORS, mean_dependents, selector_of
from tauslab.kernels.exact.table_network import tables_of, team_of
from tauslab.kernels.exact.table_selector import TableSelector
from tauslab.kernels.exact.tree_pdm import blocks_of_a_multiprocessor
from tauslab.kernels.network.lowering import LoweredNetwork, LoweredReaction
from tauslab.kernels.network.tables import TableRows
from tauslab.model.expressions.expression import Number
from tauslab.model.network.network import Network
from tauslab.store.results.digest import digest_lines

NET = TESTS / "data" / "net" / "multisite2.net"


def run(**options):
    settings = {"n": 70, "t_end": 0.2, "points": 3, "seed": 3, "device": ts.CPU(threads=2),
                "method": "ssa"}  # fmt: skip
    return ts.run(NET, **{**settings, **options})


def lines(result):
    return digest_lines(result, None)


def mass_action(n_species: int, reactions: list[tuple[list[int], list[int], float]]):
    """Lowered network of (reactants, products, constant)."""
    lowered = []
    for j, (left, right, constant) in enumerate(reactions):
        change = {i: right.count(i) - left.count(i) for i in {*left, *right}}
        lowered.append(
            LoweredReaction(
                f"R{j}", tuple((i, by) for i, by in sorted(change.items()) if by),
                Number(constant), tuple((i, left.count(i)) for i in sorted(set(left))), None, (),
            )
        )  # fmt: skip
    names = tuple(f"S{i}" for i in range(n_species))
    return LoweredNetwork(names, tuple(lowered), (), tuple(range(n_species)), ())


def test_choices_are_stored_and_a_file_reruns_with_them(tmp_path):
    path = tmp_path / "run.h5"
    first = run(output=path)
    assert first.attributes["selector"] == "rssa"  # its pilot chose it in place of pdm
    assert first.attributes["presimulation"] == 1 << 17
    expected = lines(first)
    forced = run(method=ts.SSA(selector="tree", presimulation=0), output=tmp_path / "tree.h5")
    assert forced.attributes["selector"] == "tree"
    assert "presimulation" not in forced.attributes
    assert lines(forced) != expected
    assert lines(run(device=ts.CPU(threads=1))) == expected


def test_the_command_takes_events_of_a_pilot_and_reruns_with_them(tmp_path):
    """Of another number than the default, which a rerun would compute anew."""
    first, again = tmp_path / "first.h5", tmp_path / "again.h5"
    options = ["--device", "cpu", "--quiet", "-o"]
    given = ["--t-end", "0.2", "--points", "3", "-n", "20", "--method", "ssa", "--seed", "3"]
    assert main(["run", str(NET), *given, "--presimulation", "500", *options, str(first)]) == 0
    assert main(["run", str(first), *options, str(again)]) == 0
    with ts.open(first) as one, ts.open(again) as other:
        assert one.attributes["presimulation"] == other.attributes["presimulation"] == 500
        assert lines(one) == lines(other)


@pytest.mark.validate
def test_selectors_agree_in_the_mean():
    """Means of 66 species by all selectors: 5 standard errors, alarms 8e-5."""
    means, errors = [], []
    for selector in SELECTORS[1:]:
        result = run(n=600, method=ts.SSA(selector=selector, presimulation=0))
        x = result.counts()[:, -1].astype(float)
        means.append(x.mean(0))
        errors.append(x.var(0) / 600)
    assert means[0].max() > 300
    for mean, error in zip(means[1:], errors[1:], strict=True):
        assert (np.abs(means[0] - mean) < 5 * (np.sqrt(errors[0] + error) + 1e-3)).all()


@pytest.mark.usefixtures("one_block_launches")
@pytest.mark.parametrize("selector", ordinary(["tree", "pdm", "rssa"], "rssa"))
def test_a_resumed_run_keeps_its_choices(tmp_path, selector):
    from tauslab.decomposition.ranks.mpi import Communicator
    from tauslab.options.ensemble import Options
    from tauslab.runner.ensemble.entry import run_network

    path, times = tmp_path / "run.h5", np.array([0.0, 0.1])
    whole = run(
        t_end=None, points=None, times=times, method=ts.SSA(selector=selector, presimulation=0)
    )
    given = {"times": times, "n": 70, "seed": 3, "device": "cpu", "quiet": True, "block": 10}
    network, requested = ts.read(NET), iter([False])
    with pytest.raises(ts.StoppedEarly):
        run_network(
            network,
            Options(**given, method=ts.SSA(selector=selector, presimulation=0), output=path),
            Communicator(),
            stop=lambda: next(requested, True),
        )
    options = Options(**given, output=path, resume=True)
    with run_network(network, options, Communicator()) as resumed:
        assert resumed.attributes["selector"] == selector
        assert lines(resumed) == lines(whole)


def test_rates_per_trajectory_give_the_bits_of_rates_for_all():
    """Constants of a row and constants in tables are the same numbers."""
    name, value = "kOnR", 0.01
    each = np.repeat([value, 1.5 * value], 4)
    mixed = run(n=8, set={name: each}, method=ts.SSA(presimulation=0)).counts()
    for rate, rows in ((value, slice(0, 4)), (1.5 * value, slice(4, 8))):
        same = run(n=8, set={name: rate}, method=ts.SSA(presimulation=0)).counts()
        assert np.array_equal(mixed[rows], same[rows])


def test_little_memory_means_fewer_trajectories_in_flight(monkeypatch):
    expected = lines(run())
    monkeypatch.setattr(CpuBackend, "free_memory", lambda self: 1)
    assert lines(run()) == expected


@pytest.mark.validate
@pytest.mark.parametrize(
    "limits",
    [
        pytest.param(("MOST_PLANNED",), marks=pytest.mark.validate),
        pytest.param(("MOST_TOUCHED",), marks=pytest.mark.validate),
        ("MOST_PLANNED", "MOST_TOUCHED"),
    ],
)
def test_plans_by_species_give_the_bits_of_plans_by_reaction(monkeypatch, limits):
    expected = lines(run())
    for limit in limits:
        monkeypatch.setattr(plans, limit, 0)
    assert lines(run()) == expected


def test_a_quarter_of_a_warp_where_trajectories_are_many_and_events_small():
    gpu, cpu = CudaBackend.style, CpuBackend.style
    assert [team_of(gpu, 132, n, 2.0) for n in (0, 4096, 4224, 4225)] == [32, 32, 32, 8]
    assert [team_of(gpu, 132, 1 << 20, x) for x in (164.0, 585.0)] == [8, 32]
    assert team_of(cpu, 2, 1 << 20, 2.0) == 1


def test_few_teams_have_up_to_twice_the_registers():
    actual = [blocks_of_a_multiprocessor(32, n, 132) for n in (0, 1, 2112, 2113, 3168, 9999)]
    assert actual == [8, 4, 4, 5, 6, 8]
    assert [blocks_of_a_multiprocessor(8, n, 132) for n in (8192, 16_384)] == [4, 8]
    assert [blocks_of_a_multiprocessor(128, n, 132) for n in (100, 1000)] == [4, 8]
    assert [blocks_of_a_multiprocessor(32, n, 132, dense=True) for n in (0, 2112, 9999)] == [
        6,
        4,
        6,
    ]


def test_numbers_of_reactions_are_not_stored():
    """A term for each of four rates; of pairs the sum of partners, of which each owner has one."""
    alone = [([i], [(i + 1) % 100], 1.0 + k) for i in range(100) for k in range(4)]
    assert tables_of(mass_action(100, alone), "pdm")["N_WHOLE"] == 32  # room for eight at a time
    pairs = [([0, i], [i], 1.0) for i in range(1, 100)]
    assert tables_of(mass_action(100, [*alone, *pairs]), "pdm")["N_WHOLE"] <= 128


def test_linear_is_refused_for_large_networks():
    network = mass_action(2, [([0], [1], 1.0)] * 129)
    with pytest.raises(ts.ConfigError, match="1 to 128 reactions, not 129"):
        selector_of(network, "linear")


def test_selectors_have_registered_themselves():
    assert {"linear", *TableSelector.registered} == set(SELECTORS)


def test_a_selector_that_there_is_not_is_refused():
    with pytest.raises(
        ts.ConfigError, match="'composition' is not known; allowed are linear, tree, pdm, rssa"
    ):
        run(method=ts.SSA(selector="composition"))
    with pytest.raises(ts.ConfigError, match="is not in this version: use tree or pdm"):
        run(method=ts.SSA(selector="cr"))


def test_the_selector_follows_from_dependents():
    chain = mass_action(200, [([i], [(i + 1) % 200], 1.0) for i in range(200)])
    assert mean_dependents(chain) == 2.0
    assert selector_of(chain) == "tree"
    pairs = [([i, j], [i], 1.0) for i in range(17) for j in range(i)]
    assert selector_of(mass_action(17, pairs)) == "tree"  # few: 136 pairs, 16 read each species
    assert selector_of(mass_action(12, pairs[:66])) == "linear"
    pairs = [([i, j], [i], 1.0) for i in range(40) for j in range(i)]
    assert selector_of(mass_action(40, pairs)) == "pdm"


def test_tables_of_a_network_with_64_million_pairs_are_small_and_fast():
    """58,276 reactions of 3,744 species, hubs that thousands read: seconds, a few megabytes."""
    rng = np.random.default_rng(1)
    hubs, others = rng.integers(0, 8, 58_276), rng.integers(8, 3744, (58_276, 2))
    constants = rng.choice([0.1, 0.2, 0.3], 58_276)
    network = mass_action(
        3744,
        [
            ([h, a], [b], c) if j % 2 else ([a], [h, b], c)
            for j, (h, (a, b), c) in enumerate(
                zip(hubs.tolist(), others.tolist(), constants.tolist(), strict=True)
            )
        ],
    )
    assert mean_dependents(network) > 1000
    began = time.perf_counter()
    whole, real = tables_of(network, "pdm").arrays()
    assert time.perf_counter() - began < 10  # about 1; the limit is for a busy machine
    assert whole.nbytes + real.nbytes < 64 << 20


def test_observables_that_are_weighted_sums_are_exact():
    net = Network("sums")
    for i in range(70):
        net.add_species(f"S{i}", i)
        net.add_reaction(f"S{i} -> S{(i + 1) % 70}", rate=1.0)
    net.add_rule("weighted", " + ".join(f"{i % 3 + 1} * S{i}" for i in range(70)))
    net.add_rule("half", "0.5 * S3 + S4")
    result = ts.run(net, n=5, times=[0, 1], seed=1, device="cpu", method="ssa")
    x = result.counts().astype(float)
    values = np.asarray(result.data["observables"])
    assert np.array_equal(values[..., 0], x @ (np.arange(70) % 3 + 1))
    assert np.array_equal(values[..., 1], 0.5 * x[..., 3] + x[..., 4])


def test_rows():
    rows = TableRows.of([[], [5], [1, 2]])
    which, items = rows.expand(np.array([2, 0, 1, 2]))
    assert which.tolist() == [0, 0, 2, 3, 3]
    assert items.tolist() == [1, 2, 5, 1, 2]
