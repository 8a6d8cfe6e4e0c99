"""Runs of lattices with objects of several sites: stops, replicas, files, growing cells."""

from __future__ import annotations

import numpy as np
import pytest
from lattice_run_factory import digest
from object_factory import STEP, breathing, inside, ribosomes
from sampling import ordinary

import tauslab as ts
from tauslab.api.api import ranks
from tauslab.base.errors import ConfigError, StoppedEarly
from tauslab.options.lattice import LatticeOptions
from tauslab.runner.lattice import loop as lattice_loop
from tauslab.runner.lattice import run as driver
from tauslab.store.lattice import layout
from tauslab.store.results.lattice.result import LatticeResult

T_END = 60 * STEP
GIVEN = {"t_end": T_END, "count_every": 3, "frame_every": 10, "seed": 7, "hooks": [(5, breathing)]}


def run(path, **options):
    given = {**GIVEN, **options}
    return ts.run(ribosomes(), device=ts.CPU(threads=1), output=path, quiet=True, **given)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    path = tmp_path_factory.mktemp("whole") / "whole.h5"
    run(path).close()
    return path


@pytest.mark.parametrize("after", ordinary([1, 12, 25], 12))
def test_stopping_and_going_on_changes_nothing(whole, tmp_path, monkeypatch, after):
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)  # a batch is a step
    path, requested = tmp_path / "broken.h5", iter(range(1000))
    options = LatticeOptions(device="cpu", threads=1, output=path, quiet=True, **GIVEN)
    with pytest.raises(StoppedEarly):
        driver.run_lattice(ribosomes(), options, ranks(), lambda: next(requested) >= after)
    run(path, resume=True, seed=None).close()
    assert digest(path) == digest(whole)


def test_the_file_runs_again_with_the_same_bits(whole, tmp_path):
    again = ts.read(whole)
    assert again.objects == ribosomes().objects
    path = tmp_path / "again.h5"
    ts.run(again, device="cpu", output=path, quiet=True, **GIVEN).close()
    assert digest(path) == digest(whole)


def test_ribosomes_come_go_and_are_tracked(whole):
    with ts.open(whole) as result:
        counts = result.counts("R") + result.counts("RM")
        at = result.object_positions("ribosome")
        assert at.shape == (len(result.times), 6, 3)
        assert not np.isnan(at[0]).any()
        middle = (at[0] / 1e-8) % 1  # of a site, as coordinates of to_xarray() are
        np.testing.assert_allclose(middle, 0.5, atol=1e-9)
        types = result.sites(0)[tuple(np.floor(at[0] / 1e-8).astype(int).T)]
        assert (types == 2).all()
        there = (~np.isnan(at[..., 0])).sum(axis=1)
        assert (there <= counts).all()
        moves = np.abs(np.diff(at, axis=0))
        assert np.nanmax(moves) <= 2 * 1e-8 * (1 + 1e-9)  # at most two moves between two samples
        sites = np.array([(result.sites(frame) == 2).sum() for frame in range(7)])
        assert (sites[0], sites.min() > 0) == (42, True)
        assert (sites <= 7 * counts[[0, 3, 6, 10, 13, 16, 20]]).all()
        inside = result.counts("P", "ribosome")
        assert inside[0] == 0
        with pytest.raises(ConfigError, match="is no object of"):
            result.object_positions("nucleoid")


def test_replicas_each_have_their_objects(tmp_path):
    path = tmp_path / "replicas.h5"
    run(path, replicas=3, hooks=()).close()
    with LatticeResult(path, replica=2) as result:
        third = result.object_positions("ribosome")
    with ts.open(path) as first:
        assert not np.array_equal(third[0], first.object_positions("ribosome")[0])
    with ts.Ensemble(ribosomes(), 3, seed=7, device="cpu") as same:
        with ts.open(path) as runs:
            in_objects = runs.replica_counts("M", "ribosome")[:, 0]
        assert same.values("M_in_ribosome").tolist() == in_objects.tolist()
        same.advance(0.4 * T_END)
        same.save(tmp_path / "same.h5")
        same.advance(T_END)
        ended = same.profile("R").tolist(), same.sites_of_types().tolist()
        assert (same.sites_of_types()[:, 2] > 20).all()
    with ts.Ensemble.load(tmp_path / "same.h5", device="cpu") as again:
        again.take([0, 1, 2])
        again.advance(T_END)
        assert (again.profile("R").tolist(), again.sites_of_types().tolist()) == ended


