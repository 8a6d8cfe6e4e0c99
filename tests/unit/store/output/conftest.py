"""The small job that most tests write."""

from __future__ import annotations

import pytest
from sample_job import Job, sample_job


@pytest.fixture
def job() -> Job:
    """23 trajectories in blocks of 3, 4 times, 2 species, an observable: everything recorded."""
    return sample_job()
