"""The CUDA device: NVRTC through CuPy, streams, events, pinned memory."""

from __future__ import annotations

import ctypes
import importlib.util
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tauslab.base.arrays import Array, DeviceArray
from tauslab.base.errors import DeviceError
from tauslab.base.files.extras import installing
from tauslab.base.option_names import opt
from tauslab.kernels.backends.arguments import (
    ArgumentLayout,
    Arguments,
    layouts_of,
    with_layout_checks,
)
from tauslab.kernels.backends.background import BackgroundCompilation, compile_in_background
from tauslab.kernels.backends.base import BackendOptions, KernelSource, LaunchGrid, Style
from tauslab.kernels.backends.cache import (
    cache_directory,
    compiled,
    content_key,
    csrc_digest,
    csrc_texts,
    has_home,
    in_cache,
)
from tauslab.kernels.backends.cuda_graph import CudaGraph
from tauslab.kernels.backends.nvrtc import compile_cubin, nvrtc_flags, nvrtc_version, quick_flags
from tauslab.kernels.cuda_context import wait_for_context

THREADS_PER_BLOCK = 128
# A launch ends with lanes of warps that have nothing to do while another goes on. So it has so many
# trajectories for each where they are short: where a multiprocessor fires no more events for them.
_ROUNDS, _ENOUGH_EVENTS = 5, 5e8
_WHOLE_PAGE = 2 << 20  # smaller allocations may share one, and handles name pages
_PORTABLE, _MAPPED = 1, 2  # cudaHostRegister: for all contexts, and for kernels
_HOST_ADDRESSES = 91  # cudaDevAttrCanUseHostPointerForRegisteredMem
_URGENT = -5  # lower goes first; 0 is usual
_TO_DEVICE, _TO_HOST = 1, 2  # cudaMemcpyKind
_KEPT = 1 << 28  # bytes of device memory: to give and to take them makes a filter a tenth slower
_POOLED = 1 << 26  # bytes of pinned memory of which up to as many are wasted
_STAGED = 1 << 16  # bytes up to which a copy from pageable memory has read it when it returns
# Bytes up to which a copy that is waited for reads pageable memory: on an H200 1 MB takes 92 us,
# through CuPy's pinned memory 119.
_WAITED = 1 << 20


class CudaEvent:
    """A CUDA event with timing."""

    def __init__(self, event: Any) -> None:
        self.event = event

    def done(self) -> bool:
        """Return whether the device has passed it."""
        return bool(self.event.done)

    def wait(self) -> None:
        """Block until the device has passed it."""
        self.event.synchronize()

    def seconds_since(self, earlier: CudaEvent) -> float:
        """Device seconds between two events that have passed."""
        import cupy

        return float(cupy.cuda.get_elapsed_time(earlier.event, self.event)) / 1000.0


class CudaStream:
    """A CUDA stream in order with array operations, which CuPy puts on the device's default stream.

    Work here begins when the array operations before it are done, and an array operation begins
    when all work before it is done, on every stream of this class.
    """

    def __init__(self, priority: int | None = None) -> None:
        import cupy

        self.stream = cupy.cuda.Stream(priority=priority)

    def record(self) -> CudaEvent:
        """Mark the work given so far."""
        import cupy

        event = cupy.cuda.Event()
        event.record(self.stream)
        return CudaEvent(event)

    def wait_for(self, event: CudaEvent) -> None:
        """Let later work start after `event`."""
        self.stream.wait_event(event.event)


