"""Theory has equations, errors, papers and tests; peers have pages; the README stays short."""

from __future__ import annotations

import re

import pytest
from places import ROOT

THEORY = sorted(path for path in (ROOT / "docs" / "theory").glob("*.md") if path.stem != "README")
COMING = sorted(
    path for path in (ROOT / "docs" / "coming-from").glob("*.md") if path.stem != "README"
)
FORMULA = re.compile(r"(?s)\$\$(.+?)\$\$|(?<![\w$])\$([^$\n]+)\$(?![\w$])")


@pytest.mark.parametrize("page", THEORY, ids=lambda path: path.stem)
def test_a_method_has_equations_an_error_a_paper_and_tests(page):
    text = page.read_text()
    assert "$$" in text
    assert re.search(r"\]\(https://doi\.org/10\.\d{4,}/", text)
    assert "## How it is tested" in text
    assert re.search(r"(?m)^## Error|\*\*Error\.\*\*", text)


@pytest.mark.parametrize("page", THEORY, ids=lambda path: path.stem)
def test_formulas_have_pairs_of_braces(page):
    found = [a or b for a, b in FORMULA.findall(page.read_text())]
    assert found
    assert all(formula.count("{") == formula.count("}") for formula in found)
    assert all(formula.count(r"\left") == formula.count(r"\right") for formula in found)


@pytest.mark.parametrize("page", THEORY, ids=lambda path: path.stem)
def test_formulas_become_mathml(page):
    converter = pytest.importorskip("latex2mathml.converter")
    for block, inline in FORMULA.findall(page.read_text()):
        made = converter.convert(block or inline)
        assert made.startswith("<math")
        assert "\\" not in re.sub(r"<annotation.*?</annotation>", "", made)


def test_nine_programs_have_a_page_with_both_models_and_a_source():
    listed = (ROOT / "docs" / "coming-from" / "README.md").read_text()
    assert len(COMING) == 9
    for page in COMING:
        text = page.read_text()
        assert f"({page.name})" in listed
        assert text.count("```") >= 4, "their model and ours"
        assert "| there | here |" in text
        assert re.search(r"(?m)^(Measured with|Sources?:)", text), page
        assert "**" in text, "a number that means something else"


def test_the_readme_breathes():
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 80
    assert sum(line.startswith("|") for line in lines) - 2 <= 10
    assert sum(line.startswith("![") for line in lines) == 1
