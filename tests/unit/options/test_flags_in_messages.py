"""Messages name options that there are, and in Python as Python spells them."""

from __future__ import annotations

import argparse
import ast
import functools
import inspect
import re
import threading
import warnings
from collections.abc import Iterator

import pytest
from places import ROOT
from plain_words import used

import tauslab as ts
from tauslab.base.option_names import command_line, known, opt, warn
from tauslab.cli.main import _parser
from tauslab.model.network.counts import round_counts

# Keywords of functions that the command line spells as no option.
KEYWORDS = {
    name
    for word in ts.__all__
    if callable(function := getattr(ts, word)) and not isinstance(function, type)
    for name in inspect.signature(function).parameters
} | {  # of ts.Ensemble.resample, ts.Hybrid.drive and share, ts.Chain.effective_size, ts.Polymer
    "method", "over", "unit", "of", "beads", "left", "right", "origin",
}  # fmt: skip
PACKAGE = ROOT / "src" / "tauslab"
FLAG = re.compile(r"(?<![\w/.=-])--[a-z][a-z-]*|(?<![\w-])-[no]\b")
# Of other programs: compilers, SLURM and MPI launchers; and what another name of an option is.
OTHERS = {
    "kernels/backends/nvrtc.py": "NVRTC", "kernels/backends/compilers.py": "compilers",
    "kernels/backends/cpu.py": "compilers", "decomposition/ranks/launcher.py": "srun",
    "options/dask.py": "sbatch", "options/values/result_name.py": "said()",
    "store/results/lattice/recorded.py": "Spelling()",
    "base/option_names.py": "the rule",
}  # fmt: skip
OTHER_FLAGS = {"--partition", "--gpus", "-n", "-o"}
OWN_PARSERS = {"cli/slurm.py", "cli/biosimulators.py"}
NAMED = {"opt", "assigned", "within", "one_of"}


