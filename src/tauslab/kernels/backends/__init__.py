"""Devices by name: ``cuda`` (CuPy and NVRTC) and ``cpu`` (a C++ compiler and a thread pool)."""

from __future__ import annotations

from collections.abc import Callable

from tauslab.base.errors import one_of
from tauslab.kernels.backends import cpu, cuda, cuda_peers
from tauslab.kernels.backends.base import (
    Backend,
    BackendOptions,
    backend_names,
    device_count,
    get_backend,
    peer_matrix,
    prepare_backend,
    register,
)
from tauslab.kernels.cuda_context import begin_context

register("cuda", cuda.make, cuda.count, cuda_peers.measure, begin_context)
register("cpu", cpu.make, cpu.count)

__all__ = [
    "Backend",
    "BackendOptions",
    "backend_names",
    "choose_backend",
    "device_count",
    "get_backend",
    "peer_matrix",
    "prepare_device",
]


def choose_backend(name: str) -> str:
    """The backend for ``--device NAME``: ``auto`` takes the first that has a device here.

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
    """Start what opening a device of ``--device NAME`` will wait for, beside the caller."""
    for known in backend_names():
        if name in ("auto", known):
            prepare_backend(known, index_of)
