"""Queues of work of the CPU device."""

from __future__ import annotations

import threading

import pytest

from tauslab.base.errors import DeviceError
from tauslab.kernels.backends.cpu import CpuStream, idle_threads


def test_a_stream_starts_its_thread_with_the_first_work():
    idle_threads.end()
    before, done = threading.active_count(), []
    stream = CpuStream()
    assert threading.active_count() == before
    for number in range(3):
        stream.submit(lambda number=number: done.append((number, threading.get_ident())))
    stream.record().wait()
    assert [number for number, _ in done] == [0, 1, 2]
    assert len({thread for _, thread in done}) == 1
    assert threading.active_count() == before + 1
    stream.queue.shutdown()
    assert threading.active_count() == before


def test_a_stream_without_a_thread_says_what_helps(monkeypatch):
    def refused(self):
        raise RuntimeError("can't start new thread")

    idle_threads.end()
    stream = CpuStream()
    monkeypatch.setattr(threading.Thread, "start", refused)
    with pytest.raises(DeviceError, match=r"starts no thread .* allow more \(ulimit"):
        stream.record()
