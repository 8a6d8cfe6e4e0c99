"""What must not grow with the number of ranks, counted: how often files are opened, and by whom."""

from __future__ import annotations

import errno
import resource
import threading
from collections import Counter
from itertools import count, islice
from pathlib import Path

import h5py
import numpy as np
import pytest

from tauslab.base.errors import InputFileError, OutputError
from tauslab.store.results import open as reader
from tauslab.store.results.open import open_result
from tauslab.store.writers import parts, progress
from tauslab.store.writers.parts import PartsOptions

RANKS = 8
VIEW = PartsOptions(merge_bytes=0)


@pytest.fixture
def many(job):
    """Blocks of one trajectory, which alternate between ranks: a part has three of them."""
    case = job.with_layout(block=1)
    case.per_launch = 1
    return case


@pytest.fixture
def opened(monkeypatch):
    """How often each file was opened through HDF5, by name."""
    found: Counter[str] = Counter()

    class Counted(h5py.File):
        def __init__(self, name, *words, **options):
            if isinstance(name, str | Path):
                found[Path(name).name] += 1
            super().__init__(name, *words, **options)

    monkeypatch.setattr(h5py, "File", Counted)
    return found


def of_parts(opened):
    return {name: times for name, times in opened.items() if parts.PART_NAME.fullmatch(name)}


@pytest.mark.parametrize(
    ("options", "times"),
    [(VIEW, 2), (PartsOptions(), 3), (PartsOptions(compress=1), 3)],
    ids=["view", "merged", "compressed"],
)
def test_a_part_is_opened_a_fixed_number_of_times(many, tmp_path, opened, options, times):
    """By its rank, to see what it holds, and to copy its rows; not for each run of blocks."""
    path = tmp_path / "a.h5"
    many.run(path, RANKS, parts=options)
    assert of_parts(opened) == dict.fromkeys(of_parts(opened), times)
    assert len(of_parts(opened)) == RANKS
    many.check(path)


def test_ranks_share_the_parts_that_a_resumed_run_reads(many, tmp_path, monkeypatch):
    path = tmp_path / "a.h5"
    many.run(path, RANKS, stop_after=20)
    verified: list[tuple[str, int]] = []
    usual = parts.read_source

    def noted(file, layout, run, *, verify=False):
        if verify:
            verified.append((file.name, threading.get_ident()))
        return usual(file, layout, run, verify=verify)

    monkeypatch.setattr(parts, "read_source", noted)
    many.run(path, RANKS, resume=True)
    assert len(verified) == len(dict(verified)) == RANKS
    assert max(Counter(rank for _, rank in verified).values()) == 1
    many.check(path)


@pytest.mark.parametrize(
    "error",
    [OSError(errno.EIO, "Input/output error"), OSError("memory allocation failed for chunk")],
    ids=["node", "memory"],
)
def test_a_part_that_a_node_cannot_read_now_is_kept(many, tmp_path, monkeypatch, error):
    """It may be good: only what is not what was written is removed, and computed again."""
    path = tmp_path / "a.h5"
    many.run(path, 2, stop_after=20)
    before = sorted(one.name for one in (tmp_path / "a.h5.parts").iterdir())

    def fail(_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(progress, "open_h5", fail)
        with pytest.raises(OutputError, match="cannot be read"):
            many.run(path, 2, resume=True)
    assert sorted(one.name for one in (tmp_path / "a.h5.parts").iterdir()) == before
    many.run(path, 2, resume=True)
    many.check(path)


def test_ranks_but_the_first_open_no_parts(many, tmp_path, opened):
    path = tmp_path / "a.h5"
    many.run(path, RANKS, parts=VIEW)
    opened.clear()
    open_result(path, checked=True).close()
    assert opened == {"a.h5": 1}
    open_result(path).close()
    assert len(of_parts(opened)) == RANKS


def limit_of(more: int) -> int:
    """The limit with which this process may open so many files more."""
    used = {int(path.name) for path in Path("/proc/self/fd").iterdir()}
    free = (number for number in count() if number not in used)
    return next(islice(free, more, None))


def test_more_parts_than_a_process_may_open_at_first(many, tmp_path):
    """HDF5 shows a part that it cannot open as fill values, and tells nobody."""
    path = tmp_path / "a.h5"
    many.run(path, RANKS, parts=VIEW)
    usual = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit_of(RANKS // 2), usual[1]))
        with open_result(path) as result:
            assert np.array_equal(result.data["counts"][()], many.arrays["counts"])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, usual)


def test_more_parts_than_a_process_may_ever_open(many, tmp_path, monkeypatch):
    path = tmp_path / "a.h5"
    many.run(path, RANKS, parts=VIEW)
    monkeypatch.setattr(reader.resource, "getrlimit", lambda which: (9, 9))
    monkeypatch.setattr(reader.resource, "setrlimit", lambda which, limits: pytest.fail("raised"))
    with pytest.raises(InputFileError, match=r"a\.h5 is spread over 8 files.* may open 9 "):
        open_result(path)
