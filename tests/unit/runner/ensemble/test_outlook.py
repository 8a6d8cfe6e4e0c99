"""What is said before a long exact run, and what its progress shows."""

from __future__ import annotations

import io

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.option_names import command_line
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.ranks.progress import Progress
from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.options.ensemble import PYTHON_COMMAND, Options
from tauslab.runner.ensemble.choices import outlook
from tauslab.runner.ensemble.choices.method_choice import expected_gain
from tauslab.runner.ensemble.choices.outlook import Outlook, announce_long_run, outlook_of, sentence
from tauslab.runner.ensemble.run import prepare_task
from tauslab.store.results.digest import digest_lines


def turnover(rate):
    net = ts.Network("turnover")
    net.add_species("X", 1000)
    net.add_reaction("-> X", rate=rate)
    net.add_reaction("X ->", rate=rate / 1000)
    return net


@pytest.fixture
def cpu():
    opened = get_backend("cpu", BackendOptions(threads=2))
    yield opened
    opened.close()


def task_of(net, **options):
    given = {"times": np.array([0.0, 10.0]), "n": 1000, "seed": 1, "quiet": True, **options}
    return prepare_task(net, Options(**given))


@pytest.mark.parametrize("rate", [10.0, 1e4, 1e8])
def test_events_to_expect(cpu, rate):
    """Both reactions fire `rate` times in a unit of time, so 20 rate events in a trajectory.

    Four trajectories of 200 events or more: a deviation of 5 % is 1.4 standard errors of the
    shortest, so 25 % fails fewer than one correct program in 10^9.
    """
    task = task_of(turnover(rate))
    actual = outlook_of(task, task.engine(cpu))
    assert actual.events == pytest.approx(20 * rate * 1000, rel=0.25)
    assert (actual.seconds is None) == (20 * rate * 1000 < 1e8)


def test_points_of_a_sweep_that_differ(cpu):
    net = ts.Network("swept")
    net.add_species("X", 1000)
    net.add_parameter("k", 1.0)
    net.add_reaction("-> X", rate="k")
    sweep = {"k": np.array([1.0, 1.0, 1.0, 1e6])}
    from tauslab.options.sweep import choose_points

    task = task_of(net, sweep=choose_points(sweep, None, None), n=100)
    actual = outlook_of(task, task.engine(cpu))
    assert actual.events == pytest.approx(1e7 * 400 / 4, rel=0.5)


@pytest.mark.parametrize(
    ("law", "events"), [("exp(time)", np.exp(10.0)), ("exp(exp(time))", None), ("X + 0*time", 5.0)]
)
def test_laws_that_grow_with_the_time(law, events):
    """What the beginning does not tell: the integral of the law; none where it is infinite."""
    net = ts.Network("growing")
    net.add_species("X", 0)
    net.add_parameter("k", 0.5)
    net.add_rule("r", "k*0 + " + law)
    net.add_reaction("-> X", law="r + k" if law[0] == "X" else "r")
    actual = outlook.events_by_time(task_of(net))
    assert np.isfinite(actual)
    assert actual == pytest.approx(events, rel=1e-3) if events else actual > 1e200


def test_an_endless_run_by_a_law_of_the_time_is_told_of(cpu, capsys):
    net = ts.Network("growing")
    net.add_species("X", 0)
    net.add_reaction("-> X", law="exp(time)")
    task = task_of(net, times=np.array([0.0, 50.0]), quiet=False)
    actual = announce_long_run(task, task.engine(cpu), Communicator())
    assert actual.events == pytest.approx(1000 * np.exp(50.0), rel=0.01)
    assert "about 5.2e+24 events in 1000 exact trajectories" in capsys.readouterr().err


@pytest.fixture
def long(monkeypatch):
    """Every run seems long."""
    monkeypatch.setattr(outlook, "outlook_of", lambda *_: Outlook(3.2e12, 7200.0))
    monkeypatch.setattr(outlook, "expected_gain", lambda *_: 20.0)


def test_a_long_run_is_told_of(long, capsys, cpu):
    task = task_of(turnover(1.0), quiet=False)
    with command_line():
        announce_long_run(task, task.engine(cpu), Communicator())
    assert capsys.readouterr().err == (
        "tauslab: turnover: about 3.2e+12 events in 1000 exact trajectories, about 2 h on this "
        "device; --method tau might take 6 min and is approximate: means within 1 %, standard "
        "deviations within 3 % on the models of docs/tau-leaping.md (epsilon 0.03)\n"
    )


def test_a_program_is_warned_and_quiet_commands_are_not(long, capsys, cpu):
    task = task_of(turnover(1.0))
    engine = task.engine(cpu)
    announce_long_run(task, engine, Communicator())
    assert capsys.readouterr().err == ""
    requested = task_of(turnover(1.0), command=PYTHON_COMMAND)
    with pytest.warns(UserWarning, match="about 2 h on this device"):
        announce_long_run(requested, engine, Communicator())


def test_where_leaps_would_not_help():
    task = task_of(turnover(1.0))
    message = sentence(task, Outlook(3.2e12, 86400.0 * 400))
    assert message.endswith(
        'about 400 days on this device; leaps (method="tau") would hardly be faster'
    )


def test_recording_is_named_where_it_takes_longer():
    task = task_of(turnover(1.0))
    times = len(task.options.times)
    few, many = (Outlook(1000.0 * times * events, 86400.0) for events in (5, 20))
    assert f"on this device, and more to record each at {times} times;" in sentence(task, few)
    assert "record" not in sentence(task, many)


def test_the_pilot_changes_no_bit(monkeypatch):
    options = {"n": 50, "times": [0.0, 1.0], "seed": 4, "device": "cpu"}
    with_pilot = ts.run(turnover(100.0), **options)
    monkeypatch.setattr(outlook, "outlook_of", lambda *_: Outlook(0.0))
    assert digest_lines(ts.run(turnover(100.0), **options)) == digest_lines(with_pilot)


def test_progress_before_the_first_trajectory_ends():
    now, log = [1000.0], io.StringIO()
    progress = Progress(1000, description="slow", stream=log, clock=lambda: now[0], interval=1.0)
    progress.expect(4e9, 300.0)
    now[0] += 10.0
    progress.running(2 * 10**8, 12.5)
    assert log.getvalue() == (
        "slow: 0/1000 trajectories (0 %), 200M events, at t = 12.5 of 300, 20M events/s, "
        "0:03:10 left\n"
    )
    now[0] += 10.0
    progress.update(10, 4 * 10**8)
    assert "10/1000 trajectories (1 %), 0.5 trajectories/s, 20M events/s" in log.getvalue()


def test_a_model_whose_events_change_nothing(cpu):
    """Leaps would cost nothing at all."""
    net = ts.Network("idle")
    net.add_species("X", 1)
    net.add_reaction("X -> X", rate=1e9)
    assert expected_gain(task_of(net), cpu) is not None
