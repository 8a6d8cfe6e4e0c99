"""Every station of the walks of ARCHITECTURE.md is in the code."""

from __future__ import annotations

import ast
import re
from functools import cache

from places import ROOT

PAGE = (ROOT / "ARCHITECTURE.md").read_text()
SOURCES = ROOT / "src" / "tauslab"
# A station: `file`: `name`, or `name` in `file`.
STATION = re.compile(r"`([\w/]+\.(?:py|h|cc))`: (?:the upper rank's )?`(\w+)`")
BACKWARDS = re.compile(r"`(\w+)`(?: of| in) `([\w/]+\.(?:py|h|cc))`")
FILE = r"`(\w+/[\w/]+\.(?:py|h|cc))`"
# Names that a station's file only uses: those of the generated header, of what it takes and gives.
USED = {"c", "all_propensities", "fire", "place_of", "add_accumulators", "Options"}


def named_after_files(page):
    """Files of the walks, each with every name that is said of it before the next file.

    A name before "in `file`" belongs to that file, and brackets stand apart.
    """
    for station in re.findall(r"(?m)^\d\. .*", page):
        _, *parts = re.split(FILE, re.sub(r"\([^()]*\)", "", station))
        for file, message in zip(parts[::2], parts[1::2], strict=True):
            words = re.findall(r"`([A-Za-z_]\w*)`(?! (?:in|of) $)", message)
            yield from ((file, name) for name in words)


STATIONS = sorted(
    {
        *STATION.findall(PAGE),
        *((f, n) for n, f in BACKWARDS.findall(PAGE)),
        *named_after_files(PAGE),
    }
)


@cache
def names_of(file):
    """Functions and classes that a file defines; for kernels all words that head a definition."""
    text = (SOURCES / file).read_text()
    if file.endswith(".py"):
        kinds = (ast.FunctionDef, ast.ClassDef)
        return {node.name for node in ast.walk(ast.parse(text)) if isinstance(node, kinds)}
    functions = re.findall(r"(?m)^(?:template.*>\s*)?DEVICE\w* [^;=]*?(\w+)\(", text)
    kernels = re.findall(
        r"(?m)^\w*KERNEL\w*\((?:[\w *]+, ){0,2}?(\w+), (?:const )?[A-Za-z]\w* ", text
    )
    return {*functions, *kernels}


def is_in(file, name):
    if name in USED:
        return re.search(rf"\b{name}\b", (SOURCES / file).read_text()) is not None
    return name in names_of(file)


def test_stations_are_in_the_code():
    assert len(STATIONS) > 100
    assert [(file, name) for file, name in STATIONS if not is_in(file, name)] == []


def test_files_that_the_page_names():
    named = set(re.findall(r"`([\w/]+/\w+\.(?:py|h|cc))`", PAGE))
    assert [file for file in sorted(named) if not (SOURCES / file).is_file()] == []
