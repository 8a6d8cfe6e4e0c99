"""What makes a picture good: room for data, one legend, whole ticks, honest bands."""

from __future__ import annotations

import numpy as np
import pytest
import result_factory as make
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.store.results.open import open_result
from tauslab.store.results.result import Result
from tauslab.views.distributions import is_switch
from tauslab.views.ensemble import plot_result

matplotlib = pytest.importorskip("matplotlib")

N = 100
TIMES = np.linspace(0, 10, 21)


def of_counts(counts, names, times=TIMES, **attributes):
    """A result in memory with these counts ``[trajectory, time, species]``."""
    n = len(counts)
    arrays = {
        "time": np.asarray(times, float),
        "species": np.array(names, object),
        "status": np.zeros(n, np.uint8),
        "counts": np.asarray(counts, np.int32),
    }
    return Result(arrays, make.attributes(n) | attributes)


def random_counts(species, n=N, most=200, times=21):
    rng = np.random.default_rng(1)
    return rng.integers(0, most, (n, times, species)).cumsum(axis=1) // 5


def of_amounts(names, n=1, times=TIMES, **attributes):
    values = np.stack(
        [np.outer(np.ones(n), np.exp(-k * times / 10)) for k in range(len(names))], -1
    )
    arrays = {
        "time": np.asarray(times, float),
        "species": np.array(names, object),
        "status": np.zeros(n, np.uint8),
        "amounts": values,
    }
    return Result(arrays, make.attributes(n) | {"method": "ode"} | attributes)


def shares(figure):
    """How much of its share of the figure each panel fills, its colour bar included."""
    figure.draw_without_rendering()
    panels = [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]
    grid = panels[0].get_subplotspec().get_gridspec()
    share = 1 / (grid.nrows * grid.ncols)
    bars = [axes for axes in figure.axes if axes.get_label() == "<colorbar>"]
    actual = []
    for axes in panels:
        box = axes.get_position()
        own = [bar.get_position() for bar in bars if axes in bar._colorbar_info["parents"]]
        right = max([box.x1, *(bar.x1 for bar in own)])
        actual.append((right - box.x0) * box.height / share)
    return actual


LONG = "a_species_with_a_very_long_name_that_nobody_can_read"


@pytest.mark.parametrize(
    ("kind", "panels"),
    [
        *((kind, 2) for kind in ("mean", "histogram", "heatmap")),
        *(
            pytest.param(kind, n, marks=pytest.mark.validate)
            for kind in ("mean", "histogram", "heatmap")
            for n in (1, 6)
        ),
        ("trajectories", 2),
        pytest.param("histogram", 25, marks=pytest.mark.validate),
    ],
)
def test_axes_fill_at_least_60_per_cent_of_their_share(kind, panels):
    names = [LONG, *(f"S{i}" for i in range(panels - 1))]
    figure = plot_result(of_counts(random_counts(panels), names), kind, names)
    assert min(shares(figure)) >= 0.6


@pytest.mark.parametrize("kind", ["trajectories", "mean"])
@pytest.mark.parametrize("panels", ordinary([1, 6], 1))
def test_a_figure_has_one_legend(kind, panels):
    names = [f"S{i}" for i in range(panels)]
    figure = plot_result(of_counts(random_counts(panels), names), kind, names)
    assert len(figure.legends) == 1
    assert all(axes.get_legend() is None for axes in figure.axes)
    figure.draw_without_rendering()
    legend = figure.legends[0].get_window_extent()
    for axes in figure.axes:
        box = axes.get_tightbbox()
        assert not (legend.y0 < box.y1 - 1 and legend.x0 < box.x1 and legend.x1 > box.x0)


@pytest.mark.parametrize("most", [1, 9, 2**31 - 1])
@pytest.mark.parametrize("kind", ["trajectories", "mean", "heatmap", "histogram"])
def test_counts_have_whole_ticks_and_nothing_is_below_0(kind, most):
    counts = np.random.default_rng(0).integers(0, most, (N, 21, 1), endpoint=True)
    if most == 1:
        counts[0, 0] = 2  # or it would be a share
    figure = plot_result(of_counts(counts, ["X"]), kind, ["X"])
    figure.draw_without_rendering()
    axis = figure.axes[0].xaxis if kind == "histogram" else figure.axes[0].yaxis
    low, high = axis.get_view_interval()
    ticks = [t for t in axis.get_ticklocs() if low <= t <= high]
    assert ticks
    assert all(tick == round(tick) for tick in ticks)
    assert low >= (0 if kind in ("trajectories", "mean") else -0.5)


