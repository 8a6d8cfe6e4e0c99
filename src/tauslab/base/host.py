"""Memory and cores that this process may use, with the limits of its control groups."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from tauslab.base.errors import ModelError

PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")
# Of a control group, by the version of its files: its limit, and what it has taken.
_FILES = {
    1: ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    2: ("memory.max", "memory.current"),
}
_MOST_READ = 1 << 16  # bytes of a file of the system
_SMALL = 64 << 20  # bytes for which nobody is asked
_at_import: dict[str, str] = {}


def available_memory() -> int:
    """Bytes of host memory that can still be taken.

    The least of what the machine has free, what the control groups of this process leave (a job of
    SLURM or a container is one; versions 1 and 2) and its limit of address space.
    """
    return max(0, min([_machine(), *_control_groups(), *_address_space()]))


def require_memory(needed: int, what: str, advice: str = "") -> None:
    """Refuse what needs more host memory than there is, before any of it is taken.

    Parameters
    ----------
    needed
        Bytes.
    what
        Beginning of the message, such as ``a lattice of 512 x 512 x 512 sites``.
    advice
        End of the message: what needs less.

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
            f"{what} needs {in_bytes(needed)} of memory; {in_bytes(free)} is available"
            + (f": {advice}" if advice else "")
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
        for line in _text(PROC / "meminfo").splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) << 10
    except (OSError, ValueError, IndexError):
        pass  # not Linux, or /proc is not mounted
    free = "SC_AVPHYS_PAGES"
    pages = free if free in os.sysconf_names else "SC_PHYS_PAGES"  # macOS knows the total alone
    return os.sysconf(pages) * os.sysconf("SC_PAGE_SIZE")


def _control_groups() -> Iterator[int]:
    """Bytes that each control group above this process leaves."""
    for folder, version in _group_folders("memory"):
        limit, used = _FILES[version]
        most, taken = _number_in(folder / limit), _number_in(folder / used)
        if most is not None and taken is not None:
            yield most - taken + _reclaimable(folder)


def _reclaimable(folder: Path) -> int:
    """Pages of files that the kernel gives back before it refuses memory."""
    try:
        lines = _text(folder / "memory.stat").splitlines()
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


def _group_folders(controller: str) -> Iterator[tuple[Path, int]]:
    """The folder of each group that may limit this process, and the version of its files, 1 or 2.

    Parameters
    ----------
    controller
        What is limited: ``memory`` or ``cpu``.
    """
    try:
        groups = _text(PROC / "self/cgroup")
    except (OSError, UnicodeDecodeError):
        return  # not Linux
    yield from _folders_of(groups, controller, GROUPS)


@lru_cache(maxsize=8)  # every run asks for memory and cores; their levels are read anew
def _folders_of(groups: str, controller: str, mount: Path) -> tuple[tuple[Path, int], ...]:
    """Folders and versions for the lines of ``/proc/self/cgroup``."""
    result = []
    for line in groups.splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "":
            root, version = mount, 2
        elif controller in controllers.split(","):
            root, version = mount / controller, 1
        else:
            continue
        group = root / path.strip("/")
        # A container may not see the groups above its own: its own then lies at the root.
        above = (folder for folder in group.parents if folder.is_relative_to(root))
        result += [(folder, version) for folder in {group, *above, root}]
    return tuple(result)


def _text(path: Path) -> str:
    """The text of a small file of the system, read at once: a run reads a dozen."""
    handle = os.open(path, os.O_RDONLY)
    try:
        return os.read(handle, _MOST_READ).decode()
    finally:
        os.close(handle)


def _number_in(path: Path) -> int | None:
    """A limit or a level in a file; None where there is none."""
    try:
        text = _text(path).strip()
    except (OSError, UnicodeDecodeError):
        return None
    return int(text) if text.isdigit() else None  # "max" and -1: no limit


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


def keep_environment() -> None:
    """Keep ``OMP_NUM_THREADS`` of the user: Dask sets it to 1 in the process of a new cluster."""
    _at_import["OMP_NUM_THREADS"] = os.environ.get("OMP_NUM_THREADS", "")


def cores_of_rank(sharers: int, environment: Mapping[str, str] | None = None) -> int:
    """Cores for one of `sharers` processes that may use the same ones, at least 1.

    No more than ``OMP_NUM_THREADS``, nor than SLURM was asked for by ``--cpus-per-task``: where it
    binds no task, each may use all cores of the node. `environment` is by default that of this
    process, with ``OMP_NUM_THREADS`` as it was when tauslab was imported.
    """
    if environment is None:
        environment = {**os.environ, **_at_import}
    names = ("SLURM_CPUS_PER_TASK", "OMP_NUM_THREADS")  # the latter may be a list, "4,2"
    limits = (environment.get(name, "").partition(",")[0] for name in names)
    requested = (int(limit) for limit in limits if limit.isdigit())
    return max(1, min([allowed_cores() // sharers, *(n for n in requested if n)]))


def _quotas() -> Iterator[int]:
    """Yield the cores that each control group allows, rounded up to whole ones."""
    for folder, version in _group_folders("cpu"):
        most, period = _of_version_2(folder) if version == 2 else _of_version_1(folder)
        if most is not None and period:
            yield -(-most // period)


def _of_version_1(folder: Path) -> tuple[int | None, int | None]:
    return _number_in(folder / "cpu.cfs_quota_us"), _number_in(folder / "cpu.cfs_period_us")


def _of_version_2(folder: Path) -> tuple[int | None, int | None]:
    """Microseconds of all cores together in each period; "max" is no limit."""
    try:
        most, period = _text(folder / "cpu.max").split()
        return int(most), int(period)
    except (OSError, ValueError):
        return None, None
