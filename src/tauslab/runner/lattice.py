"""The step loop of a lattice run: batches of steps, samples, frames, hooks, checkpoints."""

from __future__ import annotations

import secrets
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tauslab.kernels.backends import Backend
from tauslab.kernels.lattice_state import Samples
from tauslab.kernels.rdme import LatticeEngine
from tauslab.model.errors import ConfigError, StoppedEarly
from tauslab.model.lattice import Lattice
from tauslab.runner.lattice_job import LatticeOptions, LatticeTask, prepare_lattice
from tauslab.runner.lattice_result import LatticeResult, is_lattice_result, stored_settings
from tauslab.runner.lattice_view import LatticeView
from tauslab.runner.mpi import Communicator
from tauslab.runner.output.lattice_writer import Frame, LatticeWriter
from tauslab.runner.progress import Progress
from tauslab.runner.run import open_backend

_BATCH_SECONDS = 0.5  # between looks at signals and at the list of waiting particles
_MOST_SAMPLES = 4096  # of a batch


def run_lattice(
    model: Lattice,
    options: LatticeOptions,
    comm: Communicator,
    stop: Callable[[], bool] = lambda: False,
) -> LatticeResult:
    """Run a lattice model on one device.

    Parameters
    ----------
    stop
        Asked between batches of steps; True ends the run early, with a checkpoint.

    Raises
    ------
    TauslabError
        Bad input, a device that is missing, a file that cannot be written.
    StoppedEarly
        The run was stopped on request; ``--resume`` completes it.
    """
    if comm.size > 1:
        raise ConfigError(
            f"a lattice runs on one rank, and this launch has {comm.size}: start it without mpirun"
        )
    _check_output(options)
    seed = _seed(options)
    task = prepare_lattice(model, options)
    folder = Path(tempfile.mkdtemp(prefix="tauslab-")) if options.output is None else None
    path = options.output or (folder or Path()) / "lattice.h5"
    backend = open_backend(options.device, options.threads, comm)
    try:
        _Run(task, seed, path, backend, stop).whole()
    except BaseException:
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    finally:
        backend.close()
    result = LatticeResult(path)
    if folder is not None:
        result.keep_in(folder)
    return result


def _seed(options: LatticeOptions) -> int:
    """The one given, that of the run to resume, or one drawn."""
    if options.seed is not None:
        return options.seed
    if options.resume and options.output is not None and options.output.exists():
        return int(stored_settings(options.output)["seed"])
    return secrets.randbits(64)


def _check_output(options: LatticeOptions) -> None:
    path = options.output
    if options.overwrite and options.resume:
        raise ConfigError("--overwrite and --resume exclude each other")
    if path is None:
        return
    if not path.parent.is_dir():
        raise ConfigError(f"{path}: the folder {path.parent} does not exist")
    if path.is_dir():
        raise ConfigError(f"{path} is a folder; -o takes the name of a file")
    if path.exists() and not options.overwrite and not options.resume:
        raise ConfigError(f"{path} exists; use --overwrite, --resume or another -o")
    if path.exists() and options.resume and not is_lattice_result(path):
        raise ConfigError(f"{path} is not a lattice run, so --resume cannot go on from it")


