"""What a run imports: what it needs, and not what another format, method or command needs."""

from __future__ import annotations

import subprocess
import sys

import pytest
from places import ROOT

MODEL = ROOT / "examples" / "schlogl.toml"
# Of every plain command, by the beginnings of their names.
NEVER = (
    "antimony", "cupy", "dask", "distributed", "email", "IPython", "libsbml", "matplotlib",
    "mpi4py", "pandas", "rich", "scipy", "urllib.request", "xarray", "xml",
    "tauslab.model.geometry", "tauslab.model.lattice.lattice", "tauslab.formats.antimony",
    "tauslab.formats.bionetgen", "tauslab.formats.lattice_hdf5", "tauslab.formats.lattice_microbes",
    "tauslab.formats.sbml.mathml_writer", "tauslab.formats.sbml.writer",
    "tauslab.kernels.dbn", "tauslab.kernels.lattice", "tauslab.decomposition.halo",
    "tauslab.decomposition.slab", "tauslab.cli.doctor", "tauslab.runner.dask",
    "tauslab.analysis", "tauslab.formats.toml.lattice", "tauslab.runner.lattice",
    "tauslab.views", "tauslab.store.results.lattice",
    "tauslab.exchange.sedml",
)  # fmt: skip
# Of a run of the default method that goes to a file, beside them.
NOT_OF_SSA = (
    "tauslab.kernels.ode.engine",
    "tauslab.kernels.ode.layouts", "tauslab.kernels.ode.lowering", "tauslab.formats.sbml",
    "tauslab.runner.ensemble.growth", "tauslab.store.writers.mpio",
    "tauslab.options.lattice", "tauslab.store.writers.parts",
    "tauslab.store.results.export",
)  # fmt: skip
NOT_OF_HELP = (
    "h5py",
    "numpy",
    "tauslab.kernels",
    "tauslab.model.network",
    "tauslab.runner.ensemble",
)


def loaded_by(program: str, folder: str) -> set[str]:
    message = f"import sys\n{program}\nprint(*sorted(sys.modules), file=sys.stderr)"
    command = [sys.executable, "-c", message]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=True)
    return set(ended.stderr.split())


def among(loaded: set[str], names: tuple[str, ...]) -> list[str]:
    return sorted(one for one in loaded if any(f"{one}.".startswith(f"{n}.") for n in names))


def command(*words: str) -> str:
    return f"from tauslab.cli.main import main\nassert main({list(words)}) == 0"


RUN = ("run", str(MODEL), "--t-end", "0.01", "-n", "3", "--device", "cpu", "--seed", "1", "--quiet")
IN_PYTHON = (
    "import tauslab as ts\nwith ts.open('out.h5') as found:\n    model = ts.read('out.h5')\n"
    "ts.run(model, t_end=0.01, n=3, device='cpu', seed=1).mean('X')"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("start")
    loaded_by(command(*RUN, "-o", "out.h5"), made)
    return made


@pytest.mark.parametrize(
    ("program", "unneeded"),
    [
        pytest.param(command(*RUN, "-o", "other.h5"), NEVER + NOT_OF_SSA, id="run"),
        pytest.param(IN_PYTHON, NEVER[1:] + NOT_OF_SSA[:4], id="python"),
        pytest.param(command("info", "out.h5"), NEVER + NOT_OF_SSA, id="info"),
        pytest.param("from tauslab.cli.main import _parser; _parser([]).format_help()",
                     NEVER + NOT_OF_HELP, id="help"),
    ],
)  # fmt: skip
def test_a_command_loads_what_it_needs_alone(program, unneeded, folder):
    assert among(loaded_by(program, folder), unneeded) == []


def test_the_rule_sees_what_is_loaded(folder):
    actual = loaded_by("import tauslab.formats.sbml.writer", folder)
    assert "tauslab.formats.sbml.writer" in among(actual, NEVER)
