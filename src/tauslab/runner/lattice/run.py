"""A lattice run from model and options to result: the steps that all ranks take together."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np

from tauslab.base.errors import ConfigError, StoppedEarly
from tauslab.base.host import cores_of_rank, in_bytes, require_memory
from tauslab.base.option_names import assigned, opt, replacing, warn
from tauslab.decomposition.ranks.job import agreed_seed, agreed_task, devices, failing_together
from tauslab.decomposition.ranks.mpi import Communicator, host_name
from tauslab.decomposition.ranks.on_root import on_root
from tauslab.decomposition.ranks.progress import showing_compilers
from tauslab.decomposition.ranks.stopping import in_order, watched
from tauslab.decomposition.ranks.together import agree, in_turn
from tauslab.decomposition.slab import RankGrid, check_grid, choose_grid
from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice.plan import replicas_at_a_time
from tauslab.kernels.lattice.planes import LatticeEngineName
from tauslab.kernels.lattice.planes_engine import planes_at_a_time
from tauslab.model.lattice.lattice import Lattice
from tauslab.options.lattice import LatticeOptions, LatticeTask
from tauslab.runner.lattice.group import RankSlab, compile_kernels
from tauslab.runner.lattice.kept import kept_task
from tauslab.runner.lattice.loop import ReplicaRuns
from tauslab.store.checking.opening import with_rerun_advice
from tauslab.store.lattice.extending import begin_longer_run
from tauslab.store.lattice.parts import Begun
from tauslab.store.lattice.writer import LatticeWriter
from tauslab.store.locks import written_by_us
from tauslab.store.results.lattice.recorded import TemporaryFolder
from tauslab.store.results.lattice.result import LatticeResult, is_lattice_result, stored_settings
from tauslab.store.targets import require_no_input, require_place

_MOST_COMPRESSING = 16


def run_lattice(
    model: Lattice,
    options: LatticeOptions,
    comm: Communicator,
    stop: Callable[[], bool] = lambda: False,
    report: Callable[[str], object] = lambda _: None,
) -> LatticeResult:
    """Run a lattice model on all ranks of `comm`; every rank gets the result. Collective.

    Parameters
    ----------
    stop
        Asked between batches of steps; True on any rank ends the run early, with a checkpoint.
    report
        Given, on the first of several ranks, how these share the work.

    Raises
    ------
    TauslabError
        Bad input (on every rank alike), a device that is missing, a file that cannot be written.
    StoppedEarly
        The run was stopped on request; ``--resume`` completes it.
    """
    resuming = with_rerun_advice() if options.resume else nullcontext()
    with written_by_us(options.output, comm), resuming:
        return _run_and_open(model, options, comm, stop, report)


def _run_and_open(
    model: Lattice,
    options: LatticeOptions,
    comm: Communicator,
    stop: Callable[[], bool],
    report: Callable[[str], object],
) -> LatticeResult:
    if not options.resume and model.source_path is not None:
        require_no_input(options.output, [model.source_path])
    options = agree(comm, lambda: _as_extended(options))
    agree(comm, lambda: _check_output(options, comm))
    stored = on_root(comm, lambda: _begun(options))
    options = agree(comm, lambda: _filled(options, stored))
    options = replace(options, seed=agreed_seed(options.seed, lambda: None, comm))
    task = agreed_task(lambda: kept_task(model, options), comm)
    grid = _grid(task, comm)
    agree(comm, lambda: _check_memory(task, comm, grid, computes=False))
    if comm.size > 1 and comm.rank == 0:
        report(f"{task.model.name}: {grid}")
    makes = options.output is None and comm.rank == 0
    folder = comm.bcast(tempfile.mkdtemp(prefix="tauslab-") if makes else "")
    path = options.output or Path(folder) / "lattice.h5"
    try:
        with watched(stop, comm, options.output):
            _run(task, path, comm, grid, stop, report)
        kept = TemporaryFolder(Path(folder), saves=comm.rank == 0) if folder else None
        result = agree(comm, lambda: LatticeResult(path, folder=kept))
    except BaseException:
        if folder and comm.rank == 0:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    comm.barrier()  # all have opened it: a folder may go now
    return result


def _begun(options: LatticeOptions) -> dict[str, Any]:
    """The settings of the run to resume; none where there is none.

    Raises
    ------
    ConfigError
        The run was begun with another engine.
    """
    path = options.output
    if not options.resume or path is None or not path.exists():
        return {}
    stored = stored_settings(path)
    if options.engine not in {"auto", stored["engine"]}:
        raise ConfigError(
            f"{path} was begun in {stored['engine']}: {opt('resume')} continues as it began"
        )
    return stored


def _filled(options: LatticeOptions, stored: Mapping[str, Any]) -> LatticeOptions:
    """The options; what they leave open is as `stored`."""
    if not stored:
        return options
    values = {**stored, "set": stored["set"] | dict(options.set)}
    of_task = {"replicas", "first_replica"} if options.all_replicas else set()
    for one in fields(options):
        value = getattr(options, one.name)
        is_open = value is one.default or (np.isscalar(value) and value == one.default)
        if one.name != "set" and (not is_open or one.name in of_task):
            values.pop(one.name, None)
    return replace(options, **values)


def _check_output(options: LatticeOptions, comm: Communicator) -> None:
    path = options.output
    if options.overwrite and options.resume:
        raise ConfigError(f"{opt('overwrite')} and {opt('resume')} exclude each other")
    if options.resume and options.output is None:
        raise ConfigError(f"{opt('resume')} completes a file: give {opt('output')} too")
    if path is None:
        if comm.local_size < comm.size:
            raise ConfigError("a lattice on several nodes needs an output that all of them can see")
        return
    require_place(path)
    if path.exists() and not options.overwrite and not options.resume:
        raise ConfigError(
            f"{path} exists; use {replacing(path)}, {opt('resume')} or another {opt('output')}"
        )
    if path.exists() and options.resume and not is_lattice_result(path):
        raise ConfigError(f"{path} is not a lattice run, so {opt('resume')} cannot go on from it")


def _grid(task: LatticeTask, comm: Communicator) -> RankGrid:
    """Replicas at a time and ranks for each; an error if they do not fit."""
    options, least = task.options, max(1, task.options.halo_depth)
    if options.slabs is None:
        grid = choose_grid(comm.size, task.runs, task.lattice.shape, least=least)
    else:
        grid = RankGrid(max(1, comm.size // options.slabs), options.slabs)
        check_grid(grid, comm.size, task.runs, task.lattice.shape[0], least=least)
    if options.halo == "self" and grid.slabs > 1:
        raise ConfigError(
            f"{opt('halo', 'self')} is for one rank, and {grid.slabs} share a lattice: choose "
            f"another or {assigned('slabs')}1"
        )
    return grid


def _check_memory(task: LatticeTask, comm: Communicator, grid: RankGrid, *, computes: bool) -> None:
    """Refuse what memory or disk will not hold, before anything is allocated or written."""
    share = f", a share of {comm.size} ranks," if comm.size > 1 else ""
    z, y, x = task.lattice.shape
    require_memory(
        comm.local_size * task.host_bytes(grid.slabs, computes=computes),
        f"{task.model.name}: a lattice of {z} x {y} x {x} sites with {task.lattice.slots} slots"
        f"{share} and {task.samples + task.frames} samples and frames",
    )
    path, resumed = task.options.output, task.options.resume
    if path is None or resumed:
        return
    free = shutil.disk_usage(path.parent).free
    if task.least_bytes > free:
        raise ConfigError(
            f"{path}: {task.samples} samples and {task.frames} frames are "
            f"{in_bytes(task.least_bytes)} or more; {in_bytes(free)} are free there: choose "
            f"{opt('count_every')} and {opt('frame_every')}"
        )


def _check_devices(backend: Backend, comm: Communicator, options: LatticeOptions) -> None:
    """Refuse two ranks on one GPU, which halves its speed in silence."""
    mine = (host_name(), backend.identity())
    result = comm.allgather(mine)
    if options.share_gpu or not mine[1]:
        return
    ranks = [rank for rank, other in enumerate(result) if other == mine]
    if len(ranks) > 1:
        raise ConfigError(
            f"ranks {', '.join(map(str, ranks))} on {mine[0]} would share one GPU: start one rank "
            f"for each GPU, or say {opt('share')}"
        )


def _run(
    task: LatticeTask, path: Path, comm: Communicator, grid: RankGrid, stop: Callable[[], bool],
    report: Callable[[str], object],
) -> None:  # fmt: skip
    """Do all replicas and finish the file; after a failure what is complete stays on disk."""
    options = task.options
    assert options.seed is not None
    share, quiet = options.share_gpu, options.quiet is not False or comm.rank > 0
    with devices(options.device, options.threads, comm, share=share) as backend:
        agree(comm, lambda: _check_devices(backend, comm, options))
        on_host = not backend.identity()
        agree(comm, lambda: _check_memory(task, comm, grid, computes=on_host))
        several = min(comm.allgather(lattices_at_a_time(task, backend, grid)))
        if comm.size > 1:
            with showing_compilers(quiet=quiet):
                in_turn(comm, lambda: compile_kernels(backend, task, grid.slabs, sharing=several))
        writer = LatticeWriter(path, task, options.seed, threads=_compressing(options, comm))
        with closing(writer):
            resumes = options.resume and comm.bcast(path.exists())
            if options.extend is not None and not resumes:
                resumes = on_root(comm, lambda: _begin_longer(task, path))
            complete, begun = on_root(comm, writer.reopen_file) if resumes else (False, {})
            if complete:
                return
            groups = [RankSlab(task, backend, comm, grid, sharing=several) for _ in range(several)]
            with showing_compilers(quiet=quiet):
                first = groups[0]
                agree(comm, lambda: first.prepare(anew=first.index not in begun))
            if grid.slabs > 1 and comm.rank == 0:
                report(f"{task.model.name}: {groups[0].describe()}")
            with in_order(stop):
                if not resumes:
                    on_root(comm, writer.create)
                with failing_together(comm):
                    stopped = _replicas(groups, comm, writer, begun, stop)
            if stopped is not None:
                raise stopped


def _as_extended(options: LatticeOptions) -> LatticeOptions:
    """The options with all that is left open as in the result to extend."""
    if options.extend is None:
        return options
    given = getattr(options.extend, "path", options.extend)
    if not isinstance(given, str | os.PathLike) or not is_lattice_result(Path(given)):
        raise ConfigError(
            f"{opt('extend')} takes the result of a lattice or its path, not {given!s:.60}"
        )
    if options.output is not None and options.output.resolve() == Path(given).resolve():
        raise ConfigError(f"{opt('extend')}: {given} stays; give another {opt('output')}")
    stored = stored_settings(given)
    del stored["t_end"]
    return replace(_filled(options, stored), extend=Path(given))


def _begin_longer(task: LatticeTask, path: Path) -> bool:
    """Make the file of the longer run; whether it can go on, else a warning says why not."""
    options = task.options
    assert options.seed is not None
    reason = begin_longer_run(path, task, options.seed, options.extend)
    if reason:
        warn(f"{options.extend} {reason}: all of it is simulated again, from t = 0")
    return not reason


def _compressing(options: LatticeOptions, comm: Communicator) -> int:
    """Threads that compress frames: a core does 0.3 GB/s, and the last frame is waited for."""
    return options.threads or min(_MOST_COMPRESSING, max(2, cores_of_rank(comm.core_sharers)))


def lattices_at_a_time(task: LatticeTask, backend: Backend, grid: RankGrid) -> int:
    """Number of lattices that this rank runs at the same time.

    One where there are hooks, since a hook is given one lattice.
    """
    if grid.slabs > 1 or task.hooked:
        return 1
    own = max(1, task.options.replicas // grid.replicas)
    planes = task.engine is LatticeEngineName.PLANES
    return (planes_at_a_time if planes else replicas_at_a_time)(backend, task.lattice, own)


def _replicas(
    groups: Sequence[RankSlab],
    comm: Communicator,
    writer: LatticeWriter,
    begun: Mapping[int, Begun],
    stop: Callable[[], bool],
) -> StoppedEarly | None:
    """Do all replicas and finish the file; or return the error of a requested stop."""
    group = groups[0]
    if group.rank == 0:
        writer.open_counts()
    stops = comm.counter() if group.grid.replicas > 1 else None
    runs = ReplicaRuns(groups, writer, begun, stop=stop, stops=stops)
    stopped: StoppedEarly | None = None
    try:
        runs.run()
    except StoppedEarly as asked:
        stopped = asked
    reasons = [reason for reason in comm.allgather(stopped) if reason is not None]
    rows = comm.gather({"host": host_name(), **group.profile(), **runs.profile()})
    if stops is not None:
        stops.free()
    for one in groups:
        one.close()  # all that ranks share goes before the file may fail
    if not reasons:
        on_root(comm, lambda: writer.finish(rows or []))
    runs.judge.speak(comm)
    return reasons[0] if reasons else None
