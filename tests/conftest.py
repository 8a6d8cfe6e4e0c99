"""Fixtures for all tests: devices, models, ranks; and what is skipped where."""

from __future__ import annotations

import functools
import gc
import importlib
import importlib.util
import os
import random
import secrets
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from forks import ForkServer, start_of
from quick_compiling import quick_flags
from sleeping_ranks import sleeping_while_waiting

import tauslab
from tauslab.decomposition.blocks import SharedBlocks
from tauslab.kernels.backends import Backend, BackendOptions, device_count, get_backend
from tauslab.kernels.backends import cpu as cpu_backend
from tauslab.kernels.backends.cpu import CpuBackend

# Tests of some files import libsbml, those of others libsedml, which has to come first.
with suppress(ImportError):
    importlib.import_module("libsedml")

DATA = Path(__file__).parent / "data"

# Open MPI refuses root and more ranks than cores unless it is told; other MPIs ignore these.
_MPI_ENVIRONMENT = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe",
    "PRTE_MCA_hwloc_default_binding_policy": "none",
    # Ranks share a machine. To look for networks, and to watch memory, takes a third of a start.
    "UCX_MODULES": "none",
    "UCX_TLS": "self,posix",
    "UCX_MEM_EVENTS": "n",
}

Completed = subprocess.CompletedProcess[str]
Mpirun = Callable[..., Completed]


# Files of these folders take longest. They begin first, so that no process is the last by far.
_LONGEST = (
    "mpi",
    "unit/scripts",
    "unit/docs",
    "statistics",
    "kernels",
    "unit/analysis",
    "unit/api",
    "unit/cli",
    "unit/exchange",
    "unit/options",
    "unit/runner",
    "unit/store",
)

# What a test needs, by its folder or file and by the fixtures it asks for: nobody has to mark it.
_NEEDS_BY_PLACE = {
    "kernels": "compiler",
    "mpi": "mpi",
    "statistics": "compiler",
    "unit/docs": "slow",
    "unit/cli": "slow",
    "unit/analysis": "slow",
    "unit/runner/dask": "slow",
    "unit/runner/ensemble": "compiler",
    "unit/runner/lattice": "compiler",
    "unit/store/output": "slow",
    "unit/analysis/particles": "compiler",
    "unit/analysis/polymers": "compiler",
    "unit/analysis/rare": "compiler",
    "unit/house/test_packaging.py": "slow",
    "unit/kernels/test_compiler_ends.py": "slow",
    "unit/scripts": "slow",
    "unit/store/results/test_out_of_core.py": "slow",
    "unit/views": "slow",
}
_NEEDS_BY_FIXTURE = {
    "device": "compiler",
    "backend": "compiler",
    "mpirun": "mpi",
}
_NOT_QUICK = {"compiler", "mpi", "slow", "gpu"}

# Trajectories have the same bits on SIMD lanes, whose kernels take twice as long to compile. So
# these tests, and the ranks that they start, run one trajectory after another, but for files that
# are about lanes. Other processes that tests start and `-m validate` run on lanes, as users do.
_NOT_ON_LANES = (
    "kernels/events", "kernels/exact", "kernels/leaping", "kernels/ode", "mpi", "statistics",
    "unit",
)  # fmt: skip
_ON_LANES = (
    "kernels/exact/test_launches_that_stop.py", "kernels/exact/test_parking.py",
    "kernels/exact/test_random_models.py", "kernels/exact/test_thinning.py",
    "unit/docs/test_docs_tutorial.py", "unit/docs/test_doctests.py",
)  # fmt: skip
# Their kernels run for far longer than a compiler takes to optimise them.
_OPTIMISED = (
    "statistics/test_coverage.py", "unit/analysis/filters/test_fit.py",
    "unit/analysis/filters/test_smc2.py",
)  # fmt: skip

_MOST_CPU = 5.0  # seconds of a test that every run has; what takes longer is for `validate`
_TEARDOWN = "teardown of all tests, with all ranks that they started"
_cpu_before = [0.0]
_cpu_of_tests: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Offer the quick tier."""
    parser.addoption("--quick", action="store_true", help="only what needs no compiler and no MPI")


@functools.cache
def _needs_of(path: Path) -> set[str]:
    """What all tests of a file or a folder need."""
    inside = path.relative_to(DATA.parent) if path.is_relative_to(DATA.parent) else Path()
    names = {str(inside), *map(str, inside.parents)}
    return {need for place, need in _NEEDS_BY_PLACE.items() if place in names}


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Spare the quick tier the imports of folders that it has no use for."""
    return True if config.option.quick and _needs_of(collection_path) else None


@functools.cache
def _turn(path: Path) -> int:
    """Whether a file comes early."""
    inside = path.relative_to(DATA.parent) if path.is_relative_to(DATA.parent) else Path()
    above = {str(parent) for parent in inside.parents}
    return next((i for i, folder in enumerate(_LONGEST) if folder in above), len(_LONGEST))


