"""Standard streams: closed, full, of another locale; and names that would steer a terminal."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from places import ROOT
from sampling import ordinary

from tauslab.cli.streams import printable

MODEL = '[species]\nX = 5\n[[reactions]]\nequation = "X ->"\nrate = 1\n'
TAUSLAB = f"{sys.executable} -m tauslab"
RUN = f"{TAUSLAB} run m.toml -n 4 --t-end 1 --seed 1 --device cpu --threads 1 -o out.h5"


@pytest.fixture
def shell(tmp_path):
    """Runs a line of the shell in a folder with a model: exit code, stdout and stderr."""
    (tmp_path / "m.toml").write_text(MODEL)

    def call(line, **variables):
        done = subprocess.run(
            ["bash", "-c", line], cwd=tmp_path, env={**os.environ, **variables},
            capture_output=True, text=True, check=False, timeout=100,
        )  # fmt: skip
        return done.returncode, done.stdout, done.stderr

    return call


@pytest.mark.parametrize("streams", ordinary([">/dev/full 2>/dev/full", ">&- 2>&-"], ">&- 2>&-"))
def test_a_finished_run_needs_no_streams(shell, streams):
    assert shell(f"{RUN} {streams}")[0] == 0
    code, out, _ = shell(f"{TAUSLAB} digest out.h5")
    assert code == 0
    assert out.splitlines()[-1].endswith(" total")


def test_an_answer_that_cannot_be_printed_is_a_failure(shell):
    assert shell(RUN)[0] == 0
    code, _, message = shell(f"{TAUSLAB} info out.h5 >/dev/full")
    assert (code, message) == (
        1,
        "tauslab: the answer cannot be printed: No space left on device\n",
    )
    code, out, message = shell(f"{TAUSLAB} info out.h5 | head -1; exit ${{PIPESTATUS[0]}}")
    assert (code, out.count("\n"), message) == (0, 1, "")


def test_an_ascii_locale(shell, tmp_path):
    """A compiler's cache of its own, so that all texts are read and written."""
    variables = {"LC_ALL": "C", "PYTHONUTF8": "0", "TAUSLAB_CACHE_DIR": str(tmp_path / "cache")}
    code, _, message = shell(f"{RUN} --quiet", **variables)
    assert (code, message) == (0, "")


def test_names_do_not_steer_a_terminal(shell, tmp_path):
    (tmp_path / "m.toml").write_text(MODEL)
    code, out, printed = shell(RUN.replace("out.h5", "$'o\\e[2J.h5'"))
    assert code == 0
    _, message, _ = shell(f"{TAUSLAB} info $'o\\e[2J.h5'")
    _, _, wrong = shell(f"{TAUSLAB} info $'none\\e[2J\\n.h5'")
    assert "\x1b" not in out + printed + message + wrong
    assert "o\\x1b[2J.h5" in message
    assert wrong == ("tauslab: none\\x1b[2J\\n.h5: there is no such file; is o\\x1b[2J.h5 meant?\n")


def test_printable():
    assert printable("a\tb\nc") == "a\tb\nc"
    assert printable("\r\x00\x7f\x9b\u202e") == "\\r\\x00\\x7f\\x9b\\u202e"
    assert printable("µm é 😀") == "µm é 😀"


def test_every_text_file_names_its_encoding():
    """Ruff's PLW1514 sees to it; this sees that the rule is on."""
    settings = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert '"PLW1514"]' in settings
