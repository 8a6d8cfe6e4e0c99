"""Looking at a lattice result: numbers, pictures, and files for other programs."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from sampling import ordinary
from spatial_factory import FRAMES, SHAPE, TIMES, write_result

import tauslab as ts
from tauslab.base.errors import ConfigError, InputFileError
from tauslab.cli.main import main
from tauslab.store.results.lattice import frames
from tauslab.store.results.lattice.export import export_lattice
from tauslab.store.results.lattice.result import LatticeResult, is_lattice_result
from tauslab.views.lattice import _borders, plot_lattice


@pytest.fixture(params=[0, 2], ids=["alone", "replicas"])
def path(request, tmp_path):
    return write_result(tmp_path / "run.h5", replicas=request.param)


def stored(path, name, replica=0):
    with h5py.File(path) as file:
        values = file[name][...]
        return values[replica] if file["counts"].ndim == 3 else values


def test_counts_and_frames(path, monkeypatch):
    monkeypatch.setattr(frames, "_SLAB", 5 * 7 * 8 * 5)  # five planes at a time
    with LatticeResult(path) as result:
        assert result.species == ("A", "B", "C")
        assert result.site_types == ("outside", "cell")
        assert (result.spacing, result.shape) == (32e-9, SHAPE)
        assert (result.times == TIMES).all()
        assert (result.frame_times == FRAMES).all()
        assert (result.counts("B") == stored(path, "counts")[:, 1]).all()
        by_type = stored(path, "counts_by_site_type")
        assert (result.counts("C", "cell") == by_type[:, 1, 2]).all()
        particles = stored(path, "lattice/particles")
        assert (result.density("B", 1) == (particles[1] == 2).sum(-1)).all()
        for axis, others in (("z", (1, 2, 3)), ("y", (0, 2, 3)), ("x", (0, 1, 3))):
            lines = [(frame == 3).sum(axis=others) for frame in particles]
            assert (result.kymograph("C", axis) == lines).all()
        assert (result.kymograph("C") == result.kymograph("C", "z")).all()
        assert [result.frames.at(t) for t in (None, 0.0, 0.19, 0.2, 9.0)] == [1, 0, 0, 1, 1]


def test_replicas_are_told_apart(tmp_path):
    path = write_result(tmp_path / "run.h5", replicas=2)
    with LatticeResult(path, 1) as second:
        assert (second.counts("A") == stored(path, "counts", 1)[:, 0]).all()
        assert (
            second.density("A", 0) == (stored(path, "lattice/particles", 1)[0] == 1).sum(-1)
        ).all()
        with pytest.raises(ConfigError, match=r"frame 2 is not in .*: it has 0 to 1"):
            second.density("A", 2)
        with pytest.raises(ConfigError, match=r"a movie needs path="):
            second.plot(kind="movie")
    with pytest.raises(ConfigError, match=r"replica 2 is not in .*: it has 0 to 1"):
        LatticeResult(path, 2)


def test_what_is_not_there_is_named(tmp_path):
    path = write_result(tmp_path / "run.h5", frames=False)
    with LatticeResult(path) as result:
        for call, message in (
            (lambda: result.counts("X"), "'X' is not a species"),
            (lambda: result.counts("A", "moon"), "'moon' is not a site type"),
            (lambda: result.kymograph("A"), "has no frames: run with frame_every="),
            (lambda: plot_lattice(result, "slice"), "has no frames"),
            (lambda: plot_lattice(result, "heatmap"), "not a plot of a lattice"),
            (lambda: plot_lattice(result, t=0.1), "t=.* is of a slice: leave it out"),
            (lambda: plot_lattice(result, "counts", axis="x"), "axis=.* is of a kymograph"),
            (lambda: plot_lattice(result, path=tmp_path / "a.jpg"), r"\.png, \.svg or \.pdf"),
        ):
            with pytest.raises(ConfigError, match=message):
                call()
    with pytest.raises(InputFileError, match="no such file"):
        LatticeResult(tmp_path / "none.h5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["time"] = [0.0]
    with pytest.raises(InputFileError, match="is not a result of tauslab"):
        LatticeResult(tmp_path / "other.h5")
    assert [is_lattice_result(tmp_path / name) for name in ("run.h5", "other.h5", "none.h5")] == [
        True,
        False,
        False,
    ]


def test_the_kymograph_shows_its_numbers(path):
    with LatticeResult(path) as result:
        figure = plot_lattice(result, "kymograph", ["A"])
        mesh = figure.axes[0].collections[0]
        assert (np.asarray(mesh.get_array()).reshape(SHAPE[0], -1) == result.kymograph("A").T).all()
        assert figure.axes[0].get_xlabel() == "time (s)"


def test_the_slice_shows_the_middle_plane(path):
    with LatticeResult(path) as result:
        figure = plot_lattice(result, "slice", ["A", "B"], t=0.0)
        image = np.asarray(figure.axes[1].images[0].get_array())
        # y is the shortest; the longest, z, lies flat
        assert (image == result.density("B", 0)[:, SHAPE[1] // 2].T).all()
        assert figure.axes[1].get_xlabel() == "z (µm)"
        assert figure.axes[1].get_title() == "B, t = 0 s, y = 0.08 µm"
        across = plot_lattice(result, "slice", ["A"], axis="z").axes[0].images[0]
        assert (np.asarray(across.get_array()) == result.density("A", 1)[SHAPE[0] // 2]).all()


def test_counts_are_drawn_over_time(path):
    with LatticeResult(path) as result:
        lines = plot_lattice(result, "counts").axes[0].lines
        assert [line.get_label() for line in lines] == ["A", "B", "C"]
        assert (lines[2].get_ydata() == result.counts("C")).all()


def test_numbers_over_replicas(tmp_path):
    path = write_result(tmp_path / "run.h5", replicas=3)
    with LatticeResult(path, 1) as result, h5py.File(path) as file:
        counts = file["counts"][..., 1]
        assert (result.replica_counts("B") == counts).all()
        assert np.allclose(result.mean("B"), counts.mean(0))
        assert np.allclose(result.std("B"), counts.std(0, ddof=1))
        assert np.allclose(result.sem("B"), counts.std(0, ddof=1) / np.sqrt(3))
        assert (result.quantile("B", (0, 0.5, 1)) == np.sort(counts, axis=0)).all()
        of_cell = file["counts_by_site_type"][:, :, 1, 1]
        assert np.allclose(result.mean("B", "cell"), of_cell.mean(0))
        axes = plot_lattice(result).axes[0]
        assert (axes.lines[1].get_ydata() == result.mean("B")).all()
        frame = result.to_pandas()
        assert list(frame.columns) == ["replica", "time", "A", "B", "C"]
        assert (frame.B.to_numpy().reshape(counts.shape) == counts).all()
        data = result.to_xarray(frames="C")
        assert (data.counts.sel(species="B") == counts).all()
        assert (data.counts_by_site_type.sel(species="B", site_type="cell") == of_cell).all()
        assert (data.density[0, 1] == result.density("C", 1)).all()
        change = result.density("C", 1) - result.density("C", 0)
        assert change.min() < 0
        assert (data.density[0].diff("frame")[0] == change).all()
        assert (change == result.density("C", 1).astype(float) - result.density("C", 0)).all()
        assert data.time.attrs["units"] == "s"
        assert (result["B"] == counts[1]).all()
    with LatticeResult(write_result(tmp_path / "one.h5")) as alone:
        assert (alone.mean("A") == alone.counts("A")).all()
        assert np.isnan(alone.std("A")).all()
        assert list(alone.to_pandas(["B"]).columns) == ["time", "B"]


def test_tables_have_replicas_and_site_types(tmp_path, capsys):
    path = write_result(tmp_path / "run.h5", replicas=3)
    with LatticeResult(path, 1) as result:
        counts, types = result.replica_counts("B"), result.site_types
        by_type = np.stack([result.replica_counts("B", name) for name in types], axis=-1)
        frame = result.to_pandas(["B"], "counts_by_site_type")
    assert list(frame.columns) == ["replica", "time", "site_type", "B"]
    assert (frame.B.to_numpy().reshape(by_type.shape) == by_type).all()
    assert tuple(frame.site_type[: len(types)]) == types

    def rows(*options):
        assert main(["export", str(path), "--species", "B", "-o", "-", *options]) == 0
        head, *lines = capsys.readouterr().out.splitlines()
        return head, np.array([line.split(",")[-1] for line in lines], int)

    head, values = rows()
    assert head == "replica,time,B"
    assert (values == counts.ravel()).all()
    head, values = rows("--replica", "2")
    assert head == "time,B"
    assert (values == counts[2]).all()
    head, values = rows("--what", "counts_by_site_type")
    assert head == "replica,time,site_type,B"
    assert (values == by_type.ravel()).all()
    assert main(["export", str(path), "--what", "final", "-o", "-"]) == 2
    assert "'final' is not known; allowed are counts, counts_by_site" in capsys.readouterr().err
    assert main(["export", str(path), "--what", "counts", "-o", "x.npy"]) == 2
    assert "and x.npy has frames: leave it out" in capsys.readouterr().err


@pytest.mark.parametrize("path", [2], indirect=True)
def test_a_movie_has_a_picture_for_each_frame(path, tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    assert main(["plot", str(path), "--kind", "movie", "--species", "A,C"]) == 0
    out = path.with_suffix(".gif")
    assert capsys.readouterr().out.strip() == str(out)
    with image.open(out) as movie:
        assert movie.n_frames == len(FRAMES)
        assert movie.size[0] > 400
    with LatticeResult(path) as result:
        assert result.plot("A", "movie", tmp_path / "plot.gif") == tmp_path / "plot.gif"
        for options, message in (
            ({"path": tmp_path / "a.avi"}, r"movies are written as \.gif or \.mp4"),
            ({"path": tmp_path / "a.gif", "name": "X"}, "not a species"),
            ({"path": tmp_path / "a.gif", "seconds": 0}, "more than 0"),
        ):
            with pytest.raises(ConfigError, match=message):
                result.movie(**options)
    assert [p.name for p in tmp_path.iterdir() if "tmp" in p.name] == []


def test_a_view_shows_all_particles_of_a_frame(path):
    pytest.importorskip("plotly")
    with LatticeResult(path) as result:
        view = result.view(0.0, ["A", "B"])
        dots = {trace.name: len(trace.x) for trace in view.figure.data}
        assert {name: dots[name] for name in "AB"} == {
            name: int(result.density(name, 0).sum(dtype=int)) for name in "AB"
        }
        assert "cell" in dots
        with pytest.raises(ConfigError, match="not a species"):
            result.view(None, "X")


def test_a_notebook_shows_a_table_with_everything_escaped(path):
    with LatticeResult(path) as result:
        result.species = ("<b>", *result.species[1:])
        page = result._repr_html_()
        assert "&lt;b&gt;" in page
        assert "<td><b>" not in page
    assert "closed" in result._repr_html_()


@pytest.mark.parametrize("path", [2], indirect=True)
@pytest.mark.parametrize("kind", ordinary(["auto", "kymograph", "slice"], "slice"))
def test_the_command_draws(path, tmp_path, capsys, kind):
    out = tmp_path / "out.png"
    assert main(["plot", str(path), "--kind", kind, "--species", "A,B", "-o", str(out)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert out.read_bytes().startswith(b"\x89PNG")


def test_vtkhdf(path, tmp_path, capsys):
    """Cells are sites, x runs fastest; VTK 9 reads such a file as [step, z, y, x]."""
    out = tmp_path / "run.vtkhdf"
    assert main(["export", str(path)]) == 0
    assert capsys.readouterr().out.strip() == str(out)
    assert main(["export", str(path)]) == 2
    assert "exists" in capsys.readouterr().err
    with h5py.File(out) as file, LatticeResult(path) as result:
        root = file["VTKHDF"]
        assert root.attrs["Type"] == b"ImageData"
        assert root.attrs["WholeExtent"].tolist() == [0, 7, 0, 5, 0, 12]
        assert root.attrs["Spacing"] == pytest.approx([0.032] * 3)
        assert root["Steps"].attrs["NSteps"] == 2
        assert (root["Steps/Values"][...] == FRAMES).all()
        assert sorted(root["CellData"]) == ["A", "B", "C", "site type"]
        assert (root["CellData/C"][1] == result.density("C", 1)).all()
        assert (root["CellData/site type"][0] == stored(path, "lattice/sites")[0]).all()


def test_arrays_for_napari(path, tmp_path):
    out = tmp_path / "frames.npy"
    assert main(["export", str(path), "--species", "C,A", "-o", str(out)]) == 0
    array = np.load(out)
    assert (array.dtype, array.shape) == (np.uint8, (2, 2, *SHAPE))
    with LatticeResult(path) as result:
        assert (array[0, 1] == result.density("C", 1)).all()
        assert (array[1, 0] == result.density("A", 0)).all()
        with pytest.raises(ConfigError, match="exported as"):
            export_lattice(result, tmp_path / "frames.txt")
        with pytest.raises(ConfigError, match="not a species"):
            export_lattice(result, tmp_path / "frames.vtkhdf", ["X"])


@pytest.mark.parametrize("suffix", [".vtkhdf", ".npy"])
def test_frames_that_were_not_recorded(tmp_path, capsys, suffix):
    out = tmp_path / f"run{suffix}"
    path = write_result(tmp_path / "run.h5", frames=False)
    assert main(["export", str(path), "-o", str(out)]) == 2
    assert "has no frames: run with --frame-every N" in capsys.readouterr().err
    assert [file.name for file in tmp_path.iterdir()] == ["run.h5"]


def test_borders_run_along_the_edges_of_sites():
    """Two upright lines and one level one, each once, whatever the numbers of the types are."""
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure, axes = pyplot.subplots()
    _borders(axes, np.array([[0, 5], [0, 5], [0, 0]], np.uint8), (0, 4, 0, 3))
    drawn = {tuple(map(tuple, line.tolist())) for line in axes.collections[0].get_segments()}
    pyplot.close(figure)
    assert drawn == {((2, 0), (2, 1)), ((2, 1), (2, 2)), ((2, 2), (4, 2))}


def _negative(file):
    file["counts"][...] = -5


def _no_lattice(file):
    del file["lattice"]


def _another_particle(file):
    particles = file["lattice/particles"]
    particles[(0,) * particles.ndim] = 3 - particles[(0,) * particles.ndim]


def _another_site(file):
    sites = file["lattice/sites"]
    sites[(0,) * sites.ndim] = 7


@pytest.mark.parametrize("change", [_negative, _no_lattice, _another_particle, _another_site])
def test_what_was_changed_has_no_digest(path, capsys, change):
    assert main(["digest", str(path)]) == 0
    with h5py.File(path, "r+") as file:
        change(file)
    capsys.readouterr()
    assert main(["digest", str(path)]) == 2
    actual = capsys.readouterr()
    assert (actual.out, actual.err.count("\n")) == ("", 1)
    assert "is damaged, or was changed after it had been written" in actual.err


def test_a_result_in_memory_is_called_so_and_saved(tmp_path):
    cube = ts.Lattice("cube", shape=(4, 4, 4), spacing=1e-7, t_end=0.01)
    cube.add_species("A")
    cube.add_diffusion("A", 1e-12)
    cube.place("A", count=9)
    result = ts.run(cube, seed=1, device="cpu", replicas=2, frame_every=2)
    assert repr(result).startswith("<LatticeResult in memory: 2 replicas")
    with pytest.raises(ts.ConfigError, match="'Q' is not a species of the result in memory"):
        result.counts("Q")
    path = result.save(tmp_path / "kept.h5")
    with ts.open(path) as kept:
        assert np.array_equal(kept.replica_counts("A"), result.replica_counts("A"))
        assert np.array_equal(kept.density("A", 1), result.density("A", 1))
        assert str(path) in repr(kept)
        with pytest.raises(ts.ConfigError, match="holds this result already"):
            kept.save(tmp_path / "again.h5")
    with pytest.raises(ts.OutputError, match="overwrite=True replaces it"):
        result.save(path)
    with pytest.raises(ts.ConfigError, match="a result is an HDF5 file"):
        result.save(tmp_path / "kept.csv")
    result.save(path, overwrite=True)
