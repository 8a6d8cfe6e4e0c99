"""Laws are compared as users compile: with all of the compiler's optimisation."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

_LIGHT_FLAGS = "-O1"  # of tests/conftest.py


@pytest.fixture(scope="module", autouse=True)
def _optimised() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        if os.environ.get("TAUSLAB_CXXFLAGS") == _LIGHT_FLAGS:
            patch.delenv("TAUSLAB_CXXFLAGS")
        yield
