"""`tauslab.run` with ordinary differential equations: what is recorded, swept, drawn, refused."""

from __future__ import annotations

import numpy as np
import pytest

import tauslab as ts
from tauslab.base.errors import ConfigError
from tauslab.cli.main import main
from tauslab.options.sampling import Sampling
from tauslab.store.results.digest import digest_lines, digest_total
from tauslab.store.results.open import open_result

TIMES = [0.0, 0.5, 2.0]


def decay() -> ts.Network:
    net = ts.Network("decay")
    net.add_parameter("k", 1.0)
    net.add_parameter("start", 8.0)
    net.add_species("X", "start")
    net.add_species("Y", 0.0)
    net.add_reaction("X -> Y", rate="k")
    net.add_rule("share", "Y / (X + Y)")
    return net


def run(model=None, *, ode=None, **options):
    """By rk4 with 50 steps, or with other settings of ``ode``."""
    method = ts.ODE(**({"substeps": 50} if ode is None else ode))
    defaults = {"n": 3, "times": TIMES, "seed": 2, "device": "cpu", "method": method}
    return ts.run(model or decay(), **{**defaults, **options})


def exact(k, start=8.0):
    return start * np.exp(-np.multiply.outer(np.asarray(k), TIMES))


def total(result):
    return digest_total(digest_lines(result))


def test_amounts_take_the_place_of_counts():
    result = run(record="trajectories,statistics,final")
    assert result.amounts("X") == pytest.approx(np.tile(exact(1.0), (3, 1)), rel=1e-7)
    assert "counts" not in result.data
    assert result.final("X") == pytest.approx(np.full(3, exact(1.0)[-1]), rel=1e-7)
    assert result.mean("X") == pytest.approx(exact(1.0), rel=1e-6)
    assert result.std("X") == pytest.approx(0, abs=1e-6)
    assert result.mean("share") == pytest.approx(1 - exact(1.0) / 8, abs=1e-6)
    dataset = result.to_xarray()
    assert dataset["amounts"].sel(species="Y").shape == (3, 3)
    assert result.status.tolist() == [0, 0, 0]


def test_a_decay_to_nothing_keeps_its_statistics():
    """Amounts fall by 13 orders of magnitude: every sample time has the digits of its own."""
    net = ts.Network("decay")
    net.add_parameter("k", 1.0)
    net.add_species("X", 1e6)
    net.add_species("Y", 0.0)
    net.add_reaction("X -> Y", rate="k")
    options = {"n": 300, "times": [1.0, 10.0, 20.0, 25.0, 30.0], "sample": "k=uniform(0.9,1.1)"}
    drawn = {"record": "trajectories,sampled", "ode": {"substeps": 2000}}
    samples = run(net, **options, **drawn)
    alone = run(net, **options, record="statistics", method=ts.ODE(substeps=2000))
    for name in ("X", "Y"):
        assert alone.mean(name).tolist() == samples.mean(name).tolist()
        assert alone.variance(name).tolist() == samples.variance(name).tolist()
    k = samples.data["summary/sampled:k"][()]
    law = 1e6 * np.exp(-np.multiply.outer(k, options["times"]))
    assert alone.mean("X") == pytest.approx(law.mean(axis=0), rel=1e-5)
    assert alone.std("X") == pytest.approx(law.std(axis=0, ddof=1), rel=1e-5)


def test_statistics_of_a_file_are_those_of_its_samples(tmp_path):
    draw = {"sample": "k=uniform(0.5,2)", "n": 40}
    kept = run(**draw, record="trajectories,statistics", output=tmp_path / "kept.h5")
    alone = run(**draw, record="statistics")
    assert np.array_equal(kept.mean("X"), alone.mean("X"))
    samples = kept.amounts("X")
    assert kept.mean("X") == pytest.approx(samples.mean(axis=0), rel=1e-6)
    assert kept.std("X")[1:] == pytest.approx(samples.std(axis=0, ddof=1)[1:], rel=1e-5)
    assert kept.sem("X") == pytest.approx(kept.std("X") / np.sqrt(40))
    from_samples = run(**draw, record="trajectories").mean("X")
    assert from_samples == pytest.approx(kept.mean("X"), rel=1e-6)


