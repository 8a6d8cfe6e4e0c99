"""``tauslab info``: what the lines tell."""

from __future__ import annotations

import numpy as np
import pytest
import result_factory as make

from tauslab.base.option_names import command_line
from tauslab.store.results.info import describe
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result

N = 100


def test_finished_file(tmp_path):
    arrays = make.samples(N)
    arrays |= make.statistics(arrays["counts"])
    arrays |= make.histogram(arrays["counts"], np.array([0.0, 100.0]))
    with open_result(make.write(tmp_path / "r.h5", arrays)) as result:
        lines = describe(result)
    text = "\n".join(lines)
    assert lines[0].startswith(f"{tmp_path / 'r.h5'}: ")
    assert "KiB, written by tauslab 0.1.0, 2026-11-21T06:00:00Z" in lines[0]
    assert "model: schlogl.xml (sha256 abababababababab)" in lines
    assert f"method: ssa, seed {2**64 - 1}" in lines
    assert "trajectories: 100 in blocks of 16" in lines
    assert "times: 4 from 0 to 2, unevenly spaced" in lines
    assert "species: 2 (X, Y)" in lines
    assert "observables: 2 (total, half)" in lines
    assert "recorded: trajectories, final, statistics, histogram of X" in lines
    assert "status: 97 done, 1 absorbed, 2 overflow" in lines
    assert "choices: selector = linear" in lines
    assert "command: tauslab run schlogl.xml -n 100" in lines
    assert "complete" in lines
    assert lines[-2] == "rank 0 on cpu: compute 1.25 s, 1,500,000 events"
    assert lines[-1] == "rank 1 on cuda:0: compute 0.5 s, 0 events"
    assert "missing" not in text


@pytest.mark.parametrize(
    ("done", "expected"),
    [
        ([0, 2, 6], "unfinished: 3 of 7 blocks are there, missing 1, 3-5; --resume completes it"),
        (range(7), "unfinished: all blocks are there, the end of the run is not"),
    ],
)
def test_unfinished_file(tmp_path, done, expected):
    path = make.write(tmp_path / "r.h5", make.samples(N), done=list(done))
    with open_result(path) as result, command_line():
        lines = describe(result)
    assert any(line.startswith(expected) for line in lines)
    assert not any(line.startswith("status") for line in lines)


def test_parts_are_counted(tmp_path):
    path = make.write(tmp_path / "r.h5", make.samples(N))
    (tmp_path / "r.h5.parts").mkdir()
    for name in ("a.h5", "b.h5"):
        (tmp_path / "r.h5.parts" / name).write_bytes(b"0" * 1024)
    with open_result(path) as result:
        assert " and 2 parts of 2 KiB in r.h5.parts, written by" in describe(result)[0]


def test_in_memory():
    lines = describe(Result(make.samples(N), make.attributes(N)))
    assert lines[0] == "result in memory"
    assert "complete" in lines
