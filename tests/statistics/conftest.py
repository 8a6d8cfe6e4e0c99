"""Laws are compared with the compiler's optimisation; `-m validate` has all of it, as users."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from quick_compiling import PLAIN, quick_flags


@pytest.fixture(scope="module", autouse=True)
def _optimised() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        given = os.environ.get("TAUSLAB_CXXFLAGS")
        if given is not None and given == quick_flags():  # those of tests/conftest.py
            patch.setenv("TAUSLAB_CXXFLAGS", PLAIN)
        yield
