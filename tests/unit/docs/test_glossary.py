"""The glossary is one page, kernels use its words, and decision records have one form."""

from __future__ import annotations

import re

import pytest
from places import ROOT

KERNELS = ROOT / "src" / "tauslab" / "kernels" / "csrc"
RECORDS = sorted((ROOT / "docs" / "decisions").glob("[!R]*.md"))
RETIRED = ("crew", "climb", "fast memory", "take turns", "makes old", "atomic_exchange", "bits_set",
           "add_together", "publish", "whoever")  # fmt: skip


def test_the_glossary_is_one_page():
    assert len((ROOT / "docs" / "glossary.md").read_text().splitlines()) <= 60


@pytest.mark.parametrize("word", RETIRED)
def test_kernels_use_the_words_of_the_field(word):
    texts = {path: path.read_text().lower() for path in KERNELS.rglob("*.*")}
    assert [path.name for path, text in texts.items() if word in text] == []


@pytest.mark.parametrize("record", RECORDS, ids=lambda path: path.stem)
def test_a_decision_record(record):
    text = record.read_text()
    parts = re.findall(r"(?m)^\*\*(\w+)\.\*\*", text)
    assert parts == ["Context", "Decision", "Consequence"]
    assert 10 <= len(text.splitlines()) <= 30
    assert f"({record.name})" in (record.parent / "README.md").read_text()
