"""Delayed reactions under exact SSA: known laws, queues that overflow, and equal bits."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.store.results.digest import digest_lines

delays = importlib.import_module("validate_delays")

ALARM = 1e-4  # of all laws of a network together


def run(net, **options):
    given = {"n": 200, "times": [0, 1, 4, 8], "seed": 1, "device": "cpu", "record": "trajectories"}
    return ts.run(net, **{**given, **options})


@pytest.mark.parametrize(
    ("flows", "n"), [(False, 5000), pytest.param(True, 5000, marks=pytest.mark.validate)]
)
def test_known_laws(flows, n):
    actual = delays.p_values(n, "cpu", flows=flows, seed=3)
    least = min(actual, key=actual.get)
    assert actual[least] > ALARM / len(actual), least


@pytest.mark.validate
@pytest.mark.parametrize("selector", ordinary(["tree", "pdm", "rssa"], "rssa"))
def test_known_laws_by_other_selectors(selector):
    actual = delays.p_values(5000, "cpu", seed=4, selector=selector)
    least = min(actual, key=actual.get)
    assert actual[least] > ALARM / len(actual), least


def test_a_wrong_law_is_found(monkeypatch):
    right = delays.laws
    wrong = {"Y": delays.st.binom(30, 1 - np.exp(-0.5 * 3.2))}
    monkeypatch.setattr(
        delays, "laws", lambda t: ((n, wrong.get(n, law), m) for n, law, m in right(t) if t == 5)
    )
    assert delays.p_values(10_000, "cpu", seed=3)["Y", 5.0] < 1e-6


def queue(rate: float = 10, delay: object = 100) -> ts.Network:
    net = ts.Network("queue")
    net.add_species("X", 0)
    net.add_reaction("-> X", rate=rate, delay=delay)
    return net


@pytest.mark.parametrize("selector", ordinary(["linear", "rssa"], "linear"))
def test_a_full_queue_ends_a_trajectory_by_name(selector):
    with pytest.warns(UserWarning, match="200 ended with status delay_queue.*raise delay_queue="):
        full = run(queue(), method=ts.SSA(delay_queue=5, selector=selector))
    assert (full.status == 8).all()
    counts = full.counts("X")
    assert (counts[:, 0] == 0).all()
    assert (counts[:, -1] == -1).all()  # the fill value: nothing is known of it
    space = run(queue(), method=ts.SSA(delay_queue=200, selector=selector))
    assert (space.status == 0).all()
    with pytest.raises(ts.ConfigError, match="delay_queue"):
        ts.SSA(delay_queue=0)


@pytest.mark.validate
def test_the_length_of_a_queue_decides_nothing_else():
    short, long = (run(queue(5, 3), method=ts.SSA(delay_queue=n)) for n in (64, 1024))
    assert digest_lines(short, None) == digest_lines(long, None)


@pytest.mark.parametrize("selector", ordinary(["linear", "tree", "rssa"], "rssa"))
def test_completions_come_in_the_order_of_their_times(selector):
    """Deterministic: one reaction begins at every time of the clock, later ones wait less."""
    net = ts.Network("order")
    net.add_species("k", 0, fixed=True)
    net.add_species("A", 7)
    net.add_species("B", 0)
    net.add_species("last", 0, fixed=True)
    net.add_reaction("A -> B", law="if(k > 0, 1e9, 0)", delay="5 - time")  # all end at 5
    net.add_event("go", time=1, assignments={"k": 1})
    net.add_event("two", trigger="B == 2", assignments={"last": "time"})
    method = ts.SSA(selector=selector)
    result = run(net, n=3, times=[0, 2, 4.999, 5.001, 6], method=method)
    assert (result.counts("A") == [7, 0, 0, 0, 0]).all()
    assert (result.counts("B") == [0, 0, 0, 7, 7]).all()


@pytest.mark.parametrize("selector", ordinary(["linear", "rssa"], "rssa"))
def test_what_begins_is_seen_at_once_and_what_ends_at_its_time(selector):
    net = ts.Network("kinds")
    for name, amount in {"A": 1, "B": 0, "C": 1, "D": 0, "E": 1}.items():
        net.add_species(name, amount)
    net.add_parameter("fast", 1e3)
    net.add_reaction("A -> B", rate="fast", delay=2)  # A goes at once
    net.add_reaction("C -> D", law="if(D + E < 2, fast, 0) * C", delay=2, consuming=False)
    result = run(net, n=5, times=[0, 1, 1.99, 2.01, 6],
                 method=ts.SSA(delay_queue=4000, selector=selector))  # fmt: skip
    assert (result.counts("A") == [1, 0, 0, 0, 0]).all()
    assert (result.counts("B") == [0, 0, 0, 1, 1]).all()
    # C begins again and again, but its molecule is taken once: what finds none changes nothing.
    assert (result.counts("C") == [1, 1, 1, 0, 0]).all()
    assert (result.counts("D") == [0, 0, 0, 1, 1]).all()


@pytest.mark.parametrize("selector", ordinary(["linear", "tree"], "linear"))
def test_delays_that_are_no_times(selector):
    net = queue(delay="if(what == 1, -1, if(what == 2, 0 / 0, 1 / 0))")
    net.add_parameter("what", 1)
    with pytest.warns(UserWarning, match="negative_delay"):
        result = run(net, n=5, sweep={"what": [1, 2, 3]}, method=ts.SSA(selector=selector))
    assert result.status.tolist() == [[9] * 5, [4] * 5, [0] * 5]
    assert not result.counts("X")[2].any()  # what never completes


@pytest.mark.parametrize("selector", ordinary(["linear", "tree"], "tree"))
def test_a_count_that_overflows_at_a_completion(selector):
    net = ts.Network("large")
    net.add_species("X", 2**31 - 2)
    net.add_reaction("-> X", rate=3, delay=1)
    with pytest.warns(UserWarning, match="overflow"):
        assert (run(net, method=ts.SSA(selector=selector)).status == 2).all()


def mixed() -> ts.Network:
    """Delays of all kinds, with an event and numbers that are drawn."""
    net = delays.network()
    net.add_event("half", trigger="B > 10", delay=0.5, assignments={"B": "binomial(B, 0.5)"})
    return net


def test_bits_depend_on_the_trajectory_alone(tmp_path):
    whole = run(mixed())
    lines = digest_lines(whole, None)
    assert digest_lines(run(mixed(), device=ts.CPU(threads=2)), None) == lines
    file = tmp_path / "part.h5"
    run(mixed(), n=80, output=ts.Output(file))
    again = run(mixed(), n=200, output=ts.Output(file, overwrite=True))
    assert digest_lines(again, None) == lines


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_cpu():
    for net in (mixed(), delays.network(flows=True)):
        actual = [digest_lines(run(net, n=2000, device=d), None) for d in ("cpu", "cuda")]
        assert actual[0] == actual[1]


def test_auto_takes_ssa():
    assert run(queue(), n=3, method="auto").method == "ssa"


def test_leaps_refuse_delays_by_name():
    with pytest.raises(ts.ModelError, match="reaction R1: delays of reactions are not supported"):
        run(queue(), method="tau")


def test_master_equations_refuse_delays():
    with pytest.raises(ts.ModelError, match="does not support"):
        ts.cme(queue(), [1.0])


def test_toml_holds_delays(tmp_path):
    net = mixed()
    again = ts.read(net.write(tmp_path / "mixed.toml"))
    again.name = net.name
    assert again == net
    assert "complete after 2" in str(net)
    assert "all at its end" in str(net)


def test_a_delay_belongs_to_what_is_not_consuming():
    net = queue()
    with pytest.raises(ts.ModelError, match="consuming=False needs delay="):
        net.add_reaction("X ->", rate=1, consuming=False)
    with pytest.raises(ts.ModelError, match="it completes after a delay, which is written as TOML"):
        net.to_sbml()
