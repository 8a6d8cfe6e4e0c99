"""Reactions that go backwards while their law is negative."""

from pathlib import Path

import numpy as np
import pytest

import tauslab as ts
from tauslab.cli.main import main
from tauslab.model.network.diagnosis.check import check_facts

RATE, TOTAL = 0.5, 20


def exchange(law: str = "k*(A - B)") -> ts.Network:
    net = ts.Network("exchange")
    net.add_species("A", TOTAL)
    net.add_species("B", 0)
    net.add_parameter("k", RATE)
    net.add_reaction("A -> B", law=law, name="R")
    return net


@pytest.mark.filterwarnings("ignore:rates that may be negative")
@pytest.mark.parametrize("method", ["ssa", "tau"])
def test_the_mean_follows_the_law_and_noise_is_the_least(method: str) -> None:
    """Of a linear law it does so exactly; false alarms once in 4,000 runs (3.7 deviations)."""
    n, times = 4000, [0.0, 0.5, 1.0, 10.0]
    result = ts.run(
        ts.with_net_laws(exchange()), n=n, times=times, seed=3, device="cpu", method=method
    )
    want = TOTAL / 2 * (1 + np.exp(-2 * RATE * np.array(times)))
    error = np.sqrt(np.asarray(result.variance("A")) / n)
    assert (np.abs(result.mean("A") - want) <= 3.7 * error + 1e-12).all()
    # A molecule that is on either side with equal chance: the binomial law has variance TOTAL / 4.
    assert np.asarray(result.variance("A"))[-1] < TOTAL / 8


def test_only_laws_that_may_be_negative_become_two() -> None:
    net = exchange("tanh(A - B)")
    net.add_species("k_in", 1, fixed=True)
    net.add_event("off", time=1, assignments={"k_in": -1})
    net.add_reaction("-> A", law="k_in", name="moved")
    net.add_reaction("B ->", law="k*B", name="plain")
    net.add_reaction("B ->", law="k*(B - 30)", delay=1, name="delayed")
    net.add_reaction("A -> 2 B", law="-3*k*A", limit="-2*k*A", name="R_backwards")
    actual = ts.with_net_laws(net)
    names = [reaction.name for reaction in actual.reactions]
    assert names == [
        "R", "R_backwards_", "moved", "moved_backwards", "plain", "delayed", "R_backwards",
        "R_backwards_backwards",
    ]  # fmt: skip
    back = actual.reactions[-1]
    assert (dict(back.reactants), dict(back.products)) == ({"B": 2}, {"A": 1})
    elements = [f.element for f in actual.features if f.kind == "net law"]
    assert elements == ["reaction R", "reaction moved", "reaction R_backwards"]
    assert "ssa" in check_facts(actual)["methods"]


def test_equations_have_the_same_course() -> None:
    times = [0.0, 1.0, 3.0]
    plain, both = (
        np.asarray(ts.run(net, times=times, method="ode", device="cpu", seed=1).mean("B"))
        for net in (exchange("tanh(A - B)"), ts.with_net_laws(exchange("tanh(A - B)")))
    )
    assert both == pytest.approx(plain, rel=1e-5)


def test_refusals_name_the_option() -> None:
    net = exchange("-k*A")
    with pytest.raises(ts.ModelError, match=r"rate constant is -0\.5.*with_net_laws"):
        ts.run(net, n=2, t_end=1, seed=1, device="cpu")


@pytest.mark.filterwarnings("always:rates that may be negative")
def test_the_command_line_says_so_and_results_keep_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, first, again = (str(tmp_path / name) for name in ("m.toml", "1.h5", "2.h5"))
    exchange().write(model)
    run = ["run", model, "-n", "5", "--t-end", "3", "--seed", "1", "--device", "cpu"]
    assert main([*run, "--net-laws", "-o", first]) == 0
    assert "rates that may be negative (--net-laws)" in capsys.readouterr().err
    assert main(["run", first, "-o", again]) == 0
    with ts.open(first) as one, ts.open(again) as two:
        assert np.array_equal(one.mean("A"), two.mean("A"))
    assert main(["check", model, "--net-laws"]) == 0
    assert "R_backwards" in capsys.readouterr().out


def test_check_fails_where_a_rate_constant_is_negative(tmp_path, capsys):
    """Equations alone know one, and most are mistakes."""
    path = tmp_path / "m.toml"
    text = "[species]\nA = 5\n[parameters]\nk = {}\n[[reactions]]\n"
    text += 'equation = "A ->"\nrate = "k"\n'
    tau, ode = ["--method", "tau"], ["--method", "ode"]
    for value, more, code in ((-1, [], 2), (-1, ode, 0), (1, [], 0), (1, tau, 0)):
        path.write_text(text.format(value))
        assert main(["check", str(path), *more]) == code
    assert main(["check", str(path), "--method", "nrm"]) == 2
    assert "'nrm' is not a method" in capsys.readouterr().err
    path.write_text(text.format(1) + "delay = 3.0\n")
    assert main(["check", str(path)]) == 0
    assert main(["check", str(path), "--method", "tau"]) == 2
    assert "not supported by tau" in capsys.readouterr().err
