"""``delay(x, d)`` under exact SSA: the past of each path, known means, and equal bits."""

from __future__ import annotations

import importlib

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.model.network.diagnosis.check import check_facts, report
from tauslab.store.results.digest import digest_lines

pasts = importlib.import_module("validate_pasts")

GRID = np.arange(0, 6.01, 0.25)
ALARM = 1e-4  # of all differences of a model together


def run(net, **options):
    given = {"n": 60, "times": GRID, "seed": 1, "device": "cpu", "record": "trajectories"}
    return ts.run(net, **{**given, **options})


def observable(result, name):
    return result.data["observables"][()][..., result.observables.index(name)]


def looks_back(*, flows: bool = False) -> ts.Network:
    """A count whose past stands in rules, a law, a trigger and, with `flows`, an equation."""
    net = ts.Network("looks back")
    net.add_species("X", 7)
    net.add_species("Y", 0)
    net.add_species("Z", 0)
    net.add_species("when", 0, fixed=True)
    net.add_species("later", 0, fixed=True)
    net.add_parameter("tau", 1.5)
    net.add_rule("double", "2 * X", recorded=False)
    net.add_rule("was", "delay(X, tau)")
    net.add_rule("nested", "delay(delay(double, 0.5) + delay(time, 0.25), tau)")
    net.add_rule("sooner", "delay(X - Y, 0.75)")
    net.add_reaction("-> 2 X", rate=4)
    net.add_reaction("X ->", rate=0.3)
    net.add_reaction("X -> Z", rate=0.2, delay=0.5)
    net.add_reaction("-> Y", law="if(delay(X, tau) > 12, 10, 0)")
    net.add_event("now", trigger="X >= 14", assignments={"when": "if(when, when, time)"})
    net.add_event("then", trigger="was >= 14", assignments={"later": "if(later, later, time)"})
    if flows:
        net.add_species("v", 0)
        net.add_species("w", 0)
        net.add_rate("v", "delay(X, tau)")
        net.add_rate("w", "X")
    return net


@pytest.mark.parametrize("flows", [False, True])
def test_each_path_finds_its_own_past(flows):
    result = run(looks_back(flows=flows))
    x, y, was = result.counts("X"), result.counts("Y"), observable(result, "was")
    assert result.species == ("X", "Y", "Z")  # nothing hidden is recorded
    assert (was[:, :7] == 7).all()  # before the start: the value at the start
    assert (was[:, 6:] == x[:, :-6]).all()
    assert len(np.unique(x[:, 8])) > 5
    then = np.concatenate([np.full((60, 8), 7), x[:, :-8]], axis=1)
    assert (observable(result, "nested") == 2 * then + GRID - 1.75).all()
    assert (observable(result, "sooner")[:, 3:] == (x - y)[:, :-3]).all()
    when, later = observable(result, "when")[:, -7], observable(result, "later")[:, -1]
    assert np.count_nonzero(when) > 20
    assert later[when > 0] == pytest.approx(when[when > 0] + 1.5, abs=1e-12)
    made = np.diff(y, axis=1)
    assert not made[:, :6].any()  # X was 7
    assert made.any()
    if flows:
        v, w = observable(result, "v"), observable(result, "w")
        assert v[:, 6:] == pytest.approx(w[:, :-6] + 7 * 1.5, rel=1e-6)


@pytest.mark.validate
@pytest.mark.parametrize(
    ("name", "n", "others"),
    [
        ("feedback", 4000, 150),
        *(pytest.param(m, 100_000, 4000, marks=pytest.mark.validate) for m in pasts.MODELS),
    ],
)
def test_beside_a_loop_that_remembers_its_path(name, n, others):
    actual = pasts.differences(pasts.MODELS[name](), n, others, "cpu", 4)
    assert max(map(abs, actual.values())) < pasts.st.norm.isf(ALARM / (2 * len(actual)))


def linear(tau: object = 2.0) -> ts.Network:
    """Laws that are linear, so that means follow the equations."""
    net = ts.Network("linear")
    net.add_species("X", 10)
    net.add_parameter("tau", tau)
    net.add_reaction("-> X", law="15 + 0.6 * delay(X, tau)")
    net.add_reaction("X ->", rate=1)
    return net


