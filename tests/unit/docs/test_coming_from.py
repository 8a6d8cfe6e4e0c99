"""Pages for users of other programs: one model in two languages, which means the same in both."""

from __future__ import annotations

import csv
import sys
import tomllib

import pytest
from docs_blocks import ROOT, blocks

import tauslab as ts

PAGES = sorted(path.stem for path in (ROOT / "docs" / "coming-from").glob("[a-z]*.md"))
LATTICES = ("lattice-microbes", "smoldyn")


@pytest.fixture
def coming_from(monkeypatch):
    """The script that runs the other programs."""
    monkeypatch.syspath_prepend(ROOT / "scripts" / "peers")
    sys.modules.pop("coming_from", None)
    import coming_from

    return coming_from


@pytest.fixture
def rows():
    """What the script found, by page."""
    path = ROOT / "docs" / "coming-from" / "agreement.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return {row["page"]: row for row in csv.DictReader(file)}


def test_every_page_was_run_or_says_why_not(coming_from, rows):
    assert sorted(rows) == PAGES
    for page, row in rows.items():
        assert row["code"] == coming_from.code_hash(page), f"{page}: run the script again"
        if page in coming_from.NOT_RUN:
            assert row["verdict"] == f"not run: {coming_from.NOT_RUN[page]}"
        else:
            assert row["verdict"] == "agrees"
            assert abs(float(row["mean"]) - float(row["expected"])) < 4.5 * float(row["error"])


@pytest.mark.parametrize("page", [page for page in PAGES if page not in LATTICES])
def test_our_model_of_a_page_has_the_mean_of_the_others(page, coming_from, tmp_path):
    """By the master equation, which is solved twice: here for the page's own code."""
    actual = blocks(f"docs/coming-from/{page}.md", "python")
    if actual:
        names = {"ts": ts}
        exec(actual[0][: actual[0].index("ts.run(")].rpartition("\n")[0], names)  # noqa: S102
        network = names["net"]
    else:
        text = blocks(f"docs/coming-from/{page}.md", "toml")[0]
        assert tomllib.loads(text)["t_end"] == 50
        (tmp_path / "model.toml").write_text(text)
        network = ts.read(tmp_path / "model.toml")
    law = ts.cme(network, [50])
    assert law.mean("D")[0] == pytest.approx(coming_from.exact_mean(), rel=1e-4)
