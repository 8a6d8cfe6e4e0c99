"""Sweeps run: every point is what a run of its own would be, however the job is cut."""

from __future__ import annotations

import h5py
import numpy as np
import pytest
from places import TESTS
from sampling import ordinary

import tauslab as ts
from tauslab.cli.main import main
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.options.ensemble import Options
from tauslab.options.record import Record
from tauslab.options.sweep import choose_points
from tauslab.runner.ensemble.entry import run_network
from tauslab.runner.ensemble.task import prepare
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.info import describe

TIMES = [0.0, 0.5, 1.0, 2.0]
ALL = "trajectories,statistics,final,histogram:X:0:20:10"
GRID = {"k": [5.0, 1.0, 20.0], "X": [0, 10]}


def pairs() -> ts.Network:
    """Immigration and pairwise death, with a parameter that depends on another, and a rule."""
    net = ts.Network("pairs")
    net.add_species("X", 10)
    net.add_species("Y", 0)
    net.add_parameter("k", 5.0)
    net.add_parameter("twice", "2 * k")
    net.add_reaction("-> X", rate="twice")
    net.add_reaction("2 X -> Y", rate=0.1)
    net.add_reaction("Y ->", law="Y * X ^ 2 / (X ^ 2 + 20 * k)")
    net.add_rule("total", "X + 2 * Y + 1000 * k")
    return net


def chain() -> ts.Network:
    """More reactions than are unrolled: the kernel that reads tables."""
    net = ts.Network("chain")
    net.add_parameter("k", 5.0)
    for i in range(70):
        net.add_species(f"S{i}", 3)
    for i in range(69):
        net.add_reaction(f"S{i} -> S{i + 1}", rate="k")
    return net


@pytest.fixture
def run(device):
    """`tauslab.run` with defaults, on each device in turn."""

    def call(model=None, **options):
        defaults = {"times": TIMES, "seed": 3, "n": 30, "device": device, "method": "ssa"}
        return ts.run(model or pairs(), **{**defaults, **options})

    return call


def total(result) -> str:
    return digest_total(digest_lines(result))


@pytest.mark.parametrize("model", ordinary([pairs, chain], pairs))
def test_the_first_point_is_a_plain_run(run, model):
    """Draws are those of (seed, point, trajectory), and a plain run is point 0."""
    sweep = {"k": [5.0, 1.0]}
    swept, plain = run(model(), sweep=sweep), run(model(), set={"k": 5.0})
    for name in plain.species[:2]:
        assert np.array_equal(swept.counts(name)[0], plain.counts(name))
    assert np.array_equal(swept.status[0], plain.status)
    assert not np.array_equal(swept.counts()[0], swept.counts()[1])


def test_leaps_of_every_point_are_its_own(run):
    """Tau-leaping too: point 0 is a plain run, and cuts of the job change nothing."""
    net = ts.Network("flow")
    net.add_parameter("k", 1e4)
    net.add_species("X", 10_000)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate=1.0)
    options = {"method": "tau", "record": "trajectories,statistics"}
    swept, plain = run(net, sweep={"k": [1e4, 1e4, 2e4]}, **options), run(net, **options)
    x = swept.counts("X")
    assert np.array_equal(x[0], plain.counts("X"))
    assert (x[0, :, -1] != x[1, :, -1]).mean() > 0.9
    assert x[2, :, -1].min() > x[0, :, -1].max()
    assert total(run(net, sweep={"k": [1e4, 1e4, 2e4]}, block=7, **options)) == total(swept)


def test_points_with_the_same_values_draw_anew(run):
    result = run(sweep={"k": [5.0, 5.0]})
    x = result.counts("X")
    assert np.array_equal(x[0, :, 0], x[1, :, 0])
    assert (x[0, :, -1] != x[1, :, -1]).mean() > 0.5


