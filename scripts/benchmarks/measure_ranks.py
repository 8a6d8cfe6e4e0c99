"""Jobs of several ranks: ensembles, starts, writers, filters; run with a name it is one rank."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from machine import ROOT, Answer, Machine

import tauslab as ts
from tauslab.api.api import ranks
from tauslab.cli.commands.machine import schlogl
from tauslab.cli.merge import merge
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.store.format.layout import Chunk, Layout
from tauslab.store.results.open import open_result
from tauslab.store.writers.parts import PartsOptions
from tauslab.store.writers.writer import Storage, open_writer

WRITERS = {
    "mpio": Storage("mpio"), "parts": Storage("parts"), "parts + gzip": Storage("parts", compress=4),
}  # fmt: skip
POINTS, BLOCK, LAUNCH = 100, 2500, 64  # of a trajectory, of a block, blocks that are made at once
BYTES = 4e9  # that all ranks write
TAKEN = 200  # numbers of a counter


def launched(machine: Machine, n: int, what: str, *words: str) -> Answer:
    """Start a job of this file on so many ranks; what rank 0 printed.

    ``TAUSLAB_LAUNCHER`` is the launcher with its options, without the number of ranks.
    """
    beside = Path(sys.executable).with_name("mpiexec")
    launcher = os.environ.get("TAUSLAB_LAUNCHER", str(beside) if beside.exists() else "mpiexec")
    paths = [path for path in sys.path if path]  # of this source, and the modules beside this one
    if "mpio" in " ".join(words):
        paths.insert(0, os.environ["TAUSLAB_PARALLEL_H5PY"])
    own = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OPENBLAS_NUM_THREADS": "1",
           "TAUSLAB_LAUNCHED": repr(time.time())}  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        job = [what, machine.device, str(machine.scale), folder, *words]
        done = subprocess.run(
            [*shlex.split(launcher), "-n", str(n), sys.executable, __file__, *job],
            stdout=subprocess.PIPE, text=True, env=own, check=True,
        )  # fmt: skip
    reported = next(line for line in done.stdout.splitlines() if line.startswith("{"))
    result: dict[str, float] = json.loads(reported)
    return result


def ensemble(machine: Machine, folder: Path, record: str) -> dict[str, float]:
    """Seconds from the call to the closed file: Schlögl to t = 100, 44 million, 51 samples each."""
    comm = ranks()
    given: dict[str, Any] = {"t_end": 100.0, "points": 51, "record": record, "seed": 1,
                             "method": "ssa", "device": machine.place(), "quiet": True,
                             "output": ts.Output(folder / "job.h5", overwrite=True)}  # fmt: skip
    ts.run(schlogl(), n=64 * comm.size, **given).close()  # starts devices, compiles
    comm.barrier()
    began = time.perf_counter()
    with ts.run(schlogl(), n=machine.many(44e6), **given) as result:
        collected = {"": max(comm.allgather(time.perf_counter() - began))}
        if comm.rank == 0:
            named = {"compute": "in kernels", "wait": "waited", "write": "in writing"}
            collected |= {v: float(result.data[f"profile/{k}"][()].max()) for k, v in named.items()}
    return collected


def start(machine: Machine, folder: Path) -> dict[str, float]:
    """A small run: seconds from the launch on, a rank's CPU and memory, a number of the counter."""
    launch = float(os.environ["TAUSLAB_LAUNCHED"])
    result, comm = {"imported": time.time() - launch}, ranks()
    result["MPI started"] = time.time() - launch
    model = ROOT / "examples" / "schlogl.xml"
    ts.run(model, n=machine.many(2000), t_end=1, points=6, seed=5, method="ssa", quiet=True,
           device=machine.place(), output=folder / "run.h5").close()  # fmt: skip
    result |= {"": time.time() - launch, "CPU of a rank": sum(os.times()[:4])}
    counter = comm.counter()
    comm.barrier()
    began = time.perf_counter()
    for _ in range(TAKEN):
        counter.next()
    result["a block from the counter"] = (time.perf_counter() - began) / TAKEN
    comm.barrier()
    counter.free()
    text = Path("/proc/self/smaps_rollup").read_text(encoding="utf-8")
    own = sum(map(int, re.findall(r"Private_\w+: +(\d+)", text))) / 1024
    most = {key: max(comm.allgather(value)) for key, value in result.items()}
    return {**most, "MB of a rank": min(comm.allgather(own))}


def write(machine: Machine, folder: Path, name: str) -> dict[str, float]:
    """Bytes a second until all files are on the disk: counts of a noisy ensemble."""
    comm, rng = ranks(), np.random.default_rng(ranks().rank)
    layout = Layout(
        n=machine.many(BYTES / (4 * POINTS)), times=np.arange(POINTS, dtype=float), species=("X",),
        observables=(), trajectories=True, final=False, statistics=False, histograms=(),
        block=BLOCK, attributes={"method": "ssa", "seed": 1, "model_sha256": "", "command": ""},
    )  # fmt: skip
    counts = rng.normal(300, 60, (LAUNCH * BLOCK, POINTS, 1)).astype(np.int32)
    status, path = np.zeros(len(counts), np.uint8), folder / "a.h5"
    comm.barrier()
    began = time.perf_counter()
    writer = open_writer(path, layout, comm, how=WRITERS[name], parts=PartsOptions(merge_bytes=0))
    for first in range(comm.rank * LAUNCH, layout.n_blocks, comm.size * LAUNCH):
        begin, end = layout.block_rows(first, min(first + LAUNCH, layout.n_blocks))
        many = end - begin
        writer.write(Chunk(begin, {"counts": counts[:many], "status": status[:many]}))
    writer.finish({}, comm.gather({}) or [])
    for file in sorted([*folder.glob("a.h5.parts/*.h5"), path])[comm.rank :: comm.size]:
        sync(file)
    comm.barrier()
    return {"": layout.n * 4 * POINTS / (time.perf_counter() - began)}


