"""A small job with known samples, a driver for it, and ranks that are threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from tauslab.base.arrays import BoolArray
from tauslab.options.record import HistogramSpec
from tauslab.store.format.layout import Chunk, Layout
from tauslab.store.format.statistics import (
    accumulate,
    add_accumulators,
    sum_over_ranks,
    zero_accumulators,
)
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.open import open_result
from tauslab.store.writers.writer import open_writer

# What may differ between two files of the same run; `trajectory` is an axis without coordinates.
VOLATILE = ("profile/", "progress/checkpoint", "progress/checksums", "progress/seal", "trajectory")


class Shared:
    """What the threads of one run share."""

    def __init__(self, size: int) -> None:
        self.barrier = threading.Barrier(size, timeout=20)
        self.values: list[Any] = [None] * size


class ThreadComm:
    """A rank that is a thread."""

    def __init__(self, shared: Shared, rank: int) -> None:
        self.shared, self.rank = shared, rank
        self.size = len(shared.values)

    def barrier(self) -> None:
        self.shared.barrier.wait()

    def allgather(self, value: Any) -> list[Any]:
        self.shared.values[self.rank] = value
        self.barrier()
        values = list(self.shared.values)
        self.barrier()
        return values

    def bcast(self, value: Any) -> Any:
        return self.allgather(value)[0]

    def gather(self, value: Any) -> list[Any] | None:
        values = self.allgather(value)
        return values if self.rank == 0 else None

    def sum_uint64(self, array: Any) -> Any:
        return np.sum(self.allgather(array), axis=0, dtype=np.uint64)

    def max_uint64(self, array: Any) -> Any:
        return np.max(self.allgather(array), axis=0)


@dataclass
class Job:
    """A layout, the samples of all its trajectories, and a driver for it."""

    layout: Layout
    arrays: dict[str, Any]
    per_launch: int = 2
    writers: list[Any] = field(default_factory=list)

    def with_layout(self, **changes: Any) -> Job:
        return Job(replace(self.layout, **changes), self.arrays, self.per_launch)

    def chunk(self, first: int, end: int) -> Chunk:
        start, stop = self.layout.block_rows(first, end)
        recorded = [array.name for array in self.layout.row_arrays()]
        return Chunk(start, {name: self.arrays[name][start:stop] for name in recorded})

    def sums(self, first: int, end: int) -> Any:
        start, stop = self.layout.block_rows(first, end)
        return accumulate(self.layout, {k: v[start:stop] for k, v in self.arrays.items()}, start)

    def totals(self) -> Any:
        return self.sums(0, self.layout.n_blocks)

    def run(
        self, path: Path | None, ranks: int = 1, *, stop_after: int | None = None, **options: Any
    ) -> list[Any]:
        """Run all ranks as the driver does; the first error of a rank is raised.

        `options` are those of `open_writer`; the run is broken off after `stop_after` launches.
        """
        shared, errors = Shared(ranks), []
        self.writers = [None] * ranks

        def rank_main(rank: int) -> None:
            try:
                self.run_rank(path, ThreadComm(shared, rank), stop_after=stop_after, **options)
            except BaseException as error:  # noqa: BLE001 - a kill, too, is raised below
                errors.append(error)
                shared.barrier.abort()

        threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(1, ranks)]
        for thread in threads:
            thread.start()
        rank_main(0)
        for thread in threads:
            thread.join()
        if errors:
            others = [e for e in errors if not isinstance(e, threading.BrokenBarrierError)]
            raise (others or errors)[0]
        return self.writers

    def run_rank(
        self, path: Path | None, comm: Any, *, stop_after: int | None = None, **options: Any
    ) -> Any:
        """Be one rank; returns its writer."""
        writer = open_writer(path, self.layout, comm, **options)
        if self.writers:
            self.writers[comm.rank] = writer
        totals = zero_accumulators(self.layout)
        done: BoolArray = np.zeros(self.layout.n_blocks, np.bool_)
        if writer.restored is not None:
            add_accumulators(totals, writer.restored)
            done |= writer.completed
        for index, (first, end) in enumerate(self._launches(writer.completed)):
            if index % comm.size != comm.rank:
                continue
            if stop_after is not None and index >= stop_after:
                writer.abort()
                return writer
            writer.write(self.chunk(first, end))
            where = self.layout.points_of(*self.layout.block_rows(first, end))
            add_accumulators(totals, self.sums(first, end), where)
            done[first:end] = True
            writer.checkpoint(totals, done)
        if stop_after is None:
            merged = sum_over_ranks(comm, totals)
            row = {"device": f"cpu {comm.rank}", "compute": 1.5, "events": 7 + comm.rank}
            writer.finish(merged, comm.gather(row) or [])
        return writer

    def _launches(self, completed: BoolArray) -> Iterator[tuple[int, int]]:
        """Runs of blocks still to do, as (first, end) of at most `per_launch` blocks."""
        first = 0
        while first < self.layout.n_blocks:
            end = first
            most = min(first + self.per_launch, self.layout.n_blocks)
            while end < most and not completed[end]:
                end += 1
            if end > first:
                yield first, end
            first = max(end, first + 1)

    def check(self, path: Path) -> None:
        """The file is complete and holds exactly the samples and their statistics."""
        with h5py.File(path, "r") as file:
            assert file["progress/complete"][()] == 1
            assert np.all(file["progress/blocks"][()] == 1)
            for array in self.layout.row_arrays():
                np.testing.assert_array_equal(file[array.name][()], self.arrays[array.name])
            if self.layout.statistics:
                counts = self.arrays["counts"].astype(np.int64)
                valid = np.where(counts >= 0, counts, 0)
                assert np.array_equal(file["statistics/n"][()], (counts[:, :, 0] >= 0).sum(0))
                assert np.array_equal(file["statistics/sum"][()], valid.sum(0))
                squares = file["statistics/sumsq_lo"][()].astype(np.int64)
                assert np.array_equal(squares, (valid * valid).sum(0))


def sample_job() -> Job:
    """23 trajectories in blocks of 3, 4 times, 2 species, an observable: everything recorded."""
    rng = np.random.default_rng(20)
    n, times, species = 23, 4, 2
    counts = rng.integers(0, 1000, (n, times, species)).astype(np.int32)
    status = rng.integers(0, 2, n).astype(np.uint8)
    counts[5, 2:] = -1
    status[5] = 2
    # Of very unlike sizes, so that their sums see windows move.
    observables = rng.normal(0, 3, (n, times, 1)) * 10.0 ** rng.integers(-40, 40, (n, times, 1))
    observables[5, 2:] = np.nan
    arrays = {
        "counts": counts,
        "observables": observables,
        "final": counts[:, -1].copy(),
        "status": status,
        "summary/mean:X": rng.normal(0, 3, n),  # recorded where a layout asks for it
    }
    layout = Layout(
        n=n,
        times=np.linspace(0, 1, times),
        species=("X", "protein_Y"),
        observables=("ratio",),
        trajectories=True,
        final=True,
        statistics=True,
        histograms=(HistogramSpec("X", 0.0, 800.0, 4),),
        block=3,
        attributes={"method": "ssa", "seed": 2**64 - 1, "model_sha256": "ab" * 32, "command": "x"},
        model_name="m.xml",
        model_source="<sbml>ü</sbml>",
        model_canonical="[species]",
    )
    return Job(layout, arrays)


# Jobs for tests of crashes. Without observables, which are written as counts are: every dataset
# costs points at which a run can be killed.
_PLAIN = {"observables": (), "histograms": (), "block": 5}
CRASH_JOBS: dict[str, Callable[[], Job]] = {
    "trajectories": lambda: sample_job().with_layout(**_PLAIN),
    "statistics": lambda: sample_job().with_layout(**_PLAIN, trajectories=False, final=False),
    "summaries": lambda: sample_job().with_layout(
        **_PLAIN, summaries=("mean:X",), trajectories=False, final=False, statistics=False
    ),
}


def contents(path: Path) -> dict[str, bytes]:
    """Bytes of every dataset that two files of the same run must share."""
    actual: dict[str, bytes] = {}

    def note(name: str, item: object) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith(VOLATILE):
            value = np.asarray(item[()])
            actual[name] = value.tobytes()

    with h5py.File(path, "r") as file:
        file.visititems(note)
    return actual


def digest(path: Path) -> str:
    """The total digest of a finished result."""
    with open_result(path) as result:
        return digest_total(digest_lines(result))


def check_marked_blocks(job: Job, path: Path) -> BoolArray:
    """Blocks that are marked anywhere hold the right rows; returns which are ``[block]``."""
    marked: BoolArray = np.zeros(job.layout.n_blocks, np.bool_)
    folder = path.with_name(f"{path.name}.parts")
    for file_path in [path, *folder.glob("*.h5")]:
        with h5py.File(file_path) as file:
            if "progress/blocks" not in file:
                continue
            marks = np.flatnonzero(file["progress/blocks"][()] == 1).tolist()
            ids = file["progress/block_ids"][()] if "progress/block_ids" in file else None
            for slot in marks:
                block = slot if ids is None else int(ids[slot])
                start, stop = job.layout.block_rows(block, block + 1)
                # A view has all rows in their places, wherever they lie.
                first = slot * job.layout.block
                for array in job.layout.row_arrays():
                    actual = file[array.name][first : first + stop - start]
                    np.testing.assert_array_equal(actual, job.arrays[array.name][start:stop])
                marked[block] = True
    return marked


def sweep_job(block: int) -> Job:
    """A job with two swept parameters, four points of six trajectories."""
    job = sample_job()
    arrays = {name: np.concatenate([v, v[:1]]) for name, v in job.arrays.items()}
    sweep = {"k": np.array([1.0, 1.0, 2.0, 2.0]), "X": np.array([5.0, 7.0, 5.0, 7.0])}
    layout = replace(
        job.layout,
        n=6,
        block=block,
        sweep=sweep,
        grid=(2, 2),
        summaries=("mean:X",),
    )
    return Job(layout, arrays, per_launch=3)
