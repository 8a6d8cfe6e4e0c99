"""Runs that record summaries: in the file, in memory, under sweeps, resumed, and refused."""

from __future__ import annotations

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.base.errors import StoppedEarly
from tauslab.cli.main import main
from tauslab.decomposition.ranks.mpi import Communicator
from tauslab.options.ensemble import Options
from tauslab.options.record import Record, SummarySpec
from tauslab.runner.ensemble.entry import run_network
from tauslab.store.results.digest import digest_lines
from tauslab.store.results.info import describe

ALL = (
    "amplitude:X:5", "period:X", "first-passage:X:20", "first-passage:X:90:down",
    "time-above:X:30", "extinction:X", "mean:twice:2:6", "maximum:Y", "minimum:X:0.5",
)  # fmt: skip
RECORD = ",".join(f"summary:{name}" for name in ALL)


def decay() -> ts.Network:
    """100 X that turn into Y one by one, at rate k; twice X is an observable."""
    net = ts.Network("decay")
    net.add_species("X", 100)
    net.add_species("Y", 0)
    net.add_species("Z", 5)
    net.add_parameter("k", 1.0)
    net.add_reaction("X -> Y", rate="k")
    net.add_rule("twice", "2 * X", recorded=True)
    return net


def run(**options):
    settings = {"n": 40, "t_end": 10.0, "points": 101, "seed": 3, "device": ts.CPU(threads=1)}
    return ts.run(decay(), **{**settings, **options})


def lines(result):
    return dict(digest_lines(result))


def summaries(result):
    return {name: value for name, value in lines(result).items() if name.startswith("summary/")}


@pytest.fixture(scope="module")
def full():
    return run(record=f"trajectories,statistics,final,{RECORD}")


def test_numbers_agree_with_the_recorded_samples(full):
    x, y, times = full.counts("X"), full.counts("Y"), full.times
    assert full.summaries == tuple(sorted(ALL))
    passed = times[(x <= 20).argmax(axis=1)]
    assert np.array_equal(full.summary("first-passage:X:20"), passed)
    assert np.array_equal(full.summary("first-passage:X:90:down"), times[(x <= 90).argmax(axis=1)])
    gone = np.where((x == 0).any(axis=1), times[(x == 0).argmax(axis=1)], np.nan)
    assert np.array_equal(full.summary("extinction"), gone, equal_nan=True)
    assert np.array_equal(full.summary("maximum"), y.max(axis=1))
    assert np.array_equal(full.summary("minimum:X"), x[:, 5:].min(axis=1))
    above = ((x[:, :-1] > 30) * np.diff(times)).sum(axis=1)
    np.testing.assert_allclose(full.summary("time-above"), above)
    window = 2 * x[:, 20:61].mean(axis=1)
    np.testing.assert_allclose(full.summary("mean:twice:2:6"), window)
    assert (full.summary("amplitude") == 0).all()
    assert np.isnan(full.summary("period")).all()


def test_windows_end_at_the_sample_times_that_are_meant_and_cut_the_time_spent():
    """Sample 3 is at 0.30000000000000004; 0.25 and 0.72 lie between two samples."""
    names = "mean:X:0:0.3", "time-above:X:60:0:0.3", "time-above:X:60:0.25:0.72"
    record = ",".join(["trajectories", *(f"summary:{name}" for name in names)])
    result = run(t_end=1.0, points=11, record=record)
    x, times = result.counts("X"), result.times
    assert times[3] > 0.3
    np.testing.assert_allclose(result.summary(names[0]), x[:, :4].mean(axis=1))
    for name, ends in zip(names[1:], [(0, 0.3), (0.25, 0.72)], strict=True):
        spent = (x[:, :-1] > 60) * np.diff(np.clip(times, *ends))
        np.testing.assert_allclose(result.summary(name), spent.sum(axis=1), rtol=1e-12)


def test_moments_leave_out_what_is_no_number(full):
    gone = full.summary("extinction")
    n, mean, std = full.summary_moments("extinction")
    assert 0 < n == np.isfinite(gone).sum() < 41
    assert mean == pytest.approx(np.nanmean(gone))
    assert std == pytest.approx(np.nanstd(gone, ddof=1))
    n, mean, std = full.summary_moments("period")
    assert n == 0
    assert np.isnan(mean)
    assert np.isnan(std)