@pytest.mark.parametrize("kind", ["auto", "trajectories", "mean", "histogram", "heatmap"])
def test_all_zero_and_one_time_are_drawn(kind):
    zero = plot_result(of_counts(np.zeros((N, 21, 1)), ["X"]), kind)
    zero.draw_without_rendering()
    figure = plot_result(of_counts(random_counts(2, times=1), ["X", "Y"], [3.0]), kind)
    figure.draw_without_rendering()
    assert len(zero.axes) + len(figure.axes) >= 3


def test_a_species_that_is_0_or_1_draws_a_share():
    rng = np.random.default_rng(2)
    on = rng.random((N, 21, 1)) < 0.3
    result = of_counts(on, ["Gene"])
    for kind in ("auto", "trajectories", "mean"):
        axes = plot_result(result, kind).axes[0]
        assert axes.get_ylabel() == "share with Gene = 1"
        assert np.allclose(axes.lines[0].get_ydata(), on[:, :, 0].mean(0))
    assert plot_result(result, "heatmap").axes[0].get_ylabel() == "Gene (molecules)"  # as asked for
    assert plot_result(of_counts(on[:1], ["Gene"])).axes[0].get_ylabel() == "Gene (molecules)"


@pytest.mark.parametrize("stored", [False, True])
def test_a_single_2_is_no_share(stored):
    for value, expected in ((1, True), (2, False)):
        counts = np.zeros((N, 21, 1), np.int32)
        counts[::7, 4:] = 1
        counts[80, 11] = value
        result = of_counts(counts, ["X"])
        if stored:
            arrays = dict(result.data)
            del arrays["counts"]
            result = Result(arrays | make.statistics(counts), result.attributes)
        assert is_switch(result, "X") == expected
    assert not is_switch(of_counts(np.zeros((N, 21, 1)), ["X"]), "X")


def test_courses_of_equations_are_lines_in_one_panel():
    names = [f"S{i}" for i in range(12)]
    figure = plot_result(of_amounts(names))
    assert len(figure.axes) == 1
    lines = figure.axes[0].lines
    assert [line.get_label() for line in lines] == names[1:11]  # S0 never changes
    assert {line.get_drawstyle() for line in lines} == {"default"}
    assert np.array_equal(lines[2].get_ydata(), np.exp(-3 * TIMES / 10))
    styles = {(line.get_color(), line.get_linestyle()) for line in lines}
    assert len(styles) == 10
    assert len(figure.legends) == 1
    assert min(shares(figure)) >= 0.6


def test_axes_have_the_units_of_the_model():
    axes = plot_result(of_amounts(["X", "Y"], amount_unit="nmol", time_unit="min")).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (min)", "amount (nmol)")
    axes = plot_result(of_amounts(["X"], 50, amount_unit="", time_unit="s"), "mean", ["X"]).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("time (s)", "X")
    counts = of_counts(random_counts(1), ["X"], time_unit="h")
    assert plot_result(counts, "mean").axes[0].get_xlabel() == "time (h)"
    title = plot_result(counts, "histogram").axes[0].get_title()
    assert title == "t = 10 h, 100 trajectories"


def test_axes_of_the_user_are_drawn_in():
    from matplotlib.figure import Figure

    mine = Figure()
    left, right = mine.subplots(1, 2)
    result = of_counts(random_counts(2), ["X", "Y"])
    assert result.plot("X", "mean", ax=left) is mine
    assert left.lines
    assert left.get_legend() is not None
    assert not right.lines
    assert not mine.legends
    with pytest.raises(ConfigError, match="ax= takes one panel, and there are 2"):
        result.plot(["X", "Y"], ax=right)


def test_an_unfinished_run_says_how_much_there_is(tmp_path):
    path = make.write(tmp_path / "half.h5", make.samples(100), done=[0, 2, 3])
    with open_result(path) as result:
        with pytest.warns(UserWarning, match="3 of 7 blocks"):
            figure = plot_result(result, "mean", ["X"])
        assert figure.get_suptitle() == "unfinished: 3 of 7 blocks"
    assert plot_result(of_counts(random_counts(1), ["X"])).get_suptitle() == ""


def test_names_that_look_like_markup_are_drawn():
    names = ["_P", "\u03b1_\u03b2", "a" * 500]
    result = of_amounts([*names, "X"])
    figure = plot_result(result, species=names)
    figure.draw_without_rendering()
    assert len(figure.legends[0].get_texts()) == 3


