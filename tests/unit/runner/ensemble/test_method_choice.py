"""``--method auto``: leaps only where they clearly pay, the same everywhere, kept by a file.

Where their error is small enough: test_leap_error.py.
"""

from __future__ import annotations

import numpy as np
import pytest
from places import TESTS

import tauslab as ts
from tauslab.cli.commands.machine import chain, michaelis_menten, schlogl
from tauslab.cli.main import main
from tauslab.kernels.leaping.estimate import leap_reach
from tauslab.kernels.network.lowering import lower
from tauslab.runner.ensemble.choices import method_choice
from tauslab.runner.ensemble.choices.method_choice import outlook
from tauslab.store.results.digest import digest_lines

SBML = TESTS / "data" / "sbml"


def decay(n=200_000) -> ts.Network:
    """Molecules that disappear: few leaps do for many events."""
    net = ts.Network("decay")
    net.add_species("A", n)
    net.add_parameter("k", 1.0)
    net.add_reaction("A ->", rate="k")
    return net


@pytest.fixture
def run(device):
    """`tauslab.run` by `auto`, on each device in turn."""

    def call(model, **options):
        given = {"seed": 1, "times": [0.0, 0.5, 1.0], "method": "auto", **options}
        return ts.run(model, device=device, **given)

    return call


@pytest.fixture
def trusting(monkeypatch):
    """Work alone decides: the error of leaps, and the time of compilers, are other tests'."""
    monkeypatch.setattr(method_choice, "_COMPILING_LEAST", 0.0)
    monkeypatch.setattr(
        method_choice, "_judged", lambda *given: method_choice.MethodChoice("tau", given[-1].text())
    )


@pytest.mark.usefixtures("trusting")
def test_leaps_where_they_pay(run):
    result = run(decay(), n=40)
    assert result.method == "tau"
    assert " events of a trajectory would cost as much as " in result.attributes["method_choice"]
    forced = run(decay(), n=40, method="tau")
    assert digest_lines(result) == digest_lines(forced)
    assert "method_choice" not in forced.attributes


@pytest.mark.parametrize(
    ("model", "t_end", "points"),
    [(schlogl, 10.0, 100), (michaelis_menten, 5.0, 101), (lambda: decay(500), 1.0, 101)],
)
def test_exact_where_leaps_do_not_pay(run, model, t_end, points):
    """Measured on an H200: leaping takes as long for these, or longer."""
    options = {"n": 4, "times": None, "t_end": t_end, "points": points}
    result = run(model(), **options)
    assert result.method == "ssa"
    assert digest_lines(result) == digest_lines(run(model(), method="ssa", **options))


@pytest.mark.validate
@pytest.mark.usefixtures("trusting")
def test_a_chain_that_leaps_run_thirty_times_as_fast_is_leaped(run):
    options = {"times": None, "t_end": 10.0, "points": 100, "record": "final"}
    result = run(chain(), n=60, **options)
    assert result.method == "tau"
    assert run(chain(), n=2, **options).method == "ssa", "ends before leaps are compiled"


@pytest.mark.usefixtures("trusting")
def test_a_large_network_that_leaps_run_faster_is_leaped(run):
    net = ts.Network("large")
    for i in range(514):
        net.add_species(f"S{i}", 100_000)
    for i in range(513):
        net.add_reaction(f"S{i} -> S{i + 1}", rate=1.0)
    assert run(net, n=1, times=[1e-6], record="final").method == "ssa"
    result = run(net, n=1, times=[1.0], record="final")
    assert (result.method, result.attributes["leaper"]) == ("tau", "tables")
    assert result.attributes["method_choice"].startswith("by leaping, ")


def test_what_leaps_cannot_do_is_run_exactly(run):
    empty = ts.Network("still")
    empty.add_species("X", 3)
    assert run(empty, n=3).attributes["method_choice"] == "the model has no reactions"


@pytest.mark.validate
@pytest.mark.usefixtures("trusting")
def test_recorded_species_do_not_change_the_choice(run):
    net = decay()
    net.add_species("B", 0)
    net.add_reaction("A -> B", rate=0.1)
    whole, part = (run(net, n=100, species=s) for s in (None, "B"))
    assert whole.attributes["method_choice"] == part.attributes["method_choice"]
    assert whole.method == "tau"


@pytest.mark.usefixtures("trusting")
def test_a_sweep_is_judged_by_points_spread_over_it(run):
    """Of a hundred points the first half has no molecules to speak of."""
    amounts = np.concatenate([np.full(50, 5.0), np.full(50, 200_000.0)])
    result = run(decay(), n=1, sweep={"A": amounts}, record="final")
    assert result.method == "tau"
    assert run(decay(), n=1, sweep={"A": amounts[:50]}, record="final").method == "ssa"


