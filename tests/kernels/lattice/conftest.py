"""Devices that tests of lattices share; their new memory is not zero."""

from __future__ import annotations

import pytest
from dirty_memory import dirty_cpu


@pytest.fixture(scope="module")
def cpu():
    with dirty_cpu() as opened:
        yield opened


@pytest.fixture(scope="module")
def two_threads():
    with dirty_cpu(2) as opened:
        yield opened


@pytest.fixture(scope="module")
def three_threads():
    with dirty_cpu(3, sites_of_a_block=1) as opened:
        yield opened


@pytest.fixture(scope="module")
def many_threads():
    """More than a small lattice has parts to share out."""
    with dirty_cpu(16, sites_of_a_block=1) as opened:
        yield opened
