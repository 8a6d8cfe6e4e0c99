"""The pace of work that costs time and gives no result."""

from __future__ import annotations

RARELY = 20  # times as long as saving takes must pass before the next, at least


def next_due(began: float, ended: float, seconds: float, rarely: float = RARELY) -> float:
    """Time of the next save, after one from `began` to `ended`: in `seconds`, or later.

    Sums of a large sweep from a thousand ranks keep a file system busy for longer than that; so
    saving takes a twentieth of the time at most.

    >>> next_due(100, 101, 30), next_due(100, 110, 30)
    (131, 310)
    """
    return ended + max(seconds, rarely * (ended - began))
