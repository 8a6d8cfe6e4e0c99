"""Leaps that are checked after they were made: bits, limits, the option and what a file keeps."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from generated_networks import cyclic_chain
from places import TESTS
from sampling import ordinary

import tauslab as ts
from tauslab.cli.main import main
from tauslab.runner.ensemble.choices import method_choice
from tauslab.store.results.digest import digest_lines

from .test_tau import chain, work

SBML = TESTS / "data" / "sbml"
SCHLOGL = str(SBML / "schlogl.xml")


@pytest.fixture
def leap(device):
    """`tauslab.run` with checked leaps, on each device in turn."""

    def call(model, *, kind=ts.TauLeaping, epsilon=0.03, checked=True, threads=0, **options):
        method = kind(epsilon=epsilon, post_leap_check=checked)
        where = ts.CPU(threads=threads) if device == "cpu" else device
        return ts.run(model, method=method, device=where, **{"seed": 1, **options})

    return call


def rejected(result):
    return int(result.data["profile/rejected"][()].sum())


def test_leaps_are_rejected_and_molecules_conserved(leap):
    result = leap(chain(), n=500, times=[0.0, 0.5, 1.0])
    assert (result.counts().sum(axis=2) == 10_000).all()
    assert rejected(result) > 0
    assert work(result)["halved"] == 0
    assert work(result)["events"] > 10 * (work(result)["leaps"] + work(result)["exact_events"])


@pytest.mark.validate
def test_counts_never_fall_below_zero(leap):
    """Few molecules of everything, which are made, fall apart and use each other up."""
    net = ts.Network("few")
    for i in range(6):
        net.add_species(f"X{i}", 60)
        net.add_reaction(f"-> X{i}", rate=60.0)
        net.add_reaction(f"X{i} ->", rate=1.0)
    for i in range(6):
        net.add_reaction(f"X{i} + X{(i + 1) % 6} ->", rate=0.01)
    result = leap(net, n=1500, times=np.linspace(0, 2, 11), epsilon=0.2)
    assert (result.counts() >= 0).all()
    assert (result.status == 0).all()
    assert rejected(result) > 1500
    assert work(result)["leaps"] > 1500


def test_feeds_limit_nothing(leap):
    net = ts.Network("fed")
    net.add_species("A", 1_000_000, fixed=True)
    net.add_species("X", 0)
    net.add_reaction("A -> X", rate=1e-3)
    result = leap(net, n=50, times=[0.0, 1.0])
    assert (result.counts("A") == 1_000_000).all()
    assert work(result)["leaps"] == 50
    assert rejected(result) == 0


@pytest.mark.filterwarnings("ignore:.*trajectories ended early, so that means")
def test_a_count_that_passes_its_limit_ends_its_trajectory_alone(leap):
    net = ts.Network("growth")
    net.add_species("X", 0)
    net.add_reaction("X -> 2 X", rate=1.0)
    result = leap(net, n=2, times=[0.0, 1.0], set={"X": np.array([2.0**31 - 2, 100.0])})
    assert result.status.tolist() == [2, 0]
    assert result.counts("X")[0].tolist() == [2**31 - 2, -1]


def test_step_limit_and_absorption(leap):
    with pytest.warns(UserWarning, match="no trajectory reached .* 5 ended with status step_limit"):
        limited = leap(chain(), n=5, times=[0.0, 5.0], max_steps=3)
    assert (limited.status == 3).all()
    net = ts.Network("decay")
    net.add_species("X", 5000)
    net.add_reaction("X ->", rate=1.0)
    gone = leap(net, n=20, times=[0.0, 100.0])
    assert (gone.status == 1).all()
    assert (gone.counts("X")[:, 1] == 0).all()


def test_bits_do_not_depend_on_blocks_and_threads(leap):
    def lines(**options):
        return digest_lines(leap(SCHLOGL, n=60, t_end=2.0, points=5, epsilon=0.1, **options), None)

    assert lines(block=1) == lines(block=60, threads=1) == lines(threads=3)
    assert lines() != lines(checked=False)


# SHA-256 of the samples of 30 trajectories, int32: leaps without and with the check.
BITS = {
    ("schlogl", False): "df9be15ef4ea31689d120d63508e0e6a1d503c929fafb715f2df41e24d5bc1f9",
    ("ras_camp_pka", False): "42267b2dc0fb05528c7683e55293f61df370d44549dfff3b5f9788c4eedf4e5d",
    ("schlogl", True): "37832f3f7a039ccac0054071f6f3e0ca296fb52d918820def1117bd86f551cd8",
    ("ras_camp_pka", True): "9a94e88fdcb166bcc1e512890a43cb4796dc2369cf788d1664b1fa012909de04",
}


@pytest.mark.parametrize(
    ("model", "checked"), ordinary(BITS, *(one for one in BITS if one[0] == "schlogl"))
)
def test_bits_are_those_of_every_device(leap, model, checked):
    result = leap(SBML / f"{model}.xml", n=30, t_end=1.0, points=3, epsilon=0.1, checked=checked)
    actual = hashlib.sha256(result.counts().astype("<i4").tobytes()).hexdigest()
    assert actual == BITS[model, checked]


@pytest.mark.validate
def test_values_per_trajectory(leap):
    rates = np.array([0.5, 4.0])
    net = chain()
    net.add_parameter("k", 1.0)
    net.add_reaction("C ->", rate="k")
    varied = leap(net, n=2, times=[0.0, 1.0], set={"k": rates}).counts()
    for i, k in enumerate(rates):
        assert np.array_equal(leap(net, n=3, times=[0.0, 1.0], set={"k": k}).counts()[i], varied[i])


def test_it_is_refused_with_exact_events(tmp_path, capsys):
    with pytest.raises(TypeError, match="post_leap_check"):
        ts.SSA(post_leap_check=True)
    out = tmp_path / "out.h5"
    command = ["run", SCHLOGL, "--t-end", "1", "--method", "ssa", "--post-leap-check"]
    assert main([*command, "-o", str(out)]) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not out.exists()


def test_it_is_refused_where_leaps_come_from_tables():
    large = cyclic_chain(161)
    with pytest.raises(ts.ConfigError, match="networks of up to 160 reactions, and this one has"):
        ts.run(large, times=[1.0], method=ts.TauLeaping(post_leap_check=True))


def test_auto_checks_the_leaps_that_it_chooses(leap, monkeypatch):
    """A million molecules that decay: leaps pay, also with a check. Of 200 they do not."""
    monkeypatch.setattr(
        method_choice, "_judged", lambda *given: method_choice.MethodChoice("tau", given[-1].text())
    )
    net = ts.Network("decay")
    net.add_species("A", 1_000_000)
    net.add_reaction("A ->", rate=1.0)
    options = {"n": 20, "times": [0.0, 1.0]}
    chosen = leap(net, kind=ts.Auto, **options)
    assert (chosen.method, chosen.attributes["post_leap_check"]) == ("tau", 1)
    assert digest_lines(chosen, None) == digest_lines(leap(net, **options), None)
    exact = leap(net, kind=ts.Auto, set={"A": 200}, **options)
    assert exact.method == "ssa"
    assert "post_leap_check" not in exact.attributes


def test_a_file_keeps_the_check(leap, tmp_path):
    """On resume, and where the file is the model of another run."""
    path = tmp_path / "out.h5"
    options = {"n": 20, "times": [0.0, 1.0], "epsilon": 0.1, "record": "trajectories"}
    with leap(chain(), output=path, **options) as first:
        lines = digest_lines(first, None)
    with leap(chain(), output=path, resume=True, checked=False, **options) as again:
        assert again.attributes["post_leap_check"] == 1
        assert digest_lines(again, None) == lines
    other = tmp_path / "other.h5"
    assert main(["run", str(path), "-o", str(other), "--device", "cpu", "--quiet"]) == 0
    with ts.open(other) as rerun:
        assert digest_lines(rerun, None) == lines
    plain = tmp_path / "plain.h5"
    leap(chain(), output=plain, checked=False, **options).close()
    with pytest.raises(ts.ConfigError, match="post_leap_check"):
        leap(chain(), output=plain, resume=True, **options)


def test_the_summary_counts_rejected_leaps(tmp_path, capsys):
    command = ["run", SCHLOGL, "-n", "5", "--t-end", "1", "--method", "tau", "--device", "cpu"]
    assert main([*command, "--post-leap-check", "-o", str(tmp_path / "a.h5")]) == 0
    assert " rejected), " in capsys.readouterr().out
    assert main([*command, "-o", str(tmp_path / "b.h5")]) == 0
    assert " halved), " in capsys.readouterr().out


@pytest.mark.gpu
@pytest.mark.parametrize(
    "model", ["schlogl", "michaelis_menten", "ras_camp_pka", "toggle_switch", "lac_two_state"]
)
@pytest.mark.parametrize("epsilon", [0.03, 0.3])
def test_cuda_gives_the_bits_of_the_cpu(model, epsilon):
    actual = [
        digest_lines(
            ts.run(SBML / f"{model}.xml", method=ts.TauLeaping(post_leap_check=True,
                                                               epsilon=epsilon),
                   n=300, t_end=2.0, points=9, seed=8, device=name,
                   record="trajectories,statistics,final"),
            None,
        )
        for name in ("cpu", "cuda")
    ]  # fmt: skip
    assert actual[0] == actual[1]


def test_it_is_refused_with_rates_that_depend_on_the_time():
    net = chain()
    net.add_reaction("C ->", law="(1 + sin(time)) * C")
    with pytest.raises(ts.ConfigError, match=r"post_leap_check.* rates that depend on the time"):
        ts.run(net, times=[1.0], method=ts.TauLeaping(post_leap_check=True), device="cpu")
