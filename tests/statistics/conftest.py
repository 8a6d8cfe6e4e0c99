"""Laws are compared as users compile: with all of the compiler's optimisation."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from quick_compiling import FULL, quick_flags


@pytest.fixture(scope="module", autouse=True)
def _optimised() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        given = os.environ.get("TAUSLAB_CXXFLAGS")
        if given is not None and given == quick_flags():  # those of tests/conftest.py
            patch.setenv("TAUSLAB_CXXFLAGS", FULL)
        yield
