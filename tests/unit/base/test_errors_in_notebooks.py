"""What IPython and Jupyter show of an error: the user's frames and the message."""

from __future__ import annotations

import sys
import traceback
from types import SimpleNamespace

import pytest

import tauslab as ts

CELL = "def sweep():\n    ts.run(model, n=-5, t_end=1)\nsweep()\n"


@pytest.fixture
def model():
    made = ts.Network("decay")
    made.add_species("X", 1)
    made.add_reaction("X ->", rate=1.0)
    return made


def caught(code, **names):
    with pytest.raises(ts.TauslabError) as actual:
        exec(compile(code, "cell", "exec"), {"ts": ts, "__name__": "__main__", **names})  # noqa: S102
    return actual.value


@pytest.fixture
def shell(monkeypatch):
    """What the error asks of a shell of IPython."""
    made = SimpleNamespace(InteractiveTB=SimpleNamespace(mode="Context"))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: made))
    return made


@pytest.mark.usefixtures("shell")
def test_a_notebook_shows_the_frames_of_the_user_and_the_sentence(model):
    error = caught(CELL, model=model)
    lines = error._render_traceback_()
    assert [line for line in lines if "File" in line and "test_errors" not in line] == [
        '  File "cell", line 3, in <module>', '  File "cell", line 2, in sweep',
    ]  # fmt: skip
    assert lines[-1] == f"ConfigError: {error}"
    assert "tauslab" not in "".join(lines[:-1]).replace("test_errors_in_notebooks.py", "")


@pytest.mark.usefixtures("shell")
def test_a_frame_of_the_library_between_ours_is_not_shown(model):
    model.add_reaction("Z ->", rate=1.0)
    lines = caught(CELL.replace("-5", "5"), model=model)._render_traceback_()
    assert lines[-1] == "ModelError: reaction R2: 'Z' is not a species of decay"
    assert not any("contextlib" in line for line in lines)


@pytest.mark.usefixtures("shell")
def test_what_caused_an_error_is_not_shown(model):
    error = caught("try:\n    1 / 0\nexcept ZeroDivisionError as e:\n"
                   "    raise ts.ConfigError('no') from e\n")  # fmt: skip
    lines = error._render_traceback_()
    assert lines[-1] == "ConfigError: no"
    assert "ZeroDivisionError" not in "\n".join(lines)


def test_the_whole_traceback_is_shown_on_request_and_outside_notebooks(shell, monkeypatch):
    error = ts.ConfigError("no")
    assert hasattr(error, "_render_traceback_")
    shell.InteractiveTB.mode = "Verbose"
    assert not hasattr(error, "_render_traceback_")
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: None))
    assert not hasattr(error, "_render_traceback_")
    monkeypatch.delitem(sys.modules, "IPython")
    assert not hasattr(error, "_render_traceback_")


@pytest.mark.compiler
@pytest.mark.parametrize("kind", [KeyboardInterrupt, KeyError])
def test_interrupts_and_errors_of_hooks_have_few_frames(kind):
    """Of hundreds: those of the user, of the hook, and two that call."""
    lattice = ts.Lattice("drift", shape=(4, 4, 4), spacing=1e-8, step=1e-6)
    lattice.add_species("A")
    lattice.add_diffusion("A", 1e-12)

    def hook(view):
        raise kind

    with pytest.raises(kind) as actual:
        ts.run(lattice, t_end=1e-5, seed=1, device="cpu", hooks=[(1, hook)])
    names = [frame.name for frame in traceback.extract_tb(actual.value.__traceback__)]
    whole = kind is KeyboardInterrupt
    assert names[1:] == ["wrapped", "briefly", *([] if whole else ["hook"])]
    assert str(actual.value) == ("ts.run was interrupted" if whole else "")


def test_in_ipython_itself(capsys, model):
    pytest.importorskip("IPython")
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance()
    try:
        shell.push({"ts": ts, "model": model})
        message = []
        for mode in ("Context", "Verbose"):
            shell.InteractiveTB.set_mode(mode)
            capsys.readouterr()
            shell.run_cell(CELL)
            shown = capsys.readouterr()
            message.append(shown.out + shown.err)
    finally:
        InteractiveShell.clear_instance()
    short, whole = message
    assert short.rstrip().endswith("is not allowed: a whole number from 1 to 1099511627776")
    assert short.count("\n") < 10
    assert "sweep()" in short
    assert "tauslab/api/api.py" in whole
