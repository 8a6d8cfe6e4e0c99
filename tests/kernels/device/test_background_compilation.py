"""Kernels that another process compiles while a device runs others."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest
from cuda_usage import NEWEST, require_nvrtc

from tauslab.kernels.backends import background, cuda
from tauslab.kernels.backends.base import KernelSource, LaunchGrid

GATHER = KernelSource("ensemble/gather.cc", ("gather_rows",))


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    require_nvrtc()
    monkeypatch.setenv("TAUSLAB_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(background, "_running", {})
    return tmp_path / "cache"


def test_another_process_compiles_into_the_cache(empty_cache, monkeypatch):
    other = cuda._compile_in_background(GATHER, NEWEST)
    assert other is not None
    end = time.monotonic() + 60
    while not other.ended() and time.monotonic() < end:
        time.sleep(0.02)
    with monkeypatch.context() as patch:  # it says where: its own cache may have had no room
        patch.setenv("TAUSLAB_CACHE_DIR", str(empty_cache.with_name("other")))
        path = other.path
    assert path is not None
    assert path.is_relative_to(empty_cache)
    assert cuda.cubin_of(GATHER, NEWEST)[0] == path  # which asks for the same
    assert cuda._compile_in_background(GATHER, NEWEST) is None


def test_a_process_that_failed_is_not_tried_again(empty_cache):
    """Its kernel is compiled here then, so that the error is seen."""
    del empty_cache
    wrong = KernelSource("ensemble/gather.cc", ("gather_rows",), {"device/prelude.h": "#error no"})
    other = cuda._compile_in_background(wrong, NEWEST)
    assert other is not None
    assert other.path is None
    assert cuda._compile_in_background(wrong, NEWEST) is None


@pytest.mark.parametrize("program", [None, "", "/usr/bin/application"])
def test_no_other_program_is_started(empty_cache, monkeypatch, program):
    """What has Python inside would start a second time, as frozen applications do."""
    del empty_cache
    monkeypatch.setattr(background.subprocess, "Popen", lambda *_, **__: pytest.fail("started"))
    monkeypatch.setattr(sys, "executable", program)
    assert cuda._compile_in_background(GATHER, NEWEST) is None


@pytest.mark.parametrize("compiles", [True, False])
def test_launches_take_what_was_compiled_in_background(tmp_path, monkeypatch, compiles):
    """From the first launch after it ended on, and never where it failed."""
    loaded = []

    def module(path):
        loaded.append(path)
        function = SimpleNamespace(kernel=SimpleNamespace(ptr=len(loaded)))
        return SimpleNamespace(get_function=lambda _: function)

    launched = []
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(RawModule=module))
    monkeypatch.setattr(
        cuda.CudaProgram, "_launch", lambda self, entry, *_: launched.append(self._pointers[entry])
    )
    monkeypatch.setattr(cuda.CudaProgram, "resident", lambda *_: 1 << 16)
    better = tmp_path / "better.cubin"
    ended = [False]
    compiled = SimpleNamespace(ended=lambda: ended[0], path=better if compiles else None)
    program = cuda.CudaProgram(tmp_path / "first.cubin", GATHER, {}, 132, compiled)

    def launch():
        program.launch("gather_rows", 1000, None, None)
        program.launch_blocks("gather_rows", LaunchGrid(8, 128), None, None)

    launch()
    ended[0] = True
    launch()
    assert launched == ([1, 1, 2, 2] if compiles else [1, 1, 1, 1])
    assert loaded == [str(tmp_path / "first.cubin"), *([str(better)] if compiles else [])]
