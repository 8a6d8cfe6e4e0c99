"""Small lattices of these tests are in planes, where they can."""

from __future__ import annotations

import pytest

from tauslab.kernels.lattice import planes


@pytest.fixture(scope="module", autouse=True)
def _small_in_planes():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planes, "MANY_SITES", 0)
        yield
