"""A run killed before, or in the middle of, a change to its files.

An ordinary run takes changes that are spread over the whole run; ``-m validate`` takes all.
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from mortal_disk import Killed, MortalDisk, PowerLoss
from places import TESTS
from sample_job import CRASH_JOBS, check_marked_blocks, contents, digest
from sampling import ordinary, spread, strides

from tauslab.base.errors import InputFileError
from tauslab.store.format import schema
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.open import open_result
from tauslab.store.results.samples import require_some
from tauslab.store.writers.parts import PartsOptions

VIEW = PartsOptions(segment_bytes=750, merge_bytes=0)  # parts of two blocks, and a view of them


def attempt(job, path, ranks, disk, parts=None):
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


def check_wreck(job, path):
    """Whatever a kill left opens, shows what is complete, and is not taken for whole."""
    if not path.exists():
        return
    marked = check_marked_blocks(job, path)
    with open_result(path) as result:
        done = result.completed_blocks
        assert not (done & ~marked).any()
        if not job.layout.needs_checkpoint:  # else blocks count from the next checkpoint on
            assert (done == marked).all()
        if result.complete:  # only the removal of parts was left to do
            assert marked.all()
            return
        with pytest.raises(InputFileError, match="is unfinished"):
            digest_lines(result)
        if done.any():
            check_means(job, result, done)
        else:
            with pytest.raises(InputFileError, match="no completed block"):
                require_some(result)


def check_means(job, result, done):
    """Means of an unfinished run are those of the finished blocks, whatever else is there."""
    if not (job.layout.trajectories or job.layout.statistics):
        return
    if job.layout.trajectories and result.attributes["storage"] == "parts":
        return  # its samples are not read before the end
    there = np.repeat(done, job.layout.block)[: job.layout.n]
    counts = job.arrays["counts"][there].astype(np.float64)
    wanted = np.nanmean(np.where(counts < 0, np.nan, counts), axis=0)
    with pytest.warns(UserWarning, match=f"{done.sum()} of {len(done)} blocks"):
        actual = np.stack([result.mean(name) for name in result.species], axis=-1)
    np.testing.assert_array_equal(actual, wanted)


@strides(23)  # which 2 and 3 do not divide: all kinds of attempts below are met
@pytest.mark.parametrize(
    ("ranks", "parts", "record"),
    ordinary(
        [(ranks, parts, record)
         for ranks, parts in ((1, None), (2, None), (2, VIEW)) for record in CRASH_JOBS],
        (1, None, "statistics"), (2, None, "trajectories"), (2, None, "summaries"),
        (2, VIEW, "statistics"),
    ),
)  # fmt: skip
def test_killed_at_a_change(tmp_path, record, ranks, parts, stride):
    job, whole, disk = CRASH_JOBS[record](), tmp_path / "whole.h5", MortalDisk()
    assert attempt(job, whole, ranks, disk, parts)
    job.check(whole)
    expected, total = contents(whole), digest(whole)
    assert disk.used > 30
    writes = set(disk.writes)
    # Until they are finished, runs that will be a view do as runs that will be merged.
    first = disk.used - 24 if parts is VIEW else 0
    for lives in spread(first, disk.used, stride):
        tear = lives + 1 in writes and lives % (1 + ranks) == 0  # some, since most are alike
        for torn in (False, True) if tear else (False,):
            path = tmp_path / f"{lives}-{torn}.h5"
            assert not attempt(job, path, ranks, MortalDisk(lives, torn=torn), parts)
            check_wreck(job, path)
            others = (1, 1, 2)[lives % 3]
            assert attempt(job, path, others, MortalDisk(), parts)
            if lives % 2:
                assert contents(path) == expected
            else:
                assert digest(path) == total


@pytest.mark.parametrize("seed", ordinary(range(4), 0))
def test_killed_twice(tmp_path, seed):
    """The second attempt is killed as well, on another number of ranks; the third ends."""
    job = CRASH_JOBS["statistics"]()
    whole = tmp_path / "whole.h5"
    job.run(whole)
    rng, path = np.random.default_rng(seed), tmp_path / "a.h5"
    for _ in range(2):
        lives = int(rng.integers(5, 40))
        assert not attempt(job, path, int(rng.integers(1, 4)), MortalDisk(lives))
    check_wreck(job, path)
    assert attempt(job, path, int(rng.integers(1, 4)), MortalDisk())
    assert contents(path) == contents(whole)


@strides(19)
@pytest.mark.parametrize("record", ordinary(CRASH_JOBS, "statistics"))
@pytest.mark.parametrize("ranks", ordinary([1, 2], 2))
def test_power_lost(tmp_path, record, ranks, stride):
    """No block is marked whose data a loss of power can still take."""
    job, counted, lost = CRASH_JOBS[record](), PowerLoss(), 0
    rng = np.random.default_rng(5)
    assert attempt(job, tmp_path / "whole.h5", ranks, counted)
    total = digest(tmp_path / "whole.h5")
    for lives in spread(int(rng.integers(3)), counted.used, stride):
        path, disk = tmp_path / f"{lives}.h5", PowerLoss(lives)
        assert not attempt(job, path, ranks, disk)
        lost += disk.lose(rng)
        check_wreck(job, path)
        assert attempt(job, path, 1, MortalDisk())
        assert digest(path) == total
    # Which writes a sample meets depends on how two ranks take turns.
    assert lost or stride > 1, "the power took nothing: the test saw no danger"


@pytest.mark.validate
@strides(9)
def test_killed_where_rows_have_no_fill_values(tmp_path, monkeypatch, stride):
    """As a large result: only the status is written at creation."""
    monkeypatch.setattr(schema, "PREFILL_BYTES", 0)
    job, counted = CRASH_JOBS["trajectories"](), MortalDisk()
    assert attempt(job, tmp_path / "whole.h5", 1, counted)
    expected = contents(tmp_path / "whole.h5")
    for lives in spread(0, counted.used, stride):
        path = tmp_path / f"{lives}.h5"
        assert not attempt(job, path, 1, MortalDisk(lives, torn=True))
        check_wreck(job, path)
        assert attempt(job, path, 1 + lives // 2 % 2, MortalDisk())
        assert contents(path) == expected


@pytest.mark.parametrize(
    ("record", "step"),
    ordinary([("trajectories", 7), ("statistics", 4)], ("statistics", 4)),
)
def test_killed_by_the_system(tmp_path, record, step):
    """SIGKILL, in a process of its own."""
    program = [sys.executable, TESTS / "support" / "forked_kills.py", tmp_path, record, str(step)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    subprocess.run(program, env=environment, check=True, timeout=60)
    job, whole = CRASH_JOBS[record](), tmp_path / "whole.h5"
    expected, total = contents(whole), digest(whole)
    wrecks = sorted(tmp_path.glob("*.h5"), key=lambda path: path.stat().st_mtime_ns)
    assert len(wrecks) > 5
    for index, path in enumerate(wrecks):
        check_wreck(job, path)
        job.run(path, 1 + index % 3, resume=True, disk=MortalDisk())
        assert contents(path) == expected
        assert digest(path) == total


def test_work_survives(job, tmp_path):
    """What was marked is not run again: a kill late in the run leaves little to do."""
    for ranks in (1, 2):
        disk = MortalDisk()
        attempt(job, tmp_path / f"whole{ranks}.h5", ranks, disk)
        path = tmp_path / f"{ranks}.h5"
        attempt(job, path, ranks, MortalDisk(disk.used - 1))
        writers = job.run(path, ranks, resume=True)
        assert all(writer.completed.all() for writer in writers)
