"""Reports devices, compilers, MPI, HDF5 and cache of this machine; none of them is required."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tauslab.base.errors import OutputError, first_line_of
from tauslab.base.files.extras import installing
from tauslab.base.host import allowed_cores, cores_of_rank
from tauslab.cli.doctor.cluster import (
    cluster_facts,
    cuda_aware,
    halo_facts,
    halo_lines,
    peer_lines,
    storage_lines,
)
from tauslab.decomposition.ranks.mpi import Communicator, gpu_index, host_name
from tauslab.kernels.backends.cache import cache_directory, require_space
from tauslab.kernels.backends.compilers import cpu_features, find_compilers

Facts = dict[str, Any]

# Distributions that tauslab uses beside those that have a section of their own.
_PACKAGES = ("numpy", "python-libsbml", "xarray", "h5netcdf", "rich", "matplotlib", "dask")

# Vector units that decide how fast the kernels run on a CPU.
_FEATURES = {"avx2": "AVX2", "fma": "FMA", "avx512f": "AVX-512", "asimd": "NEON", "sve": "SVE"}


def doctor_json(comm: Communicator, folder: Path | None = None) -> Facts:
    """Facts about this machine, as plain numbers, texts, lists and dictionaries.

    Collective: every rank calls it. Rank 0 gets everything, the others only what is their own.
    `folder` is where results will be written, by default the current one.

    Returns
    -------
    Sections ``tauslab``, ``python``, ``packages``, ``cpu``, ``compilers``, ``cuda``, ``mpi``,
    ``hdf5``, ``cache``, ``peers``, ``storage``, ``ranks`` (host, threads and GPU of
    each) and ``halo`` (how planes of a lattice get from each rank to the next); a section that
    cannot be had holds ``error``.
    """
    facts: Facts = {name: _tried(section) for name, section in _SECTIONS.items()}
    facts["mpi"] = {**_tried(_mpi), "ranks": comm.size}
    facts |= cluster_facts(comm, folder or Path())
    devices = facts["cuda"].get("devices", [])
    mine = {
        "rank": comm.rank,
        "host": host_name(),
        "local_rank": comm.local_rank,
        "threads": cores_of_rank(comm.core_sharers),
        "gpu": gpu_of_rank(comm.gpu_rank, len(devices)),
    }
    ranks = comm.gather(mine)
    facts["ranks"] = [mine] if ranks is None else ranks
    facts["halo"] = halo_facts(comm)
    return facts


def doctor_report(facts: Facts) -> list[str]:
    """`doctor_json` as lines for people; rank 0 has the facts of all."""
    lines = []
    for name, (label, describe) in _LINES.items():
        section = facts[name]
        result = [section["error"]] if "error" in section else describe(section)
        lines += [f"{label if k == 0 else '':10} {text}" for k, text in enumerate(result)]
    devices = len(facts["cuda"].get("devices", []))
    lines += [_rank_line(entry, devices) for entry in facts["ranks"]]
    return lines + [f"{'halo':10} {text}" for text in halo_lines(facts["halo"])]


def _rank_line(entry: Facts, devices: int) -> str:
    threads = f"{entry['threads']} thread{'s' if entry['threads'] > 1 else ''}"
    if entry["gpu"] is not None:
        takes = f"takes GPU {entry['gpu']}; with --device cpu {threads}"
    elif devices == 0:
        takes = f"takes the cpu device with {threads}"
    else:
        takes = f"finds no GPU of its own: {devices} ranks a node at most, or --device cpu"
    label = f"rank {entry['rank']}"
    return f"{label:10} on {entry['host']}: {takes}"


def gpu_of_rank(gpu_rank: int, devices: int) -> int | None:
    """Index of the GPU that a rank takes among those it sees; None where there is none for it.

    A launcher may show each rank a GPU of its own, which then has index 0 everywhere.
    """
    index = gpu_index(devices, gpu_rank)
    return index if index < devices else None


def _tried(section: Callable[[], Facts]) -> Facts:
    try:
        return section()
    except Exception as error:  # noqa: BLE001 - a broken driver or library is what doctor reports
        return {"error": f"not usable: {type(error).__name__}: {first_line_of(error)}"}


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu() -> Facts:
    text = cpu_features()
    model = re.search(r"model name\s*:\s*(.+)", text)
    flags = set(re.findall(r"[a-z0-9_]+", text.lower()))
    return {
        "model": model[1].strip() if model else platform.machine(),
        "cores": allowed_cores(),
        "features": [name for flag, name in _FEATURES.items() if flag in flags],
    }


def _cuda() -> Facts:
    if importlib.util.find_spec("cupy") is None:
        return {
            "devices": [],
            "note": f"no CuPy ({installing('cupy-cuda13x')}, of CUDA 12 cupy-cuda12x)",
        }
    import cupy

    facts: Facts = {"devices": [], "cupy": cupy.__version__}
    runtime = cupy.cuda.runtime
    try:
        facts["driver"] = _cuda_version(runtime.driverGetVersion())
        facts["runtime"] = _cuda_version(runtime.runtimeGetVersion())
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError as error:
        return {**facts, "note": f"CuPy {cupy.__version__} sees no device: {error}"}
    for index in range(count):
        properties = runtime.getDeviceProperties(index)
        facts["devices"].append(
            {
                "index": index,
                "name": properties["name"].decode(),
                "memory_bytes": int(properties["totalGlobalMem"]),
                "capability": f"{properties['major']}.{properties['minor']}",
            }
        )
    return facts


def _cuda_version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"


def _mpi() -> Facts:
    """Facts of mpi4py without starting MPI, which fails on some login nodes."""
    if importlib.util.find_spec("mpi4py") is None:
        return {"note": f"no mpi4py ({installing('mpi4py', 'mpich')})"}
    import mpi4py

    starts = mpi4py.rc.initialize
    mpi4py.rc.initialize = False
    try:
        from mpi4py import MPI
    finally:
        mpi4py.rc.initialize = starts
    levels = {
        MPI.THREAD_SINGLE: "single",
        MPI.THREAD_FUNNELED: "funneled",
        MPI.THREAD_SERIALIZED: "serialized",
        MPI.THREAD_MULTIPLE: "multiple",
    }
    started = MPI.Is_initialized()
    return {
        **(_flavour() if started else {}),
        "mpi4py": mpi4py.__version__,
        "library": " ".join(MPI.Get_library_version().rstrip("\0").splitlines()[0].split()),
        "threads": levels[MPI.Query_thread()] if started else None,
    }


def _flavour() -> dict[str, Any]:
    """Name of the MPI that was started, and whether it takes device memory (None: unknown)."""
    from mpi4py import MPI

    name, version = MPI.get_vendor()
    return {"flavour": f"{name} {'.'.join(map(str, version))}", "cuda_aware": cuda_aware()}


def _hdf5() -> Facts:
    import h5py

    return {
        "h5py": h5py.version.version,
        "library": h5py.version.hdf5_version,
        "mpi": bool(h5py.get_config().mpi),
    }


def _cache() -> Facts:
    try:
        folder = cache_directory()
    except OutputError as error:
        return {"path": None, "writable": False, "reason": str(error)}
    facts: Facts = {"path": str(folder), "writable": True}
    try:
        require_space(folder)
    except OSError as error:
        facts |= {"writable": False, "reason": error.strerror or str(error)}
    return facts


def _cuda_lines(facts: Facts) -> list[str]:
    if not facts["devices"]:
        return [facts.get("note", "no device")]
    head = f"driver {facts['driver']}, runtime {facts['runtime']}, CuPy {facts['cupy']}"
    return [head] + [
        f"GPU {d['index']}: {d['name']}, {d['memory_bytes'] / 2**30:.0f} GiB, "
        f"compute capability {d['capability']}"
        for d in facts["devices"]
    ]


def _mpi_lines(facts: Facts) -> list[str]:
    if "note" in facts:
        return [facts["note"]]
    threads = (
        f", threads {facts['threads']}" if facts["threads"] else "; one process does not start it"
    )
    ranks = f"{facts['ranks']} rank{'s' if facts['ranks'] > 1 else ''}"
    if "flavour" in facts:
        aware = {True: "CUDA-aware", False: "not CUDA-aware", None: "CUDA-awareness unknown"}
        threads += f", {aware[facts['cuda_aware']]}"
    return [f"{ranks}, mpi4py {facts['mpi4py']} over {facts['library']}{threads}"]


_SECTIONS: dict[str, Callable[[], Facts]] = {
    "tauslab": lambda: {"version": _version("tauslab")},
    "python": lambda: {"version": platform.python_version(), "path": sys.executable},
    "packages": lambda: {name: _version(name) for name in _PACKAGES},
    "cpu": _cpu,
    "compilers": lambda: {
        "found": [{"name": c.name, "version": c.version} for c in find_compilers()]
    },
    "cuda": _cuda, "hdf5": _hdf5, "cache": _cache,
}  # fmt: skip
_LINES: dict[str, tuple[str, Callable[[Facts], list[str]]]] = {
    "tauslab": ("tauslab", lambda f: [f["version"] or "not installed: runs from its source"]),
    "python": ("Python", lambda f: [f"{f['version']}, {f['path']}"]),
    "packages": (
        "packages",
        lambda f: [", ".join(f"{name} {version or 'missing'}" for name, version in f.items())],
    ),
    "cpu": (
        "CPU",
        lambda f: [f"{f['model']}, {f['cores']} cores allowed, {' '.join(f['features'])}"],
    ),
    "compilers": (
        "compilers",
        lambda f: (
            [f"{c['name']}: {c['version']}" for c in f["found"]]
            or [f"none: install g++ or clang++, or {installing('ziglang')}"]
        ),
    ),
    "cuda": ("CUDA", _cuda_lines),
    "mpi": ("MPI", _mpi_lines),
    "hdf5": (
        "HDF5",
        lambda f: [
            f"h5py {f['h5py']}, HDF5 {f['library']}, {'with' if f['mpi'] else 'without'} MPI"
        ],
    ),
    "cache": (
        "cache",
        lambda f: [
            f"{f['path']}, " + ("writable" if f["writable"] else f"not writable: {f['reason']}")
        ],
    ),
    "peers": ("peers", peer_lines),
    "storage": ("storage", storage_lines),
}