def sync(path: Path) -> None:
    """Wait until a file is on the device, whoever wrote it."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def dd(machine: Machine, streams: int) -> float:
    """Bytes a second of zeros to the same disk, by several processes, each to its own file."""
    count = max(1, round(BYTES * machine.scale / streams) >> 20)
    words = ["dd", "if=/dev/zero", "bs=1M", f"count={count}", "conv=fsync,notrunc"]
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        copies = [subprocess.Popen([*words, f"of={folder}/{k}"], stderr=subprocess.DEVNULL)
                  for k in range(streams)]  # fmt: skip
        if max(copy.wait() for copy in copies):
            raise OSError(f"dd could not write to {folder}")
        return (count * streams << 20) / (time.perf_counter() - began)


def particles(machine: Machine, folder: Path, case: str) -> dict[str, float]:
    """Particles moved a second by one filter of all ranks; its log-likelihood."""
    del folder
    from measure_networks import INITIAL, OBSERVE, course, turnover

    comm = ranks()
    net, data = course() if case == "course" else turnover()
    given: dict[str, Any] = {"observe": OBSERVE, "initial": INITIAL}
    if case != "course":
        given = {"observe": {"x1": "normal(3)", "x2": "normal(3)"}, "initial": None}
    n = machine.many(1e6)
    for _ in range(2):  # the first compiles
        comm.barrier()
        began = time.perf_counter()
        result = ts.particle_filter(net, data, n=n, seed=1, device=machine.place(), **given)
        seconds = max(comm.allgather(time.perf_counter() - began))
    return {"": n * len(result.time) / seconds, "log-likelihood": result.log_likelihood}


class Pretended(Communicator):
    """Rank `rank` of `size` in this process: what rank 0 broadcast is broadcast again."""

    def __init__(self, rank: int, size: int, said: list[Any]) -> None:
        self.rank, self.size, self._said = rank, size, said
        self._heard = 0

    def bcast(self, value: Any) -> Any:
        """The answer of rank 0, which comes first."""
        if self.rank == 0:
            self._said.append(value)
        self._heard += 1
        return self._said[self._heard - 1]

    def allgather(self, value: Any) -> list[Any]:
        """Answer as if all ranks said the same."""
        return [value] * self.size


def closing(machine: Machine, size: int) -> Answer:
    """CPU seconds of rank 0 of so many ranks, each with four blocks: views, and merged at once."""
    size, result = machine.many(size), dict[str, float]()
    layout = Layout(
        n=32 * size, times=np.arange(101.0), species=("X", "Y"), observables=(), trajectories=True,
        final=True, statistics=False, histograms=(), block=8, model_name="none",
        attributes={"method": "ssa", "seed": 1, "command": "none"}, model_source="none",
        model_canonical="none",
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        for kind, most in (("view", 0), ("merged at once", 1 << 40)):
            path = Path(folder) / f"{kind}.h5"
            finish = partial(_parts(path, layout, size, most).finish, {}, [{"device": "x"}] * size)
            result[kind] = _cpu(finish)
        view = Path(folder) / "view.h5"
        result["open the view"] = _cpu(lambda: open_result(view).close())
        result["merge it"] = _cpu(lambda: merge(view))
    return result


def _parts(path: Path, layout: Layout, size: int, merge_bytes: int) -> Any:
    """Be each rank in turn; returns the writer of rank 0, whose blocks are written last."""
    message, parts = list[Any](), PartsOptions(merge_bytes=merge_bytes)
    first = open_writer(path, layout, Pretended(0, size, message), parts=parts)
    for rank in [*range(1, size), 0]:
        writer = first
        if rank:
            writer = open_writer(path, layout, Pretended(rank, size, message), parts=parts)
        for block in range(rank, 4 * size, size):
            writer.write(Chunk(8 * block, {
                array.name: np.full((8, *array.inner), 0 if array.name == "status" else block,
                                    array.dtype)
                for array in layout.row_arrays()
            }))  # fmt: skip
        if rank:
            writer.abort()  # which closes
    return first


def _cpu(work: Callable[[], object]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> None:
    """Be one rank of a job; rank 0 prints what it found."""
    import measure_halo

    what, device, scale, folder, *words = sys.argv[1:]
    machine = Machine("cuda" if device == "cuda" else "cpu", 1, float(scale))
    jobs: dict[str, Callable[..., dict[str, float]]] = {
        "ensemble": ensemble, "start": start, "write": write, "particles": particles,
        "steps": measure_halo.steps, "links": measure_halo.links,
    }  # fmt: skip
    result = jobs[what](machine, Path(folder), *words)
    if ranks().rank == 0:
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
