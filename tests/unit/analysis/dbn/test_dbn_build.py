"""Networks built from sampled equations: against solutions by hand, stopped, resumed, refused."""

from __future__ import annotations

import json

import numpy as np
import pytest
from dbn_factory import CHAIN

import tauslab as ts
from tauslab import dbn
from tauslab.analysis.dbn.build import build_network
from tauslab.analysis.dbn.plan import edges_of
from tauslab.analysis.dbn.results.file import counted_blocks, network_digest_lines
from tauslab.base.errors import ConfigError, ModelError, StoppedEarly
from tauslab.cli.main import main
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.options.dbn import (
    SPACINGS,
    DbnOptions,
    parse_edges,
    parse_intervals,
    parse_samples,
)

RANGES = {"a": (0.2, 1.2)}


@pytest.fixture
def model(tmp_path):
    path = tmp_path / "chain.toml"
    path.write_text(CHAIN)
    return path


def built(model, **options):
    chosen = {"unknown": ["a", "b"], "ranges": RANGES, "samples": 3000, "points": 5, "seed": 7}
    return dbn.build(model, **{"device": ts.CPU(threads=1), **chosen, **options})


def test_the_tables_are_those_of_the_same_trajectories(model):
    network = built(model)
    result = ts.run(
        ts.read(model), n=3000, points=5, method="ode", seed=7, device=ts.CPU(threads=1),
        sample=["a=uniform(0.2,1.2)", "b=uniform(0.15,0.6)"],
    )  # fmt: skip
    values = np.stack([result.data["amounts"][:, :, i] for i in range(2)], axis=2)
    a = -np.log(values[:, 1, 0] / 100)  # the first time point is 1
    t = 1.0
    b = [np.interp(v, *curve(x, t)) for x, v in zip(a, values[:, 1, 1], strict=True)]
    parameters = np.column_stack([a, np.array(b)])
    expected = dbn.from_trajectories(
        network.structure, network.times, values, parameters, network.edges
    )
    for name in ("A", "B"):
        np.testing.assert_array_equal(network.marginals[name], expected.marginals[name])
        # The parameters were found again with rounding errors: a few stand on an edge.
        actual, known = network.tables[name], expected.tables[name]
        assert actual.counts.sum() == known.counts.sum() == 4 * 3000
        same = {tuple(row) for row in known.bins.tolist()}
        assert sum(tuple(row) in same for row in actual.bins.tolist()) > 0.99 * len(actual.bins)
    assert network.structure.parents == {"A": ("A", "a"), "B": ("A", "B", "a", "b")}


def curve(a, t):
    """B at time t over b, for the trajectory's own a: increasing values for `np.interp`."""
    b = np.linspace(0.65, 0.1, 400)
    b = np.where(np.abs(b - a) < 1e-9, a + 1e-9, b)
    return 100 * a / (b - a) * (np.exp(-a * t) - np.exp(-b * t)), b


def test_ranges_marginals_and_the_nominal_course(model):
    network = built(model, intervals={"A": 4, "a": 2})
    assert network.edges["a"].tolist() == [0.2, 0.7, 1.2]
    assert network.edges["b"][[0, -1]].tolist() == [0.15, 0.6]
    assert [network.bins(n) for n in ("A", "B", "a", "b")] == [4, 5, 2, 5]
    assert network.edges["A"][-1] == 100
    assert 0 < network.edges["A"][0] < 100 * np.exp(-1.2 * 4) + 0.2
    solution = 100 * np.exp(-0.6 * network.times)
    np.testing.assert_allclose(network.nominal[:, 0], solution, rtol=1e-5)
    # 3000 uniform draws: 1500 +- 27 in each half; beyond 4 sd in 1 of 16,000 seeds.
    assert abs(int(network.marginals["a"][0, 0]) - 1500) < 110
    assert network.samples == 3000


def test_the_seed_decides_and_blocks_and_threads_do_not(model, tmp_path):
    for name, options in {
        "x": {},
        "y": {"block": 77, "device": ts.CPU(threads=2)},
        "z": {"seed": 8},
    }.items():
        built(model, output=tmp_path / f"{name}.h5", **options)
    lines = {name: network_digest_lines(tmp_path / f"{name}.h5") for name in "xyz"}
    assert lines["x"] == lines["y"]
    assert lines["x"] != lines["z"]


