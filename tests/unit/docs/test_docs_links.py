"""Links in pages lead somewhere, and so do the paths that pages and docstrings speak of."""

from __future__ import annotations

import re
from functools import cache

import reference
from places import ROOT

FOLDERS = ("docs", "examples", "scripts", "slurm", "src", "tests")
PAGES = sorted(
    page
    for page in (*ROOT.glob("*.md"), *(p for name in FOLDERS for p in (ROOT / name).rglob("*.md")))
    if page.parent != reference.FOLDER  # made anew, whether it is there or not
)
PRESENT = [page for page in PAGES if page.name != "CHANGELOG.md"]  # not what once was
FENCE = re.compile(r"(?ms)^ *```.*?^ *```$")
LINK = re.compile(r"!?\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^()\s]+)\)")
# Paths from the root; not those that a command writes.
TESTS = "tests/(?:unit|kernels|mpi|statistics|data)"
PATH = re.compile(rf"(?<![\w/.$-])(?<!-o )((?:docs|examples|scripts|slurm|{TESTS})/[\w./-]*\w)")


# A program of ours in a command, and what it is given.
PROGRAM = re.compile(r"(?<![\w/])((?:scripts|examples)/[\w/]+\.py)((?: +[^\n`;|&)]+)?)")


@cache
def made():
    """Pages that are not committed, by path."""
    return {reference.FOLDER / name: text for name, text in reference.written().items()}


def text_of(page):
    return made()[page] if page in made() else page.read_text()


def name_of(path):
    return str(path.relative_to(ROOT))


def slug(heading):
    """What GitHub makes of a heading."""
    bare = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", bare).replace(" ", "-")


@cache
def anchors(page):
    actual: list[str] = []
    for heading in re.findall(r"(?m)^#+ +(.*?)#*$", FENCE.sub("", text_of(page))):
        name = slug(heading)
        again = sum(known == name or re.fullmatch(rf"{name}-\d+", known) is not None
                    for known in actual)  # fmt: skip
        actual.append(f"{name}-{again}" if again else name)
    return actual


def broken(page, text):
    """Links of a page's text that lead nowhere."""
    for target in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", text))):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        aim = (page.parent / path).resolve() if path else page
        if not (aim in made() or aim.exists()) or (anchor and anchor not in anchors(aim)):
            yield target


def in_pages(rule, pages=PAGES):
    """What a rule gives for the texts of pages, each with its page."""
    return [(name_of(page), each) for page in pages for each in rule(page, text_of(page))]


def test_links_of_pages():
    assert len(made()) > 10
    assert in_pages(broken, (*PAGES, *made())) == []


def test_a_broken_link_is_seen():
    text = "[a](nowhere.md) ![a](no.png) [`a`](index.md#no-such) x [b [c]](../no) [d](faq.md)"
    assert len(list(broken(ROOT / "docs" / "index.md", text))) == 4


def absent(_, text):
    """Paths that a page names and that are not there."""
    named = PATH.findall(FENCE.sub("", text))
    yield from (path for path in named if not (ROOT / path).exists() and path != "docs/reference")


def test_paths_that_pages_speak_of():
    assert in_pages(absent, PRESENT) == []


def test_pages_that_the_code_speaks_of():
    actual = {
        (name_of(path), named)
        for folder in ("src", "scripts", "examples", "slurm")
        for path in (ROOT / folder).rglob("*")
        if path.suffix in {".py", ".h", ".cc", ".sbatch", ".toml"}
        for named in re.findall(r"(?<!-o )(?<!scripts/)\bdocs/[\w/-]+\.\w+", path.read_text())
    }
    assert actual
    assert sorted((where, page) for where, page in actual if not (ROOT / page).exists()) == []


def test_every_page_can_be_reached():
    reached, left = set(), [ROOT / "docs" / "index.md", ROOT / "docs" / "developers" / "README.md"]
    while left:
        page = left.pop()
        if page.suffix != ".md" or page in reached:
            continue
        reached.add(page)
        targets = (link.partition("#")[0] for link in LINK.findall(text_of(page)))
        left += [(page.parent / t).resolve() for t in targets if t and ":" not in t]
    pages = {page for page in (*PAGES, *made()) if page.is_relative_to(ROOT / "docs")}
    assert sorted(name_of(page) for page in pages - reached) == []


def unknown_options(_, text):
    """Options that a page gives to programs of ours, and that these do not have."""
    for program, given in PROGRAM.findall(text.replace("\\\n", " ")):
        known = (ROOT / program).read_text()
        for option in re.findall(r"(?<!\S)--?[a-zA-Z][\w-]*", given):
            if f'"{option}"' not in known:
                yield program, option


def test_options_of_programs_that_pages_name():
    assert in_pages(unknown_options, PRESENT) == []


def test_an_unknown_option_is_found():
    text = "`python scripts/validate.py cme -o a --seed 1 --sede 2` --other"
    assert list(unknown_options(None, text)) == [("scripts/validate.py", "--sede")]
