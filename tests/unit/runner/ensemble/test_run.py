"""`tauslab.run` on one rank: what is recorded, what the bits depend on, how a run is resumed."""

from __future__ import annotations

import math
import warnings
from fractions import Fraction

import h5py
import numpy as np
import pytest
from places import TESTS
from sampling import ordinary

import tauslab as ts
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.options.ensemble import Options
from tauslab.options.record import Record
from tauslab.runner.ensemble.entry import run_network
from tauslab.runner.ensemble.kept import kept_runs
from tauslab.store.results.digest import digest_lines

DATA = TESTS / "data"
TIMES = [0.0, 0.5, 1.0, 2.0]


def pairs() -> ts.Network:
    """Immigration and pairwise death, with a recorded observable and a Hill-like feedback."""
    net = ts.Network("pairs")
    net.add_species("X", 10)
    net.add_species("Y", 0)
    net.add_parameter("k", 5.0)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("2 X -> Y", rate=0.1)
    net.add_reaction("Y ->", law="Y * X ^ 2 / (X ^ 2 + 100)")
    net.add_rule("total", "X + 2 * Y")
    return net


@pytest.fixture
def run(device):
    """`tauslab.run` with defaults, on each device in turn."""

    def call(model=None, **options):
        defaults = {"times": TIMES, "seed": 3, "device": device, "method": "ssa"}
        return ts.run(model or pairs(), **{**defaults, **options})

    return call


def lines(result):
    return dict(digest_lines(result, None))


