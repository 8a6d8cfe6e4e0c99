"""The pages as a site: its contents are all pages that are not excluded, and mkdocs builds it."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import reference
from places import ROOT

CONFIGURATION = (ROOT / "mkdocs.yml").read_text()
CONTENTS = re.findall(r"(?m)^ *- (?:.*: )?([\w/.-]+\.md)$", CONFIGURATION)
EXCLUDED = re.findall(r"(?m)^  /([\w-]+(?:\.md)?)(?:/.*)?$", CONFIGURATION)
LINK = re.compile(r"\]\(([^()\s#:]+)")


def source(page):
    """File of a page of the site."""
    outside = page.removeprefix("repository/")
    return ROOT / outside if outside != page else ROOT / "docs" / page


def test_contents_are_all_pages():
    paths = (path.relative_to(ROOT / "docs") for path in ROOT.glob("docs/**/*.md"))
    pages = {path.as_posix() for path in paths if path.parts[0] not in EXCLUDED}
    pages |= {f"reference/{name}" for name in reference.written()}
    inside = [page for page in CONTENTS if not page.startswith("repository/")]
    assert sorted(inside) == sorted(pages)


def test_the_site_stays_readable():
    made = {f"reference/{name}": text for name, text in reference.written().items()}
    texts = [made[page] if page in made else source(page).read_text() for page in CONTENTS]
    bare = (re.sub(r"\]\([^)\s]*\)", "]", text).split() for text in texts)
    assert sum(bool(re.search(r"\w", word)) for words in bare for word in words) < 60_000


def test_pages_link_to_pages_of_the_site_and_to_files():
    written = [page for page in CONTENTS if not page.startswith("reference/")]
    inside = {source(page).resolve() for page in CONTENTS}
    leading_out = [
        (page, link)
        for page in written
        for link in LINK.findall(source(page).read_text())
        if link.endswith(".md") and (source(page).parent / link).resolve() not in inside
    ]
    assert leading_out == []


def test_the_site_builds(tmp_path):
    pytest.importorskip("mkdocs", reason="the docs extra is not installed")
    pytest.importorskip("material", reason="the docs extra is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path)],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "index.html").read_text()
    assert 'href="install.html"' in html
    assert (tmp_path / "repository" / "examples" / "telegraph.toml").is_file()
    assert not (tmp_path / "developers").exists()
    formulas = (tmp_path / "concepts.html").read_text()
    assert "<math " in formulas
    assert "arithmatex" not in formulas, "a formula was left as it was"
    options = (tmp_path / "reference" / "command-line.html").read_text()
    assert "<code>--method ssa|tau|auto|ode</code>" in options
