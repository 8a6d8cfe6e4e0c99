"""Pictures of summaries and modes over what a sweep varied."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.cli.main import main
from tauslab.views.ensemble import plot_result
from tauslab.views.sweep import logarithmic


def decay():
    net = ts.Network("decay")
    net.add_species("X", 100)
    net.add_parameter("k", 1.0)
    net.add_parameter("b", 0.0)
    net.add_reaction("X ->", rate="k")
    net.add_parameter("c", 0.0)
    net.add_reaction("-> X", rate="b")
    net.add_reaction("-> 2 X", rate="c")
    return net


def run(**options):
    settings = {"n": 6, "t_end": 4.0, "points": 9, "seed": 1, "device": ts.CPU(threads=1)}
    record = "trajectories,summary:mean:X:1,summary:extinction:X"
    return ts.run(decay(), **{**settings, "record": record, **options})


SWEEPS = {
    "one": {"sweep": {"k": "lin:0.5:2:4"}},
    "two": {"sweep": {"k": "log:0.01:10:4", "b": [0.0, 1.0, 2.0]}},
    "three": {"sweep": {"k": "log:0.01:10:3", "b": [0.0, 1.0], "X": [50, 100]}},
    "scattered": {"sweep": {"k": "log:0.01:10", "b": (0.0, 2.0)}, "design": ("lhs", 12)},
    "cloud": {"sweep": {"k": (0.1, 1.0), "b": (0.0, 2.0), "c": (0.0, 3.0)}, "design": ("sobol", 8)},
}


@pytest.fixture(scope="module")
def results():
    return {name: run(**options) for name, options in SWEEPS.items()} | {"none": run()}


@pytest.mark.parametrize("name", [*SWEEPS, "none"])
@pytest.mark.parametrize(
    ("what", "kind"), ordinary([("mean:X:1", "auto"), ("X", "modes")], ("mean:X:1", "auto"))
)
def test_every_sweep_has_a_picture(results, name, what, kind, tmp_path):
    path = tmp_path / "a.png"
    figure = plot_result(results[name], kind, [what], path=path)
    assert path.read_bytes().startswith(b"\x89PNG")
    axes = figure.axes[0]
    assert axes.name == ("3d" if name in ("three", "cloud") else "rectilinear")
    if name in ("two", "scattered"):
        assert (axes.get_xlabel(), axes.get_ylabel()) == ("b", "k")
        assert (axes.get_xscale(), axes.get_yscale()) == ("linear", "log")


def test_a_map_shows_the_means_of_the_points(results):
    result = results["two"]
    axes = result.plot("mean:X:1").axes[0]
    shown = np.asarray(axes.collections[0].get_array()).reshape(4, 3)
    np.testing.assert_allclose(shown, result.grid(result.summary_moments("mean:X:1").mean))


def test_a_curve_shows_mean_and_deviation(results):
    result = results["one"]
    axes = result.plot("mean").axes[0]
    np.testing.assert_allclose(axes.lines[0].get_ydata(), result.summary_moments("mean").mean)
    with pytest.raises(ts.ConfigError, match="a summary is of a whole trajectory: leave it out"):
        plot_result(result, species=["mean:X:1"], t=1.0)
    assert axes.get_title() == "6 trajectories at each point"


def test_points_without_a_number_stay_blank(results):
    result = results["scattered"]
    means = result.summary_moments("extinction").mean
    assert np.isnan(means).any(), "where k is small X lives on"
    everywhere = result.plot("mean:X:1").axes[0].collections[0].get_array().size
    known = np.isfinite(means).sum()
    if known >= 3:
        triangles = result.plot("extinction").axes[0].collections[0].get_array().size
        assert triangles < everywhere


def two_peaks():
    """X goes to 0 or to 100: two modes where both chances are there."""
    net = ts.Network("switch")
    net.add_species("S", 1)
    net.add_species("X", 0)
    for name in ("up", "down", "speed"):
        net.add_parameter(name, 1.0)
    net.add_species("H", 0)
    net.add_reaction("S -> H", rate="up")
    net.add_reaction("S ->", rate="down")
    net.add_reaction("H -> H + X", rate="speed")
    return net


def test_bistable_points_are_drawn_in_three_dimensions():
    result = ts.run(
        two_peaks(), n=200, times=[2.0], seed=3, device=ts.CPU(threads=1), species="X",
        sweep={"up": [10.0, 20.0], "down": [0.0, 10.0], "speed": [50.0, 100.0]},
    )  # fmt: skip
    several = result.modes("X").count == 2
    assert np.array_equal(several, result.points["down"] == 10), "two where S may vanish"
    axes = result.plot("X", kind="modes").axes[0]
    assert axes.get_title() == "t = 2, several modes at 4 of 8 points"
    dots = axes.collections[0]
    assert len(dots.get_offsets()) == 4
    apart = np.sort(np.asarray(dots.get_array()))
    np.testing.assert_allclose(apart, [95, 95, 190, 190], atol=25)


def test_modes_are_marked_in_a_histogram():
    result = ts.run(two_peaks(), n=300, times=[5.0], seed=3, device="cpu", species="X",
                    set={"up": 10.0, "down": 10.0, "speed": 30.0})  # fmt: skip
    marks = [line.get_xdata()[0] for line in result.plot("X", kind="modes").axes[0].lines]
    assert marks == result.modes("X").positions.tolist()
    assert len(marks) == 2


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (np.geomspace(1e-3, 1, 7), True),
        (np.linspace(1.9e4, 5e6, 256), False),
        (np.array([1.0, 10.0, 100.0]), True),
        (np.array([1.0, 100.0]), True),
        (np.linspace(0, 1, 5), False),
        (np.linspace(1, 2, 5), False),
    ],
)
def test_axes_are_logarithmic_where_values_are(values, expected):
    assert logarithmic(values) is expected


def test_the_command_draws_summaries(tmp_path, capsys):
    path = tmp_path / "a.h5"
    run(sweep={"k": "lin:0.5:2:3"}, record="summary:mean:X:1", output=path)
    picture = tmp_path / "b.svg"
    assert main(["plot", str(path), "--summary", "mean:X:1", "-o", str(picture)]) == 0
    assert b"<svg" in picture.read_bytes()[:400]
    assert main(["plot", str(path)]) == 0, "there is nothing but summaries to draw"
    assert main(["plot", str(path), "--summary", "speed", "-o", str(tmp_path / "c.png")]) == 2
    assert "it has mean:X:1" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("sweep", "word"),
    [
        ({"sweep": {"k": [1, 2], "b": [0, 1], "X": [1, 2]}, "kind": "mean"}, "one or two"),
        ({"table": {"k": [1, 2, 3, 4], "b": [1, 2, 3, 4]}}, "lie on a line"),
    ],
)
def test_what_cannot_be_drawn(sweep, word):
    kind = sweep.pop("kind", "auto")
    result = run(**sweep)
    with pytest.raises(ts.ConfigError, match=word):
        result.plot("X" if kind == "mean" else "mean:X:1", kind=kind)