def test_what_is_recorded_agrees_with_the_samples(run):
    """Sums, histograms, last states and means, each computed again from the samples."""
    kinds = "trajectories,statistics,final,histogram:X:0:20:10"
    result = run(n=300, record=kinds)
    x, total = result.counts("X").astype(np.int64), result.data["observables"][()][:, :, 0]
    assert np.array_equal(total, x + 2 * result.counts("Y"))
    assert np.array_equal(result.data["statistics/sum"][()][:, 0], x.sum(axis=0))
    assert np.array_equal(result.data["statistics/n"][()], [300] * 4)
    squares = [int(v) for v in (x**2).sum(axis=0)]
    low, high = (result.data[f"statistics/sumsq_{part}"][()][:, 0] for part in ("lo", "hi"))
    assert [int(a) + (int(b) << 64) for a, b in zip(low, high, strict=True)] == squares
    assert np.array_equal(result.final("X"), x[:, -1])
    cells = result.stored_histogram("X")[0]
    edges = np.linspace(0, 20, 11)
    for k in range(4):
        inside = np.histogram(x[:, k][x[:, k] < 20], edges)[0]
        assert cells[k].tolist() == [0, *inside, (x[:, k] >= 20).sum()]
    alone = run(n=300, record="statistics")
    np.testing.assert_allclose(alone.mean("X"), x.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(alone.variance("X"), x.var(axis=0, ddof=1), rtol=1e-12)
    np.testing.assert_allclose(alone.mean("total"), total.mean(axis=0), rtol=1e-10)
    np.testing.assert_allclose(alone.variance("total"), total.var(axis=0, ddof=1), rtol=1e-8)


def test_bits_do_not_depend_on_blocks_threads_or_storage(run, tmp_path):
    reference = lines(run(n=200))
    assert lines(run(n=200, block=1)) == reference
    assert lines(run(n=200, block=64, device=ts.CPU(threads=1))) == reference
    assert lines(run(n=200, block=200, device=ts.CPU(threads=3))) == reference
    with run(n=200, output=tmp_path / "run.h5") as in_file:
        assert lines(in_file) == reference
    assert lines(run(n=200, seed=4)) != reference


def test_a_longer_run_begins_with_the_shorter_one(run):
    assert np.array_equal(run(n=500).counts()[:200], run(n=200).counts())


def test_a_result_does_not_depend_on_the_sample_times(run):
    few = run(n=100, times=[1.0])
    assert np.array_equal(few.counts()[:, 0], run(n=100).counts()[:, 2])


def test_some_species_give_the_same_lines_as_all(run):
    everything, only_x = lines(run(n=100)), lines(run(n=100, species="X"))
    assert only_x["counts/X"] == everything["counts/X"]
    assert "counts/Y" not in only_x


def test_values_per_trajectory_equal_runs_with_each_value(run):
    """Trajectory i of a varied run is trajectory i of the run with its value for all."""
    k, x0 = np.linspace(1.0, 20.0, 40), np.arange(40.0)
    varied = run(n=40, set={"k": k, "X": x0}).counts()
    for i in (7, 39):
        alone = run(n=40, set={"k": k[i], "X": x0[i]}).counts()
        assert np.array_equal(varied[i], alone[i])
    assert varied[:, 0, 0].tolist() == x0.tolist()


def test_an_initial_amount_follows_a_varied_parameter(run):
    net = pairs()
    net.add_species("Z", "2 * k")
    values = np.array([1.0, 2.5, 4.0])
    counts = run(net, n=3, set={"k": values}).counts("Z")
    assert counts[:, 0].tolist() == [2, 5, 8]


def test_a_fixed_species_may_vary(run):
    net = ts.Network("fed")
    net.add_species("A", 10, fixed=True)
    net.add_species("X", 0)
    net.add_reaction("A -> A + X", rate=1.0)
    varied = run(net, n=4, set={"A": np.array([0.0, 1.0, 100.0, 5.0])})
    assert varied.counts("A")[:, 0].tolist() == [0, 1, 100, 5]
    assert varied.counts("X")[0, -1] == 0
    again = run(net, n=4, set={"A": 100})
    assert np.array_equal(again.counts("X")[2], varied.counts("X")[2])


@pytest.mark.parametrize(
    ("options", "error", "word"),
    [
        ({"set": {"nope": 1.0}}, ts.ConfigError, "nope"),
        ({"set": {"X": -1.0}}, ts.ConfigError, "X cannot be -1"),
        ({"set": {"k": -1.0}}, ts.ModelError, "R1"),
        ({"n": 2, "set": {"k": np.array([1.0, -2.0])}}, ts.ModelError, "trajectory 1"),
        ({"species": "Q"}, ts.ConfigError, "Q"),
        ({"record": "histogram:Q:0:1:2"}, ts.ConfigError, "Q"),
        ({"output": "/nowhere/out.h5"}, ts.ConfigError, "/nowhere"),
    ],
)
def test_bad_input(run, options, error, word):
    with pytest.raises(error, match=word) as caught:
        run(**options)
    assert "\n" not in str(caught.value)


def test_amounts_that_are_not_whole_are_rounded_with_one_warning(run):
    net = pairs()
    with pytest.warns(UserWarning, match=r"rounded: X") as caught:
        result = run(net, n=5, set={"X": 2.5})
    assert len(caught) == 1
    assert (result.counts("X")[:, 0] == 2).all()  # half to even


def test_a_fixed_species_keeps_an_amount_that_is_not_whole(run):
    """X is Poisson with mean 20 E t; a mean is 4.5 deviations off once in 147,000."""
    net = ts.Network("fixed")
    net.add_species("E", 0.4, fixed=True)
    net.add_species("X", 0)
    net.add_reaction("E -> E + X", rate=20.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        one = run(net, n=400)
        three = run(net, n=400, sweep={"E": [0.4, 1.0, 2.6]})
    assert one.species == ("X",)
    assert (np.asarray(one.mean("E")) == 0.4).all()
    means = np.vstack([one.mean("X"), three.mean("X")])
    want = 20 * np.outer([0.4, 0.4, 1.0, 2.6], TIMES)
    assert (np.abs(means - want) <= 4.5 * np.sqrt(want / 400)).all()
    assert run(net, n=5, set={"E": 2}).species == ("E", "X")  # a count, as ever
    leaps = run(net, n=400, method="tau", set={"E": 2.6})
    assert np.abs(leaps.mean("X") - want[3]).max() <= 4.5 * np.sqrt(want[3].max() / 400)


def test_a_file_in_which_a_fixed_amount_was_rounded_is_not_resumed(run, tmp_path, monkeypatch):
    net = ts.Network("fixed")
    net.add_species("E", 2.6, fixed=True)
    net.add_species("X", 0)
    net.add_reaction("-> X", law="5 * E")
    old, new = tmp_path / "old.h5", tmp_path / "new.h5"
    with monkeypatch.context() as before:
        before.setattr("tauslab.runner.ensemble.task._held_fractions", lambda *_: [])
        with pytest.warns(UserWarning, match="rounded: E"):
            run(net, n=5, species=["X"], output=old).close()
    kept_runs.forget()
    run(net, n=5, species=["X"], output=new).close()
    assert run(net, n=5, species=["X"], output=new, resume=True).complete
    for again in ({"resume": True, "n": 5}, {"append": 5}):
        with pytest.raises(
            ts.ConfigError, match="fixed amounts that are not rounded is empty, not E"
        ):
            run(net, species=["X"], output=old, **again)


def test_default_record_keeps_small_samples(run, monkeypatch):
    assert "counts" in run(n=10).data
    monkeypatch.setattr("tauslab.runner.ensemble.task.DEFAULT_TRAJECTORY_BYTES", 100)
    large = run(n=10)
    assert "counts" not in large.data
    assert {"statistics/sum", "final"} <= set(large.data)


def test_a_seed_is_drawn_and_stored(run):
    first, second = run(n=50, seed=None), run(n=50, seed=None)
    assert first.seed != second.seed
    assert lines(run(n=50, seed=first.seed)) == lines(first)


@pytest.mark.filterwarnings("ignore:.*trajectories ended early, so that means")
def test_bad_trajectories_do_not_cost_the_others(run):
    """One of the trajectories would pass 2^31 - 1; statistics count it up to its last sample."""
    net = ts.Network("growth")
    net.add_species("X", 0)
    net.add_reaction("X -> 2 X", rate=1.0)
    start = np.array([0.0, 5.0, 2.0**31 - 2])
    result = run(net, n=3, times=[0.0, 0.1], set={"X": start}, record="trajectories,statistics")
    assert result.status.tolist() == [1, 0, 2]
    assert result.counts("X")[2].tolist() == [2**31 - 2, -1]
    assert result.data["statistics/n"][()].tolist() == [3, 2]
    assert result.data["statistics/sum"][()][1, 0] == result.counts("X")[:2, 1].sum()


@pytest.mark.parametrize("record", ["trajectories", "statistics,final,histogram:X:0:20:10"])
@pytest.mark.usefixtures("one_block_launches")
def test_a_stopped_run_is_resumed_to_the_same_bits(run, device, tmp_path, record):
    whole = lines(run(n=400, record=record))
    path = tmp_path / "run.h5"
    options = Options(
        times=np.array(TIMES), n=400, seed=3, device=device, block=20, output=path, quiet=True,
        record=Record.parse(record),
    )  # fmt: skip
    requested = iter([False, False, True])
    with pytest.raises(ts.StoppedEarly, match="resume=True"):
        run_network(pairs(), options, Communicator(), stop=lambda: next(requested, True))
    with ts.open(path) as unfinished, run(n=400) as every:
        assert not unfinished.complete
        done = np.repeat(unfinished.completed_blocks, 20)
        assert 0 < done.sum() < 400
        there = every.counts()[done]
        with pytest.warns(UserWarning, match=f"{done.sum() // 20} of 20 blocks"):
            assert unfinished.mean("X").tolist() == there[:, :, 0].mean(axis=0).tolist()
        assert np.array_equal(unfinished.final("X"), there[:, -1, 0])
        cells, edges = unfinished.histogram("X", TIMES[-1])
        assert cells.tolist() == np.histogram(there[:, -1, 0], edges)[0].tolist()
    with run(n=400, record=record, output=path, resume=True) as resumed:
        assert resumed.complete
        assert lines(resumed) == whole
    with run(n=400, record=record, output=path, resume=True) as finished:  # nothing left to do
        assert lines(finished) == whole
    with pytest.raises(ts.ConfigError, match="seed"):
        run(n=400, record=record, output=path, resume=True, seed=4)


def test_the_file_reruns_from_itself(run, tmp_path):
    path = tmp_path / "run.h5"
    with run(n=60, output=path) as result:
        first = lines(result)
    assert lines(run(path, n=60)) == first


def test_the_profile_tells_where_the_time_went(run, tmp_path):
    with run(n=60, output=tmp_path / "run.h5") as result:
        profile = {k: result.data[f"profile/{k}"][0] for k in ("events", "launches", "wall")}
    assert profile["events"] > 0
    assert profile["launches"] > 0
    assert 0 < profile["wall"] < 60


def test_sbml_with_rules_and_hill_terms(device, tmp_path):
    """A model file from disk to disk, and what h5py sees in it."""
    path = tmp_path / "toggle.h5"
    ts.run(DATA / "sbml" / "toggle_switch.xml", n=20, t_end=5.0, points=6, seed=1, device=device,
           output=path).close()  # fmt: skip
    with h5py.File(path) as file:
        assert file["counts"].shape == (20, 6, len(file["species"]))
        assert (file["counts"][()] >= 0).all()
        assert file.attrs["format"] == b"tauslab"
        assert file["model/source"][()].startswith(b"<?xml")
        assert file["counts"].dims[1].keys() == ["time"]


@pytest.mark.gpu
@pytest.mark.parametrize(
    ("selector", "team"), [("linear", 0), ("tree", 1), ("pdm", 32), ("tree", 8), ("rssa", 32)]
)
@pytest.mark.parametrize("model", ["schlogl", "toggle_switch", "vilar_oscillator", "lac_two_state"])
def test_cuda_gives_the_bits_of_the_cpu(model, selector, team):
    """Selectors, teams, every kind of record; `scripts/gpu_check` does more of the same."""
    actual = [
        lines(
            ts.run(DATA / "sbml" / f"{model}.xml", n=300, t_end=2.0, points=9, seed=8, device=name,
                   method=ts.SSA(selector=selector, team=team),
                   record="trajectories,statistics,final")
        )
        for name in ("cpu", "cuda")
    ]  # fmt: skip
    assert actual[0] == actual[1]


@pytest.mark.usefixtures("one_block_launches")
def test_an_unfinished_run_gives_the_trajectories_that_are_there(tmp_path, monkeypatch, run):
    """Also in a large file, whose rows are not filled beforehand."""
    monkeypatch.setattr("tauslab.store.format.schema.PREFILL_BYTES", 0)
    path = tmp_path / "run.h5"
    options = Options(
        times=np.array(TIMES), n=100, seed=3, device="cpu", block=10, output=path, quiet=True,
    )  # fmt: skip
    requested = iter([False, True])
    with pytest.raises(ts.StoppedEarly):
        run_network(pairs(), options, Communicator(), stop=lambda: next(requested, True))
    with ts.open(path) as unfinished, pytest.warns(UserWarning, match="unfinished"):
        counts = unfinished.counts("X")
    done = np.repeat(unfinished.completed_blocks, 10)
    assert 0 < done.sum() < 100
    assert np.array_equal(counts, run(n=100).counts("X")[done])


def test_a_resumed_run_without_a_seed_goes_on_with_the_seed_of_the_file(run, tmp_path):
    path = tmp_path / "a.h5"
    with run(n=20, output=path, seed=None) as first:
        seed = first.seed
    with run(n=20, output=path, seed=None, resume=True) as again:
        assert again.seed == seed


def rare(law: str) -> ts.Network:
    """One trajectory in 500 makes an X, and none of the first ones does."""
    net = ts.Network("rare")
    net.add_species("X", 0)
    net.add_species("S", 1)
    net.add_reaction("S -> S + X", rate=0.002)
    net.add_rule("O", law)
    return net


@pytest.mark.parametrize(
    "law",
    ordinary(
        ["exp(X * 15)", "X * 1e-9", "1e300 * X", "1e9 + 1e-6 * X", "-X"],
        "1e300 * X", "1e9 + 1e-6 * X",
    ),
)  # fmt: skip
def test_statistics_hold_what_the_first_trajectories_do_not_show(run, law):
    """No scale is guessed: sums are those of the samples, however large or small these are."""
    options = {"n": 4000, "times": [0.0, 1.0], "seed": 2}
    samples = run(rare(law), **options, record="trajectories")
    values = samples.data["observables"][()][:, :, 0]
    assert len(set(values[:32].ravel())) == 1 < len(set(values[:, 1]))
    result = run(rare(law), **options, record="statistics")
    assert (result.data["statistics/observables/n"][()] == 4000).all()
    assert result.mean("O").tolist() == [math.fsum(column) / 4000 for column in values.T]
    units = [[int(Fraction(v) * 2**1074) for v in column] for column in values.T]
    exact = [
        Fraction(4000 * sum(u * u for u in c) - sum(c) ** 2, 4000 * 3999 << 2148) for c in units
    ]
    limit = Fraction(np.finfo(float).max)
    assert result.variance("O").tolist() == [float(v) if v < limit else math.inf for v in exact]
    assert samples.mean("O").tolist() == result.mean("O").tolist()
    assert samples.variance("O").tolist() == result.variance("O").tolist()


def test_infinite_samples_are_reported(run):
    options = {"n": 4000, "times": [0.0, 1.0], "seed": 2, "record": "statistics"}
    with pytest.warns(UserWarning, match=r"statistics of O leave out \d+ samples") as caught:
        result = run(rare("exp(X * 1000)"), **options)
    left_out = 4000 - int(result.data["statistics/observables/n"][1, 0])
    assert left_out == result.data["statistics/observables/infinite"][1, 0] > 0
    assert f"{left_out} samples that are not finite ({left_out} infinite)" in str(caught[0].message)
    assert result.mean("O").tolist() == [1.0, 1.0]


def test_a_mean_of_samples_that_cancel_is_reported(run):
    """1e308 and -1e308 of one trajectory each, among small ones, whose digits are out of reach."""
    law = "1 + X * (2.5 - 1.5 * X) * 1e308"
    net = ts.Network("cancel")
    net.add_species("X", 0)
    net.add_species("S", 1)
    net.add_rule("O", law)
    values = np.zeros(1000, np.int32)
    values[[400, 800]] = 1, 2
    options = {"n": 1000, "times": [0.0], "record": "statistics", "set": {"X": values}}
    with pytest.warns(UserWarning, match="the mean of O .* cancel"):
        run(net, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        run(net, **{**options, "set": {"X": values // 2}})


def test_a_run_with_values_per_trajectory_does_not_rerun_as_another(tmp_path):
    """The file does not hold the values, so its model is refused by name."""
    path = tmp_path / "varied.h5"
    options = {"n": 3, "times": TIMES, "seed": 1, "device": "cpu"}
    ts.run(pairs(), set={"k": np.array([1.0, 2.0, 3.0])}, output=path, **options).close()
    with pytest.raises(ts.ModelError, match="values per trajectory"):
        ts.run(path, **options)


def test_statistics_of_observables_alone_are_refused():
    with pytest.raises(ts.ConfigError, match="not observables only"):
        ts.run(pairs(), n=5, times=TIMES, species="total", record="statistics", device="cpu")


def test_a_model_without_species_is_refused():
    with pytest.raises(ts.ModelError, match="no species"):
        ts.run(ts.Network("empty"), n=5, times=TIMES, device="cpu")


@pytest.mark.parametrize("options", [{"n": 2.5}, {"seed": "x"}, {"seed": 1.5}, {"record": []}])
def test_values_of_a_wrong_type_are_refused_in_one_sentence(options):
    with pytest.raises(ts.ConfigError):
        ts.run(pairs(), **{"times": TIMES, "device": "cpu", **options})