def test_sweeps_and_values_per_trajectory():
    swept = run(sweep={"k": [0.5, 1.0, 2.0], "start": [8.0, 4.0]}, n=2)
    assert swept.amounts("X").shape == (6, 2, 3)
    for point in range(6):
        k, start = swept.points["k"][point], swept.points["start"][point]
        assert swept.amounts("X")[point, 1] == pytest.approx(exact(k, start), rel=1e-6)
    each = run(set={"k": np.array([0.1, 0.2, 0.4]), "X": np.array([1.5, 2.5, 3.5])})
    expected = exact([0.1, 0.2, 0.4], 1.0) * np.array([[1.5], [2.5], [3.5]])
    assert each.amounts("X") == pytest.approx(expected, rel=1e-7)


def test_what_is_drawn_is_recorded_and_depends_on_the_trajectory_alone():
    forms = ["k=loguniform(0.1,10)", "start=normal(8,0.5)", "Y=lognormal(median=2,sigma=0.3)"]
    result = run(sample=forms, n=400, record="trajectories,sampled")
    k, start, y = (result.summary(f"sampled:{name}") for name in ("k", "start", "Y"))
    assert result.amounts("X")[:, 0] == pytest.approx(start)
    assert result.amounts("Y")[:, 0] == pytest.approx(y)
    assert result.amounts("X")[:, 2] == pytest.approx(start * np.exp(-2 * k), rel=1e-4, abs=1e-6)
    # Means within 5 standard errors: a false alarm in 1e-6 of seeds.
    for values, mean, sd in (
        (np.log(k), 0.0, np.log(100) / np.sqrt(12)),
        (start, 8.0, 0.5),
        (np.log(y), np.log(2), 0.3),
    ):
        assert abs(values.mean() - mean) < 5 * sd / 20
        assert values.std() == pytest.approx(sd, rel=0.2)
    assert k.min() >= 0.1
    assert k.max() <= 10
    fewer = run(sample=forms, n=7, record="trajectories,sampled", block=2)
    assert np.array_equal(fewer.amounts(), result.amounts()[:7])


@pytest.mark.filterwarnings("always:.*lognormal was the median")
def test_a_file_from_when_lognormal_began_by_the_median_keeps_that(tmp_path, capsys, monkeypatch):
    """It runs again to the same bits, and is resumed by the words that now mean the same."""
    model, old = tmp_path / "model.toml", tmp_path / "old.h5"
    decay().write(model)
    options = ["--method", "ode", "--ode-solver", "rk4", "--substeps", "50", "-n", "3"]
    options += ["--t-end", "2", "--points", "3", "--seed", "2", "--device", "cpu", "--quiet"]
    common = ["run", str(model), *options, "-o", str(old), "--sample"]
    median, positional = "k=lognormal(median=2,sigma=0.3)", "k=lognormal(2,0.3)"
    with monkeypatch.context() as before:
        before.setattr("tauslab.options.sampling._as_stored", lambda *_: positional)
        assert main([*common, median]) == 0
    new = tmp_path / "new.h5"
    assert main(["run", str(old), "-o", str(new), "--device", "cpu", "--quiet"]) == 0
    assert f"again with that: {median}" in capsys.readouterr().err
    with open_result(old) as one, open_result(new) as other:
        assert total(one) == total(other)
        assert other.attributes["sample"] == median
    assert main([*common, positional, "--resume"]) == 2
    message = capsys.readouterr().err
    assert "began by the median" in message
    assert median in message
    assert main([*common, median, "--resume"]) == 0


def test_a_table_gives_whole_rows(tmp_path):
    table = tmp_path / "posterior.csv"
    table.write_text("k,other,start\n0.5,0,4\n1.5,0,6\n2.5,0,9\n")
    result = run(sample=f"k,start=table({table})", n=60, record="sampled,final")
    rows = set(zip(*(result.summary(f"sampled:{n}") for n in ("k", "start")), strict=True))
    assert rows == {(0.5, 4.0), (1.5, 6.0), (2.5, 9.0)}


