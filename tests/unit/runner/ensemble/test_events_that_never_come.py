"""Events at time 0 or before never come, and a run says so."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

import tauslab as ts
from tauslab.model.network.diagnosis.check import report
from tauslab.model.network.network import Event
from tauslab.options.ensemble import Options
from tauslab.options.methods import ODE, SSA, TauLeaping
from tauslab.options.sweep import choose_points
from tauslab.runner.ensemble.run import prepare_task


def _dose(time: float | str = "T", at: float = 5.0) -> ts.Network:
    net = ts.Network("dose")
    net.add_species("X")
    net.add_parameter("T", at)
    net.add_reaction("X ->", rate=0.1)
    net.add_event("dose", time=time, assignments={"X": "X + 100"})
    return net


def _told(network: ts.Network, **options: object) -> list[str]:
    return _condition_text(network, 10.0, **{"method": SSA(), **options})


def _condition_text(network: ts.Network, end: float, **options: object) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        prepare_task(network, Options(times=[end], seed=1, **options))  # type: ignore[arg-type]
    return [str(one.message) for one in caught]


@pytest.mark.parametrize("method", [SSA(), TauLeaping(), ODE()])
def test_a_run_says_that_an_event_at_zero_never_comes(method: object) -> None:
    (message,) = _told(_dose(0), method=method)
    assert message.startswith("event dose never fires: its time is 0,")
    assert 'trigger="time >= 0" with initial=False' in message
    assert "its time is -2," in _told(_dose(), method=method, set={"T": -2.0})[0]
    assert not _told(_dose(), method=method)


def test_a_sweep_names_the_points() -> None:
    sweep = choose_points({"T": [0, 1, -1]}, None, None)
    (message,) = _told(_dose("T / 2"), sweep=sweep)
    assert message.startswith("event dose never fires at point 0, 2: its time is 0,")


def test_an_event_after_the_end_never_fires() -> None:
    net = _dose()
    net.add_event("late", trigger="time > 3", assignments={"X": "X + 1"})
    dose, late = sorted(_condition_text(net, 2.0))
    assert dose == "event dose never fires: its time is 5, and the run ends at 2"
    assert late.startswith("event late never fires: its trigger waits for the time 3, and")
    assert not _condition_text(net, 5.0)
    assert not _condition_text(_dose(at=float("1e400")), 5.0)
    sweep = choose_points({"T": [1, 9, 2]}, None, None)
    (message,) = _condition_text(_dose(), 2.0, sweep=sweep)
    assert message == "event dose never fires at point 1: its time is 9, and the run ends at 2"
    net.t_end = 2.0
    assert sum("never fires" in line for line in report(net)) == 2


def test_a_bound_that_a_sweep_moves_may_let_it_come() -> None:
    net = _dose()
    net.add_event("late", trigger="time >= T", assignments={"X": "X + 1"})
    sweep = choose_points({"T": [0.0, 1.0]}, None, None)
    assert not [one for one in _told(net, sweep=sweep) if "event late never" in one]


def test_check_says_it_of_a_file(tmp_path: Path) -> None:
    path = _dose(0).write(tmp_path / "dose.toml")
    assert any("event dose never fires" in line for line in report(ts.read(path)))
    assert not any("never fires" in line for line in report(_dose()))


def test_what_sbml_means_by_never_is_warned_of(tmp_path: Path) -> None:
    pytest.importorskip("libsbml")
    net = ts.Network("old")
    net.add_species("X", 5)
    net.add_reaction("X ->", rate=0.1)
    net.add_event("past", trigger="time >= 0", assignments={"X": "X + 100"})
    net.to_sbml(tmp_path / "old.xml")
    read = ts.read(tmp_path / "old.xml")
    assert not any(isinstance(event, Event) for event in read.events)
    (message,) = _told(read)
    assert "event past never fires" in message


def test_a_time_that_is_no_number_is_refused() -> None:
    with pytest.raises(ts.ModelError, match="event dose: its time is not a number"):
        _dose(float("nan"))
    with pytest.raises(ts.ModelError, match=r"time: a number above 1.8e308"):
        _dose(10**400)
    with pytest.raises(ts.ModelError, match="event dose: its time is not a number"):
        _told(_dose("T / T"), set={"T": 0.0})


def test_a_constant_that_is_rounded_is_reported() -> None:
    net = _dose()
    net.add_parameter("more", 16.49)
    net.add_event("odd", time=1, assignments={"X": "X + more"})
    (message,) = _told(net)
    assert message == "event odd: 16.49 is not whole, and counts are: the new X is rounded"
    assert not _told(net, method=ODE())


def test_a_rate_that_names_its_own_reactant_is_noted() -> None:
    net = _dose()
    net.add_reaction("X ->", rate="T * X", name="twice")
    net.add_reaction("X ->", rate="T / (5 + X)", name="once")
    noted = [line for line in report(net) if "once more" in line]
    assert [line.split(":")[1] for line in noted] == [" reaction twice"]


def test_common_names_values_that_are_drawn() -> None:
    net = ts.Network("drawn")
    net.add_species("X", "poisson(20)")
    net.add_reaction("X ->", rate=1)
    with pytest.raises(ts.ModelError, match="drawn has values that it draws: common=True cannot"):
        _told(net, common=True)


def test_the_time_of_an_event_names_what_is_not_defined() -> None:
    with pytest.raises(ts.ModelError, match="time of event dose: 'TT' is not defined in dose"):
        _dose("TT").validate()
    with pytest.raises(ts.ModelError, match="may use parameters only, not 'X'"):
        _dose("X").validate()


def test_cells_that_begin_above_their_size_are_reported() -> None:
    cell = ts.Network("cell")
    cell.add_species("V", 3.0)
    cell.add_rate("V", "0.5 * V")
    cell.add_species("X", 1)
    cell.add_reaction("X ->", rate=0.1)
    cell.add_event("divide", trigger="V >= 2")
    with pytest.warns(UserWarning, match="trigger of divide is true in the initial cells"):
        ts.population(cell, [0.1], division="divide", cells=2, seed=1, device="cpu")
