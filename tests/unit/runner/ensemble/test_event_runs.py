"""Runs with events that grow, stop, or are cut otherwise: the digest is that of one run."""

from __future__ import annotations

from contextlib import nullcontext

import numpy as np
import pytest

import tauslab as ts
from tauslab.api.api import ranks
from tauslab.base.errors import StoppedEarly
from tauslab.options.ensemble import Options
from tauslab.options.record import Record
from tauslab.runner.ensemble.entry import run_network
from tauslab.store.results.digest import digest_lines

N = 80
RUN = {"times": [0.0, 1.0, 2.0, 3.0], "seed": 5, "device": "cpu", "quiet": True,
       "record": "trajectories,statistics,final,histogram:X:0:4000:20"}  # fmt: skip


def dosed(scale: float = 1.0, *, moves: bool) -> ts.Network:
    """Doses, a delayed event, a threshold, chance among ties, and a volume that may grow."""
    net = ts.Network("dosed")
    net.add_parameter("dose", 200.0)
    net.add_species("X", 1000 * scale)
    net.add_species("F", 0)
    net.add_species("k", 900.0 * scale, fixed=True)
    net.add_species("V", 1.0, fixed=True)
    net.add_reaction("-> X", law="k * V")
    net.add_reaction("X ->", rate=1.0)
    net.add_event("dose", trigger="time >= 1", assignments={"X": f"X + {scale} * dose"})
    net.add_event(
        "late",
        trigger=f"X > {1200 * scale}",
        delay=0.5,
        assignments={"k": f"k / 2 + {100 * scale}"},
    )
    net.add_event("one", trigger="time >= 1.5", assignments={"F": "2 * F + 1"})
    net.add_event("two", trigger="time >= 1.5", assignments={"F": "3 * F"})
    if moves:
        net.add_rate("V", "0.4 * V")
        net.add_event("division", trigger="V >= 1.7", assignments={"V": "V / 2"})
    return net


def lines(result):
    with result:
        return dict(digest_lines(result, None))


LIGHT = [("ssa", True), ("tau", False)]
ALL = [
    pytest.param(
        method, moves, id=f"{method}{'-moves' * moves}",
        marks=() if (method, moves) in LIGHT else pytest.mark.validate,
    )
    for method in ("ssa", "tau") for moves in (False, True)
]  # fmt: skip


@pytest.mark.usefixtures("one_block_launches")
@pytest.mark.parametrize(("method", "moves"), ALL)
def test_all_ways_to_a_result_give_its_bits(tmp_path, method, moves):
    """Other blocks and threads, appended trajectories, and a run that stops and is resumed."""
    net = dosed(0.1 if method == "ssa" else 1.0, moves=moves)
    more = RUN | {"method": method}
    whole = lines(ts.run(net, n=N, **more))
    assert lines(ts.run(net, n=N, block=5, **more | {"device": ts.CPU(threads=2)})) == whole

    grown = tmp_path / "grown.h5"
    ts.run(net, n=N - 14, output=grown, **more).close()
    ts.run(net, append=9, output=grown, device="cpu", quiet=True).close()
    assert lines(ts.run(net, append=5, output=grown, device="cpu", quiet=True)) == whole

    path = tmp_path / "stopped.h5"
    options = Options(
        np.array(RUN["times"]), n=N, seed=RUN["seed"], device="cpu", block=2, output=path,
        quiet=True, record=Record.parse(RUN["record"]), threads=1,
        method=ts.SSA() if method == "ssa" else ts.TauLeaping(),
    )  # fmt: skip
    requested = iter([False, True])
    with pytest.raises(StoppedEarly, match="resume=True"):
        run_network(net, options, ranks(), lambda: next(requested, True))
    assert not ts.open(path).complete
    assert lines(ts.run(net, n=N, block=2, resume=True, output=path, **more)) == whole


@pytest.mark.usefixtures("one_block_launches")
def test_unfinished_files_of_plainly_rounded_times_are_completed(tmp_path):
    """Before bits version 14 the times up to an end were those of `numpy.linspace`."""
    net, path = dosed(1.0, moves=False), tmp_path / "begun.h5"
    plain = np.linspace(0, 5.8, 101)
    options = Options(
        plain, n=N, seed=1, device="cpu", block=2, output=path, quiet=True, threads=1
    )  # fmt: skip
    requested = iter([False, True])
    with pytest.raises(StoppedEarly):
        run_network(net, options, ranks(), lambda: next(requested, True))
    more = {"n": N, "t_end": 5.8, "device": "cpu", "quiet": True}
    with ts.run(net, resume=True, output=path, block=2, **more) as result:
        assert result.complete
        assert np.array_equal(result.times, plain)
    with ts.run(net, points=52, seed=1, output=tmp_path / "new.h5", **more) as result:
        assert not np.array_equal(result.times, np.linspace(0, 5.8, 52))
    again = ts.run(tmp_path / "new.h5", t_end=2.9, device="cpu", quiet=True)
    assert len(again.times) == 52


@pytest.mark.validate
@pytest.mark.parametrize(("method", "moves"), [("ssa", True), ("tau", True), ("tau", False)])
def test_sweeps_and_until_give_the_bits_of_plain_runs(tmp_path, method, moves):
    net, more = dosed(moves=moves), RUN | {"method": method, "record": "statistics"}
    swept = ts.run(net, n=40, sweep={"dose": [100.0, 200.0]}, **more)
    plain = ts.run(net, n=40, set={"dose": 100.0}, **more)
    assert (swept.mean("X")[0] == plain.mean("X")).all()  # point 0 has the streams of no sweep
    until = {"until": "mean(X at 3) rel 0.01", "output": tmp_path / "until.h5"}
    with pytest.warns(UserWarning, match="leaps") if method == "tau" else nullcontext():
        actual = ts.run(net, n=5000, **until, **more)
    n = actual.n
    assert 10 < n < 5000
    assert lines(actual) == lines(ts.run(net, n=n, **more))


@pytest.mark.parametrize("method", ["ode", "ssa", "tau"])
@pytest.mark.parametrize("beside", [True, False])
def test_events_at_one_time_come_in_the_order_of_the_list(method, beside, tmp_path):
    """X = 3 + 1, Y = 4 + 1, Y = 2 * 5; it was chance beside an event with a trigger."""
    net = ts.Network("listed")
    net.add_species("X", 10)
    net.add_species("Y", 3)
    net.add_parameter("T", 1.0)
    net.add_reaction("X ->", rate=1e-12)
    net.add_event("first", time=1.0, assignments={"X": "Y + 1"})
    net.add_event("second", time=1.0, assignments={"Y": "X + 1"})
    net.add_event("third", time="T", assignments={"Y": "2 * Y"})
    if beside:
        net.add_event("never", trigger="X < -1", assignments={"X": "0"})
    net.to_sbml(tmp_path / "listed.xml")
    for one in (net, ts.read(tmp_path / "listed.xml")):
        result = ts.run(one, method=method, n=8, times=[0, 2], seed=1, device="cpu", quiet=True)
        assert result.mean("X")[-1] == pytest.approx(4)
        assert result.mean("Y")[-1] == pytest.approx(10)
        result.close()
