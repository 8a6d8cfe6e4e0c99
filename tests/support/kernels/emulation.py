"""A device whose threads are fibers of one CPU thread: runs the code of warps and blocks."""

from __future__ import annotations

import ctypes
import subprocess
import threading
from pathlib import Path
from typing import Any

from dirty_memory import Dirty
from places import TESTS

from tauslab.kernels.backends.arguments import (
    ArgumentLayout,
    Arguments,
    layouts_of,
    with_layout_checks,
)
from tauslab.kernels.backends.base import BackendOptions, KernelSource, LaunchGrid
from tauslab.kernels.backends.cache import (
    compiled,
    content_key,
    csrc_texts,
    write_texts,
)
from tauslab.kernels.backends.compilers import chosen_flags, find_compilers
from tauslab.kernels.backends.cpu import CpuBackend, CpuStream
from tauslab.kernels.backends.cuda import CudaBackend

PRELUDE = TESTS / "support" / "kernels" / "emulated_prelude.h"
BYTES = TESTS / "support" / "kernels" / "csrc_bytes.h"
FLAGS = (
    "-std=c++17",
    "-O1",
    "-ffp-contract=off",
    "-fPIC",
    "-shared",
    "-Wno-psabi",
    "-U_FORTIFY_SOURCE",
)  # threads change their stacks by longjmp, which that refuses
# A sanitizer of addresses knows one stack for each thread: the stacks of fibers are left out.
FIBER_FLAGS = {"g++": ("--param=asan-stack=0",), "clang++": ("-mllvm", "-asan-stack=0")}

# Streams run beside each other, and programs of one library share its fibers.
_ONE_AT_A_TIME = threading.Lock()
Layouts = dict[str, ArgumentLayout]


class EmulatedProgram:
    """A kernel that runs on blocks of fibers, which are the library's: one launch at a time."""

    def __init__(self, path: Path, layouts: Layouts, threads: int, order: int, blocks: int) -> None:
        self._layouts = layouts
        self._library = ctypes.CDLL(str(path))
        self._order = ctypes.c_int.in_dll(self._library, "fiber_order")
        self._threads, self._chosen_order, self._blocks = threads, order, blocks

    def arguments(self, entry: str, **values: Any) -> Arguments:
        """Arguments of kernel `entry` by name."""
        return Arguments(self._layouts[entry], values)

    def launch(self, entry: str, items: int, arguments: Arguments, stream: CpuStream) -> None:
        """Run all blocks, whatever `items` says: their teams take all trajectories in turn."""
        assert items % self._threads == 0 or items > self._threads
        self._run(entry, arguments, stream)

    def launch_blocks(
        self, entry: str, grid: LaunchGrid, arguments: Arguments, stream: CpuStream
    ) -> None:
        """Run all blocks, which must be those of the grid."""
        assert (grid.blocks, grid.threads) == (self._blocks, self._threads)
        self._run(entry, arguments, stream)

    def resident_blocks(self, entry: str, threads: int) -> int:
        """All blocks."""
        del entry, threads
        return self._blocks

    def _run(self, entry: str, arguments: Arguments, stream: CpuStream) -> None:
        structure, keep = arguments.structure(), arguments.buffers()
        address = ctypes.c_void_p.in_dll(self._library, entry).value
        function = ctypes.CFUNCTYPE(None)(address)

        def work() -> None:
            with _ONE_AT_A_TIME:
                self._order.value = self._chosen_order
                function(structure)
            keep.clear()

        stream.submit(work)

    def resident(self, entry: str) -> int:
        """All blocks."""
        del entry
        return self._threads * self._blocks


class AnyGrid(EmulatedProgram):
    """One block does the work of any number."""

    def launch(self, entry: str, items: int, arguments: Arguments, stream: CpuStream) -> None:
        """Run it; threads without an item end at once."""
        del items
        self._run(entry, arguments, stream)

    def launch_blocks(
        self, entry: str, grid: LaunchGrid, arguments: Arguments, stream: CpuStream
    ) -> None:
        """Run it, whatever the grid says of blocks."""
        assert grid.threads == self._threads
        self._run(entry, arguments, stream)


class EmulatedBackend(Dirty):
    """`blocks` blocks of `block` threads.

    `order` is 1 or -1; any other number is the seed of an order by chance.
    """

    style = CudaBackend.style
    fast_memory = 227 * 1024
    launch_seconds, sites_beside = CudaBackend.launch_seconds, CudaBackend.sites_beside

    def __init__(self, folder: Path, block: int, order: int = 1, blocks: int = 1) -> None:
        super().__init__(BackendOptions(threads=1))
        self.concurrent_lattices = CudaBackend.concurrent_lattices
        self._folder, self._block, self._order, self._blocks = folder, block, order, blocks

    def compile(self, source: KernelSource) -> Any:
        """Compile with the prelude of the emulation in place of the device's."""
        texts = csrc_texts() | dict(source.generated)
        texts |= {"device/prelude.h": PRELUDE.read_text(), BYTES.name: BYTES.read_text()}
        layouts = layouts_of(source.file, texts)
        texts = with_layout_checks(source.file, texts)
        write_texts(self._folder, dict(source.generated))  # for tests to read
        compiler = next(c for c in find_compilers() if c.name in ("g++", "clang++"))
        chosen = chosen_flags()
        if chosen:
            chosen += FIBER_FLAGS[compiler.name]
        sizes = (f"-DFIBERS_OF_BLOCK={self._block}", f"-DFIBER_BLOCKS={self._blocks}")
        command = [*compiler.command, *FLAGS, *chosen, *sizes]

        def build(out: Path) -> None:
            write_texts(out.parent, texts)
            files = [f"-I{out.parent}", "-o", str(out), str(out.parent / source.file)]
            subprocess.run([*command, *files, "-lstdc++"], check=True)  # it has the `new` of fibers

        parts = [compiler.version, *command, source.file]
        key = content_key([*parts, *(f"{n}\n{text}" for n, text in sorted(texts.items()))])
        library, _ = compiled(key, ".so", build)
        return EmulatedProgram(library, layouts, self._block, self._order, self._blocks)

    def launched_items(self, items: int) -> int:
        """Whole blocks."""
        return -(-max(1, items) // self._block) * self._block


class EmulatedLattices(EmulatedBackend):
    """Steps of lattices; `counter` is the device that counts."""

    sites_of_a_block = 1

    def __init__(
        self, folder: Path, block: int, order: int, blocks: int = 1, *, counter: CpuBackend
    ) -> None:
        super().__init__(folder, block, order, blocks)
        self.multiprocessors = blocks
        self._counter = counter

    def compile(self, source: KernelSource) -> Any:
        """Compile; what counts, for the other device."""
        if not source.file.startswith("lattice/") or source.file == "lattice/count.cc":
            return self._counter.compile(source)
        made = super().compile(source)
        made.__class__ = AnyGrid
        return made
