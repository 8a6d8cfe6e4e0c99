"""Devices that tests of lattices share."""

from __future__ import annotations

import pytest

from tauslab.kernels.backends import BackendOptions, get_backend


@pytest.fixture(scope="module")
def cpu():
    opened = get_backend("cpu", BackendOptions(threads=1))
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def three_threads():
    opened = get_backend("cpu", BackendOptions(threads=3))
    opened.sites_of_a_block = 1
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def many_threads():
    """More than a small lattice has parts to share out."""
    opened = get_backend("cpu", BackendOptions(threads=16))
    opened.sites_of_a_block = 1
    yield opened
    opened.close()
