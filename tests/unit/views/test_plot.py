"""Pictures: every kind is drawn from what was recorded, and shows the right numbers."""

from __future__ import annotations

import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import numpy as np
import pytest
import result_factory as make

from tauslab.base.errors import ConfigError, OutputError
from tauslab.store.results.result import Result
from tauslab.views.ensemble import plot_result

pytest.importorskip("matplotlib")

N = 300
PNG = b"\x89PNG"


@pytest.fixture(scope="module")
def result():
    return Result(make.samples(N), make.attributes(N))


@pytest.fixture(scope="module")
def sums():
    """A run that recorded statistics and a histogram of X only."""
    arrays = make.samples(N)
    counts = arrays["counts"]
    stored = make.statistics(counts) | make.histogram(counts, np.linspace(0, 600, 13))
    return Result(make.only(arrays) | stored, make.attributes(N))


@pytest.mark.parametrize(
    ("kind", "suffix"),
    [
        ("trajectories", ".png"),
        ("mean", ".png"),
        ("histogram", ".svg"),
        ("heatmap", ".pdf"),
    ],
)
def test_every_kind_is_written(result, tmp_path, kind, suffix):
    path = tmp_path / f"picture{suffix}"
    figure = plot_result(result, kind, ["X", "Y", "half"], path=path)
    content = path.read_bytes()
    assert {".png": PNG, ".svg": b"<svg", ".pdf": b"%PDF"}[suffix] in content
    labels = {axes.get_xlabel() for axes in figure.axes} | {a.get_ylabel() for a in figure.axes}
    assert {"X (molecules)", "half"} <= labels
    assert kind == "histogram" or "time" in labels


def test_the_same_result_draws_the_same_file(result, tmp_path):
    for suffix in (".svg", ".pdf"):
        paths = [tmp_path / f"a{suffix}", tmp_path / f"b{suffix}"]
        for path in paths:
            plot_result(result, "heatmap", ["X"], path=path)
        assert paths[0].read_bytes() == paths[1].read_bytes()


def band(axes):
    """Lower and upper edge of the band in a panel, ``[time]`` each."""
    corners = axes.collections[0].get_paths()[0].vertices
    times = np.unique(corners[:, 0])
    at = [corners[corners[:, 0] == t, 1] for t in times]
    return np.array([v.min() for v in at]), np.array([v.max() for v in at])


def test_mean_is_drawn_with_a_band_of_quantiles_where_samples_are(result, sums):
    axes = plot_result(result, "mean", ["X"]).axes[0]
    assert np.array_equal(axes.lines[0].get_ydata(), result.mean("X"))
    assert np.array_equal(band(axes), result.quantile("X", (0.05, 0.95)))
    axes = plot_result(sums, "mean", ["X"]).axes[0]
    low, high = band(axes)
    assert np.allclose(high, sums.mean("X") + sums.std("X"))
    assert np.allclose(low, np.maximum(0, sums.mean("X") - sums.std("X")))


def test_few_trajectories_are_drawn_and_end_where_they_ended(result):
    lines = plot_result(result, "trajectories", ["X"]).axes[0].lines
    assert len(lines) == 31  # and the mean
    counts = make.samples(N)["counts"]
    assert lines[3].get_ydata()[:2].tolist() == counts[3, :2, 0].tolist()
    assert np.isnan(lines[3].get_ydata()[2:]).all()


def test_heat_map_columns_are_distributions(result, sums):
    for drawn in (result, sums):
        for name in ("X", "Y") if drawn is result else ("X",):
            mesh = plot_result(drawn, "heatmap", [name], colour="linear").axes[0].collections[0]
            density = np.asarray(mesh.get_array()).reshape(-1, 4)
            heights = np.diff(mesh.get_coordinates()[:, 0, 1])
            inside = 1.0 if drawn is result else 0.9  # the stored histogram ends at 600
            total = (density * heights[:, None]).sum(0)
            assert np.all(total <= 1 + 1e-12)
            assert np.all(total >= inside - 1e-12)


def test_heat_map_colours_can_be_logarithmic(result):
    from matplotlib.colors import LogNorm

    mesh = plot_result(result, "heatmap", ["X"], colour="log").axes[0].collections[0]
    assert isinstance(mesh.norm, LogNorm)
    mesh = plot_result(result, "heatmap", ["X"], colour="linear").axes[0].collections[0]
    assert not isinstance(mesh.norm, LogNorm)


def test_histogram_is_a_density_over_the_chosen_time(result):
    axes = plot_result(result, "histogram", ["X"], t=1).axes[0]
    density, edges, _ = axes.patches[0].get_data()
    assert (density * np.diff(edges)).sum() == pytest.approx(1)
    assert axes.get_title() == "t = 1, 298 trajectories"


@pytest.mark.parametrize(
    ("rows", "options", "expected"),
    [
        (slice(None), {}, "heatmap"),
        (slice(0, 50), {}, "trajectories"),
        (slice(None), {"t": 1.0}, "histogram"),
    ],
)
def test_automatic_kind(monkeypatch, rows, options, expected):
    arrays = make.samples(N)
    cut = {k: v[rows] if len(v) == N else v for k, v in arrays.items()}
    drawn = _kinds(monkeypatch, Result(cut, make.attributes(len(cut["status"]))), **options)
    assert drawn == [expected]


