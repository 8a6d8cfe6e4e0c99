"""The example notebooks run, and their pages show what they print and draw."""

from __future__ import annotations

import notebooks
import pytest
from docs_blocks import shorter_python
from places import ROOT

SCRIPTS = sorted(notebooks.FOLDER.glob("*.py"))
NAMES = [path.stem for path in SCRIPTS]
QUICK = ("first_model",)  # the others take seconds each


@pytest.fixture(autouse=True)
def root(monkeypatch):
    monkeypatch.setenv("TAUSLAB_ROOT", str(ROOT))
    pytest.importorskip("matplotlib")


def test_the_page_names_all_of_them():
    listed = (notebooks.FOLDER / "README.md").read_text()
    assert len(NAMES) == 11
    assert all(f"({name}.md)" in listed for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_page_shows_the_cells_of_its_notebook(name):
    shown = (notebooks.FOLDER / f"{name}.md").read_text()
    found = list(notebooks.cells((notebooks.FOLDER / f"{name}.py").read_text()))
    assert found[0].markdown
    assert found[0].source.startswith("# ")
    assert all(cell.source in shown for cell in found), "run scripts/docs/notebooks.py"
    assert all(picture.stat().st_size > 4000 for picture in notebooks.FOLDER.glob(f"{name}-*.png"))


@pytest.mark.parametrize("name", QUICK)
def test_a_notebook_runs_small(name):
    found = notebooks.executed(notebooks.FOLDER / f"{name}.py", shorter_python)
    assert sum(len(cell.pictures) for cell in found) == 1
    assert any("exact mean" in cell.printed for cell in found)


@pytest.mark.validate
@pytest.mark.parametrize("name", NAMES)
def test_a_page_is_what_its_notebook_gives(name):
    """Word for word; pictures depend on the version of matplotlib."""
    text, pictures = notebooks.page(name, notebooks.executed(notebooks.FOLDER / f"{name}.py"))
    assert text == (notebooks.FOLDER / f"{name}.md").read_text()
    assert all((notebooks.FOLDER / picture).is_file() for picture in pictures)


def test_cells_are_told_apart_and_an_expression_is_shown(tmp_path):
    path = tmp_path / "a.py"
    path.write_text('# %% [markdown]\n# # Title\n#\n# Text\n\n# %%\nx = 2\nprint("a")\nx + 1\n')
    text, exec_, *more = notebooks.executed(path)
    assert (text.source, more) == ("# Title\n\nText", [])
    assert exec_.printed == "a\n3\n"
    assert "```text\na\n3\n```" in notebooks.page("a", [text, exec_])[0]


def test_a_check_that_fails_fails_the_notebook(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("# %%\nassert 1 == 2\n")
    with pytest.raises(AssertionError):
        notebooks.executed(path)
