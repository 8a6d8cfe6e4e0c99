"""The example notebooks run, and their files hold what they print and draw."""

from __future__ import annotations

import json
import warnings

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
    listed = (ROOT / "examples" / "README.md").read_text()
    assert len(NAMES) == 13
    assert all(f"(../docs/notebooks/{name}.ipynb)" in listed for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_file_has_the_cells_of_its_notebook(name):
    stored = json.loads((notebooks.FOLDER / f"{name}.ipynb").read_text())["cells"]
    actual = list(notebooks.cells((notebooks.FOLDER / f"{name}.py").read_text()))
    assert actual[0].markdown
    assert actual[0].source.startswith("# ")
    sources = ["".join(cell["source"]) for cell in stored]
    assert sources == [cell.source for cell in actual], "run scripts/docs/notebooks.py"
    assert any(cell.get("outputs") for cell in stored)


@pytest.mark.parametrize("name", QUICK)
def test_a_notebook_runs_small(name):
    actual = notebooks.executed(notebooks.FOLDER / f"{name}.py", shorter_python)
    assert sum(len(cell.pictures) for cell in actual) == 1
    assert any("exact mean" in cell.printed for cell in actual)


@pytest.mark.validate
@pytest.mark.parametrize("name", NAMES)
def test_a_file_is_what_its_notebook_gives(name):
    """Word for word; pictures depend on the version of matplotlib."""
    path = notebooks.FOLDER / f"{name}.py"
    with warnings.catch_warnings():
        if "import arviz" in path.read_text():
            warnings.simplefilter("ignore")  # by ArviZ, of its next version and of matplotlib
            pytest.importorskip("arviz", "0.23")
        text = notebooks.notebook(notebooks.executed(path))
    stored = (notebooks.FOLDER / f"{name}.ipynb").read_text()
    assert notebooks.without_pictures(text) == notebooks.without_pictures(stored)


def test_cells_are_told_apart_and_an_expression_is_shown(tmp_path):
    path = tmp_path / "a.py"
    path.write_text('# %% [markdown]\n# # Title\n#\n# Text\n\n# %%\nx = 2\nprint("a")\nx + 1\n')
    text, exec_, *more = notebooks.executed(path)
    assert (text.source, more) == ("# Title\n\nText", [])
    assert exec_.printed == "a\n3\n"
    printed = json.loads(notebooks.notebook([text, exec_]))["cells"][1]["outputs"][0]["text"]
    assert printed == ["a\n", "3\n"]


def test_a_check_that_fails_fails_the_notebook(tmp_path):
    path = tmp_path / "a.py"
    path.write_text("# %%\nassert 1 == 2\n")
    with pytest.raises(AssertionError):
        notebooks.executed(path)