def test_automatic_kind_without_samples(monkeypatch, sums):
    assert _kinds(monkeypatch, sums) == ["heatmap"]
    arrays = make.samples(N)
    only = make.only(arrays) | make.statistics(arrays["counts"])
    assert _kinds(monkeypatch, Result(only, make.attributes(N))) == ["mean"]


def _kinds(monkeypatch, result, **options):
    """Kinds that are drawn for X."""
    from tauslab.views import ensemble as plot

    kinds = []
    names = ("trajectories", "mean", "share")
    lines = {name: lambda *_, name=name: kinds.append(name) for name in names}
    monkeypatch.setattr(plot, "_LINES", lines)
    for name in ("_heatmap", "draw_histogram"):
        drawn = name.removeprefix("_").removeprefix("draw_")
        monkeypatch.setattr(plot, name, lambda *_, name=drawn: kinds.append(name))
    plot_result(result, "auto", ["X"], **options)
    return kinds


def test_default_panels_and_result_plot(result, tmp_path):
    assert len(plot_result(result, "mean").axes) == 4  # X, Y, total, half
    path = tmp_path / "x.png"
    figure = result.plot("X", "mean", path)
    assert len(figure.axes) == 1
    assert path.read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kind": "mean", "t": 1}, "t=.*: a plot of mean shows all times"),
        ({"kind": "pie"}, "'pie' is not a kind of plot; kinds: auto, heatmap"),
        ({"kind": "movie"}, "a plot of movie is of a lattice; of an ensemble kinds are auto"),
        ({"species": ["Q"]}, "'Q' is not recorded"),
        ({"kind": "histogram", "t": 0.3}, "not a sample time"),
        ({"colour": "grey"}, "not a colour scale"),
        ({"species": ["X"] * 37}, "1 to 36"),
    ],
)
def test_bad_choices(result, options, message):
    with pytest.raises(ConfigError, match=message):
        plot_result(result, **options)


def test_bad_paths(result, tmp_path):
    with pytest.raises(ConfigError, match=r"as \.png, \.svg or \.pdf"):
        plot_result(result, "mean", path=tmp_path / "x.jpg")
    with pytest.raises(OutputError, match=r"x\.png cannot be written: No such"):
        plot_result(result, "mean", path=tmp_path / "none" / "x.png")


def test_matplotlib_is_named_where_it_is_missing(result, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match=r"pip install .matplotlib"):
        plot_result(result, "mean")


def test_figures_that_are_not_written_are_of_pyplot(result, tmp_path, monkeypatch):
    import matplotlib.pyplot as plt

    figure = plot_result(result, "histogram", ["X"], t=1)
    plt.title("my gene")
    assert plt.gcf() is figure
    assert [axes.get_title() for axes in figure.axes] == ["my gene"]
    plot_result(result, "mean", ["X"], path=tmp_path / "written.png")
    with pytest.raises(ConfigError, match="nobody"):
        plot_result(result, "heatmap", ["X", "nobody"])
    with ThreadPoolExecutor() as pool:
        pool.submit(plot_result, result, "mean", ["X"]).result()
    with monkeypatch.context() as patched:
        patched.setattr(plt, "draw_if_interactive", Mock(side_effect=ImportError("needs a screen")))
        plot_result(result, "mean", ["X"])
    assert len(plt.get_fignums()) == 1


def test_a_notebook_shows_a_figure_once(result, monkeypatch):
    import matplotlib.pyplot as plt

    shown = Mock()
    monkeypatch.setitem(sys.modules, "IPython.display", Mock(display=shown))
    figure = plot_result(result, "mean", ["X"])
    figure._ipython_display_()
    assert shown.call_count == 1
    assert not plt.get_fignums()  # of which the notebook would show it again
    figure._ipython_display_()  # in a later cell
    assert shown.call_count == 2
    own, (left, right) = plt.subplots(1, 2)
    plot_result(result, "mean", ["X"], ax=left)
    plot_result(result, "mean", ["half"], ax=right)._ipython_display_()
    assert not plt.get_fignums()
    (content,), _ = shown.call_args
    assert content["image/png"].startswith(b"\x89PNG")
    assert pickle.loads(pickle.dumps(own)).axes


def test_an_axis_reaches_the_lowest_value_that_is_drawn(result):
    arrays = make.samples(N)
    arrays["observables"][1::3] *= -1
    lowest = float(np.nanmin(arrays["observables"][:, :, 1]))
    negative = Result(arrays, make.attributes(N))
    for kind, reached in (("trajectories", 0.2), ("mean", 0.5)):
        assert negative.mean("half").min() > 0
        assert plot_result(negative, kind, ["half"]).axes[0].get_ylim()[0] < reached * lowest
        assert plot_result(result, kind, ["half"]).axes[0].get_ylim()[0] >= 0
