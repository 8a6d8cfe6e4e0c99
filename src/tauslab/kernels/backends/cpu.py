"""The CPU device: kernels as shared libraries, a pool of threads, streams as queues.

It is the reference: everything CUDA does must give the same bits as this.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from tauslab.base.arrays import DeviceArray
from tauslab.base.errors import DeviceError, KernelCompileError
from tauslab.base.host import allowed_cores, available_memory, bound_to
from tauslab.base.option_names import opt, warn
from tauslab.kernels.backends.arguments import (
    ArgumentLayout,
    Arguments,
    layouts_of,
    with_layout_checks,
)
from tauslab.kernels.backends.base import BackendOptions, KernelSource, LaunchGrid, Style
from tauslab.kernels.backends.cache import (
    cache_directory,
    compiled,
    content_key,
    csrc_digest,
    csrc_texts,
    with_headers,
    write_texts,
)
from tauslab.kernels.backends.compilers import Compiler, cpu_features, host_compiler, run_compiler
from tauslab.kernels.backends.host_memory import HostMemory

# A launch ends with SIMD lanes that have nothing to do while another goes on. So it has so many
# trajectories for each where they are short: where a core fires no more events for them.
_ROUNDS, _ENOUGH_EVENTS = 8, 2e7
# Events of a core in a launch at least, about 0.04 s: one thread starts and ends all launches, for
# which it takes about 2 ms with 64 cores.
LEAST_EVENTS = 8e6
_IDLE_QUEUES = 8  # of streams, kept from run to run: a run takes six
_PATIENCE = 0.2  # seconds: threads that have nothing to do end within microseconds


class CpuEvent:
    """Done when the queue has reached it; with `at_once`, by who makes it."""

    def __init__(self, *, at_once: bool = False) -> None:
        self._reached = None if at_once else threading.Event()
        self._time = 0.0
        self._error: BaseException | None = None

    def reach(self, error: BaseException | None) -> None:
        """Called by the queue."""
        self._time, self._error = time.perf_counter(), error
        if self._reached is not None:
            self._reached.set()

    def done(self) -> bool:
        """Return whether the queue has reached it."""
        return self._reached is None or self._reached.is_set()

    @property
    def passed(self) -> bool:
        """Return whether the queue has reached it, and nothing failed before."""
        return self.done() and self._error is None

    def wait(self) -> None:
        """Block until the queue has reached it; raises what failed before it."""
        if self._reached is not None:
            self._reached.wait()
        if self._error is not None:
            raise self._error

    def seconds_since(self, earlier: CpuEvent) -> float:
        """Seconds between the two events, as the queue saw them."""
        return self._time - earlier._time


class _Threads(ThreadPoolExecutor):
    """A pool of so many threads, all of them started: kernels may wait for each other.

    Raises
    ------
    DeviceError
        The system does not start so many.
    """

    def __init__(self, threads: int, name: str) -> None:
        super().__init__(threads, thread_name_prefix=name)
        self.made_for = threads, bound_to()
        started = threading.Event()
        try:
            for _ in range(threads):
                self.submit(started.wait)
        except RuntimeError as error:
            begun = len(self._threads)
            raise DeviceError(
                f"the system starts {begun} of {threads} threads ({error}): {_fewer_threads()}"
            ) from None
        finally:
            started.set()


class _IdleThreads:
    """Executors that have ended their work, for the next device of this process.

    To start threads takes a short run as long as its kernels. Those of a pool are of use to a
    device with as many on the same cores; a stream has one. A forked process has none of them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pools: list[_Threads] = []
        self._queues: list[ThreadPoolExecutor] = []

    def pool(self, threads: int) -> _Threads:
        """A pool of so many threads."""
        with self._lock:
            kept, self._pools = self._pools, []
        for one in kept:
            if one.made_for == (threads, bound_to()):
                return one
            one.shutdown(wait=False)
        return _Threads(threads, "tauslab-cpu")

    def queue(self) -> ThreadPoolExecutor:
        """An executor of one thread, which starts with the first work where none is idle."""
        with self._lock:
            if self._queues:
                return self._queues.pop()
        return ThreadPoolExecutor(1, "tauslab-stream")

    def keep(self, pool: _Threads | None, queues: Sequence[ThreadPoolExecutor]) -> None:
        """Keep one pool and a few queues; end the others."""
        with self._lock:
            ended = [*queues[_IDLE_QUEUES - len(self._queues) :]]
            self._queues += queues[: _IDLE_QUEUES - len(self._queues)]
            if pool is not None:
                ended += self._pools
                self._pools = [pool]
        for one in ended:
            one.shutdown(wait=False)

    def end(self) -> None:
        """End all that are kept."""
        with self._lock:
            ended = [*self._pools, *self._queues]
            self._pools, self._queues = [], []
        for one in ended:
            one.shutdown()


