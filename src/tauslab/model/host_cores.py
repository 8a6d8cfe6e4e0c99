"""How many of the processor's cores this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from tauslab.model.control_groups import group_folders, number_in


def allowed_cores() -> int:
    """Cores that this process may use, at least 1.

    The least of the cores that it is bound to and of the processor's time, in cores, that its
    control groups leave it: a container with ``--cpus=2`` has two on a machine of any size.
    """
    return max(1, min([_bound_to(), *_quotas()]))


def _bound_to() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1  # macOS binds no process


def _quotas() -> Iterator[int]:
    """What each control group allows, rounded up to whole cores."""
    for folder, version in group_folders("cpu"):
        most, period = _of_version_2(folder) if version == 2 else _of_version_1(folder)
        if most is not None and period:
            yield -(-most // period)


def _of_version_1(folder: Path) -> tuple[int | None, int | None]:
    return number_in(folder / "cpu.cfs_quota_us"), number_in(folder / "cpu.cfs_period_us")


def _of_version_2(folder: Path) -> tuple[int | None, int | None]:
    """Microseconds of all cores together in each period; "max" is no limit."""
    try:
        most, period = (folder / "cpu.max").read_text(encoding="ascii").split()
        return int(most), int(period)
    except (OSError, ValueError):
        return None, None
