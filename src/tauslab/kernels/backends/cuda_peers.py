"""Speeds of copies between GPUs of a node."""

from __future__ import annotations

from tauslab.kernels.backends.base import PeerMatrix
from tauslab.kernels.backends.cuda import count

_BYTES = 64 << 20
_COPIES = 8
_ENABLED_ALREADY = 704  # cudaErrorPeerAccessAlreadyEnabled


def measure() -> PeerMatrix:
    """Gigabytes a second from every device to every other; on the diagonal within one.

    None where a device has no direct access to the other: the driver then copies through the host.
    """
    return [[_speed(i, j) for j in range(count())] for i in range(count())]


def _speed(source: int, target: int) -> float | None:
    import cupy

    runtime = cupy.cuda.runtime
    if source != target and not runtime.deviceCanAccessPeer(target, source):
        return None
    with cupy.cuda.Device(source) as device:
        data = cupy.zeros(_BYTES, cupy.uint8)
        device.synchronize()
    _open_way(source, target)
    with cupy.cuda.Device(target):
        space = cupy.empty(_BYTES, cupy.uint8)
        stream = cupy.cuda.Stream(non_blocking=True)
        marks = [cupy.cuda.Event(), cupy.cuda.Event()]
        for copy in range(_COPIES + 1):
            if copy == 1:  # the first one opens the way
                marks[0].record(stream)
            runtime.memcpyPeerAsync(
                space.data.ptr, target, data.data.ptr, source, _BYTES, stream.ptr
            )
        marks[1].record(stream)
        marks[1].synchronize()
        milliseconds = float(cupy.cuda.get_elapsed_time(*marks))
    return round(_COPIES * _BYTES / milliseconds / 1e6, 1)


def _open_way(source: int, target: int) -> None:
    """Let two devices reach each other: until then the driver copies through the host."""
    import cupy

    runtime = cupy.cuda.runtime
    for device, other in {(source, target), (target, source)}:
        if device == other:
            continue
        try:
            with cupy.cuda.Device(device):
                runtime.deviceEnablePeerAccess(other)
        except runtime.CUDARuntimeError as error:
            if error.status != _ENABLED_ALREADY:
                raise
