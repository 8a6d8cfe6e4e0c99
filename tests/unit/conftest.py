"""Unit tests compile kernels that run one trajectory after another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from places import TESTS

from tauslab.kernels.backends.cpu import CpuBackend


@pytest.fixture(scope="module", autouse=True)
def _not_on_lanes(request: pytest.FixtureRequest) -> Iterator[None]:
    """Trajectories have the same bits on SIMD lanes, whose kernels take twice as long to compile.

    `test_lanes.py`, `test_tau_lanes.py` and `test_ode_lanes.py` of tests/kernels hold these bits.
    Pages, child processes, ranks and `-m validate` run on lanes, as users do.
    """
    validates = "validate" in request.config.option.markexpr
    with pytest.MonkeyPatch.context() as patch:
        if not (validates or request.path.is_relative_to(TESTS / "unit" / "docs")):
            patch.setattr(CpuBackend, "style", replace(CpuBackend.style, simd=False))
        yield
