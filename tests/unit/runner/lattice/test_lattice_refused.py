"""What cannot be is told before a file is made; what a run leaves can be looked at."""

from __future__ import annotations

import pytest

import tauslab as ts
from tauslab.analysis.filters.filtering import Asking
from tauslab.base.errors import StoppedEarly
from tauslab.model.lattice.parts import as_shape
from tauslab.runner.lattice import loop
from tauslab.store.results.lattice.info import facts, lines


def crowded(count):
    model = ts.Lattice("crowded", shape=(2, 4, 8), spacing=1e-7, step=1e-4, slots=8)
    model.add_species("A")
    model.add_diffusion("A", 1e-12)
    model.place("A", count=count)
    return model


@pytest.mark.parametrize("shape", [(1, 65_500, 32_800), (1, 2**31, 1), (2**31, 1, 1)])
def test_planes_that_kernels_cannot_number_are_refused(shape):
    with pytest.raises(ts.ModelError, match="fewer than 2\\^31 sites"):
        as_shape(shape)
    assert as_shape((70_000, 30_000, 60)) == (70_000, 30_000, 60)


def test_a_result_is_kept_where_the_next_run_has_no_room(tmp_path):
    path = tmp_path / "run.h5"
    settings = {"t_end": 1e-3, "seed": 1, "device": "cpu", "quiet": True}
    ts.run(crowded(100), **settings, output=path).close()
    before = path.read_bytes()
    with pytest.raises(ts.ModelError, match="which hold 512"):
        ts.run(crowded(513), **settings, output=ts.Output(path, overwrite=True))  # 512 places
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["run.h5"]


def test_checkpoints_of_runs_that_go_on_replace_each_other(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "_BATCH_SECONDS", 1e-4)
    path = tmp_path / "run.h5"
    for turn in range(5):  # of a run so long that none of them ends it
        looks = iter(range(3))
        with pytest.raises(StoppedEarly):
            ts.run(
                crowded(100), t_end=1000.0, seed=1, device="cpu", quiet=True, output=path,
                resume=turn > 0, stop=lambda looks=looks: next(looks, None) is None,
            )  # fmt: skip
        assert len(list(tmp_path.glob("run.h5.parts/*checkpoint*"))) <= 2


def test_the_time_between_checkpoints_is_in_seconds():
    with pytest.raises(ts.ConfigError, match=r"checkpoint_every=10 .*seconds, no longer minutes"):
        ts.run(crowded(9), t_end=1.0, checkpoint_every=10)
    ts.run(crowded(9), t_end=1e-3, seed=1, device="cpu", quiet=True, checkpoint_every=60)


def test_a_rank_that_fails_between_tells_nobody_who_waits_elsewhere():
    told = []

    class Shares:
        ranks = 2

        def all_of(self, state):
            told.append(state)
            return [state, state]

        def joined(self, values):
            raise AssertionError(values)

    def fails(name):
        raise MemoryError(name)

    asking = Asking(fails, Shares())
    with pytest.raises(MemoryError):
        asking.answer(lambda: asking("A"))
    assert [state for state, _ in told] == ["asks for 'A'"]


def test_a_file_without_samples_has_a_description(tmp_path):
    path = tmp_path / "run.h5"
    ts.run(crowded(100), t_end=1e-3, seed=1, device="cpu", quiet=True, output=path).close()
    with ts.open(path) as result:
        result.times = result.times[:0]
        actual = facts(result)
        assert actual["samples"] == 0
        assert any(line.startswith("samples: 0, frames: 0") for line in lines(actual))