@pytest.hookimpl(tryfirst=True)
def pytest_itemcollected(item: pytest.Item) -> None:
    """Mark a test by what it needs, so that `-m "not compiler"` knows it."""
    fixtures = getattr(item, "fixturenames", ())
    needs = {need for name, need in _NEEDS_BY_FIXTURE.items() if name in fixtures}
    for need in needs | _needs_of(item.path):
        item.add_marker(need)


def _cpu_seconds() -> float:
    """Of this process and of children that have ended; ranks are children of a server."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Note the CPU time since the report before; it depends less than time on what runs beside."""
    del item, call
    report = yield
    now = _cpu_seconds()
    report.user_properties = [*report.user_properties, ("cpu", now - _cpu_before[0])]
    _cpu_before[0] = now
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the phases of each test; a server of ranks ends in the last teardown of a process."""
    name = _TEARDOWN if report.when == "teardown" else report.nodeid
    _cpu_of_tests[name] += dict(report.user_properties).get("cpu", 0.0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Tell the CPU time of all tests, and which of them take more than a test should."""
    terminalreporter.write_line(f"CPU time of tests: {sum(_cpu_of_tests.values()):.0f} s")
    if "validate" not in terminalreporter.config.option.markexpr:
        for name, spent in _cpu_of_tests.most_common():
            if spent < _MOST_CPU:
                break
            terminalreporter.write_line(f"{spent:.1f} s, more than {_MOST_CPU} s: {name}")


def pytest_collection() -> None:
    """Look for no garbage until all tests are known: it takes a quarter of that time."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Look for garbage less often: thousands of tests and libraries stay, and are no garbage.

    This takes a sixth of the time of tests that compile nothing.
    """
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    _cpu_before[0] = _cpu_seconds()


@pytest.fixture(scope="session", autouse=True)
def _no_compiler(request: pytest.FixtureRequest) -> Iterator[None]:
    """In the quick tier a test that comes to compile a kernel after all is skipped there."""

    def skipped() -> None:
        pytest.skip("compiles a kernel: not in the quick tier")

    with pytest.MonkeyPatch.context() as patch:
        if request.config.option.quick:
            patch.setattr(cpu_backend, "host_compiler", skipped)
        yield


def _leave_out(config: pytest.Config, items: list[pytest.Item], unwanted: set[str]) -> None:
    """Deselect tests with one of some markers."""
    left = [item for item in items if any(m.name in unwanted for m in item.iter_markers())]
    config.hook.pytest_deselected(items=left)
    gone = set(left)
    items[:] = [item for item in items if item not in gone]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip, with a reason, what this machine or this call does not offer."""
    if config.option.quick:
        _leave_out(config, items, _NOT_QUICK)
    if "validate" not in config.option.markexpr:
        _leave_out(config, items, {"validate"})
    items.sort(key=lambda item: _turn(item.path))
    reasons = {}
    if device_count("cuda") == 0:
        reasons["gpu"] = "no CUDA device"
    if _launcher() is None or importlib.util.find_spec("mpi4py") is None:
        reasons["mpi"] = "no MPI (pip install tauslab[mpi])"
    for item in items:
        for marker, reason in reasons.items():
            if item.get_closest_marker(marker) is not None:
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(scope="session", autouse=True)
def _own_cache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Compile into a cache of this session, so that what a user compiled before cannot help.

    Most of a session's time is the compiler's. No level of optimisation changes a bit of any
    result, so kernels are compiled with less of it; `-m validate` and some of the digests
    (kernels/device/test_engine_digests.py) compile as users do.

    Test processes beside each other (pytest -n) share it: their folders have one parent.

    Programs that tests start keep byte code, as Python does if nobody forbids it: to compile the
    package anew takes each of hundreds 0.5 s. And they write a line at once: unbuffered, the end
    of a line follows its text, and another rank's line can come between. They import the package
    that this session tests, whichever their environment has installed.
    """
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAUSLAB_CACHE_DIR", str(folder / "cache"))
        patch.setenv("PYTHONPATH", str(Path(tauslab.__file__).parents[1]), prepend=os.pathsep)
        patch.delenv("PYTHONDONTWRITEBYTECODE", raising=False)
        patch.delenv("PYTHONUNBUFFERED", raising=False)
        light = not request.config.option.quick and "validate" not in request.config.option.markexpr
        if light and "TAUSLAB_CXXFLAGS" not in os.environ:
            patch.setenv("TAUSLAB_CXXFLAGS", quick_flags())
        yield


@pytest.fixture(scope="module", autouse=True)
def _compiled_for(request: pytest.FixtureRequest) -> Iterator[None]:
    """Run one trajectory after another where that is as good a test; optimise what takes long."""
    inside = request.path.relative_to(DATA.parent).as_posix()
    single = inside.startswith(_NOT_ON_LANES) and not inside.startswith(_ON_LANES)
    validates = "validate" in request.config.option.markexpr
    with pytest.MonkeyPatch.context() as patch:
        if single and not validates and "lanes" not in inside:
            patch.setattr(CpuBackend, "style", replace(CpuBackend.style, simd=False))
            patch.setenv("TAUSLAB_TEST_SINGLE", "1")  # for ranks: programs/fork_server.py
        if inside in _OPTIMISED and os.environ.get("TAUSLAB_CXXFLAGS") == quick_flags():
            patch.delenv("TAUSLAB_CXXFLAGS")
        yield


