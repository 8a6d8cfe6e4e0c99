"""Compiling what a run will need, without the run: ``tauslab precompile``."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from tauslab.base.errors import ConfigError
from tauslab.decomposition.ranks.job import devices
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.decomposition.slab import choose_grid
from tauslab.kernels.backends import Backend, CudaTarget
from tauslab.kernels.backends.cache import listeners
from tauslab.model.lattice.lattice import Lattice
from tauslab.model.network.network import Network
from tauslab.options.ensemble import Options
from tauslab.options.lattice import LatticeOptions, prepare_lattice
from tauslab.options.methods import SSA, Auto, turned_into, with_choices
from tauslab.runner.ensemble.choices.solver_choice import EXPLICIT, wants_solver
from tauslab.runner.ensemble.from_file import with_stored_choices
from tauslab.runner.ensemble.lane import build_reductions
from tauslab.runner.ensemble.ode_task import OdeTask
from tauslab.runner.ensemble.run import prepare_task, ready
from tauslab.runner.ensemble.task import HybridTask, NetworkTask, Task
from tauslab.runner.lattice.group import compile_kernels
from tauslab.runner.lattice.run import lattices_at_a_time

# Numbers of trajectories that together need all kernels: another one needs those of one of them.
_NUMBERS = tuple(1 << k for k in range(21))
_SEED = 1  # of choices by a pilot, where the run has none


@dataclass
class Precompiled:
    """Summary of a compilation: device, number of kernel files, seconds."""

    device: str
    files: int = 0
    seconds: float = 0.0


@contextmanager
def _counting(made: Precompiled) -> Iterator[None]:
    """Count what compilers do inside."""
    began = time.perf_counter()

    def hear(starts: bool) -> None:  # noqa: FBT001 - a listener
        made.files += starts

    listeners.append(hear)
    try:
        yield
    finally:
        listeners.remove(hear)
        made.seconds = time.perf_counter() - began


def precompile_network(
    network: Network, options: Options, comm: Communicator, *, arch: int | None, ranks: int
) -> Precompiled:
    """Compile the kernels that a run of an ensemble on so many ranks needs.

    Without a number of trajectories, these are the kernels for any number: few trajectories use
    other kernels than many.

    Parameters
    ----------
    arch
        Compute capability of a GPU that need not be there, times ten; else the device of the
        options. Pilots then run on the CPU, which chooses the same.

    Raises
    ------
    TauslabError
        As for a run.
    """
    options = options if options.seed is not None else replace(options, seed=_SEED)
    options = with_stored_choices(options, comm)
    task = prepare_task(network, options)

    def compile_on(backend: Backend) -> None:
        for n in () if "n" in options.asked or _has_choice(task) else _NUMBERS:
            compile_task(backend, prepare_task(network, replace(options, n=n)))
        compile_task(backend, task)

    def compile_task(backend: Backend, task: Task) -> None:
        chosen = task
        if isinstance(backend, CudaTarget) and _has_choice(task):
            with devices("cpu", options.threads, comm) as chooser:
                chosen, _ = ready(task, chooser, comm, ranks)
            for one in _alternatives(task):  # which pilots try
                with suppress(ConfigError):
                    ready(one, backend, comm, ranks)
        chosen, _ = ready(chosen, backend, comm, ranks)
        build_reductions(chosen, backend)

    return _compiled_on(options.device, options.threads, arch, comm, compile_on)


def precompile_lattice(
    model: Lattice, options: LatticeOptions, comm: Communicator, *, arch: int | None, ranks: int
) -> Precompiled:
    """Compile the kernels that a run of a lattice on so many ranks needs; as for a network."""
    options = options if options.seed is not None else replace(options, seed=_SEED)
    task = prepare_lattice(model, options)
    grid = choose_grid(ranks, task.runs, task.lattice.shape, least=max(1, options.halo_depth))

    def compile_on(backend: Backend) -> None:
        sharing = lattices_at_a_time(task, backend, grid)
        compile_kernels(backend, task, grid.slabs, sharing=sharing, starts=True)

    return _compiled_on(options.device, options.threads, arch, comm, compile_on)


def _compiled_on(
    device: str, threads: int, arch: int | None, comm: Communicator,
    compile_on: Callable[[Backend], None],
) -> Precompiled:  # fmt: skip
    """Open the device, or take the architecture, and compile."""
    if arch is not None:
        target = CudaTarget(arch)
        made = Precompiled(target.describe())
        with _counting(made):
            compile_on(target)
        return made
    with devices(device, threads, comm) as backend:
        made = Precompiled(backend.describe())
        with _counting(made):
            compile_on(backend)
    return made


def _has_choice(task: Task) -> bool:
    """Return whether a pilot decides which kernels the run has."""
    method = task.options.method
    if isinstance(task, OdeTask):
        return wants_solver(task)
    large = isinstance(task, NetworkTask) and isinstance(method, SSA) and task.presimulation
    return isinstance(method, Auto) or isinstance(task, HybridTask) or bool(large)


def _alternatives(task: Task) -> Iterator[Task]:
    """The task by each method, or solver, that a choice tries."""
    options, method = task.options, task.options.method
    if isinstance(method, Auto):
        for word in ("ssa", "tau"):
            yield replace(task, options=replace(options, method=turned_into(word, method)))
    elif isinstance(task, OdeTask):
        yield replace(task, options=replace(options, method=with_choices(method, solver=EXPLICIT)))