idle_threads = _IdleThreads()
os.register_at_fork(after_in_child=idle_threads.__init__)  # type: ignore[misc]


def _fewer_threads() -> str:
    return f"choose fewer by {opt('threads')}, or allow more (ulimit -u, ulimit -v)"


class CpuStream:
    """A queue with a thread of its own: work runs in order, beside other streams.

    The thread starts with the first work: a short run opens more streams than it needs. With
    `at_once` there is none, and the caller does the work: to hand it over takes longer than short
    work does.
    """

    def __init__(self, *, at_once: bool = False) -> None:
        self._at_once = at_once
        self.queue: ThreadPoolExecutor | None = None
        self._closed = False
        self._error: BaseException | None = None
        self.last: Future[object] | None = None  # done when the queue is empty

    def submit(self, work: Callable[[], object]) -> None:
        """Append work; after a failure the rest is skipped."""

        def run() -> None:
            if self._error is None:
                try:
                    work()
                except BaseException as error:  # noqa: BLE001 - handed to whoever waits
                    self._error = error

        self._append(run)

    def record(self) -> CpuEvent:
        """Mark the work given so far."""
        event = CpuEvent(at_once=self._at_once)
        self._append(lambda: event.reach(self._error))
        return event

    def _append(self, call: Callable[[], None]) -> None:
        if self._closed:
            raise RuntimeError("the stream is closed")
        if self._at_once:
            call()
            return
        self.queue = self.queue or idle_threads.queue()
        try:
            self.last = self.queue.submit(call)
        except RuntimeError as error:
            if self.last is not None:  # the thread had started
                raise
            raise DeviceError(
                f"the system starts no thread for a queue of work ({error}): {_fewer_threads()}"
            ) from None

    def wait_for(self, event: CpuEvent) -> None:
        """Let later work start after `event`."""
        if not event.passed:
            self.submit(event.wait)

    @property
    def idle(self) -> bool:
        """Return whether all work that was given is done, and none failed."""
        return self._error is None and (self.last is None or self.last.done())

    @property
    def failed(self) -> bool:
        """Return whether work failed, after which the rest was skipped."""
        return self._error is not None

    def rest(self) -> ThreadPoolExecutor | None:
        """Give up the thread of an idle stream, until the next work; None if it has none."""
        given, self.queue, self.last = self.queue, None, None
        return given

    def close(self) -> None:
        """Take no more work."""
        self._closed = True


class _Start:
    """Lets all calls of a launch run, for they may wait for each other; none on a closed device."""

    def __init__(self, backend: CpuBackend) -> None:
        self._backend = backend
        self._lock = threading.Lock()
        self.made = False

    def make(self) -> bool:
        """Return whether a call shall run; the first decides for all."""
        with self._lock:
            self.made = self.made or not self._backend.closed
            return self.made


class CpuProgram:
    """A loaded shared library."""

    def __init__(
        self,
        library: ctypes.CDLL,
        entries: Sequence[str],
        layouts: Mapping[str, ArgumentLayout],
        backend: CpuBackend,
    ) -> None:
        self._entries = {name: getattr(library, name) for name in entries}
        self._together = {name: _together(library, name) for name in entries}
        self._layouts = layouts
        self._backend = backend

    def arguments(self, entry: str, **values: Any) -> Arguments:
        """Arguments of kernel `entry` by name."""
        return Arguments(self._layouts[entry], values)

    def launch(self, entry: str, items: int, arguments: Arguments, stream: CpuStream) -> None:
        """Call `entry` once per thread of the pool, all at the same time."""
        function = self._entries[entry]
        threads = self._backend.launched_items(items)
        structure = arguments.structure()

        start = _Start(self._backend)

        def call(thread: int) -> None:
            if start.make():
                function(ctypes.c_longlong(thread), ctypes.c_longlong(threads), structure)

        def work() -> None:
            if threads == 1:
                call(0)
            else:
                together()
            keep.clear()
            if not start.made:
                raise DeviceError("the device was closed before the launch began")

        def together() -> None:
            pool = self._backend.pool()
            waiting: list[Future[None]] = [pool.submit(call, thread) for thread in range(threads)]
            for future in waiting:
                future.result()

        # The struct holds bare addresses: the arrays must live until the kernel has run.
        keep = arguments.buffers()
        stream.submit(work)

    def resident(self, entry: str) -> int:
        """One work item per thread, or one for each lane of its vectors."""
        return self._backend.threads * self._together[entry]

    def launch_blocks(
        self, entry: str, grid: LaunchGrid, arguments: Arguments, stream: CpuStream
    ) -> None:
        """A thread is a block, and all threads of the pool run at the same time."""
        self.launch(entry, grid.blocks, arguments, stream)

    def resident_blocks(self, entry: str, threads: int) -> int:
        """A block per thread of the pool."""
        del entry, threads
        return self._backend.threads


