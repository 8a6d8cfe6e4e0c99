"""Samples counted in the blocks that integrate are those counted after, to the last one."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from dbn_factory import CHAIN
from emulation import EmulatedBackend
from ode_mixed import TIMES, network
from ode_probe import integrate, system_of

from tauslab.analysis.dbn import build as dbn_build
from tauslab.analysis.dbn import parts as dbn_parts
from tauslab.analysis.dbn.results.file import network_digest_lines
from tauslab.cli.main import main
from tauslab.decomposition.ranks import job
from tauslab.kernels.backends import Backend, BackendOptions, get_backend
from tauslab.kernels.backends.base import KernelSource
from tauslab.kernels.backends.cpu import CpuBackend
from tauslab.kernels.dbn import count_tables as dbn
from tauslab.kernels.dbn.count_tables import CountTables
from tauslab.kernels.dbn.entries import NodeFamily
from tauslab.kernels.ensemble.launch import Launch, SampleBuffers
from tauslab.kernels.ode.engine import Ode
from tauslab.kernels.ode.layouts import OdeLayout, layout_of
from tauslab.kernels.ode.lowering import OdeSystem
from tauslab.kernels.ode.priors import Priors, SampledPrior
from tauslab.kernels.ode.settings import OdeSettings

ALL_DENSE, SOME_DENSE = 1 << 26, 8 * 3 * 60  # bytes of a table with a cell for every entry
ROWS = 75  # some blocks have lanes without a trajectory
PRIORS = Priors((SampledPrior("k", "uniform", 0.2, 0.8), SampledPrior("n", "uniform", 2.0, 1.0)))
Array = npt.NDArray[Any]


def system() -> OdeSystem:
    return system_of(network(), varying=("k", "n"))


def families(variables: int) -> list[NodeFamily]:
    """Of one to four digits, of which some are parameters."""
    parents = [
        (v, (v + 1) % variables, variables, variables + 1)[: 1 + v % 4] for v in range(variables)
    ]
    return [NodeFamily(f"x{v}", v, own) for v, own in enumerate(parents)]


def settings(precision: str) -> OdeSettings:
    return OdeSettings("rk4", substeps=7, precision=precision)


def samples(backend: Backend, precision: str) -> tuple[Array, Array]:
    """Samples ``[time, variable, row]`` and what was drawn ``[prior, row]``."""
    solution = integrate(
        backend, system(), TIMES, settings(precision), np.zeros((1, 2)), rows=ROWS, columns=True,
        priors=PRIORS, wide=False,
    )  # fmt: skip
    assert np.isnan(solution.samples).any()
    return solution.samples, solution.drawn


def edges(values: Array, drawn: Array) -> list[Array]:
    """Two to four intervals of each quantity, with values outside."""
    every = [values[:, v].astype(float) for v in range(values.shape[1])]
    return [
        np.unique(np.nanquantile(own, np.linspace(0.03, 0.96, 3 + i % 3)))
        for i, own in enumerate([*every, *drawn])
    ]


def tables_for(backend: Backend, cuts: list[Array], rows: int = ROWS) -> CountTables:
    variables = len(cuts) - len(PRIORS.priors)
    made = CountTables(backend, cuts, variables, families(variables), len(TIMES), rows)
    made.clear(stream := backend.stream())
    stream.record().wait()
    return made


def after(backend: Backend, values: Array, drawn: Array, cuts: list[Array]) -> CountTables:
    """Counted by kernels of their own."""
    tables, stream = tables_for(backend, cuts), backend.stream()
    kept = backend.upload(drawn)
    tables.begin(kept, ROWS, stream)
    for t, now in enumerate(values):
        uploaded = backend.upload(np.ascontiguousarray(now))
        tables.add(uploaded, t, ROWS, stream)
        stream.record().wait()
        tables.make_room(stream)
    return tables


def inside(backend: Backend, tables: CountTables, precision: str, **options: Any) -> None:
    """Counted by the blocks that integrate, in two launches."""
    engine = Ode(
        backend, system(), TIMES, settings(precision), priors=PRIORS, wide=False, **options
    )
    assert engine.counts
    parameters, variables = len(PRIORS.priors), len(engine.system.quantities)
    stream, planes = backend.stream(), None
    if tables.grows:
        planes = backend.empty((parameters + len(TIMES) * variables, ROWS), np.uint8)
    for first, rows in ((0, 40), (40, ROWS - 40)):
        drawn = backend.empty((parameters, rows), np.float64)
        buffers = SampleBuffers.of(backend, rows, drawn=drawn)
        launch = Launch(first, rows, None, backend.upload(np.zeros((1, 2))), seed=1)
        engine.start_columns(launch, buffers, stream, tables.arguments(planes))
        stream.record().wait()
        for time in range(1, len(TIMES) * tables.grows):
            tables.add_binned(planes, time, rows, stream)
            tables.make_room(stream)


def assert_equal(one: CountTables, two: CountTables, backend: Backend) -> None:
    stream = backend.stream()
    for a, b in zip(one.cells(stream), two.cells(stream), strict=True):
        np.testing.assert_array_equal(a, b)
    counted = zip(one.tables(stream), two.tables(stream), strict=True)
    for a, b in counted:
        for name in ("high", "low", "counts"):
            np.testing.assert_array_equal(getattr(a, name), getattr(b, name))


def emulated_choice(precision: str, width: int) -> OdeLayout:
    planes = 2 * len(system().quantities) + len(PRIORS.priors)
    actual = layout_of(system(), precision, planes)
    return replace(
        actual, width=width, bytes_of_a_block=actual.bytes_of_a_block // actual.width * width + 1024
    )


@pytest.mark.parametrize(
    ("precision", "width", "blocks", "order", "dense"),
    [
        ("single", 64, 1, -1, SOME_DENSE),
        pytest.param("double", 32, 2, -1, ALL_DENSE, marks=pytest.mark.validate),
        ("single", 32, 2, 1, 0),
    ],
)
def test_blocks_that_integrate_count_the_same(
    tmp_path: Path, monkeypatch, precision, width, blocks, order, dense
):
    """`width`: trajectories of a block."""
    monkeypatch.setattr(dbn, "_DENSE_BYTES", dense)
    cpu = get_backend("cpu", BackendOptions(threads=1))
    values, drawn = samples(cpu, precision)
    cuts = edges(values, drawn)
    one, two = after(cpu, values, drawn, cuts), tables_for(cpu, cuts)
    assert (len(two._sparse) > 0, len(two._sparse) < len(two.keys)) == (
        dense < ALL_DENSE,
        dense > 0,
    )
    choice = emulated_choice(precision, width)
    emulated = EmulatedBackend(tmp_path, choice.threads_of_a_block, order, blocks)
    inside(emulated, two, precision, choice=choice)
    assert_equal(one, two, cpu)
    emulated.close()
    cpu.close()


@pytest.mark.gpu
@pytest.mark.parametrize("dense", [ALL_DENSE, SOME_DENSE])
def test_a_gpu_counts_the_same_inside(monkeypatch, dense):
    monkeypatch.setattr(dbn, "_DENSE_BYTES", dense)
    gpu = get_backend("cuda", BackendOptions())
    values, drawn = samples(gpu, "single")
    cuts = edges(values, drawn)
    one, two = after(gpu, values, drawn, cuts), tables_for(gpu, cuts)
    choice = layout_of(system(), "single", two.planes)
    inside(gpu, two, "single", choice=choice)
    assert_equal(one, two, gpu)
    gpu.close()


class PartlyEmulated(CpuBackend):
    """A CPU that runs kernels of blocks with the emulation, each in a folder of its own."""

    style = EmulatedBackend.style
    multiprocessors = 1

    def __init__(self, folder: Path) -> None:
        super().__init__(BackendOptions(threads=1))
        self._folder, self.compiled = folder, 0

    def compile(self, source: KernelSource) -> Any:
        if source.file != "ode/blocks/threads.cc":
            return super().compile(source)
        header = source.generated["model.h"]
        threads = int(re.search(r"COMPUTE_THREADS = (\d+)", header)[1])
        own = self._folder / str(self.compiled)
        own.mkdir()
        self.compiled += 1
        return EmulatedBackend(own, threads).compile(source)


def test_a_build_that_counts_inside(tmp_path, monkeypatch, capsys):
    """With parts written now and then, which must not hold what is under way."""
    (tmp_path / "chain.toml").write_text(CHAIN)
    monkeypatch.chdir(tmp_path)
    written = []
    save = dbn_parts.save
    monkeypatch.setattr(
        dbn_parts, "save",
        lambda network, path, blocks: (written.append((network, blocks.copy())),
                                       save(network, path, blocks)),
    )  # fmt: skip
    monkeypatch.setattr(dbn_parts, "SECONDS", 0.0)
    monkeypatch.setattr(dbn_parts, "_RARELY", 0)
    monkeypatch.setattr(dbn_build, "_LAUNCH_SECONDS", 0.0)
    command = ["dbn", "chain.toml", "--unknown", "a,b", "--samples", "400", "--points", "4",
               "--substeps", "5", "--seed", "7", "--block", "40", "--threads", "1"]  # fmt: skip
    assert main([*command, "-o", "after.h5"]) == 0
    written.clear()
    monkeypatch.setattr(dbn, "_DENSE_BYTES", 8 * 3 * 200)
    emulated = PartlyEmulated(tmp_path)
    monkeypatch.setattr(job, "open_backend", lambda *_, **__: emulated)
    assert main([*command, "--ode-solver", "rk4", "-o", "inside.h5"]) == 0
    assert "which counts its samples" in capsys.readouterr().out
    assert emulated.compiled == 1
    assert network_digest_lines(Path("inside.h5")) == network_digest_lines(Path("after.h5"))
    assert written
    assert not all(blocks.all() for _, blocks in written)
    for part, blocks in written:
        assert part.marginals["A"].sum(axis=1).tolist() == [40 * blocks.sum()] * 4