def test_nothing_else_needs_to_be_recorded(full, tmp_path):
    alone = run(record=RECORD, output=tmp_path / "a.h5")
    assert "counts" not in alone.data
    assert alone.species == ("X", "Y"), "only what summaries look at is sampled"
    assert alone.observables == ("twice",)
    assert summaries(alone) == summaries(full)
    assert len(summaries(alone)) == len(ALL)


def test_blocks_and_storage_do_not_change_the_bits(full, tmp_path):
    small = run(record=RECORD, block=7, output=tmp_path / "a.h5")
    assert summaries(small) == summaries(full)
    again = ts.open(tmp_path / "a.h5")
    assert np.array_equal(again.summary("maximum"), full.summary("maximum"))
    assert any("summary amplitude:X:5" in line for line in describe(again))


@pytest.mark.usefixtures("one_block_launches")
def test_an_interrupted_run_goes_on_to_the_same_bits(full, tmp_path):
    path = tmp_path / "a.h5"
    options = Options(
        times=np.linspace(0, 10, 101), n=40, seed=3, device="cpu", threads=1, block=4,
        record=Record.parse(RECORD), output=path, quiet=True,
    )  # fmt: skip
    requested = iter([False, True])
    with pytest.raises(StoppedEarly):
        run_network(decay(), options, Communicator(), lambda: next(requested, True))
    with ts.open(path) as broken:
        left = int(broken.completed_blocks.sum())
        assert 0 < left < 10
        with pytest.warns(UserWarning, match=f"{left} of 10 blocks"):
            assert np.array_equal(broken.summary("maximum"), full.summary("maximum")[: 4 * left])
    done = run(record=RECORD, block=4, output=path, resume=True)
    assert summaries(done) == summaries(full)
    with pytest.raises(ts.ConfigError, match="its record is"):
        run(record="summary:mean:X", block=4, output=path, resume=True)


def test_points_of_a_sweep_come_first(tmp_path):
    rates = [0.5, 1.0, 4.0]
    swept = run(sweep={"k": rates}, record=RECORD, n=30, output=tmp_path / "a.h5")
    memory = run(sweep={"k": rates}, record=RECORD, n=30, block=11)
    assert lines(swept) == lines(memory)
    assert swept.summary("first-passage:X:20").shape == (3, 30)
    n, mean, std = swept.summary_moments("first-passage:X:20")
    assert n.tolist() == [30, 30, 30]
    # The mean time until 80 of 100 have gone is (1 / 100 + ... + 1 / 21) / k; its standard
    # deviation is below 0.12 / k, and a sample comes 0.05 later on average.
    expected = (1 / np.arange(21, 101)).sum() / np.array(rates) + 0.05
    assert (np.abs(mean - expected) < 5 * 0.12 / np.array(rates) / np.sqrt(30) + 0.01).all()
    assert (std < 0.25 / np.array(rates)).all()


def test_other_libraries_see_summaries(tmp_path):
    swept = run(sweep={"k": [1.0, 2.0]}, record=RECORD, n=8, output=tmp_path / "a.h5")
    memory = run(sweep={"k": [1.0, 2.0]}, record=RECORD, n=8)
    for result in (swept, memory):
        with result.to_xarray() as dataset:
            array = dataset["first-passage:X:20"]
            assert array.dims == ("k", "trajectory")
            assert np.array_equal(array.values, result.summary("first-passage:X:20"))
        lazy = result.to_dask("summary/maximum:Y")
        assert np.array_equal(lazy.compute(), result.summary("maximum"))


def test_a_digest_of_one_species_has_its_summaries(full):
    names = [name for name, _ in digest_lines(full, ["Y"])]
    assert [name for name in names if name.startswith("summary/")] == ["summary/maximum:Y"]


def test_an_early_end_is_no_number():
    with pytest.warns(
        UserWarning, match="no trajectory reached the last .* ended with status step_limit"
    ):
        stopped = run(record=RECORD, max_steps=50)
    assert (stopped.status == 3).all()
    assert np.isfinite(stopped.summary("first-passage:X:90:down")).all(), "it came before the end"
    for name in ("maximum", "first-passage:X:20", "amplitude", "time-above", "extinction"):
        assert np.isnan(stopped.summary(name)).all(), name


