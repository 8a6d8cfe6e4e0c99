"""How many of the processor's cores this process may use."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from tauslab.base.control_groups import group_folders, number_in


def allowed_cores() -> int:
    """Cores that this process may use, at least 1.

    The least of the cores that it is bound to and of the processor's time, in cores, that its
    control groups leave it: a container with ``--cpus=2`` has two on a machine of any size.
    """
    return max(1, min([len(bound_to()), *_quotas()]))


def bound_to() -> frozenset[int]:
    """Numbers of the cores that this process is bound to."""
    if hasattr(os, "sched_getaffinity"):
        return frozenset(os.sched_getaffinity(0))
    return frozenset(range(os.cpu_count() or 1))  # macOS binds no process


def cores_of_rank(sharers: int, environment: Mapping[str, str] = os.environ) -> int:
    """Cores for one of `sharers` processes that may use the same ones, at least 1.

    No more than SLURM was asked for by ``--cpus-per-task``: where it binds no task, each may use
    all cores of the node.
    """
    own, asked = allowed_cores() // sharers, environment.get("SLURM_CPUS_PER_TASK", "")
    return max(1, min(own, int(asked)) if asked.isdigit() else own)


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
