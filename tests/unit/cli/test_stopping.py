"""A run that ends in order when its time is over."""

from __future__ import annotations

import os
import signal

import pytest
from places import TESTS

from tauslab.base.errors import ConfigError, StoppedAtOnce
from tauslab.cli.main import main
from tauslab.cli.tools import announce_run
from tauslab.decomposition.ranks.stopping import stop_in_order, stop_on_signals, stop_requested
from tauslab.kernels.backends import cpu

MODEL = TESTS / "data" / "sbml" / "schlogl.xml"


@pytest.fixture(autouse=True)
def _own_signals():
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = [signal.getsignal(number) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.mark.parametrize("text", ["0", "0:00", "0:0:0.0"])
def test_time_that_is_over(text):
    assert stop_in_order(text)()


@pytest.mark.parametrize("text", ["3:50:00", "90", "1:30"])
def test_time_that_is_left(text):
    assert not stop_in_order(text)()


@pytest.mark.parametrize("text", ["", "1:2:3:4", "-1", "1h", "1:", "nan"])
def test_what_is_no_time(text):
    with pytest.raises(ConfigError, match="write H:M:S, M:S or seconds"):
        stop_in_order(text)


def test_a_run_that_stops_is_completed_later(tmp_path, capsys):
    path = tmp_path / "a.h5"
    run = ["run", str(MODEL), "-n", "300", "--t-end", "1", "--points", "3", "--seed", "1",
           "--device", "cpu", "--quiet", "--method", "ssa", "-o", str(path)]  # fmt: skip
    assert main([*run, "--max-time", "0"]) == 75
    message = capsys.readouterr().err
    assert "stopped at --max-time with" in message
    assert "--resume completes" in message
    assert main([*run, "--resume"]) == 0


def test_nothing_to_resume_is_reported(tmp_path, capsys):
    path = tmp_path / "new.h5"
    run = ["run", str(MODEL), "-n", "3", "--t-end", "0.1", "--points", "2", "--seed", "1",
           "--device", "cpu", "--resume", "-o", str(path)]  # fmt: skip
    assert main(run) == 0
    assert f"{path} does not exist: there is nothing to resume" in capsys.readouterr().err
    for more in ([], ["--quiet"]):
        assert main([*run, *more]) == 0
        assert "nothing to resume" not in capsys.readouterr().err
    path.rename(tmp_path / "new.h5.until-3")  # a portion of a run that is not complete
    announce_run(path, resume=True, quiet=False)
    assert capsys.readouterr().err == ""


def test_a_signal_while_threads_start_is_no_error_of_threads(tmp_path, monkeypatch, capsys):
    """Whatever handles errors where a signal comes, the command says that it was stopped."""
    cpu.idle_threads.end()
    submit = cpu._Threads.submit

    def asked(self, *call):
        os.kill(os.getpid(), signal.SIGTERM)
        return submit(self, *call)

    monkeypatch.setattr(cpu._Threads, "submit", asked)
    path = tmp_path / "a.h5"
    run = ["run", str(MODEL), "-n", "3", "--t-end", "1", "--device", "cpu", "-o", str(path)]
    assert main(run) == 75
    message = capsys.readouterr().err
    assert "stopped on request before the run had begun" in message
    assert "threads" not in message
    assert not path.exists()


def test_a_signal_after_the_run_says_that_its_result_is_complete():
    request = stop_on_signals()
    with pytest.raises(StoppedAtOnce, match="before the run had begun"):
        os.kill(os.getpid(), signal.SIGTERM)
    with request.in_order():
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop_requested()
    assert not stop_requested()  # nobody notes it any more
    with pytest.raises(StoppedAtOnce, match="its result is complete"):
        os.kill(os.getpid(), signal.SIGTERM)
