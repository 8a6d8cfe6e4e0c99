"""Words that a reader of pages, help and messages would have to guess: none is used there."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator

import pytest
import reference
from places import ROOT
from plain_words import CODE, used

from tauslab.cli import main as cli

PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "examples" / "README.md",
        *(page for page in (ROOT / "docs").glob("*.md") if page.name != "halo.md"),
        *(ROOT / "docs" / "coming-from").glob("*.md"),
    ]
)


def test_words_of_the_reference():
    assert {name: used(text) for name, text in reference.written().items() if used(text)} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_words_of_a_page(page):
    assert used(page.read_text()) == []


def test_guides_speak_of_equal_numbers():
    """What "bits" are is explained on the page of concepts; the format of files counts them."""
    named = {"README.md", "index.md", "faq.md", "concepts.md", "file-format.md"}
    guides = [page for page in PAGES if page.name not in named]
    message = {
        page.name: re.findall(r"\b(?<!64 )bits\b", CODE.sub("", page.read_text()))
        for page in guides
    }
    assert {name: words for name, words in message.items() if words} == {}


def parsers() -> Iterator[tuple[str, argparse.ArgumentParser]]:
    """The parser of each command; argparse has no other way to ask."""
    whole = cli._parser()
    yield "tauslab", whole
    for action in whole._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


@pytest.mark.parametrize(("name", "parser"), list(parsers()), ids=lambda one: str(one)[:20])
def test_words_of_help(name, parser):
    assert name
    assert used(parser.format_help().replace("\n    ", "\n")) == []


def test_a_word_is_seen():
    assert used("The time course of a rate law; a course, as told. `law`") == ["course", "told"]