def test_a_file_reruns_from_itself_and_resumes(tmp_path, monkeypatch):
    path = tmp_path / "out.h5"
    run(sample="k=uniform(0.5,2)", n=20, output=path, record="trajectories,statistics,sampled")
    arguments = ["run", str(path), "--device", "cpu", "--quiet", "-o", str(tmp_path / "again.h5")]
    assert main(arguments) == 0
    with open_result(path) as one, open_result(tmp_path / "again.h5") as two:
        assert total(one) == total(two)
        assert two.attributes["substeps"] == 50
    monkeypatch.chdir(tmp_path)
    assert main([*arguments[:-1], str(path), "--resume"]) == 0
    message = [text for text in arguments[:-1] if text != "--quiet"]
    assert main([*message, str(path), "--resume"]) == 0
    with pytest.raises(ConfigError, match="substeps"):
        run(sample="k=uniform(0.5,2)", n=20, output=path, resume=True, method=ts.ODE(substeps=51),
            record="trajectories,statistics,sampled")  # fmt: skip


def test_blocks_and_threads_do_not_change_the_bits(tmp_path):
    actual = {
        total(run(n=30, sample="k=uniform(0,1)", block=block, device=ts.CPU(threads=threads),
                  output=tmp_path / f"{block}.h5"))
        for block, threads in ((1, 1), (7, 2), (30, 1))
    }  # fmt: skip
    assert len(actual) == 1


@pytest.mark.filterwarnings("ignore:.*trajectories ended early, so that means")
def test_a_trajectory_that_fails_is_counted_and_left_out(capsys, tmp_path):
    net = ts.Network("burst")
    net.add_parameter("k", 1.0)
    net.add_species("X", 1.0)
    net.add_rate("X", "k * X * X")
    (tmp_path / "table.csv").write_text("k\n0.1\n1.0\n")
    result = run(net, sample=f"k=table({tmp_path / 'table.csv'})", n=50, record="statistics")
    ended = np.bincount(result.status, minlength=5)
    assert ended[4] > 5
    assert ended[0] > 5
    assert result.data["statistics/n"][()].tolist() == [50, 50, ended[0]]
    assert result.mean("X")[2] == pytest.approx(1 / 0.8, rel=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sample": "k=uniform(2,1)"}, "low is 2, and must be below high, 1"),
        ({"sample": "k=uniform(1,1)"}, "low is 1, and must be below"),
        ({"sample": "k=loguniform(0,1)"}, "low is 0, and must be above 0"),
        ({"sample": "k=gamma(0,1)"}, "gamma is not known"),
        ({"sample": "k=normal(1)"}, "normal needs sd"),
        ({"sample": "k=normal(1,-1)"}, "sd is -1, and must be above 0"),
        ({"sample": "k"}, "write NAME=DISTRIBUTION"),
        (
            {"sample": "q=uniform(0,1)"},
            'sample\\["q"\\]: neither a parameter nor a species of decay',
        ),
        ({"sample": ["k=uniform(0,1)", "k=normal(0,1)"]}, "gives k twice"),
        ({"sample": "k=uniform(0,1)", "set": {"k": 2.0}}, "drawn by sample= and also set"),
        ({"sample": "k=table(nowhere.csv)"}, "cannot be read"),
        ({"sample": "k=uniform(0,1)", "method": "ssa"}, 'sample= needs method="ode"'),
        ({"ode": {"substeps": 0}}, "substeps=0 is not allowed"),
        ({"ode": {"rtol": 0.0}}, "rtol=0 is not allowed"),
        ({"ode": {"solver": "dopri5", "substeps": 9}}, 'substeps= is for solver="rk4"'),
        ({"ode": {"substeps": 9, "rtol": 1e-3}}, "rtol= and atol= need steps that adapt"),
        ({"ode": {"precision": "half"}}, "precision='half' is not known"),
        ({"ode": {"solver": "euler"}}, "solver='euler' is not known"),
        ({"record": "histogram:X:0:8:4"}, "histograms are of counts"),
        ({"record": "sampled"}, "needs sample="),
        ({"species": ["Q"]}, 'species="Q": not a species'),
    ],
)
def test_what_is_not_allowed_is_said(options, message):
    with pytest.raises(ConfigError, match=message):
        run(**options)


