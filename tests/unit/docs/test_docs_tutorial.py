"""The tutorial, typed as it stands: its commands and its Python print what it says."""

from __future__ import annotations

import doctest
import re
import shlex

import pytest
from docs_blocks import ROOT, transcripts

from tauslab.cli.main import main

PAGE = "docs/tutorial.md"
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def answer(command, capsys):
    """What a command prints; ranks change nothing, so one will do."""
    bare = re.sub(r"^mpirun -n \d+ ", "", command)
    words = shlex.split(bare.removesuffix(" | tail -n 1"))
    assert words[0] == "tauslab", command
    assert main(words[1:]) == 0, capsys.readouterr().err
    printed = capsys.readouterr().out
    return printed if bare.endswith(words[-1]) else printed.splitlines()[-1] + "\n"


def in_folder_with_model(folder, monkeypatch):
    """Go into a folder with the file that the page shows, as a reader has saved it."""
    (shown,) = re.findall(r"(?ms)^```toml\n(.*?)^```", (ROOT / PAGE).read_text())
    assert shown == (ROOT / "examples" / "telegraph.toml").read_text()
    (folder / "telegraph.toml").write_text(shown)
    monkeypatch.chdir(folder)


def differences(block, names, capsys):
    """What a block of the tutorial shows and is not so."""
    if block.language == "console":
        for command, shown in block.commands():
            printed = answer(command, capsys)
            if not doctest.OutputChecker().check_output(shown, printed, FLAGS):
                yield f"$ {command}\n{printed}"
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, PAGE, PAGE, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=FLAGS, verbose=False).run(
        test, out=report.append, clear_globs=False
    )
    names.update(test.globs)
    yield from report


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg")
def test_the_tutorial_tells_what_happens(tmp_path, monkeypatch, capsys):
    in_folder_with_model(tmp_path, monkeypatch)
    names: dict[str, object] = {}
    actual = [d for block in transcripts(PAGE) for d in differences(block, names, capsys)]
    for value in names.values():
        getattr(value, "close", lambda: None)()
    assert not actual, "\n".join(actual)


def test_a_transcript_is_read_whole():
    shown = [command for block in transcripts(PAGE) if block.language == "console"
             for command, _ in block.commands()]  # fmt: skip
    text = (ROOT / PAGE).read_text()
    assert len(shown) == len(re.findall(r"(?m)^\$ ", text)) > 8


def test_a_difference_is_found(capsys, tmp_path, monkeypatch):
    in_folder_with_model(tmp_path, monkeypatch)
    wrong = [
        block._replace(text=block.text.replace("4 species", "5 species"))
        for block in transcripts(PAGE)[:2]
    ]
    assert all(len(list(differences(block, {}, capsys))) == 1 for block in wrong)