def flags_of(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                yield from flags_of(command)


def called(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else None
    return getattr(function, "id", getattr(function, "attr", ""))


def texts_of(node: ast.AST) -> Iterator[str]:
    """Strings that are no docstrings and do not define an option."""
    todo = [node]
    while todo:
        for child in ast.iter_child_nodes(todo.pop()):
            if called(child) == "option" or (
                isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)
            ):
                continue
            if isinstance(child, ast.Constant) and isinstance(child.value, str):
                yield child.value
            todo.append(child)


@functools.cache
def tree_of(text: str) -> ast.Module:
    return ast.parse(text)


@functools.cache
def texts() -> dict[str, str]:
    files = sorted(PACKAGE.rglob("*.py"))
    return {path.relative_to(PACKAGE).as_posix(): path.read_text("utf-8") for path in files}


def sources(holding: str) -> Iterator[tuple[str, ast.Module]]:
    """Modules in whose text there is something."""
    pattern = re.compile(holding)
    return ((where, tree_of(text)) for where, text in texts().items() if pattern.search(text))


def names_in(tree: ast.Module) -> Iterator[str]:
    """Options that messages name."""
    for node in ast.walk(tree):
        if called(node) in NAMED and node.args and isinstance(node.args[0], ast.Constant):
            yield str(node.args[0].value)


def test_messages_name_options_by_their_fields_never_by_a_flag():
    literal = [
        f"{where}: {flag}: write opt() or assigned() of tauslab.base.option_names"
        for where, tree in sources(FLAG.pattern)
        if where not in OTHERS and not where.startswith("cli/")
        for text in texts_of(tree)
        for flag in FLAG.findall(text)
    ]
    assert literal == []


def test_every_option_in_a_message_is_there():
    actions = list(flags_of(_parser()))
    flags = {flag for action in actions for flag in action.option_strings}
    fields = {*known(), *(action.dest for action in actions), *KEYWORDS}
    unknown = [
        f"{where}: {name}"
        for where, tree in sources(rf"\b(?:{'|'.join(NAMED)})\(")
        for name in names_in(tree)
        if name not in fields
    ]
    unknown += [
        f"{where}: {flag}"
        for where, tree in sources(FLAG.pattern)
        if where.startswith("cli/") and where not in OWN_PARSERS
        for text in texts_of(tree)
        for flag in FLAG.findall(text)
        if flag not in flags | OTHER_FLAGS
    ]
    assert unknown == []


def messages(tree: ast.Module) -> Iterator[str]:
    """Texts of errors and warnings, with a mark for what is filled in."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Raise) and called(node) != "warn":
            continue
        for part in ast.walk(node):
            if isinstance(part, ast.JoinedStr):
                pieces = (x.value if isinstance(x, ast.Constant) else "X" for x in part.values)
                yield "".join(map(str, pieces))
            elif isinstance(part, ast.Constant) and isinstance(part.value, str):
                yield part.value


def test_words_of_messages():
    plain = re.compile(r"\blaw(?:=| or| is| takes)|either rate=? or law|with law;")
    message = (
        (where, used(plain.sub("", text)))
        for where, tree in sources(r"\braise\b|\bwarn\(")
        for text in messages(tree)
    )
    assert [(where, words) for where, words in message if words] == []


def test_the_rules_see_a_flag_and_an_option_that_is_gone():
    tree = ast.parse("raise ConfigError(f\"--epsilon 2 {opt('epsylon')}\")")
    assert [flag for text in texts_of(tree) for flag in FLAG.findall(text)] == ["--epsilon"]
    assert set(names_in(tree)) - known().keys() == {"epsylon"}


@pytest.mark.parametrize(
    ("wrong", "in_python", "at_the_command_line"),
    [
        ({"t_end": 0}, "t_end=0 is not allowed", "--t-end 0 is not allowed"),
        ({"n": 0}, "n=0 is not allowed", "-n 0 is not allowed"),
        ({"resume": True}, "resume=True needs the output file", "--resume needs the output file"),
        ({"sample": "k=uniform(0,1)"}, 'sample= needs method="ode"', "--sample needs --method ode"),
        ({"method": "leap"}, "method='leap' is not known", "--method 'leap' is not known"),
        ({"record": "all"}, "record='all' is not known", "--record 'all' is not known"),
        ({"species": ["Z"]}, 'species="Z": not a species', "--species Z: not a species"),
        ({"set": {"z": 1}}, 'set["z"]: neither a parameter', "--set z: neither a parameter"),
        ({"sweep": {"k": "2:3"}}, 'sweep["k"]=2:3: write', "--sweep k=2:3: write"),
        ({"until": "X"}, "until='X': write mean(", "--until 'X': write mean("),
        ({"append": 3}, "append= needs the finished file", "--append needs the finished file"),
        ({"first": -1}, "first=-1 is not allowed", "--first -1 is not allowed"),
        ({"note": "a\nb"}, "note=: a line of at most", "--note: a line of at most"),
        ({"output": "a.csv"}, 'output="a.csv": a result is', "-o a.csv: a result is"),
    ],
)
def test_one_message_has_two_spellings(wrong, in_python, at_the_command_line):
    network = ts.Network("decay")
    network.add_parameter("k", 1.0)
    network.add_species("X", 10)
    network.add_reaction("X ->", rate="k")
    with pytest.raises(ts.ConfigError) as raised:
        ts.run(network, **{"t_end": 1, **wrong})
    assert str(raised.value).startswith(in_python)
    with command_line(), pytest.raises(ts.ConfigError) as raised:
        ts.run(network, **{"t_end": 1, **wrong})
    assert str(raised.value).startswith(at_the_command_line)


def test_threads_of_a_command_name_flags_too():
    message: list[str] = []
    with command_line():
        thread = threading.Thread(target=lambda: message.append(opt("t_end")))
        thread.start()
        thread.join()
    assert (message, opt("t_end")) == (["--t-end"], "t_end=")


def test_a_rounding_is_told_in_the_words_of_who_reads_it():
    def told() -> str:
        with warnings.catch_warnings(record=True) as actual:
            warnings.simplefilter("always")
            round_counts({"A": 1e-21}, warn=warn)
        return str(actual[0].message)

    assert "(amounts in moles need ts.in_molecules(model))" in told()
    with command_line():
        assert "(amounts in moles need --molecules)" in told()


def test_what_is_no_model_is_refused():
    with pytest.raises(
        ts.ConfigError, match="run takes a Network, a Lattice, a Hybrid or the path "
    ):
        ts.run(5)


def test_a_warning_points_to_the_line_of_its_reader():
    network = ts.Network("rounded")
    network.add_species("X", 1.5)
    network.add_reaction("X ->", rate=1.0)
    with pytest.warns(UserWarning, match="not whole were rounded") as actual:
        ts.run(network, n=1, t_end=1, seed=1, device="cpu")
    assert [each.filename for each in actual] == [__file__]