def test_the_command_line(tmp_path, capsys):
    model = tmp_path / "decay.toml"
    model.write_text('[species]\nX = 4\n[parameters]\nk = 1\n[rules]\nX = "-k * X"\n')
    out = tmp_path / "out.h5"
    base = ["run", str(model), "--t-end", "1", "--points", "3", "-n", "4", "--seed", "1",
            "--device", "cpu", "--quiet"]  # fmt: skip
    own = ["--method", "ode", "--ode-solver", "rosenbrock", "--rtol", "1e-8", "--sample",
           "k=uniform(1,2)", "-o", str(out)]  # fmt: skip
    assert main([*base, *own]) == 0
    with open_result(out) as result:
        assert result.attributes["ode_solver"] == "rosenbrock"
        assert result.amounts("X").shape == (4, 3)
    assert main([*base, "--method", "tau", "-o", str(tmp_path / "no.h5")]) == 2
    assert "supported by tau" in capsys.readouterr().err
    assert main([*base, "--method", "ssa", "--rtol", "1e-3"]) == 2
    assert "--rtol needs --method ode" in capsys.readouterr().err


def test_a_cpu_has_no_layout():
    assert run().data["profile/layout"][()].tolist() == [b""]


def test_summaries_of_amounts():
    result = run(
        record="summary:first-passage:X:4",
        method="ode",
        times=np.linspace(0, 2, 201),
    )
    assert result.summary("first-passage:X:4") == pytest.approx(np.log(2), abs=0.011)


def test_uniform_ranges_for_programs():
    sampling = Sampling.uniform({"k": (0.5, 2.0)})
    assert sampling.texts == ("k=uniform(0.5,2.0)",)
    assert sampling.typical() == {"k": 1.25}
    assert Sampling.parse(["a=lognormal(median=3,sigma=0.1)"]).typical()["a"] == pytest.approx(3)


def test_amounts_are_not_counts():
    with pytest.raises(ConfigError, match="holds counts, not amounts"):
        ts.run(decay(), n=2, times=TIMES, method="ssa", seed=1, device="cpu").amounts()
    with pytest.raises(ConfigError, match="holds amounts, not counts"):
        run().counts()


def test_labelled_arrays_of_a_file(tmp_path):
    path = tmp_path / "out.h5"
    memory = run(record="trajectories,statistics").to_xarray()
    with run(record="trajectories,statistics", output=path) as result:
        dataset = result.to_xarray()
        for name in ("amounts", "mean", "variance", "observables"):
            assert np.array_equal(dataset[name].values, memory[name].values), name
        assert result.to_dask("amounts").sum().compute() == pytest.approx(memory["amounts"].sum())
        dataset.close()


@pytest.mark.gpu
@pytest.mark.parametrize(
    "settings",
    [
        {"substeps": 20},
        {"substeps": 20, "precision": "single"},
        {"solver": "dopri5"},
        {"solver": "rosenbrock"},
    ],
)
def test_devices_give_the_same_bits(settings):
    wanted = {
        "n": 300,
        "sample": ["start=lognormal(median=8,sigma=0.2)", "k=loguniform(0.1,10)"],
        "record": "trajectories,statistics,final,sampled",
        "ode": settings,
    }
    assert total(run(**wanted, device="cpu")) == total(run(**wanted, device="cuda"))


def test_an_amount_near_the_error_of_a_step_is_told_beside_large_ones():
    net = ts.Network("enzyme")
    for name, amount in (("S", 1e-3), ("E", 1e-9), ("ES", 0), ("P", -1e-26)):
        net.add_species(name, amount)
    net.add_reaction("S + E -> ES", law="1e6 * S * E")
    net.add_reaction("ES -> E + P", law="10 * ES")
    with pytest.warns(
        UserWarning, match=r"E is 1e-09 at the start, .* give one such as atol=1e-15"
    ):
        run(net, n=1, ode={"solver": "dopri5"})
    fine = run(net, n=1, ode={"solver": "dopri5", "atol": 1e-15})
    total = fine.amounts("E") + fine.amounts("ES")
    np.testing.assert_allclose(total, 1e-9, rtol=1e-5)
    at_once = 1e6 * 1e-3  # E binds at this rate, so that 1/101 of it is free
    assert fine.amounts("E")[0, -1] == pytest.approx(1e-9 * 10 / (10 + at_once), rel=1e-3)