@pytest.mark.filterwarnings("ignore:.*so fast")
def test_what_a_hook_does_to_a_type_holds_for_sites_that_objects_cover():
    """Their rates are those of the type, and they stay covered when it is painted again."""

    def hook(view):
        view.set_rate("R4", 1e7, "cytoplasm")
        if view.step > 1:
            return
        covered = np.asarray(view.sites) == 2
        assert view.paint("cytoplasm", inside(4.9)) == (inside(4.9) & ~inside(4.4)).sum() > 0
        assert ((view.sites == 2) == covered).all()
        assert view.paint("cytoplasm", inside(4.9)) == 0
        with pytest.raises(ConfigError, match="belongs to objects"):
            view.paint("ribosome", inside(4.9))

    with run(None, t_end=2 * STEP, count_every=1, frame_every=0, hooks=[(1, hook)]) as result:
        assert result.counts("R")[1] > 0
        assert result.counts("R")[2] == 0


def test_points_of_a_sweep_have_as_many_objects(tmp_path):
    with pytest.raises(ConfigError, match="numbers of its objects"):
        run(tmp_path / "swept.h5", sweep={"R": [4, 6]})
    run(tmp_path / "swept.h5", sweep={"M": [20, 60]}, hooks=()).close()


@pytest.mark.gpu
def test_devices_agree(whole, tmp_path):
    path = tmp_path / "cuda.h5"
    ts.run(ribosomes(), device="cuda", output=path, quiet=True, **GIVEN).close()
    assert digest(path) == digest(whole)


def test_tracked_particles_move_as_free_ones():
    """Objects of one site that hinder nobody: a mean square displacement of 6 D t.

    Squares of 30 particles in 40 intervals have a relative error of sqrt(2 / 3 / 1200) = 2.4 %; a
    false alarm, beyond 4.9 of them, comes once in a million seeds.
    """
    diffusion, step, spacing, steps = 1e-13, 5e-5, 1e-8, 20
    model = ts.Lattice("free", shape=(20,) * 3, spacing=spacing, boundary="periodic", step=step)
    model.add_species("P", "tracked")
    model.add_diffusion(["P", "tracked"], diffusion)
    model.add_object("tracer", sites=0, follows="tracked", obstacle=False, every=steps)
    model.place("tracked", count=30, site_type="default")
    model.place("P", count=500, site_type="default")
    result = ts.run(
        model, t_end=40 * steps * step, count_every=steps, seed=1, device=ts.CPU(1), quiet=True
    )
    moved = np.diff(result.object_positions("tracer"), axis=0)
    squared = (moved**2).sum(axis=2)
    assert squared.size == 1200
    assert abs(squared.mean() / (6 * diffusion * steps * step) - 1) < 4.9 * np.sqrt(2 / 3 / 1200)
    result.close()


def test_hooks_beside_objects_have_other_bits_since_version_13(tmp_path, monkeypatch):
    short = {"t_end": 6 * STEP, "frame_every": 3, "keep_state": True}
    monkeypatch.setattr(layout, "BITS_VERSION", 12)
    run(tmp_path / "hooked.h5", **short).close()
    run(tmp_path / "plain.h5", **short, hooks=[]).close()
    monkeypatch.undo()
    given = {"device": ts.CPU(threads=1), "quiet": True, "t_end": 9 * STEP}
    ts.run(ribosomes(), extend=tmp_path / "plain.h5", **given).close()
    hooked = {"extend": tmp_path / "hooked.h5", "hooks": GIVEN["hooks"], **given}
    with pytest.warns(UserWarning, match="with other bits: all of it is simulated again"):
        ts.run(ribosomes(), **hooked).close()