@pytest.mark.validate
def test_means_of_linear_laws_are_those_of_the_equations():
    """Also with a delay of 0, and one for each point: 24 means, a false alarm in 700 seeds."""
    times, n = [0.5, 1, 2, 3, 4.5, 6, 8, 10], 3000
    sweep = {"tau": [0.0, 0.7, 2.0]}
    exact = run(linear(), n=n, times=times, sweep=sweep)
    equations = run(linear(), n=1, times=times, sweep=sweep, method="ode")
    error = np.sqrt(exact.variance("X") / n)
    assert (abs(exact.mean("X") - equations.mean("X")) < 4 * error).all()
    wrong = run(linear(), n=1, times=times, set={"tau": 1.2}, method="ode").mean("X")
    assert (abs(exact.mean("X")[2] - wrong) > 8 * error[2]).any()


def test_no_delay_is_the_state_now():
    """A delay that is 0 before the run gives the bits of the formula without it."""
    plain = linear()
    plain.reactions[0] = ts.model.network.parts.Reaction(
        "R1", {}, {"X": 1}, ts.model.expressions.infix.parse("15 + 0.6 * X")
    )
    plain.features.clear()
    there = run(linear(0), n=40, method=ts.SSA(selector="linear"))
    local = run(plain, n=40, method=ts.SSA(selector="linear"))
    assert (there.counts("X") == local.counts("X")).all()


def test_what_differs_between_trajectories():
    """Drawn delays and drawn initial counts: each path still finds its own past."""
    net = linear()
    net.species["X"] = ts.model.network.parts.Species(
        "X", ts.model.expressions.infix.parse("poisson(40)")
    )
    net.add_parameter("drawn", "bernoulli(0.5)")
    net.add_rule("was", "delay(X, 1 + drawn)")
    net.reactions[0] = ts.model.network.parts.Reaction(
        "R1", {}, {"X": 1}, ts.model.expressions.infix.parse("15 + tau")
    )
    net.add_feature(ts.model.network.parts.Feature("draw", "species X", "its math draws"))
    result = run(net, set={"tau": np.linspace(0, 1, 60)})
    x, was, drawn = result.counts("X"), observable(result, "was"), observable(result, "drawn")
    for each, steps in ((0, 4), (1, 8)):
        own = drawn[:, 0] == each
        assert (was[own, :steps] == x[own, :1]).all()
        assert (was[own, steps:] == x[own, :-steps]).all()
        assert own.sum() > 10
    assert len(np.unique(x[:, 0])) > 10


@pytest.mark.usefixtures("one_block_launches")
def test_bits_depend_on_the_trajectory_alone(tmp_path):
    net = looks_back()
    whole = digest_lines(run(net), None)
    assert digest_lines(run(net, device=ts.CPU(threads=2), block=7), None) == whole
    file = tmp_path / "part.h5"
    run(net, n=41, output=ts.Output(file)).close()
    assert digest_lines(ts.run(net, append=19, output=file, device="cpu"), None) == whole
    read = ts.read(net.write(tmp_path / "model.toml"))
    assert digest_lines(run(read), None) == whole
    assert "_ago_" not in read.source_text
    assert "_ago_" not in " ".join(report(net))


@pytest.mark.gpu
def test_a_gpu_gives_the_bits_of_the_cpu():
    for flows in (False, True):
        net = looks_back(flows=flows)
        actual = [digest_lines(run(net, n=3000, device=d), None) for d in ("cpu", "cuda")]
        assert actual[0] == actual[1]


def test_a_full_queue_ends_a_trajectory_by_name():
    with pytest.warns(UserWarning, match="delay_queue.*changes that formulas look back at"):
        full = run(linear(1000), n=5, method=ts.SSA(delay_queue=9))
    assert (full.status == 8).all()
    assert (run(linear(1000), n=5, method=ts.SSA(delay_queue=2000)).status == 0).all()


def test_the_check_tells_what_is_kept():
    net = looks_back()
    assert check_facts(net)["methods"] == ["ssa", "ode"]
    looked = "delay(X, 1.5), delay(X, 2.0), delay(X, 0.75), delay(Y, 0.75)"
    assert f"looks back at: {looked}; ssa lets each change wait so long" in report(net)
    with pytest.raises(ts.ModelError, match="rule for was: delays are not supported by tau"):
        run(net, method="tau")
    assert run(net, n=3, method="auto").method == "ssa"


