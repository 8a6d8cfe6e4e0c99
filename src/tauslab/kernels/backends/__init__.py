"""Devices by name: ``cuda`` (CuPy and NVRTC) and ``cpu`` (a C++ compiler and a thread pool)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tauslab.base.errors import one_of
from tauslab.kernels.backends import cpu, cuda, cuda_peers
from tauslab.kernels.backends.base import Backend, BackendOptions, PeerMatrix
from tauslab.kernels.backends.cuda_target import CudaTarget
from tauslab.kernels.cuda_context import begin_context

__all__ = [
    "Backend", "BackendOptions", "CudaTarget", "backend_names", "choose_backend", "device_count",
    "get_backend", "on_cores", "peer_matrix", "prepare_device",
]  # fmt: skip


@dataclass(frozen=True)
class _Kind:
    """A kind of device.

    `count` says how many this machine has; `peers` measures copies between them; `prepare` starts
    what opening one will wait for, given what chooses one of so many; `on_cores` says whether it
    computes on the cores of the host.
    """

    make: Callable[[BackendOptions], Backend]
    count: Callable[[], int]
    peers: Callable[[], PeerMatrix] = list
    prepare: Callable[[Callable[[int], int]], None] = lambda _: None
    on_cores: bool = False


_KINDS = {  # preferred first
    "cuda": _Kind(cuda.CudaBackend, cuda.count, cuda_peers.measure, begin_context),
    "cpu": _Kind(cpu.make, lambda: 1, on_cores=True),
}


def backend_names() -> list[str]:
    """The names `get_backend` knows, preferred first."""
    return list(_KINDS)


def device_count(name: str) -> int:
    """Number of devices of the backend that this machine shows."""
    return _KINDS[name].count()


def on_cores(name: str) -> bool:
    """Whether the backend computes on the cores of the host."""
    return _KINDS[name].on_cores


def peer_matrix(name: str) -> PeerMatrix:
    """Copy between every two devices of a backend, and say how fast that is."""
    return _KINDS[name].peers()


def get_backend(name: str, options: BackendOptions) -> Backend:
    """Make the backend `name`; DeviceError names what is missing."""
    return _KINDS[name].make(options)


def choose_backend(name: str) -> str:
    """The backend for ``--device NAME``: ``auto`` takes the first that has a device.

    Raises
    ------
    ConfigError
        There is none of that name.
    """
    one_of("device", name, ("auto", *backend_names()))
    if name != "auto":
        return name
    return next(known for known in backend_names() if device_count(known) > 0)


def prepare_device(name: str, index_of: Callable[[int], int]) -> None:
    """Start what opening a device of ``--device NAME`` will wait for, beside the caller.

    It is device ``index_of(how many there are)``. Nothing is raised where it is missing or broken.
    """
    for known, kind in _KINDS.items():
        if name in ("auto", known):
            kind.prepare(index_of)
