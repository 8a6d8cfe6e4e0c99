"""What type checkers, editors and `import tauslab` see of the public names."""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from dataclasses import fields
from typing import get_args, get_type_hints

import pytest
from places import ROOT

import tauslab as ts
from tauslab.api import typed
from tauslab.kernels.ode.settings import (
    PRECISIONS,
    SOLVERS,
)
from tauslab.options import methods
from tauslab.options.keywords import NetworkKeywords
from tauslab.options.lattice import LatticeKeywords

SCRIPT = """\
import tauslab as ts
from tauslab import dbn

net = ts.Network("decay")
cube = ts.Lattice("cube", shape=(8, 8, 8), spacing=1e-8)
reveal_type(ts.run(net, t_end=3))
reveal_type(ts.run("model.xml", n=3, method=ts.TauLeaping(epsilon=0.1)))
reveal_type(ts.run("model.toml", t_end=3, seed=1))
reveal_type(ts.run("model.toml", replicas=3, t_end=3))
reveal_type(ts.run(cube, replicas=2, device=ts.GPU(share=True)))
reveal_type(ts.read("model.xml"))
reveal_type(ts.open("out.h5"))
reveal_type(ts.simulator(net, ["k"], times=[1.0]))
reveal_type(ts.sensitivity(net, ["k"], t=1.0))
reveal_type(dbn.build(net, samples=10, method=ts.ODE(substeps=10)))
"""
REVEALED = ["Result", "Result", "Result | LatticeResult | HybridResult",
            "LatticeResult", "LatticeResult",
            "Network | Lattice",
            " | ".join(one.__name__ for one in get_args(ts.AnyResult)),
            "Simulator", "SensitivityResult", "DynamicNetwork | None"]  # fmt: skip
WRONG = """\
ts.run(net, t_endd=3)
ts.run("model.xml", n=3, replicas=3)
ts.run(net, method="taus")
ts.run(net, epsilon=0.1)
ts.run(cube, n=3)
ts.simulator(net, ["k"], output="out.h5")
ts.sensitivity(net, ["k"], t=1.0, method="coupling")
dbn.build(net, substeps=10)
ts.SSA(epsilon=0.1)
ts.SSA(selector="composition")
"""


@pytest.mark.slow
def test_a_type_checker_names_results_and_refuses_misspelt_options(tmp_path):
    pytest.importorskip("mypy")
    script = tmp_path / "script.py"
    script.write_text(SCRIPT + WRONG)
    # With the settings and so the cache of scripts/check, which has read the package before.
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(script)]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300
    )
    message = ran.stdout
    revealed = re.findall(r'Revealed type is "(.*)"', message)
    plain = [re.sub(r"[\w.]+\.(\w+)", r"\1", text) for text in revealed]
    assert plain == REVEALED, message
    lines = {int(n) for n in re.findall(r"script\.py:(\d+): error", message)}
    first = SCRIPT.count("\n") + 1
    assert lines == set(range(first, first + WRONG.count("\n"))), message
    assert 'did you mean "t_end"?' in message


def test_a_file_may_hold_either_kind_of_model():
    """Keywords that both kinds have are those of the overload that says so."""
    both = {one.name for one in fields(NetworkKeywords)} & {f.name for f in fields(LatticeKeywords)}
    (run,) = ast.parse(inspect.getsource(typed.RunFunction)).body
    listed = [{one.arg for one in node.args.kwonlyargs} for node in ast.walk(run)
              if isinstance(node, ast.FunctionDef)]  # fmt: skip
    assert both in listed


@pytest.mark.parametrize(
    ("words", "known"),
    [
        (methods.Solver, SOLVERS),
        (methods.Precision, tuple(PRECISIONS)),
    ],
)
def test_words_that_are_typed_are_those_of_the_kernels(words, known):
    assert get_args(words) == tuple(known)


def test_completion_lists_the_options():
    """IPython completes keywords from `inspect.signature`."""
    run = inspect.signature(ts.run).parameters
    assert {"n", "t_end", "method", "output", "replicas", "hooks"} <= run.keys()
    assert not {"options", "epsilon", "threads", "compress"} & run.keys()
    assert "t_end" in inspect.signature(ts.simulator).parameters
    assert "unknown" in inspect.signature(ts.dbn.build).parameters
    assert {name for name in dir(ts) if not name.startswith("__")} < set(ts.__all__)
    assert {"run", "SSA", "dbn", "Network"} <= set(dir(ts))


@pytest.mark.parametrize("name", ts.__all__)
def test_annotations_of_public_functions_can_be_evaluated(name):
    public = getattr(ts, name)
    if inspect.isfunction(public) or inspect.isclass(public):
        get_type_hints(public)


@pytest.mark.parametrize("made", [ts.SSA, ts.TauLeaping, ts.Auto, ts.ODE, ts.CPU, ts.GPU, ts.Dask])
def test_every_setting_is_told_in_the_docstring(made):
    message = inspect.getdoc(made)
    assert "{options}" not in message
    assert [one.name for one in fields(made) if f"\n{one.name}\n    " not in message] == []


def test_type_checkers_see_the_names_that_are_imported_late():
    tree = ast.parse((ROOT / "src" / "tauslab" / "__init__.py").read_text(encoding="utf-8"))
    typed = next(node for node in tree.body if isinstance(node, ast.If))
    actual = {
        alias.asname: f"{node.module}.{alias.name}"
        for node in typed.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert actual.keys() | {"__version__"} == set(ts.__all__)
    for name, where in actual.items():
        home, _, own = where.rpartition(".")
        __import__(home)
        assert getattr(ts, name) is getattr(sys.modules[home], own), name


def test_an_unknown_name_is_refused():
    with pytest.raises(AttributeError, match="module 'tauslab' has no attribute 'runn'"):
        ts.runn  # noqa: B018 - the access is the test


def test_importing_loads_next_to_nothing():
    """Fewer modules than NumPy and h5py alone; no package that a user did not ask for."""
    script = "import sys; import {}; print(*sorted(sys.modules))"

    def loaded(names):
        command = [sys.executable, "-c", script.format(names)]
        return set(
            subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        )

    ours, theirs = loaded("tauslab"), loaded("numpy, h5py")
    heavy = {"numpy", "h5py", "scipy", "xarray", "rich", "libsbml", "asyncio", "mpi4py", "cupy",
             "matplotlib", "dask", "distributed", "pandas"}  # fmt: skip
    assert not heavy & ours
    assert len(ours) < len(theirs)


def test_running_loads_no_package_that_a_run_does_not_need():
    script = "import sys, tauslab as ts; ts.run, ts.Network; print(*sorted(sys.modules))"
    command = [sys.executable, "-c", script]
    actual = set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    unneeded = {"scipy", "xarray", "matplotlib", "libsbml", "mpi4py", "cupy", "dask", "distributed"}
    assert not unneeded & actual


def test_the_type_of_models_makes_none():
    assert isinstance(ts.Network("net"), ts.Model)
    assert isinstance(ts.Lattice(shape=(8, 8, 8), spacing=1e-8), ts.Model)
    assert not isinstance("net", ts.Model)
    with pytest.raises(TypeError, match=r"ts\.Network\(name\) or ts\.Lattice\(name, shape"):
        ts.Model("net")
