"""Sweeps of a lattice: the bits of each point, the file, resuming, tables and pictures."""

from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest
from lattice_factory import coefficient
from lattice_run_factory import T_END, digest, model, run
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError, InputFileError, ModelError, StoppedEarly
from tauslab.cli.main import main
from tauslab.model.lattice.file import write_lattice
from tauslab.options.lattice import LatticeOptions, point_seed, prepare_lattice
from tauslab.options.sweep import choose_points
from tauslab.runner.lattice import loop as lattice_loop

FAST = coefficient(0.3)  # twice what one pass of hops allows


def paced():
    lattice = model()
    lattice.add_parameter("D", coefficient(0.1))
    lattice.add_diffusion("B", "D", within="water")
    return lattice


SWEEP = {"D": [coefficient(0.1), FAST], "A": [400, 150]}


def swept(path=None, **options):
    return run(path, paced(), **{"sweep": SWEEP, "replicas": 2, "frame_every": 20, **options})


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("sweep") / "sweep.h5"
    swept(path).close()
    return path


def test_each_point_is_the_run_without_a_sweep_with_its_values_and_seed(whole):
    with ts.open(whole) as result:
        seeds = result.data["points/seed"][()].tolist()
        assert seeds[0] == 7
        assert len({*seeds}) == 4
        assert result.data["points/diffusion_substeps"][()].tolist() == [1, 1, 2, 2]
        for point in range(4):
            at, values = result.at(point), {n: float(v[point]) for n, v in result.points.items()}
            assert at.values == values
            with run(None, paced(), set=values, seed=seeds[point], replicas=2,
                     frame_every=20) as alone:  # fmt: skip
                for name in alone.species:
                    assert (at.replica_counts(name) == alone.replica_counts(name)).all()
                    assert (result.replica_counts(name)[point] == at.replica_counts(name)).all()
                assert (at.density("C", 3) == alone.density("C", 3)).all()
                assert (at.sites(0) == alone.sites(0)).all()
                assert (at.frame_times == alone.frame_times).all()


def test_the_seed_of_a_point_is_a_known_number():
    """A change of it would change every result."""
    assert point_seed(7, 0) == 7
    assert point_seed(7, 1) == 9960666295816988026
    assert point_seed(2**64 - 1, 2**24 - 1) == 7254933158693330102


def test_a_step_that_the_model_does_not_give_is_the_shortest_of_all_points():
    lattice = ts.Lattice("free", shape=(4, 4, 4), spacing=1e-8, t_end=1e-4 / 9)
    lattice.add_species("A")
    lattice.add_parameter("D", 1e-12)
    lattice.add_diffusion("A", "D")
    lattice.place("A", 10)
    sweep = {"D": [0, 1e-12, 3e-12]}
    options = LatticeOptions(sweep=choose_points(sweep), seed=1)
    task = prepare_lattice(lattice, options)
    step = task.lattice.step
    assert step == pytest.approx(1e-16 / 6 / 3e-12)
    assert task.of_run(2).lattice.step == step
    lattice.step = step
    assert prepare_lattice(lattice, options).lattice.hop.tolist() == task.lattice.hop.tolist()
    lattice.step = None
    still = LatticeOptions(sweep=choose_points({"D": [0]}), seed=1)
    with pytest.raises(ModelError, match="point 0 of the sweep: free: nothing diffuses"):
        prepare_lattice(lattice, still)


@pytest.mark.parametrize(("frame_every", "after"), ordinary([(20, 150), (0, 230)], (20, 150)))
def test_a_stop_in_a_sweep_changes_nothing(tmp_path, monkeypatch, whole, frame_every, after):
    monkeypatch.setattr(lattice_loop, "_BATCH_SECONDS", 1e-9)  # a batch is a step
    path, requested = tmp_path / "broken.h5", iter(range(10_000))
    with pytest.raises(StoppedEarly, match=r"of replica . of point [123]"):
        swept(path, frame_every=frame_every, stop=lambda: next(requested) >= after)
    with ts.open(path) as result, ts.open(whole) as complete:
        assert "unfinished" in repr(result)
        with pytest.warns(UserWarning, match="unfinished"):
            actual, wanted = result.replica_samples_of("A"), complete.replica_counts("A")
        for read in (result.counts, result.replica_counts):
            with pytest.raises(InputFileError, match="not all of its runs"):
                read("A")
        there = actual >= 0
        assert 0 < there.sum() < there.size
        assert (actual[there] == wanted[there]).all()
        assert np.isnan(result.mean("A")[3]).all()
        assert result.at(3).times.size == 0
        if frame_every:
            assert (result.at(0, replica=1).density("A", 2)
                    == complete.at(0, replica=1).density("A", 2)).all()  # fmt: skip
        result.plot("A")
        assert len(result.to_pandas()) == there.sum()
    with pytest.raises(InputFileError, match="other points of a sweep"):
        swept(path, frame_every=frame_every, resume=True, sweep={"D": [FAST, FAST], "A": [1, 2]})
    swept(path, frame_every=frame_every, resume=True, sweep=None).close()
    if frame_every:
        assert digest(path) == digest(whole)
    with ts.open(path) as result:
        assert (result.replica_counts("A") == wanted).all()