def dosed(*, flows: bool = False) -> ts.Network:
    """A count that events raise, share and empty, and what it was 1.5 and `wait` ago."""
    net = ts.Network("dosed")
    net.add_species("X", 40)
    net.add_species("S", 3)  # set by events alone
    net.add_parameter("wait", 0.75)
    net.add_rule("was", "delay(X, 1.5)")
    net.add_rule("then", "delay(X + 2 * S, wait)")
    net.add_reaction("-> X", law="if(delay(X, wait) > 30, 10, 60)")
    net.add_reaction("X ->", rate=0.5)
    net.add_species("F", 0)
    net.add_event("dose", time=0.6, assignments={"X": "X + 100", "S": 1234567})
    net.add_event("wash", trigger="time >= 0.8", assignments={"X": "min(X, 37)", "S": 5})
    net.add_event("share", trigger="X > 45 && time > 1",
                  assignments={"X": "binomial(X, 0.5)", "S": "S + 1"})  # fmt: skip
    net.add_event("back", trigger="was > 100", assignments={"F": 1})  # from 2.1 on
    if flows:
        net.add_species("v", 0)
        net.add_rate("v", "delay(X, 1.5)")
    return net


@pytest.mark.parametrize(
    ("flows", "selector"),
    ordinary(
        [(False, "linear"), (True, "linear"), *((False, name) for name in ("tree", "pdm", "rssa"))],
        (True, "linear"),
    ),
)
def test_events_may_set_what_is_looked_back_at(flows, selector):
    """What a path was is what its samples were; a queue is to hold 31 entries of each change."""
    method = ts.SSA(selector=selector)
    result = run(dosed(flows=flows), n=200, sweep={"wait": [0.75, 0, 2.5]}, method=method)
    x, s = result.counts("X"), result.counts("S")
    assert not result.status.any()
    assert (s[:, :, GRID == 0.75] == 1234567).all()
    assert s[:, :, -1].max() > 5
    for name, first, what, delays in (
        ("was", 40, x, [1.5] * 3),
        ("then", 46, x + 2 * s, [0.75, 0, 2.5]),
    ):
        for point, delay in enumerate(delays):
            back = round(delay / 0.25)
            actual = observable(result, name)[point]
            assert (actual[:, :back] == first).all()
            assert np.array_equal(actual[:, back:], what[point, :, : len(GRID) - back])
    assert (result.counts("F") == (GRID > 2.1)).all()


def test_a_change_that_does_not_fit_into_the_queue_ends_a_trajectory():
    with pytest.warns(UserWarning, match="delay_queue"):
        actual = run(dosed(), n=3, method=ts.SSA(delay_queue=64))
    assert (actual.status == 8).all()


def refused(change, methods=("ode",)) -> str:
    net = linear()
    change(net)
    with pytest.raises(ts.ModelError) as caught:
        run(net)
    assert check_facts(net)["methods"] == list(methods)
    return str(caught.value)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (
            lambda net: (
                net.add_species("v", 1, fixed=True),
                net.add_event("dose", time=1, assignments={"v": 2.5}),
                net.add_rule("y", "delay(v, 1)"),
            ),
            "event dose sets v, which it looks back at, to any number",
        ),
        (
            lambda net: net.add_rate("X", "delay(X, 1) / 10 - X"),
            "X, which it looks back at, has a rate rule",
        ),
        (
            lambda net: net.add_rule("y", "delay(X, X)"),
            "the delay X changes while a trajectory runs",
        ),
        (
            lambda net: net.add_rule("y", "delay(X, time)"),
            "the delay time changes while a trajectory runs",
        ),
        (
            lambda net: net.add_reaction("-> X", rate=1, delay=1),
            "reaction R3 changes X, which it looks back at, when it completes",
        ),
        (
            lambda net: (net.add_species("Z", "1 + time"), net.add_rule("y", "delay(Z, 1)")),
            "the initial value of Z follows the time",
        ),
        (
            lambda net: net.add_species("Z", "delay(X, 1)"),
            "the initial value of Z uses a delay",
        ),
    ],
)  # fmt: skip
def test_pasts_that_are_refused_by_name(change, why):
    # Without an initial value no method can begin.
    message = refused(change, [] if "uses a delay" in why else ["ode"])
    assert "delays are not supported by ssa; its math uses a delay, and " + why in message
    assert message.endswith("can run it")


def test_a_delay_below_0_is_refused():
    with pytest.raises(ts.ModelError, match="the delay tau is -1; it must be 0 or more"):
        run(linear(-1))
    with pytest.warns(UserWarning, match="negative_delay"):
        result = run(linear(), n=4, sweep={"tau": [1.0, -1.0]})
    assert result.status.tolist() == [[0] * 4, [9] * 4]


def test_particles_do_not_look_back():
    with pytest.raises(ts.ConfigError, match="linear looks back, which particles do not"):
        ts.Ensemble(linear(), n=5, device="cpu", seed=1)
