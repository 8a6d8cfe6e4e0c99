"""Rules of the source tree that a program can check."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest
from places import ROOT

PACKAGE = ROOT / "src" / "tauslab"
LAYERS = ("model", "kernels", "decomposition", "runner")  # an arrow points to the left only
MODULES = sorted(PACKAGE.rglob("*.py"))
HEAVY = ("mpi4py", "cupy", "cupyx", "dask", "distributed", "matplotlib", "cuda")


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def name_of(path: Path) -> str:
    return str(path.relative_to(PACKAGE))


def imports(tree: ast.AST) -> Iterator[str]:
    """Dotted names of everything that is imported below `tree`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"relative import in line {node.lineno}"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def layer_of(dotted: str) -> str | None:
    parts = dotted.split(".")
    return parts[1] if parts[0] == "tauslab" and len(parts) > 1 and parts[1] in LAYERS else None


def texts_in(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Line and value of each string that is not a docstring; pieces of an f-string one by one."""
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and node.body:
            first = node.body[0]
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(first.value)
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Constant)
            and node not in docstrings
            and isinstance(node.value, str)
        ):
            yield node.lineno, node.value


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_arrows_point_down_only(path):
    layer = path.relative_to(PACKAGE).parts[0]
    if layer not in LAYERS:
        return  # the public names and __main__ stand above all layers
    allowed = LAYERS[: LAYERS.index(layer) + 1]
    for dotted in imports(tree_of(path)):
        assert dotted.split(".")[0] not in LAYERS, f"{dotted}: write tauslab.{dotted}"
        target = layer_of(dotted)
        assert target is None or target in allowed, f"{layer} imports {dotted}"


def test_the_rule_sees_an_arrow_that_points_up():
    wrong = ast.parse("def f():\n    from tauslab.runner.ranks.mpi import world\n")
    assert [layer_of(dotted) for dotted in imports(wrong)] == ["runner"]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_packages_are_imported_where_they_are_used(path):
    # Their import at the head of a module would start MPI or touch the GPU with `import tauslab`.
    top = ast.Module(
        [node for node in tree_of(path).body if isinstance(node, ast.Import | ast.ImportFrom)], []
    )
    assert not {dotted.split(".")[0] for dotted in imports(top)} & set(HEAVY)


def test_only_one_module_touches_the_world_communicator():
    users = {name_of(p) for p in MODULES if re.search(r"\bCOMM_(WORLD|SELF)\b", p.read_text())}
    assert users == {"runner/ranks/mpi.py"}


def test_only_two_modules_import_mpi4py():
    users = {
        name_of(p) for p in MODULES if any(d.startswith("mpi4py") for d in imports(tree_of(p)))
    }
    # The writer that uses MPI-IO hands its communicator to HDF5, which knows mpi4py's only.
    assert users <= {
        "runner/ranks/mpi.py",
        "runner/cli/doctor/report.py",
        "runner/ranks/on_root.py",
    }


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_branch_on_the_name_of_a_backend(path):
    if path.parent.name == "backends":
        return
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.Compare | ast.Match):
            for _, text in texts_in(node):
                assert text not in {"cuda", "cpu"}, f"{name_of(path)}:{node.lineno}"


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_kernel_text_outside_the_generator(path):
    if name_of(path) in {
        "kernels/network/codegen.py",
        "kernels/lattice/codegen.py",
        "kernels/leaping/codegen.py",
        "kernels/ode/codegen.py",
        "kernels/ode/codegen_parts.py",
    }:
        return
    source = re.compile(
        r"__global__|__device__|\bKERNEL\(|\bDEVICE\b|#include|;\s*\n\s*\w+.*;\s*\n"
    )
    for line, text in texts_in(tree_of(path)):
        assert not source.search(text), f"{name_of(path)}:{line}"


@pytest.mark.parametrize("layer", LAYERS)
def test_links_at_the_root_lead_into_the_package(layer):
    link = ROOT / layer
    if link.is_file():  # a checkout without links has text files instead
        assert link.read_text().strip() == f"src/tauslab/{layer}"
    else:
        assert str(link.readlink()) == f"src/tauslab/{layer}"
        assert (link / "__init__.py").is_file()


# What importing and asking for help must not load: each costs a tenth of a second or more.
SLOW = ("h5py", "libsbml", "rich", "xarray", "pandas", "scipy", "torch", "asyncio")


@pytest.mark.parametrize(
    "module", ["tauslab", "tauslab.runner.cli.main", "tauslab.kernels.backends"]
)
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


def test_no_path_of_one_machine():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in files_of_the_project()
        for number, line in enumerate(path.read_text(errors="replace").splitlines(), 1)
        if MACHINE.search(line)
    ]
    assert found == []


def test_the_rule_sees_a_path():
    example = "cd /" + "home/somebody/x"
    assert MACHINE.search(example)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_unfinished_work(path):
    with path.open("rb") as stream:
        comments = [
            t.string for t in tokenize.tokenize(stream.readline) if t.type == tokenize.COMMENT
        ]
    assert not [c for c in comments if re.search(r"\b(TODO|FIXME|XXX|HACK)\b", c)]
    assert not any(
        isinstance(node, ast.Raise)
        and isinstance(node.exc, ast.Call | ast.Name)
        and "NotImplementedError" in ast.dump(node.exc)
        for node in ast.walk(tree_of(path))
    )