class CpuBackend(HostMemory):
    """All threads this process may use, or `options.threads` of them."""

    name = "cpu"
    style = Style(branches=True, simd=True)
    sites_together = 1 << 62  # to start all threads for a step takes 0.1 ms
    sites_of_a_block = 4096
    fast_memory = 0
    site_seconds, step_seconds, launch_seconds = 1.2e-7, 1e-4, 1e-4
    sites_beside = 1 << 62
    waiting_is_free = False

    def __init__(self, options: BackendOptions) -> None:
        self.closed = False
        self.threads = self.multiprocessors = options.threads or allowed_cores()
        self.concurrent_lattices = self.threads  # each has a thread, and none waits
        self._lock = threading.Lock()
        self._pool: _Threads | None = idle_threads.pool(self.threads)
        self._streams: weakref.WeakSet[CpuStream] = weakref.WeakSet()

    def pool(self) -> _Threads:
        """The threads; after `rest` others, which may be the same."""
        with self._lock:
            self._pool = self._pool or idle_threads.pool(self.threads)
            return self._pool

    def describe(self) -> str:
        """Processor and number of threads."""
        lines = cpu_features().splitlines()
        named = (x.split(":")[1].strip() for x in lines if x.startswith("model name"))
        model = next(named, f"{platform.machine()} processor")  # Arm's are not named
        return f"{model}, {self.threads} thread{'s' if self.threads > 1 else ''}"

    def identity(self) -> str:
        """Ranks share the cores of a node."""
        return ""

    def compile(self, source: KernelSource) -> CpuProgram:
        """Compile with the host compiler, or take the library from the cache."""
        compiler = host_compiler()
        generated = tuple(sorted(source.generated.items()))
        made = library_of(
            cache_directory(), compiler, compiler.flags(), cpu_features(), source.file, generated
        )
        return CpuProgram(made.library, source.entries, made.layouts, self)

    def stream(self, *, urgent: bool = False, waited: bool = False) -> CpuStream:
        """Open a queue; where work is `waited` for, the thread that gives it does it."""
        del urgent
        made = CpuStream(at_once=waited)
        self._streams.add(made)
        return made

    def clear(self, buffer: DeviceArray, stream: CpuStream) -> None:
        """Zero the buffer when the queue gets there."""
        if stream.idle:  # to hand it over would take longer
            buffer.fill(0)
        else:
            stream.submit(lambda: buffer.fill(0))

    def copy(self, source: DeviceArray, target: DeviceArray, stream: CpuStream) -> None:
        """Copy when the queue gets there."""
        stream.submit(lambda: target.__setitem__(..., source))

    def free_memory(self) -> int:
        """Bytes of memory that can be taken, at most half of what is left to this process."""
        return available_memory() // 2

    def work_stealing_items(
        self, rows: int, resident: int, each: int = 8, *, parks: bool = False
    ) -> int:
        """Return the number of threads, at most."""
        del each, parks
        return min(rows, resident)

    def long_launch(self, together: int, events_each: float, most: int) -> int:
        """Return what a core runs in half a second, or eight rounds, but 0.04 s at least."""
        del most
        short = int(_ENOUGH_EVENTS * self.threads / events_each)
        return max(min(_ROUNDS * together, short), int(LEAST_EVENTS * self.threads / events_each))

    def launched_items(self, items: int) -> int:
        """A launch takes no more threads than the pool has."""
        return max(1, min(items, self.threads))

    def rest(self) -> None:
        """Leave the threads to whoever works next."""
        queues = [queue for stream in self._streams if (queue := stream.rest()) is not None]
        idle_threads.keep(self._pool, queues)
        self._pool = None

    def close(self) -> None:
        """Leave the threads to the next device, or end them after a failure.

        Of a run that was broken off nothing more starts. A kernel that was not asked to stop, or
        cannot, still runs beside the caller and ends by itself, and its threads with it.
        """
        if self.closed:
            return
        self.closed = True
        given = [stream.last for stream in self._streams if stream.last is not None]
        idle = not wait(given, _PATIENCE).not_done
        for stream in self._streams:
            stream.close()
        queues = [stream.queue for stream in self._streams if stream.queue is not None]
        if idle and not any(stream.failed for stream in self._streams):
            idle_threads.keep(self._pool, queues)
            return
        for executor in (*queues, *([] if self._pool is None else [self._pool])):
            executor.shutdown(wait=idle)