def test_a_sweep_over_one_point_has_an_axis(run):
    result, plain = run(sweep={"k": [5.0]}), run()
    assert result.counts().shape == (1, 30, 4, 2)
    assert np.array_equal(result.counts()[0], plain.counts())
    assert result.mean("X").shape == (1, 4)


def test_every_point_has_its_own_values(run):
    """The rule shows each point's k, t = 0 its X; more immigrants mean more molecules."""
    result = run(n=200, sweep=GRID)
    assert list(result.points) == ["k", "X"]
    assert result.points["k"].tolist() == [5, 5, 1, 1, 20, 20]
    assert np.array_equal(result.counts("X")[:, 0, 0], result.points["X"])
    counts = result.counts("X") + 2 * result.counts("Y")
    shown = result.data["observables"][()][..., 0] - 1000 * result.points["k"][:, None, None]
    assert np.array_equal(shown, counts)
    means = result.grid(result.mean("Y")[:, -1])
    assert means.shape == (3, 2)
    assert means[1, 0] < means[0, 0] < means[2, 0]


def test_statistics_are_those_of_the_trajectories_of_each_point(run):
    result = run(n=300, sweep=GRID, record=ALL)
    x = result.counts("X").astype(np.int64)
    assert np.array_equal(result.data["statistics/sum"][()][..., 0], x.sum(1))
    assert np.array_equal(result.data["statistics/n"][()], np.full((6, 4), 300))
    assert np.array_equal(result.data["statistics/sumsq_lo"][()][..., 0], (x**2).sum(1))
    cells = result.data["statistics/histogram/X"][()]
    for point in range(6):
        for time in range(4):
            actual, _ = np.histogram(x[point, :, time], np.arange(0, 21, 2))
            inside = x[point, :, time][x[point, :, time] < 20]
            actual[-1] = (inside >= 18).sum()
            assert cells[point, time, 1:-1].tolist() == actual.tolist()
            assert cells[point, time, -1] == (x[point, :, time] >= 20).sum()
    assert np.array_equal(result.final("X"), x[..., -1])
    totals = result.data["observables"][()][..., 0]
    np.testing.assert_allclose(result.mean("total"), totals.mean(1), rtol=1e-7)
    np.testing.assert_allclose(result.variance("X"), x.var(1, ddof=1), rtol=1e-12)


def test_statistics_alone_are_those_beside_trajectories(run):
    """Also where observables are as different from point to point as k is."""
    options = {"n": 100, "sweep": {"k": [0.01, 1000.0]}, "times": [0.0, 0.1]}
    alone = run(record="statistics", **options)
    both = run(record="trajectories,statistics", **options)
    samples = run(record="trajectories", **options)
    for name in ("X", "total"):
        assert np.array_equal(alone.mean(name), both.mean(name))
        assert np.array_equal(alone.variance(name), both.variance(name))
        np.testing.assert_allclose(samples.mean(name), both.mean(name), rtol=1e-8)
    assert np.array_equal(samples.mean("X"), both.mean("X"))
    assert np.array_equal(samples.variance("X"), both.variance("X"))
    values = both.data["observables"][()][..., 0]
    np.testing.assert_allclose(alone.mean("total"), values.mean(1), rtol=1e-8)


@pytest.mark.parametrize("block", ordinary([1, 7, 10, 30, 60, 1000], 7, 30))
def test_blocks_and_threads_do_not_change_the_bits(run, block):
    expected = run(sweep=GRID, record=ALL, device=ts.CPU(threads=1))
    assert total(run(sweep=GRID, record=ALL, device=ts.CPU(threads=3), block=block)) == total(
        expected
    )


def test_many_points_of_few_trajectories(run):
    """A launch holds many points, and their numbers go on in the next."""
    k = np.linspace(1, 9, 700)
    result = run(n=3, sweep={"k": k}, record="trajectories,statistics", block=3 * 7)
    assert np.array_equal(result.data["statistics/sum"][()], result.counts().sum(1))
    table = run(n=3, table={"k": k}, record="trajectories,statistics")
    assert total(table) == total(result)
    assert "grid" not in table.attributes
    with pytest.raises(ts.ConfigError, match="not a sweep over all combinations"):
        table.grid(table.mean("X"))