def test_arrays_have_the_points_first(whole):
    with ts.open(whole) as result:
        samples = len(result.times)
        assert result.swept
        assert "4 points over D, A" in repr(result)
        assert result.counts("A").shape == result.mean("A").shape == (4, samples)
        assert result.std("A", "gel").shape == (4, samples)
        assert result.quantile("A", [0.1, 0.9]).shape == (4, 2, samples)
        assert result.grid(result.mean("C")).shape == (2, 2, samples)
        assert (result.counts("A")[:, 0] == [400, 150, 400, 150]).all()
        wanted = result.replica_counts("C")
        assert np.allclose(result.mean("C"), wanted.mean(axis=1))
        assert np.allclose(result.std("C"), wanted.std(axis=1, ddof=1))
        data = result.to_xarray()
        assert data["counts"].dims == ("point", "replica", "time", "species")
        assert data["D"].dims == ("point",)
        assert list(data["A"].values) == [400, 150, 400, 150]
        table = result.to_pandas()
        assert list(table.columns) == ["D", "A_swept", "replica", "time", "A", "B", "C"]
        assert len(table) == 4 * 2 * samples
        ensemble = result.as_ensemble("gel")
        assert (ensemble.counts("A") == result.replica_counts("A", "gel")).all()
        assert ensemble.histogram("A", t=0)[0].sum(axis=1).tolist() == [2, 2, 2, 2]
        assert result.at(2).as_ensemble().mean("C").shape == (samples,)


def test_the_file_has_an_axis_of_points(whole):
    with h5py.File(whole) as file:
        assert file["counts"].shape[:2] == (4, 2)
        assert file["lattice/particles"].shape[:3] == (4, 2, 4)
        for name in ("counts", "lattice/particles", "lattice/sites", "sweep/D", "points/seed"):
            for dimension in file[name].dims:
                assert len(dimension) == 1, name
        assert file.attrs["grid"] in ("2,2", b"2,2")


@pytest.mark.validate
def test_pictures_of_a_sweep(whole, tmp_path):
    with ts.open(whole) as result:
        result.plot("C", path=tmp_path / "map.png")
        with pytest.raises(ConfigError, match=r"name one, result.at"):
            result.density("A", 0)
        with pytest.raises(ConfigError, match="a plot of slice is of one"):
            result.plot(kind="slice")
        result.at(1).plot(kind="slice", path=tmp_path / "slice.png")
        with pytest.raises(ConfigError, match="near is D"):
            result.at(D=1.0)
        with pytest.raises(ConfigError, match="point 4 is not in"):
            result.at(4)
    assert (tmp_path / "map.png").stat().st_size > 10_000


def test_the_command_line_sweeps(tmp_path, capsys, monkeypatch, whole):
    monkeypatch.chdir(tmp_path)
    write_lattice(paced(), tmp_path / "cell.h5")
    assert main(["rdme", "cell.h5", "--t-end", str(T_END), "--count-every", "3", "--seed", "7",
                 "--frame-every", "20", "--replicas", "2", "--device", "cpu", "-o", "out.h5",
                 "--sweep", f"D=list:{coefficient(0.1)!r},{FAST!r}", "--sweep", "A=list:400,150",
                 ]) == 0  # fmt: skip
    assert "4 points of 2 replicas" in capsys.readouterr().out
    assert digest("out.h5") == digest(whole)
    assert main(["info", "out.h5"]) == 0
    message = capsys.readouterr().out
    assert "passes of hops in each: 1 to 2" in message
    assert "sweep: A 2 values from 150 to 400" in message
    assert main(["rdme", "out.h5", "-o", "again.h5", "--device", "cpu", "--quiet"]) == 0
    assert digest("again.h5") == digest(whole)
    assert main(["plot", "out.h5", "--kind", "kymograph", "--point", "3", "-o", "k.png"]) == 0
    assert main(["export", "out.h5", "-o", "all.csv"]) == 0
    assert Path("all.csv").read_text().startswith("D,A_swept,replica,time,A,B,C\n")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sweep": {"X": [1, 2]}}, "no parameter or species of that name"),
        ({"sweep": {"D": [1e-12, -1]}}, "point 1 of the sweep"),
        ({"sweep": {"C": [1, 2]}}, "has 0 placements of C"),
        ({"sweep": {"D": [1]}, "set": {"D": 1}}, "is swept: choose one"),
        ({"sweep": {"A": "lin:1:2:3"}, "replicas": 1 << 16, "table": {"A": [1]}}, "excludes"),
    ],
)
def test_what_a_sweep_refuses(options, message):
    with pytest.raises((ConfigError, ModelError), match=message):
        run(None, paced(), **options)


def test_a_hook_sees_the_values_of_its_point():
    seen = []
    swept(None, replicas=1, frame_every=0, hooks=[(60, lambda v: seen.append(v.parameters["D"]))])
    assert seen == [SWEEP["D"][0]] * 2 + [FAST] * 2


@pytest.mark.parametrize("sweep", [{"D": [coefficient(0.1)]}, {"k": "list:800", "D": "lin:0:0:1"}])
def test_a_sweep_of_one_point_is_the_run_without(sweep):
    with run(None, paced(), sweep=sweep, frame_every=0) as one:
        assert one.counts("A").shape[0] == 1
        values = {name: float(column[0]) for name, column in one.points.items()}
        with run(None, paced(), set=values, frame_every=0) as alone:
            assert (one.counts("A")[0] == alone.counts("A")).all()


@pytest.mark.gpu
def test_a_sweep_has_the_same_bits_on_a_gpu(tmp_path, whole):
    path = tmp_path / "cuda.h5"
    ts.run(paced(), t_end=T_END, count_every=3, frame_every=20, seed=7, sweep=SWEEP, replicas=2,
           device="cuda", output=path).close()  # fmt: skip
    assert digest(path) == digest(whole)