@pytest.fixture(autouse=True)
def _apart(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A test depends on no test before it.

    A run that is given no seed draws the same one each time that a test runs. A test may replace
    what an earlier one has prepared, and import pyplot, of which all pictures are from then on.
    """
    monkeypatch.setattr(secrets, "randbits", random.Random(request.node.nodeid).getrandbits)
    if kept := sys.modules.get("tauslab.runner.ensemble.kept"):
        kept.kept_runs.forget()
    yield
    if pyplot := sys.modules.get("matplotlib.pyplot"):
        pyplot.close("all")


@pytest.fixture
def data() -> Path:
    """The folder of test models."""
    return DATA


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> str:
    """Name of each device in turn."""
    return str(request.param)


@pytest.fixture
def backend(device: str) -> Iterator[Backend]:
    """Each device in turn; the CPU one with two threads, so that races can show."""
    opened = get_backend(device, BackendOptions(threads=2))
    yield opened
    opened.close()


@pytest.fixture
def one_block_launches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch takes one block, however many cores there are and however fast they are.

    So a run that is asked to stop before its n-th launch has done fewer than n blocks.
    """
    usual = SharedBlocks.__init__

    def begin(self: SharedBlocks, numbers: npt.NDArray[np.intp], **_: int) -> None:
        usual(self, numbers, smallest=1, room=1, largest=1)

    monkeypatch.setattr(SharedBlocks, "__init__", begin)


@pytest.fixture(scope="session")
def _fork_servers() -> Iterator[dict[tuple[tuple[str, str], ...], ForkServer]]:
    servers: dict[tuple[tuple[str, str], ...], ForkServer] = {}
    yield servers
    for server in servers.values():
        server.close()


@pytest.fixture
def mpirun(tmp_path: Path, _fork_servers: dict[tuple[tuple[str, str], ...], ForkServer]) -> Mpirun:
    """Run Python under several ranks: ``mpirun(3, ["-m", "tauslab", ...])``.

    Starts ranks in the test's own temporary folder and fails the test, with what they printed, if
    they exit non-zero (unless `check` is false) or are not done after `timeout` seconds. A server
    forks the ranks, which so have everything imported; nothing else is shared.
    """

    def run(
        n: int,
        arguments: Sequence[str | Path],
        *,
        timeout: float = 120.0,
        check: bool = True,
        env: Mapping[str, str] | None = None,
    ) -> Completed:
        environment = _environment_of_ranks(env)
        server = _fork_servers.get(start_of(environment))
        if server is None:
            server = _fork_servers[start_of(environment)] = ForkServer(environment)
        command = [_needed_launcher(), "-n", str(n), *server.python, *map(str, arguments)]
        done = _run(command, tmp_path, environment, timeout)
        server.settle()
        if check and done.returncode != 0:
            pytest.fail(f"{n} ranks exited {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done

    return run


@pytest.fixture
def parallel_h5py() -> dict[str, str]:
    """Environment in which `mpirun` finds an h5py that was built with MPI."""
    beside = Path(__file__).parents[1] / ".venv" / "parallel-h5py" / "site"
    folder = Path(os.environ.get("TAUSLAB_PARALLEL_H5PY", beside))
    if not (folder / "h5py").is_dir():
        pytest.skip("no h5py with MPI: scripts/build_parallel_h5py builds one in two minutes")
    package, support = Path(tauslab.__file__).parents[1], Path(__file__).parent / "support"
    return {"PYTHONPATH": os.pathsep.join(map(str, (folder, package, support)))}


def _environment_of_ranks(env: Mapping[str, str] | None) -> dict[str, str]:
    """Ranks start elsewhere: they must find helpers too."""
    support = Path(__file__).parent / "support"
    folders = [os.environ["PYTHONPATH"], support, support / "kernels", support / "programs"]
    helpers = {"PYTHONPATH": os.pathsep.join(map(str, folders))}
    return {**os.environ, **_MPI_ENVIRONMENT, **sleeping_while_waiting(), **helpers, **(env or {})}


def _needed_launcher() -> str:
    """The launcher; without one the test is skipped."""
    launcher = _launcher()
    if launcher is None:
        pytest.skip("no MPI (pip install tauslab[mpi])")
    return launcher


def _launcher() -> str | None:
    """Prefer the launcher that was installed with this Python: it belongs to mpi4py's MPI."""
    beside = str(Path(sys.executable).parent)
    for folder in (beside, None):
        for name in ("mpiexec", "mpirun"):
            actual = shutil.which(name, path=folder)
            if actual is not None:
                return actual
    return None


def _run(
    command: list[str], folder: Path, environment: Mapping[str, str], timeout: float
) -> Completed:
    """As `subprocess.run`, but a timeout ends the ranks too, not only their launcher."""
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        pytest.fail(f"not done after {timeout} s: {' '.join(command)}\n{out}\n{err}")
    return subprocess.CompletedProcess(command, process.returncode, out, err)
