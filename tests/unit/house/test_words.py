"""Words that a reader of pages, help and messages would have to guess: none is used there."""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator

import pytest
import reference
from places import ROOT

from tauslab.cli import main as cli

# "law" is right of a rate, "course" of a time course, and both of names in code.
WORDS = re.compile(
    r"\b(?<!time )courses?\b"
    r"|\b(?<!rate )(?<!kinetic )(?<!SBML )(?<!net-)laws?\b"
    r"|\bmessengers?\b|\btell(?:s|ing)?\b|\btold\b|\bfound\b|\brooms?\b|\bthose\b|\bhere\b"
    r"|\bwhat there is\b|\bwhat is called\b|\bby itself\b|\b(?:goes?|gone|went) on\b|\bhonour\w*\b"
    r"|\bhalf to even\b|\bdependents\b|\bnever comes?\b"
    r"|\bat rest\b|\bby chance\b|\bgives? up\b|\bgiven up\b|\bnot ours\b|\bis gone\b|\bare gone\b",
    re.IGNORECASE,
)
CODE = re.compile(r"(?ms)^```.*?^```|^    \S.*?$|`[^`\n]*`|\]\([^)\s]*\)|https?://\S+")
PAGES = sorted(
    [
        ROOT / "README.md",
        ROOT / "examples" / "README.md",
        *(page for page in (ROOT / "docs").glob("*.md") if page.name != "halo.md"),
        *(ROOT / "docs" / "coming-from").glob("*.md"),
    ]
)


def used(text: str) -> list[str]:
    """Words of the list in a text, outside of code and addresses."""
    return WORDS.findall(CODE.sub("", text))


def test_words_of_the_reference():
    assert {name: used(text) for name, text in reference.written().items() if used(text)} == {}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_words_of_a_page(page):
    assert used(page.read_text()) == []


def test_guides_speak_of_equal_numbers():
    """What "bits" are is explained on the page of concepts; the format of files counts them."""
    named = {"README.md", "index.md", "faq.md", "concepts.md", "file-format.md"}
    guides = [page for page in PAGES if page.name not in named]
    said = {
        page.name: re.findall(r"\b(?<!64 )bits\b", CODE.sub("", page.read_text()))
        for page in guides
    }
    assert {name: words for name, words in said.items() if words} == {}


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


def messages() -> Iterator[tuple[str, str]]:
    """Texts of errors and warnings, with a mark for what is filled in, and their places."""
    for path in sorted((ROOT / "src" / "tauslab").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            called = node.func if isinstance(node, ast.Call) else None
            name = getattr(called, "attr", getattr(called, "id", ""))
            if not isinstance(node, ast.Raise) and name != "warn":
                continue
            for part in ast.walk(node):
                if isinstance(part, ast.JoinedStr):
                    pieces = (x.value if isinstance(x, ast.Constant) else "X" for x in part.values)
                    yield f"{path.relative_to(ROOT)}:{part.lineno}", "".join(map(str, pieces))
                elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield f"{path.relative_to(ROOT)}:{part.lineno}", part.value


def test_words_of_messages():
    plain = re.compile(r"\blaw(?:=| or| is| takes)|either rate=? or law|with law;")
    said = ((place, used(plain.sub("", text))) for place, text in messages())
    assert [(place, words) for place, words in said if words] == []


def test_a_word_is_seen():
    assert used("The time course of a rate law; a course, as told. `law`") == ["course", "told"]
