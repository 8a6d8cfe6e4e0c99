"""The control groups of this process: what a batch system or a container leaves it of a machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


def group_folders(controller: str) -> Iterator[tuple[Path, int]]:
    """The folder of each group that may limit this process, and the version of its files, 1 or 2.

    Parameters
    ----------
    controller
        What is limited: ``memory`` or ``cpu``.
    """
    try:
        lines = (PROC / "self/cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return  # not Linux
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            root, version = GROUPS, 2
        elif controller in controllers.split(","):
            root, version = GROUPS / controller, 1
        else:
            continue
        group = root / path.strip("/")
        # A container may not see the groups above its own: its own then lies at the root.
        for folder in {group, *(p for p in group.parents if p.is_relative_to(root)), root}:
            yield folder, version


def number_in(path: Path) -> int | None:
    """A limit or a level in a file; None where there is none."""
    try:
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None  # "max" and -1: no limit