@pytest.mark.validate
@pytest.mark.usefixtures("one_block_launches")
def test_a_stopped_build_is_completed_to_the_same_network(model, tmp_path):
    built(model, output=tmp_path / "whole.h5")
    options = DbnOptions(
        times=np.linspace(0, 4, 5), unknown=("a", "b"), ranges=RANGES, samples=3000, seed=7,
        threads=1, block=100, output=tmp_path / "part.h5",
    )  # fmt: skip
    requested = []

    def stop():
        requested.append(1)
        return len(requested) > 2

    with pytest.raises(StoppedEarly, match=r"blocks counted: resume=True completes"):
        build_network(ts.read(model), options, Communicator(), stop)
    done = counted_blocks(tmp_path / "part.h5")
    assert 0 < done.sum() < len(done) == 30
    with pytest.raises(OSError, match="unfinished: complete it with resume=True"):
        dbn.load(tmp_path / "part.h5")
    built(model, output=tmp_path / "part.h5", resume=True, seed=None)
    lines = [network_digest_lines(tmp_path / f"{name}.h5") for name in ("whole", "part")]
    assert lines[0] == lines[1]
    with pytest.raises(ConfigError, match=r"cannot be resumed: it was made with samples = 3000"):
        built(model, output=tmp_path / "part.h5", resume=True, samples=4000)


def test_unknown_initial_amounts_are_no_nodes_but_constants_may_be(tmp_path):
    net = ts.Network("pulled")
    net.add_species("X", 10)
    net.add_species("pull", 2)
    net.add_parameter("k", 0.5)
    net.add_reaction("X ->", law="k * pull * X")
    network = dbn.build(net, unknown=["X", "pull"], ranges={"X": (5, 20)}, samples=2000, t_end=1,
                        points=3, seed=2, device=ts.CPU(threads=1))  # fmt: skip
    assert network.structure.parameters == ("pull",)
    assert network.structure.parents == {"X": ("X", "pull")}
    assert network.edges["X"][-1] == pytest.approx(20, abs=0.1)
    assert 4 < network.mean("pull")[0] * 2 < 6  # uniform from 1 to 4
    assert network.marginal("X")[0, -1] > 0.15


def test_quantiles_and_given_edges():
    options = DbnOptions(
        times=np.arange(2.0), spacing="quantile", intervals=4,
        edges={"Y": np.array([0.0, 1.0, 5.0])}, ranges={"Z": (0.0, 1.0)},
    )  # fmt: skip
    samples = np.linspace(0, 1, 1001) ** 2
    np.testing.assert_allclose(
        edges_of("X", options, samples), [0, 1 / 16, 1 / 4, 9 / 16, 1], atol=1e-3
    )
    assert edges_of("Y", options, samples).tolist() == [0, 1, 5]
    assert edges_of("X", options, np.array([3.0, 3.0, np.nan])).tolist() == [3, 3]
    # Half of the samples are 0: two quantiles are equal to the lower end.
    assert len(edges_of("Z", options, np.r_[np.zeros(500), samples[1:501]])) == 4
    with pytest.raises(ConfigError, match="X is not a finite number at any time"):
        edges_of("X", options, np.full(3, np.nan))