def make(options: BackendOptions) -> CpuBackend:
    """Make the backend."""
    if sys.float_info.min / 2 == 0:
        warn(
            "a library in this process, compiled with -ffast-math, made the processor take "
            f"numbers below {sys.float_info.min:.3g} for 0: results may differ"
        )
    return CpuBackend(options)


@dataclass(frozen=True)
class _Library:
    """A library of kernels, and the layouts of their arguments."""

    library: ctypes.CDLL
    layouts: Mapping[str, ArgumentLayout]


@lru_cache(maxsize=32)  # a process never unloads a library, and small runs repeat one
def library_of(
    folder: Path, compiler: Compiler, flags: tuple[str, ...], features: str, file: str,
    generated: tuple[tuple[str, str], ...],
) -> _Library:  # fmt: skip
    """Compile a file of kernels with these generated headers, or load it from the cache `folder`.

    Raises
    ------
    KernelCompileError, DeviceError
        The compiler refuses it; the system does not load the library.
    """
    del folder  # that `compiled` takes
    source = KernelSource(file, (), dict(generated))
    texts = csrc_texts() | dict(generated)
    layouts = layouts_of(file, texts)
    texts = with_layout_checks(file, texts, layouts)
    parts = [compiler.version, *flags, features, file, csrc_digest()]
    own = sorted({file, *dict(generated)})  # what is not as it was read
    key = content_key([*parts, *(f"{name}\n{texts[name]}" for name in own)])
    path, _ = compiled(key, ".so", lambda out: _build(compiler, source, texts, out))
    return _Library(_loaded(path), layouts)


def _loaded(path: Path) -> ctypes.CDLL:
    """The library of kernels at `path`.

    Raises
    ------
    DeviceError
        The system does not load it, as from a file system mounted noexec.
    """
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        raise DeviceError(
            f"compiled kernels cannot be loaded: {error}; if {path.parents[1]} is mounted noexec, "
            "set TAUSLAB_CACHE_DIR to a folder that programs may run from, else remove that file"
        ) from None


def _together(library: ctypes.CDLL, entry: str) -> int:
    """Number of work items that a thread runs together, as the library says it."""
    try:
        return ctypes.c_int.in_dll(library, f"{entry}_together").value
    except ValueError:
        return 1


def _build(compiler: Compiler, source: KernelSource, texts: dict[str, str], out: Path) -> None:
    folder = out.parent
    write_texts(folder, with_headers(source.file, texts))
    command = [*compiler.command, *compiler.flags(), f"-I{folder}", "-o", str(out)]
    command.append(str(folder / source.file))
    done = run_compiler(command)
    if done.returncode != 0:
        log = done.stderr.strip() or f"no message, exit code {done.returncode}"
        raise KernelCompileError(_failure(compiler, source, folder, log))


def _failure(compiler: Compiler, source: KernelSource, folder: Path, log: str) -> str:
    lines = [line for line in log.splitlines() if "error" in line] or log.splitlines()[:1]
    kept = Path(str(folder) + "-failed")
    folder.rename(kept)
    folder.mkdir()
    return (
        f"{' '.join(compiler.command)} cannot compile {source.file} (source kept in {kept}, flags "
        f"{' '.join(compiler.flags())}): {lines[0]}"
    )
