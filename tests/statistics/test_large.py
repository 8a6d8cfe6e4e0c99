"""Means of large networks against courses and `linear`, and whether the check can fail."""

from __future__ import annotations

import csv
import importlib
import sys
from dataclasses import replace
from types import ModuleType

import exact_peers
import numpy as np
import pytest
import validate
from generated_networks import random_network
from sampling import ordinary

import tauslab as ts

large = importlib.import_module("validate_large")

CASES = {case.name: case for case in large.CASES}
TESTS = large.planned_tests(large.CASES)


def rows_of(name, n, backend="cpu", until=float("inf")):
    case = replace(CASES[name], until=until)
    return large.validate(case, n, tests=TESTS, seed=3, device=backend, threads=2)


@pytest.mark.validate
@pytest.mark.parametrize(("name", "n", "references"), [
    ("multistate", 200, {"course", "linear"}),
    pytest.param("multisite2", 20, {"course"}, marks=pytest.mark.validate),
])  # fmt: skip
def test_means_by_every_selector(name, n, references):
    """False alarms below 1e-3 in both together (Bonferroni over the tests of all networks)."""
    rows = rows_of(name, n)
    assert {(row.selector, row.reference) for row in rows} == {
        (selector, reference) for selector in large.TABLED for reference in references
    }
    assert [row for row in rows if row.verdict != "pass"] == []


@pytest.mark.gpu
@pytest.mark.parametrize(("name", "n", "until"), [
    ("multistate", 10_000, 1e9), ("multisite2", 2000, 1e9),
    ("egfr_net", 256, 4), ("BCR_ssa", 64, 1),
])  # fmt: skip
def test_means_on_a_gpu(name, n, until):
    """Cut where every event of a trajectory takes microseconds: 10 s each, 20 s for BCR."""
    rows = rows_of(name, n, "cuda", until)
    assert {row.selector for row in rows} == set(large.TABLED)
    assert [row for row in rows if row.verdict != "pass"] == []


@pytest.mark.validate
def test_a_wrong_rate_fails(monkeypatch):
    """Phosphorylation at 0.012 in place of 0.01: about 18 % of A_P, 20 standard errors of 200."""
    monkeypatch.setattr(large, "start_of", lambda case: {"kAp": 0.012})
    failed = {row.quantity for row in rows_of("multistate", 200) if row.verdict != "pass"}
    assert {"A_P", "A_bound_P", "RLA_P"} <= failed


@pytest.mark.parametrize("name", ordinary(CASES, *(name for name in CASES if name != "BCR_ssa")))
def test_courses_name_the_groups_of_their_networks(name):
    network = ts.read(large.NETS / f"{name}.net")
    times, names, solution = large.course_of(CASES[name])
    assert set(names) <= {rule for rule in network.rules if network.rules[rule].recorded}
    assert solution.shape == (len(names), len(times)) == (len(names), large.TIMES)
    assert set(large.start_of(CASES[name])) <= set(network.species)


def test_a_peer_gets_constants_of_one_combination():
    net = ts.Network("pair")
    for name in "AB":
        net.add_species(name, large.MOLECULES)
    net.add_reaction("2 A -> B", rate=3.0)
    net.add_reaction("A + B -> A", rate=0.5)
    net.add_species("F", 7, fixed=True)
    net.add_reaction("F + A -> F", rate=0.1)
    model = exact_peers.mass_action(net, 1.0)
    assert model.reactions == ((3.0, "A A", "B"), (0.5, "A B", "A"), (0.1 * 7, "A", ""))
    assert model.initial == {"A": 100, "B": 100}


@pytest.mark.validate
@pytest.mark.parametrize(("shift", "code"), [(0, 0), (3, 1)])
def test_the_random_network_is_held_against_a_peers_moments(tmp_path, monkeypatch, shift, code):
    """Moments of our own other seed stand in for the peer's; 3 molecules more are found."""
    monkeypatch.setattr(large, "SIZE", 70)
    monkeypatch.setattr(large, "LARGEST_RESIDUAL", 0.2)  # 400 trajectories know no better
    network = random_network(reactions=70, species=70, initial=large.MOLECULES, seed=1)
    times = np.linspace(0, large.T_END, large.STEPS + 1)[1:]
    x = ts.run(network, n=400, times=times, seed=9, method="ssa", device="cpu").counts()
    x = x.astype(int) + shift
    table, sums = tmp_path / "table.csv", (x.sum(0), (x * x).sum(0))
    monkeypatch.setattr(exact_peers, "rebop_moments", lambda *_: sums)
    monkeypatch.setitem(sys.modules, "rebop", ModuleType("rebop"))
    command = ["large", "--exact", "400", "--device", "cpu", "--cases", "random", "-o", str(table)]
    assert validate.main(command) == code
    with table.open() as file:
        assert {row["verdict"] for row in csv.DictReader(file)} == {"FAIL" if code else "pass"}
    assert "random 70 x 70" in table.with_suffix(".md").read_text()
