"""The pages as a site: all are in its contents, and mkdocs finds nothing to complain of."""

from __future__ import annotations

import os
import re
import subprocess
import sys

import pytest
import reference
from places import ROOT

CONTENTS = re.findall(r"(?m)^ *- (?:.*: )?([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text())


def test_contents_are_all_pages():
    pages = {path.relative_to(ROOT / "docs").as_posix() for path in ROOT.glob("docs/**/*.md")}
    pages |= {f"reference/{name}" for name in reference.written()}
    inside = [page for page in CONTENTS if not page.startswith("repository/")]
    assert sorted(inside) == sorted(pages)


def test_contents_outside_of_docs_are_there():
    prefix = "repository/"
    outside = [page.removeprefix(prefix) for page in CONTENTS if page.startswith(prefix)]
    assert "README.md" in outside
    assert [page for page in outside if not (ROOT / page).is_file()] == []


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
    assert 'href="repository/index.html"' in html
    assert (tmp_path / "repository" / "examples" / "telegraph.toml").is_file()
    theory = (tmp_path / "theory" / "exact.html").read_text()
    assert "<math " in theory
    assert "arithmatex" not in theory, "a formula was left as it was"
    options = (tmp_path / "reference" / "command-line.html").read_text()
    assert "<code>--method auto|ssa|tau|ode</code>" in options