@pytest.mark.usefixtures("trusting")
def test_a_pilot_of_a_fast_model_is_short(run):
    """A million events a trajectory: the exact pilot stops, leaps are counted to the end."""
    result = run(decay(2_000_000), n=2)
    assert result.method == "tau"
    words = result.attributes["method_choice"].split()
    assert words[2] != words[-1]
    assert 1_200_000 < int(words[2]) < 1_330_000, "(1 - 1/e) of two millions"


def test_the_first_sample_only(run):
    assert run(decay(), n=5, times=[0.0]).method == "ssa"


@pytest.mark.parametrize("model", ["schlogl", "toggle_switch", "vilar_oscillator", "lac_two_state"])
@pytest.mark.gpu
def test_the_choice_and_its_numbers_are_those_of_the_cpu(model):
    actual = [
        ts.run(SBML / f"{model}.xml", n=20, t_end=2.0, points=9, seed=8, method="auto", device=name)
        for name in ("cpu", "cuda")
    ]
    assert len({r.attributes["method_choice"] for r in actual}) == 1


@pytest.mark.usefixtures("trusting")
def test_a_resumed_run_keeps_the_method_of_the_file(run, tmp_path):
    """Also where a pilot would now choose otherwise."""
    path = tmp_path / "out.h5"
    run(decay(), n=40, method="ssa", output=path, record="final").close()
    with run(decay(), n=40, output=path, resume=True, record="final") as again:
        assert again.method == "ssa"
    chosen = tmp_path / "chosen.h5"
    with run(decay(), n=40, output=chosen, record="final") as first:
        reason = first.attributes["method_choice"]
    with run(decay(), n=40, output=chosen, resume=True, record="final") as again:
        assert (again.method, again.attributes["method_choice"]) == ("tau", reason)


def test_the_command_says_what_it_chose(tmp_path, capsys):
    out = tmp_path / "out.h5"
    model = SBML / "schlogl.xml"
    options = ["--device", "cpu", "-n", "4", "--t-end", "1", "-o", str(out), "--overwrite"]
    assert main(["run", str(model), *options, "--method", "auto"]) == 0
    first = capsys.readouterr().out.splitlines()[0]
    assert first == "method: exact (ssa)"
    assert main(["run", str(model), *options]) == 0
    assert "method:" not in capsys.readouterr().out


def test_reach_of_laws_and_constants():
    """A law with a function that NumPy does not fix in bits, and a rate from the row."""
    net = ts.Network("laws")
    net.add_species("X", 100)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", law="k * X * exp(-X / 1000)")
    net.add_reaction("-> X", rate="k")
    lowered = lower(net, parameters=net.parameter_values(), counts={"X": 100}, varying={"k"})
    rows = np.stack([lowered.constant_rows({"k": np.array([k])}, 1)[0] for k in (1.0, 3.0)])
    reach = leap_reach(lowered, [[100], [5]], rows, 0.03)
    deaths = [100 * np.exp(-0.1), 3 * 5 * np.exp(-0.005)]
    np.testing.assert_allclose(reach.total, [deaths[0] + 1, deaths[1] + 3], rtol=1e-14)
    np.testing.assert_allclose(reach.critical, [0, deaths[1]], rtol=1e-14, atol=1e-12)
    # Elasticity below 1 counts as 1; at 5 molecules only births leap, one at a time.
    change = 3.0
    expected = [min(change / (deaths[0] - 1), change**2 / (deaths[0] + 1)), 1 / 3]
    np.testing.assert_allclose(reach.limit, expected, rtol=1e-12)


def test_check_tells_what_a_leap_would_do(capsys):
    """The chain: S1 gains 500 a unit of time and may gain 30; there are 30,500 events in it."""
    assert main(["check", str(SBML / "schlogl.xml")]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("the first leap of tau could span ")
    assert last.endswith(" events (epsilon 0.03), and costs as much as 28 exact events")
    assert outlook(chain())[1] == (
        "the first leap of tau could span 1830 events (epsilon 0.03), "
        "and costs as much as 100 exact events"
    )
    births = ts.Network("births")
    births.add_species("X", 0)
    births.add_reaction("-> X", rate=1.0)
    assert "span any number of events" in outlook(births)[1]
    still = ts.Network("still")
    still.add_species("X", 0)
    assert outlook(still) == []
