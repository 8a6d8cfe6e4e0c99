"""Functions of rate laws on SIMD lanes: the bits of the portable functions, whatever the width."""

from __future__ import annotations

import numpy as np
import pytest
from engine_runs import compiler
from places import TESTS
from quick_compiling import quick_flags

from tauslab.kernels.backends import BackendOptions, get_backend
from tauslab.kernels.backends.base import KernelSource

pytestmark = compiler
PROBE = TESTS / "support" / "kernels" / "csrc_lane_functions_probe.cc"
HEADER = " -DINSTRUCTIONS_BY_HEADER"  # as compilers do that name an instruction otherwise
WIDTHS = ("8", "4", f"8{HEADER}", f"4{HEADER}", pytest.param("2", marks=pytest.mark.validate))


@pytest.mark.parametrize("width", WIDTHS)
def test_functions_on_lanes_have_the_bits_of_one_double(monkeypatch, width):
    """Random bits, edges, special values and the ranges of laws, alike and mixed on a vector."""
    monkeypatch.setenv("TAUSLAB_CXXFLAGS", f"{quick_flags()} -DSIMD_LANES={width}")
    backend = get_backend("cpu", BackendOptions(threads=1))
    source = KernelSource("probe.cc", ("probe_lanes",), {"probe.cc": PROBE.read_text()})
    program, stream = backend.compile(source), backend.stream()
    wrong = np.zeros(12, np.uint64)
    program.launch(
        "probe_lanes", 1, program.arguments("probe_lanes", count=20_000, wrong=wrong), stream
    )
    stream.record().wait()
    backend.close()
    assert wrong.tolist() == [0] * 12
