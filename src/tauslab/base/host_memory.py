"""How much memory this process may still take, and a refusal of what would take more."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator
from pathlib import Path

from tauslab.base.control_groups import PROC, group_folders, number_in
from tauslab.base.errors import ModelError

# Of a control group, by the version of its files: its limit, and what it has taken.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}
_SMALL = 64 << 20  # bytes for which nobody is asked


def available_memory() -> int:
    """Bytes of host memory that can still be taken.

    The least of what the machine has free, what the control groups of this process leave (a job of
    SLURM or a container is one; versions 1 and 2) and its limit of address space.
    """
    return max(0, min([_machine(), *_control_groups(), *_address_space()]))


def require_memory(needed: int, what: str) -> None:
    """Refuse what needs more host memory than there is, before any of it is taken.

    Parameters
    ----------
    needed
        Bytes.
    what
        Beginning of the message, such as ``a lattice of 512 x 512 x 512 sites``.

    Raises
    ------
    ModelError
        Says how much is needed and how much there is.
    """
    if needed <= _SMALL:
        return
    free = available_memory()
    if needed > free:
        raise ModelError(
            f"{what} needs {in_bytes(needed)} of memory; {in_bytes(free)} can be taken here"
        )


def in_bytes(number: int) -> str:
    """A number of bytes as people read it.

    >>> in_bytes(3 << 29), in_bytes(1 << 60)
    ('1.5 GiB', '1048576 TiB')
    """
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30)):
        if number >= size:
            value = number / size
            return f"{value:.0f} {unit}" if value >= 1000 else f"{value:.3g} {unit}"
    return f"{number / (1 << 20):.3g} MiB"


def _machine() -> int:
    try:
        for line in (PROC / "meminfo").read_text(encoding="ascii").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass  # not Linux, or /proc is not mounted
    free = "SC_AVPHYS_PAGES"
    pages = free if free in os.sysconf_names else "SC_PHYS_PAGES"  # macOS tells only of all
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def _control_groups() -> Iterator[int]:
    """Bytes that each control group above this process leaves."""
    for folder, version in group_folders("memory"):
        limit, used = _FILES[version]
        most, taken = number_in(folder / limit), number_in(folder / used)
        if most is not None and taken is not None:
            yield most - taken + _reclaimable(folder)


def _reclaimable(folder: Path) -> int:
    """Pages of files that the kernel gives back before it refuses memory."""
    try:
        lines = (folder / "memory.stat").read_text(encoding="ascii").splitlines()
    except (OSError, UnicodeDecodeError):
        return 0
    words = dict(line.split(" ", 1) for line in lines if " " in line)
    text = words.get("inactive_file", words.get("total_inactive_file", "0"))
    return int(text) if text.strip().isdigit() else 0


def _address_space() -> Iterator[int]:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return
    try:
        pages = int((PROC / "self/statm").read_text(encoding="ascii").split()[0])
    except (OSError, ValueError, IndexError):
        return
    yield soft - pages * resource.getpagesize()
