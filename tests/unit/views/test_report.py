"""The page about a result: all of it in one file, escaped, and a browser shows it."""

from __future__ import annotations

import re
import shutil
import subprocess
from html.parser import HTMLParser

import pytest
import result_factory as make
from spatial_factory import write_result

from tauslab.cli.main import main
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.open import open_result

pytest.importorskip("matplotlib")
BAD = "<script>alert(1)</script>"
CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)


class Page(HTMLParser):
    """Tags with their attributes, and the text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.words, self.open = [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def check_page(path):
    """The page, whose tags are balanced and which loads nothing."""
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<!DOCTYPE html>")
    found = Page(text)
    assert found.open == []
    assert "script" not in {tag for tag, _ in found.tags}
    for _, attributes in found.tags:
        assert "href" not in attributes
        assert attributes.get("src", "data:image/png;base64,").startswith("data:image/png;base64,")
        assert not any(name.startswith("on") for name in attributes)
    assert "url(" not in text
    return found


def ensemble(path, **changed):
    arrays = make.samples(100, early_ends=False)
    arrays |= make.statistics(arrays["counts"])
    return make.write(path, arrays, command=f"tauslab run {BAD}", **changed)


def test_the_page_of_an_ensemble(tmp_path, capsys):
    path = ensemble(tmp_path / "out.h5")
    assert main(["report", str(path)]) == 0
    page = tmp_path / "out.html"
    assert capsys.readouterr().out.strip() == str(page)
    found = check_page(page)
    words = " ".join(found.words)
    assert [tag for tag, _ in found.tags].count("img") == 3
    with open_result(path) as result:
        assert f"{result.mean('X')[-1]:.6g}" in words
        assert f"{result.quantile('X', 0.95)[-1]:.6g}" in words
        assert digest_total(digest_lines(result)) in words
    assert BAD in words
    assert "ab" * 32 in words
    assert main(["report", str(path)]) == 2
    assert "exists" in capsys.readouterr().err
    assert main(["report", str(path), "--overwrite"]) == 0


@pytest.mark.filterwarnings("always:.*2 of 7 blocks")
def test_the_page_of_an_unfinished_run_says_so(tmp_path, capsys):
    path = ensemble(tmp_path / "half.h5", done=[0, 1])
    assert main(["report", str(path)]) == 0
    assert "2 of 7 blocks" in capsys.readouterr().err
    words = " ".join(check_page(tmp_path / "half.html").words)
    assert "2 of 7 blocks" in words
    assert "none before the run is complete" in words


@pytest.mark.parametrize("replicas", [0, 2])
def test_the_page_of_a_lattice(tmp_path, replicas):
    path = write_result(tmp_path / "cell.h5", replicas=replicas)
    assert main(["report", str(path), "-o", str(tmp_path / "page.html")]) == 0
    found = check_page(tmp_path / "page.html")
    assert [tag for tag, _ in found.tags].count("img") == 3
    assert ("mean of replicas" in found.words) == bool(replicas)


def test_another_suffix_is_refused(tmp_path, capsys):
    path = ensemble(tmp_path / "out.h5")
    assert main(["report", str(path), "-o", str(tmp_path / "out.pdf")]) == 2
    assert "a report is written as .html" in capsys.readouterr().err


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here")
@pytest.mark.slow
def test_a_browser_shows_the_page(tmp_path):
    path = ensemble(tmp_path / "out.h5")
    assert main(["report", str(path)]) == 0
    program = (
        'document.title = [...document.images].every(i => i.naturalWidth > 300) + " " + '
        "document.documentElement.scrollWidth"
    )
    text = (tmp_path / "out.html").read_text()
    probe = tmp_path / "probe.html"
    probe.write_text(
        text.replace("</body>", f"<script>onload = () => {{{program}}}</script></body>")
    )
    for width in (1280, 500):  # Chromium's windows are no narrower
        done = subprocess.run(
            [CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--dump-dom",
             f"--user-data-dir={tmp_path / 'profile'}", f"--window-size={width},900",
             "--virtual-time-budget=3000", probe.as_uri()],
            capture_output=True, text=True, check=True, timeout=120,
        )  # fmt: skip
        loaded, wide = re.search(r"<title>(\w+) (\d+)</title>", done.stdout).groups()
        assert loaded == "true"
        assert int(wide) <= width  # nothing makes the whole page scroll sideways