def test_tau_leaping_and_table_kernels_give_summaries(data):
    tau = run(method="tau", record="trajectories,summary:maximum:Y")
    assert np.array_equal(tau.summary("maximum"), tau.counts("Y").max(axis=1))
    large = ts.run(
        data / "sbml" / "ras_camp_pka.xml", n=2, t_end=1.0, points=5, seed=1, device="cpu",
        record="summary:maximum:cAMP,summary:minimum:cAMP", max_steps=10**6,
    )  # fmt: skip
    assert large.species == ("cAMP",)
    assert (large.summary("maximum") >= large.summary("minimum")).all()


@pytest.mark.parametrize("method", ordinary(["ssa", "tau"], "ssa"))
def test_devices_and_threads_agree(device, method, full):
    """Counts, observables alone, and a sweep: the bits of one CPU thread."""
    for record, more in (
        (RECORD, {}),
        ("summary:mean:twice:2:6", {}),
        (RECORD, {"sweep": {"k": [0.5, 2.0, 8.0]}, "n": 25}),
    ):
        options = {"record": record, "method": method, **more}
        local = run(
            **{**options, "device": ts.CPU(threads=2) if device == "cpu" else device, "block": 3}
        )
        assert lines(local) == lines(run(**options))
    if method == "ssa":
        assert summaries(run(record=RECORD, device=device)) == summaries(full)


def test_a_file_reruns_from_itself(tmp_path, capsys):
    path, again = tmp_path / "a.h5", tmp_path / "b.h5"
    first = run(record=RECORD, output=path)
    assert main(["run", str(path), "-o", str(again), "--device", "cpu"]) == 0
    assert "extinction:X: mean" in capsys.readouterr().out
    with ts.open(again) as second:
        assert lines(second) == lines(first)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("amplitude:cAMP:5e2", "amplitude:cAMP:500"),
        ("summary:first-passage:X:0.10:up", "first-passage:X:0.1:up"),
        ("time-above:X:1e-7:2", "time-above:X:1e-07:2"),
        ("extinction:X", "extinction:X"),
    ],
)
def test_names_have_a_normal_form(text, name):
    assert SummarySpec.parse(text).name == name
    assert SummarySpec.parse(name) == SummarySpec.parse(text)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        ("summary:speed:X", ["'speed'", "amplitude"]),
        ("summary:amplitude", ["amplitude:SPECIES[:AFTER]"]),
        ("summary:first-passage:X", ["LEVEL"]),
        ("summary:first-passage:X:1:left", ["up|down"]),
        ("summary:first-passage:X:many", ["finite"]),
        ("summary:time-above:X:nan", ["finite"]),
        ("summary:extinction:X:1", ["extinction:SPECIES"]),
        ("summary:mean:Q", ["Q is neither", "it has X"]),
        ("statistics,summary:mean:Q", ["Q is not a recorded", "X"]),
        ("summary:amplitude:X:9.5", ["6 sample times", "16"]),
        ("summary:mean:X:3:2", ["0 sample times"]),
        ("summary:mean:X,summary:mean:X", ["twice"]),
        ("summaries", ["summary:KIND"]),
    ],
)
def test_bad_input_is_one_sentence(record, words, tmp_path, capsys):
    path, out = tmp_path / "decay.toml", tmp_path / "out.h5"
    path.write_text(
        '[species]\nX = 100\n[parameters]\nk = 1.0\n[[reactions]]\nequation = "X ->"\nrate = "k"\n'
    )
    arguments = ["run", str(path), "--t-end", "10", "-n", "4", "--device", "cpu", "-o", str(out)]
    assert main([*arguments, "--record", record]) == 2
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert all(word in message for word in words), message
    assert not out.exists()


def test_an_oscillation_needs_even_times():
    with pytest.raises(ts.ConfigError, match="evenly spaced"):
        run(t_end=None, points=None, times=np.arange(30.0) ** 2, record="summary:period:X")


def test_a_name_that_fits_several_is_refused(full):
    for name in ("first-passage", "nothing"):
        with pytest.raises(ts.ConfigError, match="it has amplitude:X:5"):
            full.summary(name)
    with pytest.raises(ts.ConfigError, match="it has none"):
        run(record="final").summary("mean")