class CudaProgram:
    """A loaded cubin."""

    def __init__(
        self, path: Path, source: KernelSource, layouts: Mapping[str, ArgumentLayout],
        multiprocessors: int, better: BackgroundCompilation | None = None,
    ) -> None:  # fmt: skip
        self._layouts, self._better = layouts, better
        self._names = source.entries
        self._multiprocessors = multiprocessors
        self._shared = source.lane_bytes * THREADS_PER_BLOCK
        self._resident: dict[str, int] = {}  # threads, once they are asked for
        self._of_blocks = source.block_bytes
        self._loaded: list[Any] = []  # a module ends with its last reference
        self._load(path)

    def _load(self, path: Path) -> None:
        """Load the kernels. Those of launches that may still run stay loaded."""
        import cupy

        module = cupy.RawModule(path=str(path))
        entries = {name: module.get_function(name) for name in self._names}
        if self._shared or self._of_blocks:
            for function in entries.values():
                function.max_dynamic_shared_size_bytes = max(self._shared, self._of_blocks)
        self._loaded.append(entries)
        self._pointers = {name: each.kernel.ptr for name, each in entries.items()}

    def _take_better(self) -> None:
        """Load the kernel that was compiled in the background, if it is ready.

        Launches keep their numbers of threads. Engines have memory for these: more than fit at the
        same time wait for each other.
        """
        if self._better is not None and self._better.ended():
            path, self._better = self._better.path, None
            if path is not None:
                self._load(path)

    def arguments(self, entry: str, **values: Any) -> Arguments:
        """Arguments of kernel `entry` by name."""
        return Arguments(self._layouts[entry], values)

    def launch(self, entry: str, items: int, arguments: Arguments, stream: CudaStream) -> None:
        """Launch enough blocks for `items`, at most as many as run at the same time."""
        self._take_better()
        threads = min(items, self.resident(entry))
        grid = LaunchGrid(-(-threads // THREADS_PER_BLOCK), THREADS_PER_BLOCK)
        self._launch(entry, grid, self._shared, arguments, stream)

    def resident(self, entry: str) -> int:
        """Threads of `entry` that fit on the device at the same time."""
        if entry not in self._resident:
            from cupy.cuda import driver

            blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(
                self._pointers[entry], THREADS_PER_BLOCK, self._shared
            )
            self._resident[entry] = int(blocks) * self._multiprocessors * THREADS_PER_BLOCK
        return self._resident[entry]

    def launch_blocks(
        self, entry: str, grid: LaunchGrid, arguments: Arguments, stream: CudaStream
    ) -> None:
        """Launch the grid; together, as a cooperative launch of no more blocks than fit."""
        self._take_better()
        if grid.together:
            most = self.resident_blocks(entry, grid.threads)
            grid = replace(grid, blocks=min(grid.blocks, most))
        self._launch(entry, grid, self._of_blocks, arguments, stream)

    def _launch(
        self, entry: str, grid: LaunchGrid, shared: int, arguments: Arguments, stream: CudaStream
    ) -> None:
        """By the driver: CuPy's own call takes 15 us more."""
        from cupy.cuda import driver

        packed = ctypes.create_string_buffer(arguments.packed())
        given = ctypes.c_void_p(ctypes.addressof(packed))  # the struct is the only argument
        sizes = max(1, grid.blocks), 1, 1, grid.threads, 1, 1, shared
        values = ctypes.addressof(given)
        if grid.together:
            driver.launchCooperativeKernel(self._pointers[entry], *sizes, stream.stream.ptr, values)
        else:
            driver.launchKernel(self._pointers[entry], *sizes, stream.stream.ptr, values, 0)

    def resident_blocks(self, entry: str, threads: int) -> int:
        """Blocks that fit on the device at the same time."""
        from cupy.cuda import driver

        blocks = driver.occupancyMaxActiveBlocksPerMultiprocessor(
            self._pointers[entry], threads, self._of_blocks
        )
        return int(blocks) * self._multiprocessors


class _SideCopies:
    """Copies of a few words while kernels run, which must not wait for any of them.

    So the stream is not blocking, and urgent: streams of one priority may share a hardware queue,
    in which the copy would stand behind a kernel. A copy of pinned memory is the copy engine's
    work; a `memset` would be a kernel, and find no room on a full device. Stream and memory are
    made before there are kernels to wait for.
    """

    _WORDS = 64

    def __init__(self) -> None:
        import cupy

        self._stream = cupy.cuda.Stream(non_blocking=True, priority=_URGENT)
        memory = cupy.cuda.alloc_pinned_memory(8 * self._WORDS)
        self._pinned = np.frombuffer(memory, np.uint64, self._WORDS)
        self._lock = threading.Lock()

    def write(self, buffer: DeviceArray, word: int, value: int) -> None:
        """Write a word of a u64 buffer."""
        from cupy.cuda import runtime

        with self._lock:
            self._pinned[0] = value
            source, target = self._pinned.ctypes.data, buffer.data.ptr + 8 * word
            runtime.memcpyAsync(target, source, 8, _TO_DEVICE, self._stream.ptr)
            self._stream.synchronize()

    def read(self, buffer: DeviceArray) -> Array:
        """Read a u64 buffer of at most so many words."""
        from cupy.cuda import runtime

        with self._lock:
            source, target = buffer.data.ptr, self._pinned.ctypes.data
            runtime.memcpyAsync(target, source, buffer.nbytes, _TO_HOST, self._stream.ptr)
            self._stream.synchronize()
            return self._pinned[: buffer.size].copy()


class CudaStyle:
    """Properties of any GPU that kernels and launches depend on."""

    name = "cuda"
    multiprocessors: int
    style = Style(
        branches=False, warp=32, block=1024, blocks_together=1 << 30, team=32, small_team=8,
        literals=8, most_parking=1 << 19,
    )  # fmt: skip
    sites_together = 1 << 20  # a step is so short that launches would be much of it
    sites_of_a_block = 1
    site_seconds, step_seconds, launch_seconds = 8.2e-9, 3.5e-5, 0.0
    # More gain nothing, nor do those of 64 x 64 x 128 sites if particles are everywhere.
    concurrent_lattices, sites_beside = 8, 1 << 18
    waiting_is_free = True

    def work_stealing_items(
        self, rows: int, resident: int, each: int = 8, *, parks: bool = False
    ) -> int:
        """Fewer threads than trajectories, so that few lanes wait for the longest in the end.

        Lengths of trajectories differ. A launch of more trajectories than threads fit has `each`
        for each thread, where that still fills half of the device. A smaller one, which shares the
        device with others, has three, and at least a fifth of the device. Schlögl, 2^18
        trajectories on an H200: 4 blocks per processor take 0.102 s, 7 (all that fit) 0.115 s, 2
        take 0.140 s. 2^22 trajectories in large launches, 1.267 s with eight for each thread,
        1.202 s with sixteen, 1.201 s with 32.

        Where lanes hand over trajectories (`parks`), a small launch has two for each thread, and
        at least a quarter: Schlögl, 2^18, takes 0.093 s, with a fifth 0.095, with a thread for each
        trajectory 0.108; Vilar's oscillator, 2^17, takes 0.096, 0.111 and 0.093 s.
        """
        small = (2, 4) if parks else (3, 5)
        each, part = (each, 2) if rows > resident else small
        return min(rows, resident, max(-(-rows // each), resident // part))

    def long_launch(self, together: int, events_each: float, most: int) -> int:
        """Return what a multiprocessor runs in half a second, or `most`, or five rounds."""
        short = int(_ENOUGH_EVENTS * self.multiprocessors / events_each)
        return min(_ROUNDS * together, short, most)

    def launched_items(self, items: int) -> int:
        """Whole blocks of threads."""
        return max(1, -(-items // THREADS_PER_BLOCK)) * THREADS_PER_BLOCK


class CudaBackend(CudaStyle):
    """GPU number `options.index` of those this process sees."""

    def __init__(self, options: BackendOptions) -> None:
        available = count()
        if options.index >= available:
            raise DeviceError(
                f"CUDA device {options.index} does not exist: {_what_is_there(available)}; use "
                f"{opt('device', 'auto')} or cpu"
            )
        import cupy

        self._device = cupy.cuda.Device(options.index)
        self.use()
        self._properties = _properties(options.index)
        self.multiprocessors = int(self._properties["multiProcessorCount"])
        # A block takes a KiB for the system; what one may take is what all may, less that.
        self.fast_memory = int(self._properties["sharedMemPerBlockOptin"]) - 8 * 1024
        self._beside = _SideCopies()
        self.capability = (int(self._properties["major"]), int(self._properties["minor"]))
        if self.capability < (7, 0):
            raise DeviceError(
                f"{self.describe()} has compute capability {self.capability[0]}."
                f"{self.capability[1]}; tauslab needs 7.0 (CUDA 12) or 7.5 and above"
            )

    def describe(self) -> str:
        """The device's own name."""
        return str(self._properties["name"].decode())

    def identity(self) -> str:
        """Its place on the node and, for parts of a GPU, its UUID."""
        return f"{self._device.pci_bus_id} {self._properties.get('uuid')!r}"

    def compile(self, source: KernelSource) -> CudaProgram:
        """Compile with NVRTC for this device, or take the cubin from the cache."""
        self._device.use()
        architecture, better = f"sm_{self.capability[0]}{self.capability[1]}", None
        if source.first is not None:
            better = _compile_in_background(source, architecture)
        if better is not None:
            assert source.first is not None
            source = source.first
        path, layouts = cubin_of(source, architecture, quickly=better is not None)
        return CudaProgram(path, source, layouts, self.multiprocessors, better)

    def stream(self, *, urgent: bool = False, waited: bool = False) -> CudaStream:
        """Open a stream; the device takes a priority out of its range for the nearest it has."""
        del waited
        return CudaStream(_URGENT if urgent else None)

    def empty(self, shape: Sequence[int], dtype: npt.DTypeLike) -> Any:
        """Device memory."""
        import cupy

        return cupy.empty(tuple(shape), dtype)

    def upload(self, array: Array, stream: CudaStream | None = None) -> Any:
        """Copy to the device; a copy on a stream is not waited for."""
        import cupy

        given = np.ascontiguousarray(array)
        on = cupy.cuda.get_current_stream() if stream is None else stream.stream
        direct = given.nbytes <= (_WAITED if stream is None else _STAGED)
        with on:  # CuPy gives again at once what was freed on the same stream
            # CuPy copies through pinned memory, which is faster for large arrays.
            buffer = cupy.empty(given.shape, given.dtype) if direct else cupy.asarray(given)
        if direct and given.nbytes:
            # The driver has read the numbers when this returns, or when the stream is waited for.
            cupy.cuda.runtime.memcpyAsync(
                buffer.data.ptr, given.ctypes.data, given.nbytes, _TO_DEVICE, on.ptr
            )
        if stream is None:
            on.synchronize()
        return buffer

    def clear(self, buffer: DeviceArray, stream: CudaStream) -> None:
        """Zero the buffer in stream order."""
        buffer.data.memset_async(0, buffer.nbytes, stream.stream)

    def copy(self, source: DeviceArray, target: DeviceArray, stream: CudaStream) -> None:
        """Copy on the device in stream order."""
        target.data.copy_from_device_async(source.data, source.nbytes, stream.stream)

    def mirror(self, buffer: DeviceArray) -> Array:
        """Pinned host memory of the same shape."""
        import cupy

        size = max(1, buffer.nbytes)  # cupyx has a function for this, and takes 0.25 s to import
        if size <= _POOLED:  # CuPy gives again what was of the same size: pinning takes long
            size = 1 << (size - 1).bit_length()
        memory = cupy.cuda.alloc_pinned_memory(size)
        count = buffer.size
        return np.frombuffer(memory, buffer.dtype, count).reshape(buffer.shape)

    def download(self, buffer: DeviceArray, mirror: Array, rows: int, stream: CudaStream) -> None:
        """Copy the first `rows` rows in stream order."""
        part = mirror[:rows]
        buffer.data.copy_to_host_async(part.ctypes.data, part.nbytes, stream.stream)

    def upload_mirror(self, mirror: Array, buffer: DeviceArray, stream: CudaStream) -> None:
        """Copy back in stream order."""
        buffer.data.copy_from_host_async(mirror.ctypes.data, mirror.nbytes, stream.stream)

    def write_now(self, buffer: DeviceArray, word: int, value: int) -> None:
        """Copy it from pinned memory on a stream of its own."""
        self._device.use()
        self._beside.write(buffer, word, value)

    def read_now(self, buffer: DeviceArray) -> Array:
        """Copy it to pinned memory on a stream of its own."""
        self._device.use()
        return self._beside.read(buffer)

    def shareable(self, words: int) -> Any:
        """An allocation of its own: a handle names a whole allocation, never part of a pool."""
        import cupy

        self._device.use()
        size = -(-8 * words // _WHOLE_PAGE) * _WHOLE_PAGE
        memory = cupy.cuda.MemoryPointer(cupy.cuda.Memory(size), 0)
        memory.memset(0, size)
        cupy.cuda.runtime.deviceSynchronize()
        return cupy.ndarray((words,), np.uint64, memptr=memory)

    def export_memory(self, buffer: DeviceArray) -> bytes:
        """A CUDA IPC handle."""
        from cupy.cuda import runtime

        try:
            return bytes(runtime.ipcGetMemHandle(buffer.data.ptr))
        except runtime.CUDARuntimeError as error:
            raise DeviceError(f"{self.describe()} gives no memory handles: {error}") from error

    def open_memory(self, handle: bytes, words: int) -> Any:
        """Map it, so that this device's kernels read and write the other device's memory."""
        import cupy
        from cupy.cuda import runtime

        self._device.use()
        try:
            address = runtime.ipcOpenMemHandle(handle, runtime.cudaIpcMemLazyEnablePeerAccess)
        except runtime.CUDARuntimeError as error:
            raise DeviceError(f"the neighbour's device memory cannot be opened: {error}") from error
        memory = cupy.cuda.UnownedMemory(address, 8 * words, self, self._device.id)
        return cupy.ndarray((words,), np.uint64, memptr=cupy.cuda.MemoryPointer(memory, 0))

    def close_memory(self, buffer: DeviceArray) -> None:
        """Unmap it."""
        from cupy.cuda import runtime

        runtime.ipcCloseMemHandle(buffer.data.ptr)

    def map_host(self, memory: Array) -> Any:
        """Pin it; a device whose addresses are not the host's is refused."""
        import cupy
        from cupy.cuda import runtime

        self._device.use()
        address = memory.ctypes.data
        if not runtime.deviceGetAttribute(_HOST_ADDRESSES, self._device.id):
            raise DeviceError(f"{self.describe()} has other addresses for host memory")
        try:
            runtime.hostRegister(address, memory.nbytes, _PORTABLE | _MAPPED)
        except runtime.CUDARuntimeError as error:
            raise DeviceError(f"host memory cannot be mapped: {error}") from error
        owner = cupy.cuda.UnownedMemory(address, memory.nbytes, memory, self._device.id)
        pointer = cupy.cuda.MemoryPointer(owner, 0)
        return cupy.ndarray(memory.shape, memory.dtype, memptr=pointer)

    def unmap_host(self, buffer: DeviceArray) -> None:
        """Let its pages go."""
        from cupy.cuda import runtime

        runtime.hostUnregister(buffer.data.ptr)

    def record_launches(self, work: Callable[[], None], stream: CudaStream) -> CudaGraph:
        """Capture a CUDA graph."""
        stream.stream.begin_capture()
        try:
            work()
        finally:
            graph = stream.stream.end_capture()
        return CudaGraph(graph)

    def use(self) -> None:
        """Make this the calling thread's device; its array operations run on the default stream."""
        import cupy

        self._device.use()
        cupy.cuda.Stream.null.use()

    def free_memory(self) -> int:
        """Bytes the driver can still give, and CuPy's unused pool."""
        import cupy

        free, _ = cupy.cuda.runtime.memGetInfo()
        return int(free) + int(cupy.get_default_memory_pool().free_bytes())

    def rest(self) -> None:
        """Nothing to leave: no thread waits for work."""

    def close(self) -> None:
        """Wait for the device and give memory back, but for a little that is there for the next."""
        import cupy

        self._device.synchronize()
        pool = cupy.get_default_memory_pool()
        if pool.free_bytes() > _KEPT:
            pool.free_all_blocks()


def cubin_of(
    source: KernelSource, architecture: str, *, quickly: bool = False
) -> tuple[Path, dict[str, ArgumentLayout]]:
    """Path of the cubin in the cache, compiled if it is not there; and layouts of arguments."""
    flags = nvrtc_flags(architecture, THREADS_PER_BLOCK) + (quick_flags() if quickly else ())
    texts = _texts_of(source)

    def build(out: Path) -> None:
        cubin, _ = compile_cubin(source.file, texts, flags)
        out.write_bytes(cubin)

    path, _ = compiled(_key_of(source, texts, flags), ".cubin", build)
    return path, layouts_of(source.file, texts)


def _compile_in_background(source: KernelSource, architecture: str) -> BackgroundCompilation | None:
    """A process that compiles the cubin; None if it is in the cache or no process can start."""
    flags, texts = nvrtc_flags(architecture, THREADS_PER_BLOCK), _texts_of(source)
    key = _key_of(source, texts, flags)
    if in_cache(key, ".cubin") is not None:
        return None
    try:
        return compile_in_background(key, source.file, texts, flags)
    except OSError:  # no Python, no process, or no space for its input
        return None


def _texts_of(source: KernelSource) -> dict[str, str]:
    return with_layout_checks(source.file, csrc_texts() | dict(source.generated))


def count() -> int:
    """CUDA devices this process sees; 0 where CuPy or the driver is missing."""
    if importlib.util.find_spec("cupy") is None:
        return 0
    if not has_home():  # where CuPy makes a folder on import
        os.environ.setdefault("CUPY_CACHE_DIR", str(cache_directory() / "cupy"))
    try:
        import cupy
    except ImportError:  # for another CUDA, or with a library that is gone: doctor says so
        return 0
    wait_for_context()
    try:
        return int(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return 0


@cache
def _properties(index: int) -> Mapping[str, Any]:
    """What the driver says of a device: it takes a millisecond to do so."""
    import cupy

    return dict(cupy.cuda.runtime.getDeviceProperties(index))


def _what_is_there(available: int) -> str:
    if available:
        return f"this process sees {available} ({', '.join(map(str, range(available)))})"
    if importlib.util.find_spec("cupy") is None:
        return f"CuPy is not installed ({installing('cupy-cuda13x')}, of CUDA 12 cupy-cuda12x)"
    return "no CUDA device or driver was found"


def _key_of(source: KernelSource, texts: Mapping[str, str], flags: tuple[str, ...]) -> str:
    parts = ["nvrtc", nvrtc_version(), *flags, source.file, csrc_digest()]
    own = sorted({source.file, *dict(source.generated)})  # what is not as it was read
    return content_key([*parts, *(f"{name}\n{texts[name]}" for name in own)])