def test_words_of_the_command_line():
    assert parse_samples("3e6") == 3_000_000
    assert parse_intervals(["4", "X=7"]) == (4, {"X": 7})
    assert parse_edges(["X=0,1,2.5"])["X"].tolist() == [0, 1, 2.5]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--unknown", "zz"], "--unknown zz: neither a parameter nor a species of chain"),
        (["--range", "a=2:1"], "--range a=2:1: the lower end must be below the upper"),
        (["--range", "a=2:2"], "--range a=2:2: the lower end must be below the upper"),
        (["--range", "a=2"], "--range a=2: write NAME=LO:HI"),
        (["--range", "a=0:1"], "--range a: no variable of chain and not --unknown"),
        (["--samples", "1.5"], "--samples 1.5: a whole number is needed"),
        (["--samples", "0"], "--samples 0 is not allowed"),
        (["--intervals", "0"], "--intervals 0 is not allowed: a whole number from 1 to 250"),
        (["--intervals", "B=999"], "--intervals B=999 is not allowed"),
        (["--intervals", "C=3"], "--intervals C: no variable of chain"),
        (["--edges", "A=1,0"], "--edges A=1,0: give 2 to 251 finite numbers that increase"),
        (["--edges", "A=x"], "--edges A=x: write NAME=a,b,c with numbers"),
        (["--unknown", "a,a"], "--unknown names a twice"),
        (
            ["--unknown", "a", "--sample", "b=uniform(0,1)"],
            "--sample b is not among --unknown: leave",
        ),
        (["--points", "1"], "--points 1 is not allowed"),
        (["--ode-solver", "dopri5", "--substeps", "3"], "--substeps is for"),
        (["-o", "nowhere/x.h5"], "nowhere/x.h5: the folder nowhere does not exist"),
        (["-o", "."], ". is a folder; -o takes the name of a file"),
    ],
)
def test_bad_input_is_a_sentence_and_exit_code_2(model, words, message, capsys, monkeypatch):
    monkeypatch.chdir(model.parent)
    assert main(["dbn", "chain.toml", *words]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert [p.name for p in model.parent.iterdir()] == ["chain.toml"]


def test_models_that_cannot_be_are_refused(tmp_path):
    still = ts.Network("still")
    still.add_species("X", 1)
    with pytest.raises(ConfigError, match="still has nothing that changes"):
        dbn.build(still, t_end=1)
    zero = ts.Network("zero")
    zero.add_species("X", 1)
    zero.add_parameter("k", 0)
    zero.add_reaction("X ->", rate="k")
    with pytest.raises(ConfigError, match='unknown="k": its value in the model is 0'):
        dbn.build(zero, unknown=["k"], t_end=1)
    late = ts.Network("late")
    late.add_species("X", 1)
    late.add_reaction("X ->", rate=1.0)
    late.add_feature(ts.model.network.parts.Feature("delay", "reaction R1", "it has a delay"))
    with pytest.raises(ModelError, match="reaction R1: it has a delay"):
        dbn.build(late, t_end=1)


def test_steps_that_are_too_long_are_reported(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stiff.toml").write_text(
        'name = "stiff"\n[species]\nX = 1\n[parameters]\nk = 2.5\n'
        '[[reactions]]\nequation = "X -> 2 X"\nlaw = "k * X * X"\n'
    )
    words = ["dbn", "stiff.toml", "--unknown", "k", "--range", "k=0.5:2", "--samples", "500"]
    words += ["--t-end", "1", "--points", "5", "--substeps", "40", "--seed", "1", "--threads", "1"]
    assert main([*words, "--range", "X=0:10"]) == 0
    out = capsys.readouterr().out
    # dX/dt = k X^2 is infinite at t = 1 / k: in two of three trajectories.
    assert "of 500 trajectories did not stay finite" in out
    assert "values outside their range, counted in the first or last interval: X" in out
    network = dbn.load("stiff.dbn.h5")
    lost = int(network.outside["X"][-1, 2])
    assert 250 < lost < 420
    assert network.marginals["X"][-1].sum() == 500 - lost


def test_a_file_is_built_told_drawn_and_exported(model, capsys, monkeypatch):
    monkeypatch.chdir(model.parent)
    words = ["--unknown", "a,b", "--range", "a=0.2:1.2", "--samples", "2e3", "--points", "5"]
    words += ["--seed", "7", "--threads", "1"]
    assert main(["dbn", "chain.toml", *words]) == 0
    out = capsys.readouterr().out
    assert out.startswith("chain.dbn.h5: 2000 trajectories, seed 7, 2 variables, 2 unknown")
    assert main(["dbn", "chain.toml", *words]) == 2
    assert "chain.dbn.h5 exists: give --overwrite" in capsys.readouterr().err
    assert main(["info", "chain.dbn.h5"]) == 0
    out = capsys.readouterr().out
    assert "tables: " in out
    assert "at most 4 parents (B)" in out
    assert main(["info", "chain.dbn.h5", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["complete"]
    assert facts["parents"]["B"] == ["A", "B", "a", "b"]
    assert main(["digest", "chain.dbn.h5"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith(" total")
    assert main(["dbn", "chain.dbn.h5", "-o", "again.h5", "--threads", "1", "--quiet"]) == 0
    again = network_digest_lines(model.with_name("again.h5"))
    assert again == network_digest_lines(model.with_name("chain.dbn.h5"))
    with ts.open("again.h5") as actual:
        assert actual.structure.parameters == ("a", "b")
    assert main(["export", "chain.dbn.h5", "--steps", "0:2"]) == 0
    assert model.with_name("chain.dbn.bif").read_text().count("probability") == 2 + 3 * 2
    capsys.readouterr()


def test_plots(model, tmp_path):
    pytest.importorskip("matplotlib")
    network = built(model, samples=500)
    figure = dbn.plot_network(network, ["A", "b"], tmp_path / "x.png")
    assert (tmp_path / "x.png").stat().st_size > 5000
    over_time, bars = figure.axes
    labels = [line.get_label() for line in over_time.lines]
    assert labels == ["mean of samples", "factored frontier", "nominal solution"]
    np.testing.assert_array_equal(over_time.lines[2].get_ydata(), network.nominal[:, 0])
    assert [patch.get_height() for patch in bars.patches] == network.marginal("b")[0].tolist()
    with pytest.raises(ConfigError, match="'C' is not a node"):
        dbn.plot_network(network, ["C"])
    with pytest.raises(ConfigError, match="pictures are written as"):
        dbn.plot_network(network, ["A"], tmp_path / "x.bmp")


def test_parameters_are_found_on_a_network_that_was_built(model):
    network = built(model, samples=20_000, intervals=8, points=9)
    solution = dbn.build(model, unknown=["a", "b"], samples=1, points=9, seed=1,
                       device=ts.CPU(threads=1),
                       set={"a": 0.9, "b": 0.25}).nominal  # fmt: skip
    rng = np.random.default_rng(2)
    data = [
        dbn.Measurement(name, float(t), float(solution[k, i] + rng.normal(0, 3)), 3.0)
        for i, name in enumerate(("A", "B"))
        for k, t in enumerate(network.times)
        if k
    ]
    estimate = dbn.estimate(network, data)
    for name, value in (("a", 0.9), ("b", 0.25)):
        width = np.diff(network.edges[name])[0]
        assert abs(estimate.mean(name) - value) < 1.5 * width


def test_an_existing_file_is_not_replaced_unasked(model, tmp_path):
    (tmp_path / "x.h5").write_text("mine")
    with pytest.raises(ConfigError, match=r"exists: give output=ts\.Output\(.*, overwrite=True\)"):
        built(model, output=tmp_path / "x.h5")
    assert (tmp_path / "x.h5").read_text() == "mine"


def test_memory_does_not_change_the_intervals(model, monkeypatch):
    expected = {spacing: built(model, samples=10, spacing=spacing).edges for spacing in SPACINGS}
    monkeypatch.setattr("tauslab.analysis.dbn.lane.lane_capacity", lambda *_: 999)
    for spacing in SPACINGS:
        actual = built(model, samples=10, spacing=spacing).edges
        for name, edges in expected[spacing].items():
            np.testing.assert_array_equal(actual[name], edges)


@pytest.mark.parametrize("precision", ["double", "single"])
def test_devices_count_alike(model, device, precision):
    options = {"method": ts.ODE(substeps=20, precision=precision), "samples": 20_000}
    actual, expected = built(model, device=device, **options), built(model, device="cpu", **options)
    for name in ("A", "B", "a", "b"):
        np.testing.assert_array_equal(actual.edges[name], expected.edges[name])
        # The last bits of a trajectory may differ, and with them the side of an edge.
        moved = np.abs(actual.marginals[name].astype(int) - expected.marginals[name].astype(int))
        assert moved.sum(axis=1).max() <= 20
    for name in ("A", "B"):
        assert actual.tables[name].counts.sum() == 4 * 20_000


def test_tables_that_are_known_exactly(device, tmp_path):
    """Where x = v t, v uniform: half of those with a v in an interval pass half of its width on.

    A share of 20,000 or so misses a half by five deviations once in 1.7 million times.
    """
    (tmp_path / "line.toml").write_text(
        'name = "line"\n[species]\nx = 0\n[parameters]\nv = 0.5\n[rules]\nx = "v"\n'
    )
    network = dbn.build(
        tmp_path / "line.toml", unknown=["v"], ranges={"v": (0, 1)}, samples=40_000, device=device,
        times=[0, 1, 2], method=ts.ODE(substeps=4), seed=3,
        edges={"x": np.array([0, 0.5, 1, 1.5, 2]), "v": np.array([0, 0.5, 1])},
    )  # fmt: skip
    first, second = network.table("x", 0), network.table("x", 1)  # [x before, v, x after]
    np.testing.assert_array_equal(first[0], [[1, 0, 0, 0], [0, 1, 0, 0]])
    for v in (0, 1):
        own = network.marginals["v"].ravel()[v]
        assert abs(second[v, v, 2 * v] - 0.5) < 5 * np.sqrt(0.25 / own)
        assert second[v, v, 2 * v : 2 * v + 2].sum() == 1
    assert network.marginals["x"][1].tolist() == [*network.marginals["v"].ravel(), 0, 0]


def test_edges_may_be_lists_and_values_on_them_are_in_the_upper_interval(tmp_path):
    (tmp_path / "line.toml").write_text(
        'name = "line"\n[species]\nx = 1\n[parameters]\nv = 0.5\n[rules]\nx = "v - v"\n'
    )
    (tmp_path / "v.csv").write_text("v\n" + "".join(f"{v}\n" for v in (0, 0.5, 1, 2, 2.5, 3)))
    network = dbn.build(
        tmp_path / "line.toml", unknown=["v"], sample=[f"v=table({tmp_path / 'v.csv'})"],
        samples=2000, times=[0, 1], seed=3, edges={"v": [0, 1, 2, 3], "x": (0, 1, 2)},
        device="cpu",
    )  # fmt: skip
    assert network.marginals["x"].tolist() == [[0, 2000], [0, 2000]]
    # Two, one and three of six rows: five deviations of a share of 2,000 (2e-6 by chance).
    shares = network.marginals["v"].ravel() / 2000
    assert np.abs(shares - [1 / 3, 1 / 6, 1 / 2]).max() < 5 * np.sqrt(1 / 4 / 2000)
