"""Parts and blocks that are not what was written: found, never trusted, written again."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from sample_job import CRASH_JOBS, digest
from sampling import ordinary

from tauslab.store.results.open import open_result


def change_byte(path, name, row):
    """Change a byte of a row of a dataset."""
    with h5py.File(path, "r") as file:
        dataset = file[name]
        size = dataset.dtype.itemsize * int(np.prod(dataset.shape[1:]))
        offset = dataset.id.get_offset() if dataset.chunks is None else None
        if offset is None:
            offset, row = dataset.id.get_chunk_info(row // dataset.chunks[0]).byte_offset, 0
    with path.open("r+b") as raw:
        raw.seek(offset + row * size)
        byte = raw.read(1)[0]
        raw.seek(offset + row * size)
        raw.write(bytes([byte ^ 1]))


@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("name", ordinary(["counts", "final", "status"], "counts"))
@pytest.mark.parametrize("again", [3])
def test_a_changed_block_is_run_again(tmp_path, ranks, name, again):
    job, path = CRASH_JOBS["trajectories"](), tmp_path / "a.h5"
    job.run(tmp_path / "whole.h5")
    job.run(path, ranks, stop_after=2)
    with open_result(path) as result:
        done = int(result.completed_blocks.sum())
    spoiled = path if ranks == 1 else path.with_name("a.h5.parts") / "r0001-000.h5"
    change_byte(spoiled, name, 1)
    writers = job.run(path, again, resume=True)
    assert int(writers[0].completed.sum()) == done - 1
    job.check(path)
    assert digest(path) == digest(tmp_path / "whole.h5")


@pytest.mark.parametrize(
    ("record", "size"),
    ordinary(
        [(record, size) for record in CRASH_JOBS for size in (0, 100, -1)],
        *list(zip(CRASH_JOBS, (0, 100, -1), strict=True))[:1],
    ),
)
def test_a_truncated_part_is_run_again(tmp_path, record, size):
    job, path = CRASH_JOBS[record](), tmp_path / "a.h5"
    job.run(tmp_path / "whole.h5")
    job.run(path, 3, stop_after=3)
    part = min(path.with_name("a.h5.parts").glob("*.h5"))
    with part.open("r+b") as file:
        file.truncate(size if size >= 0 else part.stat().st_size - 1)
    job.run(path, 2, resume=True)
    job.check(path)
    assert digest(path) == digest(tmp_path / "whole.h5")


def test_a_part_that_claims_anothers_block_is_not_believed(tmp_path):
    """A wrong number of a block is as bad as wrong data."""
    job, path = CRASH_JOBS["trajectories"](), tmp_path / "a.h5"
    job.run(tmp_path / "whole.h5")
    job.run(path, 2, stop_after=2)
    part = path.with_name("a.h5.parts") / "r0001-000.h5"
    for number in (0, 10**6):
        with h5py.File(part, "r+") as file:
            file["progress/block_ids"][0] = number
            file["progress/blocks"][0] = 1
        job.run(path, 2, resume=True, stop_after=0)
    job.run(path, 2, resume=True)
    assert digest(path) == digest(tmp_path / "whole.h5")
