"""Messages name options that there are, and in Python as Python spells them."""

from __future__ import annotations

import argparse
import ast
import re
import warnings
from collections.abc import Iterator

import pytest
from places import ROOT

import tauslab as ts
from tauslab.model.network.counts import round_counts
from tauslab.runner.cli.main import _parser
from tauslab.runner.options.values.spelling import command_spelling, warn

PACKAGE = ROOT / "src" / "tauslab"
FLAG = re.compile(r"(?<![\w/.=-])--[a-z][a-z-]*")
# Of other programs: a compiler, and SLURM.
OTHERS = {"kernels/backends/nvrtc.py", "runner/cli/slurm.py", "runner/options/values/sbatch.py"}
OTHER_FLAGS = {"--partition", "--gpus", "--dask-tls-"}


def flags_of(parser: argparse.ArgumentParser) -> Iterator[str]:
    for action in parser._actions:
        yield from action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from flags_of(command)


def texts_of(tree: ast.Module) -> Iterator[str]:
    """Strings that are no docstrings."""
    told = {
        node.body[0].value
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body
        if isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in told:
            yield node.value


def test_every_flag_in_a_message_is_an_option():
    known = set(flags_of(_parser())) | OTHER_FLAGS
    unknown = {
        f"{path.relative_to(PACKAGE)}: {flag}"
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).as_posix() not in OTHERS
        for text in texts_of(ast.parse(path.read_text(encoding="utf-8")))
        for flag in FLAG.findall(text)
        if flag not in known
    }
    assert unknown == set()


def test_the_rule_sees_a_flag_that_is_gone():
    (text,) = texts_of(ast.parse('raise ConfigError("--epsylon 2 is not allowed")'))
    assert set(FLAG.findall(text)) - set(flags_of(_parser())) == {"--epsylon"}


def test_a_rounding_is_told_in_the_words_of_who_reads_it():
    def told() -> str:
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            round_counts({"A": 1e-21}, warn=warn)
        return str(found[0].message)

    assert "(amounts in moles need ts.in_molecules(model))" in told()
    with command_spelling():
        assert "(amounts in moles need --molecules)" in told()


def test_what_is_no_model_is_refused():
    with pytest.raises(ts.ConfigError, match="run takes a Network, a Lattice or the path of a "):
        ts.run(5)