def test_a_design_is_drawn_with_the_seed(run):
    pytest.importorskip("scipy")
    options = {"n": 5, "sweep": {"k": "log:0.1:10"}, "design": ("sobol", 6)}
    first, again, other = run(**options), run(**options), run(**options, seed=4)
    assert total(first) == total(again)
    assert not np.array_equal(first.points["k"], other.points["k"])
    assert total(run(n=5, table={"k": first.points["k"]})) == total(first)


def test_results_of_a_sweep_by_species_and_time(run):
    result = run(n=50, sweep=GRID, record="trajectories")
    x = result.counts("X")
    numbers, edges = result.histogram("X", 2.0)
    assert numbers.shape == (6, len(edges) - 1)
    for point in range(6):
        assert np.array_equal(numbers[point], np.histogram(x[point, :, -1], edges)[0])
    median = result.quantile("X", 0.5)
    assert np.array_equal(median, np.sort(x, axis=1)[:, 24])
    assert result.quantile("X", [0.1, 0.9]).shape == (6, 2, 4)
    assert result.std("X").shape == (6, 4)
    assert result.sem("X") == pytest.approx(result.std("X") / np.sqrt(result.n))
    assert "30" not in repr(result)
    assert "50 trajectories at 6 points" in repr(result)
    with pytest.raises(ts.ConfigError, match="first axis"):
        result.grid(np.zeros(5))


def test_xarray_has_a_dimension_for_each_swept_name(run, tmp_path):
    kinds = "trajectories,statistics,final"
    memory = run(n=20, sweep=GRID, record=kinds)
    dataset = memory.to_xarray()
    assert dataset["counts"].dims == ("k", "X", "trajectory", "time", "species")
    assert dataset["mean"].dims == ("k", "X", "time", "species")
    # X is a species; as a coordinate it keeps its name.
    assert dataset["X"].values.tolist() == [0, 10]
    for point in range(6):
        values = {name: column[point] for name, column in memory.points.items()}
        assert np.array_equal(dataset["counts"].sel(values), memory.counts()[point])
    with run(n=20, sweep=GRID, record=kinds, output=tmp_path / "a.h5") as result:
        stored = result.to_xarray()
        for name in ("counts", "final", "mean"):
            assert stored[name].dims == dataset[name].dims
            assert np.array_equal(stored[name].values, dataset[name].values)
        assert np.array_equal(stored["k"].values, dataset["k"].values)
        stored.close()
        assert result.digest() == memory.digest()
    repeated = run(n=2, sweep={"k": [1.0, 1.0], "X": [0, 1]})
    assert repeated.to_xarray()["counts"].dims[0] == "point"


def test_dask_reads_a_sweep(run, tmp_path):
    pytest.importorskip("dask")
    with run(n=20, sweep=GRID, block=10, output=tmp_path / "a.h5") as result:
        array = result.to_dask()
        assert array.chunksize == (1, 10, 4, 2)
        assert np.array_equal(array.compute(), result.counts())


@pytest.mark.usefixtures("one_block_launches")
@pytest.mark.parametrize("record", ["trajectories,statistics", "statistics"])
def test_a_stopped_sweep_is_resumed(device, tmp_path, record):
    path, requested = tmp_path / "a.h5", []

    def stop() -> bool:
        requested.append(0)
        return len(requested) > 2

    def go(output, *, resume=False, ask=lambda: False):
        options = Options(
            times=np.array(TIMES), n=40, seed=1, sweep=choose_points(GRID), block=8, resume=resume,
            record=Record.parse(record), device=device, threads=1, output=output, quiet=True,
        )  # fmt: skip
        return run_network(pairs(), options, Communicator(), ask)

    with pytest.raises(ts.StoppedEarly):
        go(path, ask=stop)
    with go(path, resume=True) as result, go(tmp_path / "b.h5") as whole:
        assert total(result) == total(whole)


