"""Reciprocals in single precision are correctly rounded on every device, small numbers as zeros."""

from __future__ import annotations

import numpy as np
from places import TESTS

from tauslab.kernels.backends.base import KernelSource

PROBE = TESTS / "support" / "kernels" / "csrc_reciprocal_probe.cc"


def test_reciprocals_of_all_numbers(backend):
    """A GPU takes all 2^32, a CPU every 1009th and all sorts of edges on the way."""
    source = KernelSource("probe.cc", ("check_reciprocals",), {"probe.cc": PROBE.read_text()})
    program, stream = backend.compile(source), backend.stream()
    wrong = backend.empty((1,), np.uint64)
    backend.clear(wrong, stream)
    stride = 1 if backend.style.warp > 1 else 1009
    count = (1 << 32) // stride
    every = program.arguments("check_reciprocals", stride=stride, count=count, wrong=wrong)
    program.launch("check_reciprocals", 1 << 24, every, stream)
    edges = backend.empty((1,), np.uint64)
    backend.clear(edges, stream)
    # Powers of two, infinities and zeros with the sign.
    others = program.arguments("check_reciprocals", stride=1 << 23, count=512, wrong=edges)
    program.launch("check_reciprocals", 512, others, stream)
    for buffer in (wrong, edges):
        mirror = backend.mirror(buffer)
        backend.download(buffer, mirror, 1, stream)
        stream.record().wait()
        assert int(mirror[0]) == 0
