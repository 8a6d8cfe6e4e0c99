"""Rules of the source tree beside those of `lint-imports`: links, and what stays out."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest
from places import ROOT

PACKAGE = ROOT / "src" / "tauslab"
LINKS = ("model", "kernels", "decomposition", "runner")  # at the root, for those who look for them
HEAVY = {"mpi4py", "cupy", "cupyx", "dask", "distributed", "matplotlib", "cuda"}
GENERATORS = {
    "kernels/coupled/codegen.py",
    "kernels/events/codegen.py",
    "kernels/events/large.py",
    "kernels/events/tables.py",
    "kernels/network/codegen.py",
    "kernels/network/lane_codegen.py",
    "kernels/lattice/codegen.py",
    "kernels/lattice/planes.py",
    "kernels/leaping/codegen.py",
    "kernels/leaping/event_codegen.py",
    "kernels/ode/codegen.py",
    "kernels/ode/codegen_parts.py",
}


def name_of(path: Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


@cache
def trees() -> dict[str, ast.Module]:
    """Each module, parsed when the first test asks: every test process imports this file."""
    files = sorted(PACKAGE.rglob("*.py"))
    return {name_of(path): ast.parse(path.read_text(), str(path)) for path in files}


@cache
def nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    """All of a tree, which many rules look at."""
    return tuple(ast.walk(tree))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of all that is imported: in functions and under TYPE_CHECKING too."""
    for node in nodes(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def places_of(rule: Callable[[str, ast.Module], Iterator[object]]) -> list[str]:
    """Where a rule is broken: ``name: what``."""
    return [f"{name}: {what}" for name, tree in trees().items() for what in rule(name, tree)]


def texts_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and value of each string that is not a docstring; pieces of an f-string one by one."""
    docstrings = set()
    for node in nodes(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(first.value)
    for node in nodes(tree):
        if (
            isinstance(node, ast.Constant)
            and node not in docstrings
            and isinstance(node.value, str)
        ):
            yield node.lineno, node.value


def test_folders_say_what_they_are_for():
    wrong = []
    folders = (path for path in PACKAGE.rglob("*") if path.is_dir())
    for folder in (PACKAGE, *(path for path in folders if path.name != "__pycache__")):
        files = [path for path in folder.iterdir() if path.is_file()]
        if any(path.suffix == ".py" for path in files):
            tree = trees().get(name_of(folder / "__init__.py"))
            if tree is None or not ast.get_docstring(tree):
                wrong.append(f"{folder}: no purpose in __init__.py")
    assert wrong == []


def test_heavy_packages_are_imported_where_they_are_used():
    # Their import at the head of a module would start MPI or touch the GPU with `import tauslab`.
    def heavy(_: str, tree: ast.Module) -> Iterator[object]:
        top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        yield from HEAVY & {dotted.split(".")[0] for dotted in imports(ast.Module(top, []))}

    assert places_of(heavy) == []


def test_only_one_module_touches_the_world_communicator():
    world = re.compile(r"\bCOMM_(WORLD|SELF)\b")
    users = {name for name in trees() if world.search((PACKAGE / name).read_text())}
    assert users == {"decomposition/ranks/mpi.py"}


def test_only_three_modules_import_mpi4py():
    users = {n for n, tree in trees().items() if any(d.startswith("mpi4py") for d in imports(tree))}
    # The writer that uses MPI-IO hands its communicator to HDF5, which knows mpi4py's only.
    assert users <= {
        "decomposition/ranks/mpi.py",
        "cli/doctor/report.py",
        "decomposition/ranks/on_root.py",
    }


def test_no_branch_on_the_name_of_a_backend():
    def branches(name: str, tree: ast.Module) -> Iterator[object]:
        if "/backends/" in name:
            return
        for node in nodes(tree):
            if isinstance(node, ast.Compare | ast.Match):
                yield from (line for line, text in texts_in(node) if text in {"cuda", "cpu"})

    assert places_of(branches) == []


def decided(tree: ast.Module) -> Iterator[ast.expr]:
    """What `if`, `while`, a conditional expression or logic asks for its truth."""
    for node in nodes(tree):
        if isinstance(node, ast.If | ast.While | ast.IfExp):
            yield node.test
        elif isinstance(node, ast.BoolOp):
            yield from node.values
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            yield node.operand


def test_no_branch_on_the_style_of_a_backend():
    """Engines ask a style for numbers; generators write the code that it asks for."""

    def branches(name: str, tree: ast.Module) -> Iterator[object]:
        if "/backends/" in name or name in GENERATORS:
            return
        for requested in decided(tree):
            of = requested.value if isinstance(requested, ast.Attribute) else None
            if "style" in (getattr(of, "attr", None), getattr(of, "id", None)):
                yield requested.lineno

    assert places_of(branches) == []


def test_no_kernel_text_outside_the_generator():
    source = re.compile(
        r"__global__|__device__|\bKERNEL\(|\bDEVICE\b|#include|;\s*\n\s*\w+.*;\s*\n"
    )

    def kernel_text(name: str, tree: ast.Module) -> Iterator[object]:
        if name not in GENERATORS:
            yield from (line for line, text in texts_in(tree) if source.search(text))

    assert places_of(kernel_text) == []


@pytest.mark.parametrize("layer", LINKS)
def test_links_at_the_root_lead_into_the_package(layer):
    link = ROOT / layer
    if link.is_file():  # a checkout without links has text files instead
        assert link.read_text().strip() == f"src/tauslab/{layer}"
    else:
        assert str(link.readlink()) == f"src/tauslab/{layer}"
        assert (link / "__init__.py").is_file()


@pytest.mark.parametrize("layer", LINKS)
def test_an_import_through_a_link_says_what_to_write(layer):
    done = subprocess.run(
        [sys.executable, "-c", f"import {layer}"],
        cwd=ROOT / "src" / "tauslab",  # as from the root, where the links lead there
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        f"ImportError: {layer} is a part of tauslab: write `import tauslab.{layer}`"
    )


# What importing and asking for help must not load: each costs a tenth of a second or more.
SLOW = ("h5py", "libsbml", "rich", "xarray", "pandas", "scipy", "torch", "asyncio")


@pytest.mark.parametrize("module", ["tauslab", "tauslab.cli.main", "tauslab.kernels.backends"])
def test_importing_starts_neither_mpi_nor_cuda(module):
    program = f"import {module}, sys; print(*sys.modules, sep='\\n')"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = set(done.stdout.split())
    assert module in loaded
    assert not loaded & {"mpi4py", "mpi4py.MPI", "cupy", "matplotlib", "dask", "libcuda"}
    assert not loaded & set(SLOW)


def files_of_the_project() -> list[Path]:
    tops = ("src", "tests", "scripts", "slurm", "docs", "examples", ".ci")
    kinds = {".py", ".h", ".cc", ".sh", ".md", ".toml", ".sbatch", ".cff", ".txt", ""}
    inside = [p for top in tops for p in (ROOT / top).rglob("*")]
    beside = [ROOT / ".clang-format", *ROOT.glob("*.md"), *ROOT.glob("*.toml"), *ROOT.glob("*.cff")]
    return [
        p
        for p in (*inside, *beside)
        if p.is_file()
        and p.suffix in kinds
        and "egg-info" not in str(p)
        and "__pycache__" not in str(p)
    ]


# Folders that belong to one machine or one person.
MACHINE = re.compile(r"(?<![\w.$}/*])/(?:home|root|work|Users|scratch|mnt|data)/\w|[A-Z]:\\\\")


# What cuts or searches a text.
CUTS = {*("partition", "rpartition", "split", "rsplit", "startswith", "endswith", "replace"),
        *("removeprefix", "removesuffix", "search", "match", "fullmatch", "sub")}  # fmt: skip
# h5py and HDF5 tell in words alone why they fail; a model from standard input has no name to tell.
WORDS_OF_A_LIBRARY = {
    "base/files/opening.py",
    "store/hdf5/disk.py",
    "cli/pipes.py",
}


def cut_messages(name: str, tree: ast.Module) -> Iterator[object]:
    """Exceptions whose text is read by the program: they should carry fields."""

    def is_text(node: ast.AST) -> bool:
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "str"
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id in caught
        )

    caught = {n.name for n in nodes(tree) if isinstance(n, ast.ExceptHandler)} - {None}
    for node in nodes(tree) if name not in WORDS_OF_A_LIBRARY else ():
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            cut = node.func.attr in CUTS and any(map(is_text, (node.func.value, *node.args)))
        else:
            cut = isinstance(node, ast.Compare) and any(map(is_text, node.comparators))
        if cut:
            yield f"line {node.lineno}"


def test_no_text_of_an_exception_is_cut():
    assert places_of(cut_messages) == []


@pytest.mark.parametrize("use", ["str(e).partition(':')", "'x' in str(e)", "P.match(str(e))"])
def test_the_rule_sees_a_text_that_is_cut(use):
    wrong = ast.parse(f"try:\n    f()\nexcept ValueError as e:\n    g({use})\n")
    assert list(cut_messages("model/a.py", wrong)) == ["line 4"]
    assert list(cut_messages("model/a.py", ast.parse("g(str(e), e.where)"))) == []


def test_no_path_of_one_machine():
    actual = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files_of_the_project()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert actual == []


def test_the_rule_sees_a_path():
    example = "cd /" + "home/somebody/x"
    assert MACHINE.search(example)


def test_no_unfinished_work():
    def unfinished(name: str, tree: ast.Module) -> Iterator[object]:
        for line in (PACKAGE / name).read_text().splitlines():
            yield from re.findall(r"#.*\b(TODO|FIXME|XXX|HACK)\b", line)
        for node in nodes(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call | ast.Name):
                yield from re.findall("NotImplementedError", ast.dump(node.exc))

    assert places_of(unfinished) == []
