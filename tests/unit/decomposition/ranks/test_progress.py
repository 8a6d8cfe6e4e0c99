"""Progress: log lines by the clock, a bar on terminals, silence where it is asked for."""

from __future__ import annotations

import io
import sys
from types import ModuleType, SimpleNamespace

import pytest

from tauslab.decomposition.ranks.progress import Progress


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def clock():
    return Clock()


def test_a_log_gets_a_line_every_30_seconds_and_one_at_the_end(clock):
    log = io.StringIO()
    with Progress(1000, description="schlogl", stream=log, clock=clock) as progress:
        for second in range(1, 71):
            clock.now = 1000.0 + second
            progress.update(10 * second, 2_000_000 * second)
        clock.now = 1100.0
        progress.update(1000, 200_000_000)
    lines = log.getvalue().splitlines()
    assert lines[0] == (
        "schlogl: 300/1000 trajectories (30 %), 10 trajectories/s, 2M events/s, 0:01:10 left"
    )
    assert [line.split()[1] for line in lines] == ["300/1000", "600/1000", "1000/1000", "1000/1000"]
    assert lines[-1].endswith("(100 %), 10 trajectories/s, 2M events/s, after 0:01:40")


def test_a_resumed_run_rates_only_what_it_did(clock):
    log = io.StringIO()
    progress = Progress(1000, started_at=900, stream=log, clock=clock, interval=1.0)
    clock.now += 10.0
    progress.update(950, 0)
    assert "950/1000 trajectories (95 %), 5 trajectories/s, 0 events/s, 0:00:10 left" in (
        log.getvalue()
    )


def test_99_9_percent_is_not_100(clock):
    log = io.StringIO()
    progress = Progress(1000, stream=log, clock=clock, interval=0.0)
    clock.now += 1.0
    progress.update(999, 1)
    assert "(99 %)" in log.getvalue()


@pytest.mark.parametrize("options", [{"quiet": True}, {"comm_rank": 1}])
def test_silence(clock, options):
    log = io.StringIO()
    with Progress(10, stream=log, clock=clock, **options) as progress:
        clock.now += 100.0
        progress.update(5, 5)
    assert log.getvalue() == ""


def test_a_program_sees_progress_after_two_seconds_and_none_of_a_short_run(clock):
    log = io.StringIO()
    with Progress(10, quiet=None, stream=log, clock=clock, interval=0.0) as progress:
        clock.now += 1.9
        progress.update(5, 5)
    assert log.getvalue() == ""
    with Progress(10, quiet=None, stream=log, clock=clock, interval=0.0) as progress:
        clock.now += 2.1
        progress.update(5, 5)
    assert [line.split()[1] for line in log.getvalue().splitlines()] == ["5/10", "5/10"]


def test_close_twice_writes_one_last_line(clock):
    log = io.StringIO()
    progress = Progress(10, stream=log, clock=clock)
    progress.close()
    progress.close()
    assert log.getvalue().count("\n") == 1
    assert "starting" in log.getvalue()


def test_a_terminal_gets_a_bar(clock):
    terminal = Terminal()
    with Progress(200, description="model [v2]", stream=terminal, clock=clock) as progress:
        clock.now += 2.0
        progress.update(200, 5_000)
    shown = terminal.getvalue()
    assert "model [v2]" in shown
    assert "100 trajectories/s, 2.5k events/s" in shown
    assert "100%" in shown


def test_a_bar_is_closed_after_an_error(clock):
    terminal = Terminal()

    def broken():
        with Progress(10, stream=terminal, clock=clock):
            raise OSError("no space left")

    with pytest.raises(OSError, match="no space left"):
        broken()
    assert terminal.getvalue().endswith("\x1b[?25h")  # the cursor is back


class Shown:
    """Stands for IPython's display: what the output of the cell holds."""

    def __init__(self):
        self.pages = []

    def __call__(self, thing, *, display_id):
        assert display_id is True
        self.pages.append(thing)
        return self

    def update(self, thing):
        self.pages.append(thing)


@pytest.fixture
def notebook(monkeypatch):
    """A process that IPython says is the kernel of a notebook."""
    shown = Shown()
    package, display = ModuleType("IPython"), ModuleType("IPython.display")
    package.get_ipython = lambda: SimpleNamespace(kernel=object())
    display.display = shown
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    return shown


def test_a_notebook_gets_a_bar_with_rate_and_time_left(clock, notebook, capsys):
    with Progress(1000, description="<b>", clock=clock) as progress:
        clock.now += 2
        progress.update(250, 5_000_000)
        before = len(notebook.pages)
        clock.now += 0.01
        progress.update(251, 5_000_000)
        assert len(notebook.pages) == before  # not drawn so often
    page = notebook.pages[before - 1]._repr_html_()
    assert '<progress value="250" max="1000">' in page
    assert "125 trajectories/s, 2.5M events/s, 0:00:06 left" in page
    assert "&lt;b&gt;" in page
    assert "<b>" not in page
    assert "after 0:00:02" in repr(notebook.pages[-1])
    assert capsys.readouterr().err == ""


def test_quiet_and_other_ranks_show_nothing_in_a_notebook(clock, notebook):
    for options in ({"quiet": True}, {"comm_rank": 1}):
        with Progress(10, clock=clock, **options) as progress:
            progress.update(5, 1)
    assert notebook.pages == []


def test_ipython_in_a_terminal_is_no_notebook(clock, notebook, monkeypatch, capsys):
    monkeypatch.setattr(sys.modules["IPython"], "get_ipython", SimpleNamespace)
    with Progress(10, clock=clock):
        pass
    assert notebook.pages == []
    assert "0/10 trajectories" in capsys.readouterr().err
