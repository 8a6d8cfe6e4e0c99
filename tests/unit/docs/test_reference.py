"""The pages of docs/reference say what the code says, and leave nothing out."""

from __future__ import annotations

import inspect
import re

import pytest
import reference
from reference_pages import HIDDEN, PAGES

import tauslab as ts

FUNCTIONS = [e for page in PAGES for e in page.entries if inspect.isfunction(e.object)]
EVIDENT = {"grid", "lattice", "network", "path"}  # what a function is about


def public_names():
    """What `tauslab` and its documented modules export."""
    unions = ("AnyResult", "Model")  # that the first page tells in its introduction
    yield from (f"tauslab.{n}" for n in ts.__all__ if n != "__version__" and n not in unions)
    yield from (f"tauslab.dbn.{name}" for name in ts.dbn.__all__)
    yield from (f"tauslab.geometry.{name}" for name in ts.geometry.__all__)
    yield from (f"tauslab.shapes.{name}" for name in ts.shapes.__all__)
    yield from (f"tauslab.petab.{name}" for name in ts.petab.__all__)


def test_pages_are_written_and_old_ones_removed(monkeypatch, tmp_path):
    monkeypatch.setattr(reference, "FOLDER", tmp_path / "reference")
    assert len(reference.write()) == len(reference.written())
    (tmp_path / "reference" / "gone.md").write_text("old")
    assert reference.write() == [tmp_path / "reference" / "gone.md"]
    assert not list(tmp_path.rglob("gone.md"))


def test_every_public_name_is_there():
    entries = [entry for page in PAGES for entry in page.entries]
    message = {entry.title for entry in entries} | {entry.call for entry in entries}
    modules = {f"tauslab.{name}" for name in ("dbn", "geometry", "petab", "shapes")}
    assert set(public_names()) - modules <= message


def test_what_is_hidden_is_there():
    classes = {entry.object.__name__: entry.object for page in PAGES for entry in page.entries}
    for name, members in HIDDEN.items():
        assert [member for member in members if not hasattr(classes[name], member)] == []


@pytest.mark.parametrize("entry", FUNCTIONS, ids=lambda entry: entry.object.__name__)
def test_parameters_of_a_function_are_reported(entry):
    message = inspect.getdoc(entry.object)
    given = inspect.signature(entry.object).parameters
    if len(given) > 4 or "\nParameters\n" in message:
        items = re.findall(r"(?m)^(\w+(?:, \w+)*)$", message)
        names = {name for item in items for name in item.split(", ")}
        assert given.keys() - names - set(re.findall(r"`(\w+)`", message)) <= EVIDENT


def test_names_in_docstrings_are_those_of_something():
    text = "\n".join(reference.written().values())
    outside = re.sub(r"(?ms)^```.*?^```$", "", text)
    named = set(re.findall(r"`(tauslab(?:\.\w+)+)`", outside))
    titles = {entry.title.removesuffix(", a class") for page in PAGES for entry in page.entries}
    assert named - titles == {
        "tauslab.AnyResult", "tauslab.Model", "tauslab.dbn", "tauslab.geometry", "tauslab.shapes",
    }  # fmt: skip


def test_a_docstring_becomes_markdown():
    docstring = (
        "Count `x`, as `tauslab.run` does.\n\nParameters\n----------\na, b\n    First\n    line.\n"
        "\nReturns\n-------\nA ``[time]`` of `Result`.\n\n>>> 1 + 1\n2\n"
    )
    places = {"tauslab.run": "running.md#tauslabrun", "Result": "results.md#tauslabresult"}
    assert reference.markdown(docstring, places, "running", "tauslab.f") == (
        "Count `x`, as [`tauslab.run`](#tauslabrun) does.\n\n**Parameters**\n\n"
        "- **`a`, `b`**: First line.\n\n**Returns**\n\nA `[time]` of "
        "[`Result`](results.md#tauslabresult).\n\n```pycon\n>>> 1 + 1\n2\n```"
    )