def swept(counts, points, **attributes):
    """A sweep with counts ``[point, trajectory, time, species]``."""
    names = ",".join(points)
    arrays = {
        "time": TIMES[: counts.shape[2]],
        "species": np.array(["X"], object),
        "status": np.zeros(counts.shape[:2], np.uint8),
        "counts": counts.astype(np.int32),
    } | {f"sweep/{name}": np.asarray(values, float) for name, values in points.items()}
    return Result(arrays, make.attributes(counts.shape[1]) | {"sweep": names} | attributes)


def test_a_map_of_modes_has_a_colour_for_each_number():
    rng = np.random.default_rng(5)
    one = rng.normal(100, 5, (3, 200))
    two = np.where(
        rng.random((3, 200)) < 0.5, rng.normal(50, 4, (3, 200)), rng.normal(150, 4, (3, 200))
    )
    counts = np.concatenate([one, two]).reshape(6, 200, 1, 1)
    points = {"a": [1, 1, 1, 2, 2, 2], "b": [1, 2, 3, 1, 2, 3]}
    result = swept(counts, points, grid="2,3")
    figure = plot_result(result, "modes")
    figure.draw_without_rendering()
    bar = figure.axes[1]
    assert bar.get_yticks().tolist() == [1, 2]
    mesh = figure.axes[0].collections[0]
    colours = mesh.to_rgba(np.asarray(mesh.get_array())).reshape(2, 3, 4)
    assert (colours[0] == colours[0, 0]).all()
    assert (colours[0, 0] != colours[1, 0]).any()


def test_bars_of_amounts_in_a_sweep_stand_where_the_amounts_are():
    values = np.random.default_rng(7).uniform(0.5, 2.0, (3, 400, 1, 1))
    made = swept(np.zeros(values.shape), {"k": [1, 2, 3]}, method="ode")
    arrays = {n: v for n, v in made.data.items() if n != "counts"} | {"amounts": values}
    axes = plot_result(Result(arrays, made.attributes), "histogram").axes[0]
    edges = axes.patches[0].get_data().edges
    assert edges[0] <= values.min() < edges[1]
    assert edges[-2] < values.max() <= edges[-1]


def test_the_band_of_a_sweep_is_that_of_the_trajectories():
    rng = np.random.default_rng(6)
    counts = rng.geometric(0.3, (4, 150, 2, 1)) - 1
    result = swept(counts, {"k": [1, 2, 3, 4]})
    axes = plot_result(result, "mean").axes[0]
    corners = axes.collections[0].get_paths()[0].vertices
    low = [corners[corners[:, 0] == k, 1].min() for k in (1, 2, 3, 4)]
    assert low == result.quantile("X", 0.05)[:, -1].tolist()
    assert axes.get_ylim()[0] >= 0


def test_a_damaged_choice_of_axes_is_refused():
    from matplotlib.figure import Figure

    axes = Figure().add_subplot(projection="polar")
    with pytest.raises(ConfigError, match="projection=None"):
        of_counts(random_counts(1), ["X"]).plot(ax=axes)


def births():
    net = ts.Network("births")
    net.add_species("X", 0)
    net.add_parameter("k", 4.0)
    net.add_parameter("d", 0.2)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate="d")
    return net


def spans(axes):
    """Lines that go through the whole of axes."""
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in axes.lines]
    return [line for line in lines if [0, 1] in line]


@pytest.mark.filterwarnings("ignore:.*determine the derivative")
def test_bars_of_derivatives_begin_at_a_line_of_zero():
    given = {"n": 20, "seed": 1, "device": "cpu"}
    axes = ts.sensitivity(births(), times=1.0, **given).plot().axes[0]
    assert spans(axes) == [([0, 0], [0, 1])]
    axes = ts.sensitivity(births(), times=[1.0, 2.0], **given).plot().axes[0]
    assert spans(axes) == [([0, 1], [0, 0])]


def test_bands_of_counts_end_at_zero():
    data = {"time": [0.1, 1.0], "X": [0.0, 3.0]}
    actual = ts.particle_filter(
        births(), data, observe={"X": "normal(4)"}, n=50, seed=1, device="cpu"
    )
    assert (actual.mean - 2 * actual.sd).min() < 0
    assert actual.plot().axes[0].collections[0].get_paths()[0].vertices[:, 1].min() == 0
