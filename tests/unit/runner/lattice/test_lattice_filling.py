"""A lattice that fills up changes the kernel of its steps on the way, and no bit of a run."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lattice_factory import STEP, empty_lattice
from lattice_run_factory import digest, run

from tauslab.api.api import ranks
from tauslab.base.errors import StoppedEarly
from tauslab.kernels.lattice import planes
from tauslab.kernels.lattice.engine import LatticeEngine
from tauslab.kernels.lattice.plan import Filling
from tauslab.options.lattice import LatticeOptions
from tauslab.runner.lattice import loop as lattice_loop
from tauslab.runner.lattice import run as driver

FEW, SOME, MANY = Filling
SHAPE = (6, 18, 21)
T_END = 120 * STEP


def growing():
    """From 0.05 particles a site to about one."""
    model = empty_lattice(SHAPE, {"A": 0.2, "B": 0.1})
    model.add_reaction("A -> 2 A", rate=700)
    model.add_reaction("2 A -> B", rate=700, volume="site")
    model.add_reaction("B ->", rate=700, name="decay")
    model.place("A", count=110)
    return model


@pytest.fixture(autouse=True)
def _in_slots(monkeypatch):
    monkeypatch.setattr(planes, "LEAST_DENSITY", math.inf)


@pytest.fixture
def chosen(monkeypatch):
    """How full lattices are taken for each time that a kernel is chosen."""
    actual = []
    compile_steps = LatticeEngine._compile

    def noted(self):
        actual.append(self.filling)
        compile_steps(self)

    monkeypatch.setattr(LatticeEngine, "_compile", noted)
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)  # a batch is a step
    return actual


@pytest.fixture(scope="module")
def unchanging(tmp_path_factory):
    """Digests of runs that keep the kernel of their start, by what they are asked for."""
    folder = tmp_path_factory.mktemp("unchanging")

    def of(**options):
        path = folder / f"{len([*folder.iterdir()])}.h5"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(LatticeEngine, "follow", lambda _: None)
            run(path, growing(), t_end=T_END, **options).close()
        return digest(path)

    return of


def test_a_run(tmp_path, chosen, unchanging):
    run(tmp_path / "a.h5", growing(), t_end=T_END).close()
    assert chosen == [FEW, SOME, MANY]
    assert digest(tmp_path / "a.h5") == unchanging()


@pytest.mark.validate
def test_replicas(tmp_path, chosen, unchanging):
    """An engine that is used again for another replica looks at what that one holds."""
    run(tmp_path / "a.h5", growing(), t_end=T_END, replicas=3, frame_every=0).close()
    assert chosen[:3] == [FEW, SOME, MANY]
    assert chosen.count(MANY) == 3
    assert digest(tmp_path / "a.h5") == unchanging(replicas=3, frame_every=0)


def emptying(view):
    """Half of the particles go, and at last all but a few, which then become more again."""
    if view.step == 80:
        view.remove("A", where=np.indices(SHAPE)[0] > 0)
        view.remove("B", where=np.indices(SHAPE)[0] > 0)
        view.set_rate("decay", 900.0)


def test_hooks(tmp_path, chosen, unchanging):
    run(tmp_path / "a.h5", growing(), t_end=T_END, hooks=[(20, emptying)]).close()
    assert chosen[:3] == [FEW, SOME, MANY]
    assert len(chosen) > 3
    assert digest(tmp_path / "a.h5") == unchanging(hooks=[(20, emptying)])


@pytest.mark.validate
def test_a_run_that_goes_on(tmp_path, chosen, unchanging):
    """It begins with the kernel of the model's start, and soon has that of its state."""
    path, requested = tmp_path / "a.h5", iter(range(1000))
    options = LatticeOptions(
        t_end=T_END, count_every=3, frame_every=10, seed=7, device="cpu", threads=1,
        output=path, quiet=True,
    )  # fmt: skip
    with pytest.raises(StoppedEarly):
        driver.run_lattice(growing(), options, ranks(), lambda: next(requested) >= 100)
    assert chosen == [FEW, SOME, MANY]
    run(path, growing(), t_end=T_END, resume=True).close()
    assert chosen == [FEW, SOME, MANY, FEW, MANY]
    assert digest(path) == unchanging()
