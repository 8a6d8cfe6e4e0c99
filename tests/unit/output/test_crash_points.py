"""A run killed before, or in the middle of, every single change to its files."""

from __future__ import annotations

import threading

import h5py
import numpy as np
import pytest
from tauslab.runner.output.disk import Disk
from tauslab.runner.output.parts import PartsOptions


class Killed(BaseException):
    """The process is gone."""


class Mortal(Disk):
    """Lets `lives` changes pass; the next one kills all ranks, `torn` if it is a write."""

    def __init__(self, lives=1 << 40, *, torn=False):
        self.lives, self.torn = lives, torn
        self.used, self.writes = 0, []
        self._lock = threading.Lock()

    def _step(self):
        """Whether this change is the last, which may still do half of its work."""
        with self._lock:
            self.used += 1
            if self.used > self.lives + 1:
                raise Killed
            return self.used == self.lives + 1

    def create(self, path):
        if self._step():
            raise Killed
        super().create(path)

    def write(self, fd, data, offset):
        if self._step():
            if self.torn:
                super().write(fd, data[: len(data) // 2], offset)
            raise Killed
        with self._lock:
            self.writes.append(self.used)
        return super().write(fd, data, offset)

    def sync(self, fd):
        if self._step():
            raise Killed
        super().sync(fd)

    def replace(self, old, new):
        if self._step():
            raise Killed
        super().replace(old, new)

    def link(self, old, new):
        if self._step():
            raise Killed
        super().link(old, new)

    def remove(self, path):
        if self._step():
            raise Killed
        super().remove(path)


RECORDS = {
    "trajectories": {},
    "statistics": {"trajectories": False, "final": False},
}
VIEW = PartsOptions(segment_bytes=300, merge_bytes=0)


def check_marked_blocks(job, path):
    """Blocks that are marked anywhere hold the right rows."""
    folder = path.with_name(f"{path.name}.parts")
    for file_path in [path, *folder.glob("*.h5")]:
        with h5py.File(file_path) as file:
            if "progress/blocks" not in file:
                continue
            marks = np.flatnonzero(file["progress/blocks"][()] == 1).tolist()
            ids = file["progress/block_ids"][()] if "progress/block_ids" in file else None
            for slot in marks:
                start, stop = job.layout.block_rows(*(lambda b: (b, b + 1))(slot if ids is None else ids[slot]))
                first = slot * job.layout.block
                for array in job.layout.row_arrays():
                    found = file[array.name][first : first + stop - start]
                    np.testing.assert_array_equal(found, job.arrays[array.name][start:stop])


def attempt(job, path, ranks, disk, parts):
    """Run until killed; whether it came to its end."""
    try:
        job.run(path, ranks, disk=disk, parts=parts, resume=True)
    except Killed:
        return False
    finally:
        for writer in job.writers:
            if writer is not None:
                writer.abort()  # closes descriptors, as the end of a process does
    return True


@pytest.mark.parametrize("record", RECORDS)
@pytest.mark.parametrize(("ranks", "parts"), [(1, None), (2, None), (2, VIEW)])
def test_killed_at_every_change(job, contents, tmp_path, record, ranks, parts):
    case = job.with_layout(**RECORDS[record], block=5)
    whole, disk = tmp_path / "whole.h5", Mortal()
    assert attempt(case, whole, ranks, disk, parts)
    case.check(whole)
    expected = contents(whole)
    assert disk.used > 30
    writes = set(disk.writes)
    for lives in range(disk.used):
        for torn in (False, True) if lives + 1 in writes else (False,):
            path = tmp_path / f"{lives}-{torn}.h5"
            assert not attempt(case, path, ranks, Mortal(lives, torn=torn), parts)
            if path.exists():
                check_marked_blocks(case, path)
            others = 1 + (ranks + lives) % 2
            assert attempt(case, path, others, Disk(), parts)
            case.check(path)
            assert contents(path) == expected


def test_killed_twice(job, contents, tmp_path):
    """The second attempt is killed as well, on another number of ranks; the third ends."""
    case = job.with_layout(**RECORDS["statistics"], block=3)
    whole = tmp_path / "whole.h5"
    case.run(whole)
    expected, rng = contents(whole), np.random.default_rng(8)
    for index in range(25):
        path = tmp_path / f"{index}.h5"
        for _ in range(2):
            attempt(case, path, int(rng.integers(1, 3)), Mortal(int(rng.integers(5, 40))), None)
        assert attempt(case, path, int(rng.integers(1, 4)), Disk(), None)
        case.check(path)
        assert contents(path) == expected


def test_work_survives(job, tmp_path):
    """What was marked is not run again: a kill late in the run leaves little to do."""
    for ranks in (1, 2):
        disk = Mortal()
        attempt(job, tmp_path / f"whole{ranks}.h5", ranks, disk, None)
        path = tmp_path / f"{ranks}.h5"
        attempt(job, path, ranks, Mortal(disk.used - 1), None)
        writers = job.run(path, ranks, resume=True)
        assert all(writer.completed.all() for writer in writers)