class _Run:
    """All replicas, one after another."""

    def __init__(
        self,
        task: LatticeTask,
        seed: int,
        path: Path,
        backend: Backend,
        stop: Callable[[], bool],
    ) -> None:
        self._task, self._seed, self._path = task, seed, path
        self._backend, self._stop = backend, stop
        threads = task.options.threads or 4
        self._writer = LatticeWriter(path, task, seed, threads=threads)
        self._pace = 0.0  # steps a second, as measured
        self._saved_at = time.monotonic()
        self._progress: Progress | None = None

    def whole(self) -> None:
        """Run what is not done."""
        task, options = self._task, self._task.options
        begun: dict[int, Frame] = {}
        if options.resume and self._path.exists():
            begun = self._writer.open_again()
        else:
            self._writer.create()
        try:
            with Progress(
                task.steps * options.replicas,
                quiet=options.quiet,
                description=task.model.name,
                unit="steps",
                started_at=sum(f.state.step // task.passes for f in begun.values()),
            ) as self._progress:
                for replica in range(0 if self._writer.complete else options.replicas):
                    self._replica(replica, begun.get(replica))
            if not self._writer.complete:
                self._writer.finish()
        finally:
            self._writer.close()

    def _replica(self, replica: int, begun: Frame | None) -> None:
        task = self._task
        engine = LatticeEngine(self._backend, task.lattice, seed=self._seed, replica=replica)
        if begun is None:
            engine.load_start()
            self._samples(replica, 0, engine.count())
            self._keep_frame(engine, 0)
        else:
            engine.load(begun.state)
        done = engine.step // task.passes
        while done < task.steps:
            done = self._batch(engine, done)
            self._keep_frame(engine, done)
            self._call_hooks(engine, done)
            self._show(replica, done)
            if self._stop() and done < task.steps:
                self._checkpoint(engine)
                self._writer.sync()
                raise StoppedEarly(
                    f"stopped on request after {done} of {task.steps} steps of replica {replica}: "
                    f"--resume completes {self._path}"
                )
            self._checkpoint_if_due(engine)
        if task.options.replicas > 1 and not task.options.frame_every:
            self._checkpoint(engine)  # so that a later resume need not run it again

    def _batch(self, engine: LatticeEngine, done: int) -> int:
        """Steps up to the next frame, hook or look at signals; returns steps done."""
        task = self._task
        end = self._batch_end(done)
        every = task.count_every
        sampled = np.arange((done // every + 1) * every, end + 1, every)
        marks = sorted({*sampled.tolist(), end})
        began = time.perf_counter()
        samples = engine.run_sampled([(mark - done) * task.passes for mark in marks])
        self._pace = (end - done) / max(1e-9, time.perf_counter() - began)
        if len(sampled):
            chosen = np.isin(marks, sampled)
            self._samples(engine.replica, int(sampled[0]) // every, _rows(samples, chosen))
        return end

    def _batch_end(self, done: int) -> int:
        task, options = self._task, self._task.options
        steps = max(1, int(self._pace * _BATCH_SECONDS)) if self._pace else 1
        end = min(done + min(steps, _MOST_SAMPLES * task.count_every), task.steps)
        stops = [every for every, _ in options.hooks]
        stops += [options.frame_every] if options.frame_every else []
        return min([end, *((done // every + 1) * every for every in stops)])

    def _samples(self, replica: int, first: int, samples: Samples) -> None:
        self._writer.write_samples(replica, first, samples)

    def _keep_frame(self, engine: LatticeEngine, done: int) -> None:
        every = self._task.options.frame_every
        if every and done % every == 0:
            self._write(engine, done // every)

    def _checkpoint_if_due(self, engine: LatticeEngine) -> None:
        if time.monotonic() - self._saved_at > 60 * self._task.options.checkpoint_every:
            self._checkpoint(engine)

    def _checkpoint(self, engine: LatticeEngine) -> None:
        self._write(engine, -1)

    def _write(self, engine: LatticeEngine, number: int) -> None:
        state = engine.save_later(self._writer.make_room())
        self._writer.write_frame(engine.replica, number, state)
        self._saved_at = time.monotonic()

    def _call_hooks(self, engine: LatticeEngine, done: int) -> None:
        for every, hook in self._task.options.hooks:
            if done % every == 0:
                hook(LatticeView(engine))
                engine.wait_for_arrays()

    def _show(self, replica: int, done: int) -> None:
        if self._progress is not None:
            self._progress.update(replica * self._task.steps + done, 0)


def _rows(samples: Samples, chosen: npt.NDArray[np.bool_]) -> Samples:
    return Samples(
        samples.by_type[chosen], samples.fired[chosen], samples.spills[chosen],
        samples.waiting[chosen],
    )  # fmt: skip
