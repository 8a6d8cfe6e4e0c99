"""A part of what fuzz_time.py does: triggers of the time that jump, against a plain interpreter."""

from __future__ import annotations

import fuzz_time
import pytest
from fuzz_time import differences, drawn, table_differences


@pytest.mark.validate
def test_events_of_drawn_triggers() -> None:
    for number in range(3):
        assert differences(drawn(number)) == []


def test_what_is_found_of_drawn_triggers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files with numbers that are doubles, and that are not; and a file that is wrong."""
    monkeypatch.setattr(fuzz_time, "EVENTS", 6)
    cases = [drawn(number) for number in (0, 2)]
    for case in cases:
        assert table_differences(case) == []
    monkeypatch.setitem(fuzz_time._PLAIN, "floor", lambda x: x.__floor__() + 1)
    assert table_differences(cases[0])