def test_initial_counts_that_depend_on_what_is_swept(run):
    net = ts.Network("derived")
    net.add_parameter("volume", 2.0)
    net.add_species("X", "3 * volume")
    net.add_reaction("X ->", rate="1 / volume")
    result = run(net, sweep={"volume": [1.0, 2.0, 4.0]})
    assert result.counts("X")[:, 0, 0].tolist() == [3, 6, 12]


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"sweep": {"nope": [1.0]}}, r'sweep\["nope"\]: neither a parameter'),
        ({"table": {"nope": [1.0]}}, r'table\["nope"\]: neither a parameter'),
        ({"sweep": {"X": [1.0, -2.0]}}, "X cannot be -2"),
        ({"sweep": {"k": [1.0, -2.0]}}, "in point 1"),
        ({"sweep": {"k": [1.0]}, "set": {"k": 1.0}}, "is swept"),
        ({"sweep": {"k": [1.0]}, "set": {"X": np.arange(30.0)}}, "exclude each other"),
    ],
)
def test_bad_input(run, tmp_path, options, word):
    path = tmp_path / "out.h5"
    with pytest.raises((ts.ConfigError, ts.ModelError), match=word):
        run(output=path, **options)
    assert not path.exists()


MODEL = TESTS / "data" / "sbml" / "schlogl.xml"
COMMAND = ["run", str(MODEL), "-n", "20", "--t-end", "1", "--points", "3", "--seed", "1",
           "--species", "X", "--device", "cpu", "--threads", "1"]  # fmt: skip


def test_the_command_line_sweeps_describes_and_draws(tmp_path, capsys):
    pytest.importorskip("matplotlib")
    path = tmp_path / "a.h5"
    sweep = ["--sweep", "c3=lin:6.9e-4:1.4e-3:4", "--sweep", "X=list:100,250"]
    assert main([*COMMAND, *sweep, "-o", str(path)]) == 0
    assert "20 trajectories at each of 8 points" in capsys.readouterr().out
    with h5py.File(path) as file:
        assert file["counts"].shape == (8, 20, 3, 1)
        assert file["counts"][:, 0, 0, 0].tolist() == [100, 250] * 4
    with ts.open(path) as result:
        text = "\n".join(describe(result))
    assert "sweep: grid 4 x 2, c3 4 values from 0.00069 to 0.0014, X 2 values" in text
    assert main(["digest", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "sweep/X" in printed
    assert "sweep/c3" in printed
    assert main(["plot", str(path), "-o", str(tmp_path / "map.png")]) == 0
    assert main(["plot", str(path), "--kind", "heatmap", "-o", str(tmp_path / "h.png")]) == 2
    assert "one of its names, not c3, X" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "record"),
    [
        ("heatmap", "trajectories"),
        pytest.param("mean", "trajectories", marks=pytest.mark.validate),
        pytest.param("histogram", "statistics,histogram:X:0:800:40", marks=pytest.mark.validate),
    ],
)
def test_pictures_over_one_swept_rate(tmp_path, kind, record):
    pytest.importorskip("matplotlib")
    path, picture = tmp_path / "a.h5", tmp_path / "a.png"
    sweep = ["--sweep", "c3=log:1e-5:1e-2:5", "--record", record, "--quiet"]
    assert main([*COMMAND, *sweep, "-o", str(path)]) == 0
    assert main(["plot", str(path), "--kind", kind, "--t", "1", "-o", str(picture)]) == 0
    assert picture.stat().st_size > 5000
    assert main(["plot", str(path), "--kind", "trajectories", "-o", str(tmp_path / "b.png")]) == 2


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--sweep", "nope=list:1"], "--sweep nope"),
        (["--sweep", "c3=log:0:1:3"], "above 0"),
        (["--sweep", "c3=list:1", "--sweep", "c3=list:2"], "given twice"),
        (["--sweep", "c3=lin:1:2"], "needs --design"),
        (["--design", "sobol:4"], "needs ranges"),
        (["--design", "sobol", "--sweep", "c3=lin:1:2"], "sobol:N"),
        (["--table", "nope.csv"], "nope.csv"),
        (["--set", "c3=1", "--sweep", "c3=list:1"], "is swept"),
        (["--sweep", "c3=lin:0:1:20000000"], "N must be"),
    ],
)
def test_bad_options_exit_2_and_write_nothing(tmp_path, capsys, options, word):
    path = tmp_path / "a.h5"
    assert main([*COMMAND, *options, "-o", str(path)]) == 2
    error = capsys.readouterr().err
    assert word in error
    assert len(error.splitlines()) == 1
    assert not path.exists()


