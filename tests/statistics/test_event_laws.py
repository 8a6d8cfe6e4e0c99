"""A run of `scripts/validate.py event-laws` at a smaller size."""

from __future__ import annotations

import pytest
import validate


@pytest.mark.validate
def test_events_and_laws_of_time_have_their_laws(tmp_path):
    table = tmp_path / "laws.csv"
    words = ["event-laws", "--n", "2000", "--device", "cpu", "--threads", "1", "-o", str(table)]
    assert validate.main(words) == 0
    assert len(table.read_text().splitlines()) > 45
