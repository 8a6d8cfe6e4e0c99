"""Ranks that are threads: a communicator, and CPU devices whose memory other threads open."""

from __future__ import annotations

import functools
import queue
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from dirty_memory import Dirty

from tauslab.base.errors import DeviceError
from tauslab.kernels.backends.cpu import CpuStream


class Launches:
    """What was launched, in that order: right for one stream, whatever streams it came from."""

    def __init__(self, works):
        self._works = works

    def launch(self, stream):
        for work in self._works:
            stream.submit(work)


class Passed:
    """An event of a recording."""

    passed = True

    def wait(self):
        """It has passed: a recording has one order."""


class RecordingStream(CpuStream):
    """Its launches can be recorded; with `pause` (s), each begins so much later."""

    pause = 0.0

    def __init__(self, backend):
        super().__init__()
        self._backend = backend

    def submit(self, work):
        if self._backend.recording is None:
            if self.pause:
                super().submit(functools.partial(time.sleep, self.pause))
            super().submit(work)
        else:
            self._backend.recording.append(work)

    def record(self):
        return super().record() if self._backend.recording is None else Passed()


class SharedBackend(Dirty):
    """A CPU device whose memory other threads open, and whose launches can be recorded."""

    windows: dict = {}  # noqa: RUF012 - of all ranks together
    compiling = threading.Lock()

    def __init__(self, options):
        super().__init__(options)
        self.recording = None
        self.recorded = 0
        self.memory_closed = False

    def compile(self, source):
        with self.compiling:  # one for all
            return super().compile(source)

    def stream(self, *, urgent=False, waited=False):
        del urgent, waited
        made = RecordingStream(self)
        self._streams.add(made)
        return made

    def export_memory(self, buffer):
        if self.memory_closed:
            raise DeviceError("its memory is closed")
        handle = str(id(buffer)).encode()
        self.windows[handle] = buffer
        return handle

    def open_memory(self, handle, words):
        assert len(self.windows[handle]) == words
        return self.windows[handle]

    def record_launches(self, work, stream):
        del stream
        self.recording, works = [], []
        works = self.recording
        work()
        self.recording = None
        self.recorded += 1
        return Launches(works)


class Request:
    """A persistent request: `start` and what waits for it."""

    def __init__(self, start, finish):
        self.Start, self._finish = start, finish

    def Wait(self):  # noqa: N802
        self._finish()

    def Free(self):  # noqa: N802
        """Nothing is held."""


class Thread:
    """One rank's view of threads that are ranks."""

    def __init__(self, rank, size, values, barrier, boxes):
        self.rank, self.size, self._values, self._barrier = rank, size, values, barrier
        self._boxes = boxes

    def Send_init(self, buf, dest, tag):  # noqa: N802
        box = self._boxes[self.rank, dest, tag]
        return Request(lambda: box.put(buf.copy()), lambda: None)

    def Recv_init(self, buf, source, tag):  # noqa: N802
        box = self._boxes[source, self.rank, tag]
        return Request(lambda: None, lambda: np.copyto(buf, box.get(timeout=60)))

    def allgather(self, value):
        self._values[self.rank] = value
        self.Barrier()
        actual = list(self._values)
        self.Barrier()
        return actual

    def Barrier(self):  # noqa: N802
        self._barrier.wait(60)


def on_threads(size, work):
    """`work` of each rank at the same time; what they return."""
    barrier, values = threading.Barrier(size), [None] * size
    boxes = {(a, b, tag): queue.Queue() for a in range(size) for b in range(size)
             for tag in (61, 62)}  # fmt: skip

    def call(rank):
        try:
            return work(Thread(rank, size, values, barrier, boxes))
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        return [future.result() for future in [pool.submit(call, rank) for rank in range(size)]]