def test_a_sweep_reruns_from_its_file(tmp_path):
    path, again = tmp_path / "a.h5", tmp_path / "b.h5"
    sweep = ["--sweep", "c3=lin:6.9e-4:1.4e-3:3", "--sweep", "X=list:100,250", "--quiet"]
    assert main([*COMMAND, *sweep, "-o", str(path)]) == 0
    assert main(["run", str(path), "--device", "cpu", "--quiet", "-o", str(again)]) == 0
    with ts.open(path) as first, ts.open(again) as second:
        assert total(second) == total(first)
        assert second.attributes["grid"] == "3,2"


def test_a_table_from_the_command_line(tmp_path, capsys):
    table, path = tmp_path / "points.csv", tmp_path / "a.h5"
    table.write_text("X,c3\n100,1e-3\n200,9e-4\n300,8e-4\n")
    assert main([*COMMAND, "--table", str(table), "-o", str(path)]) == 0
    with ts.open(path) as result:
        assert result.counts("X")[:, 0, 0].tolist() == [100, 200, 300]
    capsys.readouterr()
    table.write_text("X,nope\n1,1\n")
    assert main([*COMMAND, "--table", str(table), "-o", str(tmp_path / "b.h5")]) == 2
    assert f"--table {table} nope: neither a parameter" in capsys.readouterr().err


@pytest.mark.parametrize(("points", "kept"), [(1000, True), (200_000, False)])
def test_the_default_counts_the_samples_of_all_points(points, kept):
    options = Options(
        times=np.linspace(0, 1, 101), n=10, seed=1, sweep=choose_points({"k": np.ones(points)})
    )
    record = prepare(pairs(), options).record
    assert record == Record(trajectories=kept, statistics=not kept, final=not kept)


@pytest.mark.filterwarnings("ignore:the result in memory is unfinished")
@pytest.mark.parametrize("name", ["X", "half"])
def test_points_read_together_are_those_read_one_by_one(monkeypatch, name):
    """Also where trajectories ended early, and blocks are missing."""
    network = ts.Network("n")
    network.add_species("X", 5)
    network.add_parameter("k", 1.0)
    network.add_reaction("-> X", rate="k")
    network.add_rule("half", "X / 2")
    with pytest.warns(UserWarning, match="no trajectory reached .* at 16 of 40 points"):
        result = ts.run(
            network, n=9, times=[0, 1, 2, 4], sweep={"k": np.linspace(1, 30, 40)}, seed=2,
            device="cpu", record="trajectories", block=12, max_steps=60,
        )  # fmt: skip
    assert 20 < (result.status == 3).sum() < 300
    result.data["progress/blocks"][[0, 7, 8, 20]] = 0
    result.data["progress/complete"] = np.uint8(0)
    together = result.quantile(name, [0, 0.3, 1]), result.mean(name), result.variance(name)
    monkeypatch.setattr("tauslab.store.results.columns.READ_BYTES", 1)
    one_by_one = result.quantile(name, [0, 0.3, 1]), result.mean(name), result.variance(name)
    assert np.isnan(together[0]).any()
    assert np.isfinite(together[1]).any()
    for one, other in zip(together, one_by_one, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-14)
