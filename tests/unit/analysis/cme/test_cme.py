"""`tauslab.cme`: laws against closed forms and tables, bounds, and models chosen to break it."""

from __future__ import annotations

import math
import re
import sys
import time
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from places import ROOT

import tauslab as ts
from tauslab.analysis.cme import projection as projection_module
from tauslab.analysis.cme import states as states_module
from tauslab.analysis.cme.outlook import fewest_states, times_of_many
from tauslab.analysis.cme.propagate import poisson_weights
from tauslab.analysis.cme.propensities import Propensities
from tauslab.analysis.cme.solve import lowered_counts
from tauslab.decomposition.ranks import progress
from tauslab.model.expressions.expression import Symbol
from tauslab.model.network.network import Feature, Species

sys.path.insert(0, str(ROOT / "scripts" / "validation"))

import validate_cme as validation


def network(species, *reactions, name="m", parameters=()):
    net = ts.Network(name)
    for key, count in species.items():
        net.add_species(key, count)
    for key, value in dict(parameters).items():
        net.add_parameter(key, value)
    for equation, how in reactions:
        net.add_reaction(equation, **how)
    return net


def immigration(k=10.0, d=1.0):
    return network({"X": 0}, ("-> X", {"rate": k}), ("X ->", {"rate": d}))


def poisson(mean, n):
    return np.exp(np.arange(n) * math.log(mean) - mean - [math.lgamma(i + 1) for i in range(n)])


@pytest.mark.parametrize("problem", validation.PROBLEMS[1:], ids=lambda problem: problem.name)
def test_bounds_hold_in_exact_laws(problem):
    for one in validation.projected(problem):
        assert one.bound <= 1e-8 + 1e-11
        assert one.holds, one


@pytest.mark.validate
def test_bounds_hold_in_schlogl():
    assert all(one.holds for one in validation.projected(validation.PROBLEMS[0]))


@pytest.mark.filterwarnings("ignore:.*the variance of X .* may be too small")
@pytest.mark.parametrize("tolerance", [1e-2, 1e-5, 1e-11])
def test_immigration_and_death_is_poisson(tolerance):
    times = np.array([0.1, 1.0, 7.0])
    law = ts.cme(immigration(), times, tolerance=tolerance)
    for k, t in enumerate(times):
        own = law.marginal("X", t)
        exact = poisson(10 * (1 - math.exp(-t)), 200)
        exact[: len(own)] -= own
        assert exact.min() > -1e-14  # never above the law
        assert exact.sum() <= law.bound[k] <= tolerance * 1.01 + 1e-12
    np.testing.assert_allclose(law.mean("X"), 10 * (1 - np.exp(-times)), rtol=50 * tolerance)


def test_moments_conditions_and_joint_laws():
    net = network({"A": 3, "B": 1}, ("A -> B", {"rate": 2.0}))
    net.add_rule("total", "A + 10 * B")
    law = ts.cme(net, [0.0, 0.5])
    stays = math.exp(-1.0)
    np.testing.assert_allclose(law.mean("A"), [3, 3 * stays], rtol=1e-12)
    np.testing.assert_allclose(law.variance("A"), [0, 3 * stays * (1 - stays)], atol=1e-12)
    np.testing.assert_allclose(law.covariance("A", "B"), -law.variance("A"), atol=1e-12)
    np.testing.assert_allclose(law.mean("total"), law.mean("A") + 10 * law.mean("B"), rtol=1e-12)
    np.testing.assert_allclose(law.probability("A == 0 and B > 3"), [0, (1 - stays) ** 3])
    joint = law.joint(["B", "A"], 0.5)
    assert joint.shape == (5, 4)
    np.testing.assert_allclose(joint[2, 2], 3 * stays**2 * (1 - stays), rtol=1e-12)
    data = law.to_xarray()
    assert data["mean"].sel(species="A").dims == ("time",)


def test_a_mean_of_which_all_was_left_out_has_a_warning():
    """All states with molecules are less probable than the tolerance: mean 5 exp(-25) of 0 left."""
    dying = network({"X": 5}, ("X -> 2 X", {"rate": 1.0}), ("X ->", {"rate": 1.5}))
    with pytest.warns(UserWarning, match="mean of X at t = 50 may be too small by all of it"):
        law = ts.cme(dying, [1, 50])
    assert law.mean("X") == pytest.approx([5 * np.exp(-0.5), 0.0])


def test_moments_of_heavy_tails_are_exact_or_a_warning_says_that_they_are_too_small():
    """A critical branching process has mean 1 and variance 2t; a rare burst adds k b^2 t."""
    branching = network({"X": 1}, ("X -> 2 X", {"rate": 1.0}), ("X ->", {"rate": 1.0}))
    with pytest.warns(UserWarning, match=r"variance of X at t = 100 may be too small by about \d"):
        rough = ts.cme(branching, [1, 100], tolerance=1e-3)
    assert rough.mean("X")[1] < 0.9
    fine = ts.cme(branching, [1, 10])
    np.testing.assert_allclose(fine.mean("X"), 1.0, rtol=1e-5)
    np.testing.assert_allclose(fine.variance("X"), [2, 20], rtol=1e-4)
    bursts = ("-> X", {"rate": 100.0}), ("X ->", {"rate": 1.0}), ("-> 9999 X", {"rate": 1e-9})
    with pytest.warns(UserWarning, match="variance of X at t = 1 may be too small"):
        assert ts.cme(network({"X": 0}, *bursts), 1).variance("X")[-1] < 64


def test_likelihood_of_snapshots():
    law = ts.cme(immigration(), [1.0, 3.0])
    exact = poisson(10 * (1 - math.exp(-3)), 40)
    actual = law.log_likelihood({"X": [8, 8, 12]}, 3)
    assert actual == pytest.approx(2 * math.log(exact[8]) + math.log(exact[12]), rel=1e-8)
    with pytest.warns(UserWarning, match="too low by up to inf: .* tolerance="):
        assert law.log_likelihood({"X": [8, 500]}) == -math.inf
    rough = ts.cme(immigration(), [3.0], tolerance=1e-4)
    missing = 2 * math.log(exact[30])
    with pytest.warns(UserWarning, match="too low by up to ") as warned:
        missing -= rough.log_likelihood({"X": [30, 30]})
    assert 0.01 < missing <= float(re.findall("up to ([^:]*):", str(warned[0].message))[0])
    with pytest.raises(ts.ConfigError, match="whole counts"):
        law.log_likelihood({"X": [1.5]})


def test_initial_laws_and_values():
    net = network({"X": 4, "F": 2}, ("X ->", {"rate": "k"}), parameters={"k": 1.0})
    with pytest.raises(ts.ConfigError, match="initial X: X is also given one amount: choose one"):
        ts.cme(net, [0, 1.0], set={"X": 4}, initial={"X": "poisson(5)"})
    law = ts.cme(net, [0, 1.0], set={"k": 2.0}, initial={"X": "poisson(5)"})
    np.testing.assert_allclose(law.marginal("X", 0)[:20], poisson(5, 20), rtol=1e-12)
    np.testing.assert_allclose(law.marginal("X", 1)[:9], poisson(5 * math.exp(-2), 9), rtol=1e-9)
    two = ts.cme(net, 0, initial={"X": [0.25, 0, 0.75], "F": "uniform(1,2)"})
    np.testing.assert_allclose(two.joint(["X", "F"])[2], [0, 0.375, 0.375])


def test_initial_amounts_that_would_not_follow_a_drawn_one_are_refused():
    """As in a run, Y begins with X + 1 of the X that is drawn; `cme` would take the model's X."""
    net = network({"X": 10, "Y": "X + 1"}, ("X ->", {"rate": 1.0}))
    refusal = "initial X: the initial amount of Y is computed from it"
    with pytest.raises(ts.ConfigError, match=refusal):
        ts.cme(net, 1, initial={"X": "uniform(3,5)"})
    with pytest.raises(ts.ConfigError, match=refusal):
        ts.Ensemble(net, n=2, initial={"X": "uniform(3,5)"}, device="cpu")
    net.add_rule("twice", "2 * X")
    with pytest.raises(ts.ConfigError, match=refusal):
        ts.cme(replace(net, species=net.species | {"Y": Species("Y", Symbol("twice"))}), 1,
               initial={"X": "uniform(3,5)"})  # fmt: skip
    for given in ({"initial": {"X": "uniform(3,5)", "Y": "poisson(2)"}},
                  {"initial": {"X": "uniform(3,5)"}, "set": {"Y": 2}}):  # fmt: skip
        law = ts.cme(net, 0, **given)
        assert (law.mean("X")[0], law.mean("Y")[0]) == (pytest.approx(4), pytest.approx(2))


QUIET = [
    network({"X": 3}, name="nothing"),
    network({"X": 3}, ("X ->", {"rate": 0.0}), name="zero"),
    network({"X": 3}, ("X -> X", {"rate": 5.0}), name="catalysis"),
]


@pytest.mark.parametrize("net", QUIET, ids=lambda net: net.name)
def test_where_nothing_changes(net):
    law = ts.cme(net, [0, 1e9])
    assert law.marginal("X").tolist() == [0, 0, 0, 1]
    assert law.bound.tolist() == [0, 0]


def test_absorption():
    law = ts.cme(network({"X": 5}, ("X ->", {"rate": 1.0})), [1e3])
    assert law.marginal("X")[0] == pytest.approx(1, abs=1e-11)
    assert law.bound[0] < 1e-9


def test_unbounded_growth():
    law = ts.cme(network({"X": 1}, ("X -> 2 X", {"rate": 1.0})), [2.0])
    stays = math.exp(-2.0)  # Yule: geometric
    exact = stays * (1 - stays) ** np.arange(100)
    np.testing.assert_allclose(law.marginal("X")[1:101], exact, atol=law.bound[0])


def test_stiff_by_squaring():
    net = network(
        {"A": 4, "B": 0, "C": 0},
        ("A -> B", {"rate": 1e7}), ("B -> A", {"rate": 1e7}), ("B -> C", {"rate": 1.0}),
    )  # fmt: skip
    with pytest.warns(UserWarning, match=r"at most .* at t = 2, and tolerance=1e-08 was asked for"):
        law = ts.cme(net, [0, 2.0])
    # A and B are in balance: each molecule ends at the rate 1/2, but for parts in 1e7.
    assert law.mean("C")[1] == pytest.approx(4 * (1 - math.exp(-1)), rel=1e-6)
    assert 0 < law.rounding[1] < 1e-2


def test_too_stiff_and_too_many_are_refused_with_numbers():
    fast = network({"A": 300, "B": 0, "C": 0}, ("A -> B", {"rate": 1e6}), ("B -> C", {"rate": 1.0}),
                   ("B -> A", {"rate": 1e6}))  # fmt: skip
    with pytest.raises(ts.ConfigError, match=r"left 3e\+08 times .* max_seconds=600"):
        ts.cme(fast, 1.0)
    many = network({f"S{i}": 20 for i in range(6)},
                   *((f"S{i} -> S{(i + 1) % 6}", {"rate": 1.0}) for i in range(6)))  # fmt: skip
    with pytest.raises(ts.ConfigError, match=r"takes \d+ states or more \(.*max_states=1000"):
        ts.cme(many, 1.0, max_states=1000)


def turnovers(species, mean):
    names = [f"S{k}" for k in range(species)]
    births = [(f"-> {name}", {"rate": mean}) for name in names]
    return network(dict.fromkeys(names, 0), *births, *((f"{n} ->", {"rate": 1.0}) for n in names))


@pytest.mark.validate
def test_many_species_are_refused_before_most_states_are_found(monkeypatch):
    """10 independent species: in 16,384 draws none meets another, so there are 9.7e6 states."""
    monkeypatch.setattr(projection_module, "available_memory", lambda: 16 << 30)
    with pytest.raises(ts.ConfigError, match=r"9714410 states or .* t = 0\.3125, and 8 GiB"):
        ts.cme(turnovers(10, 50.0), 5.0)


@pytest.mark.validate
def test_many_species_that_take_too_long_are_refused_ahead(monkeypatch):
    monkeypatch.setattr(projection_module, "available_memory", lambda: 16 << 40)
    with pytest.raises(ts.ConfigError, match=r"more than 9714410 states by t = 0\.625,.*=100"):
        ts.cme(turnovers(10, 50.0), 5.0, max_seconds=100)


@pytest.mark.validate
def test_draws_that_meet_tell_nothing():
    """Of N equally likely states 16,384 draws all differ with the probability exp(-1.3e8 / N)."""
    lowered = lowered_counts(turnovers(2, 100.0), {})[1]
    start = np.zeros((1, 2), np.int32)
    assert not list(times_of_many(Propensities(lowered), start, np.ones(1), 1.0))
    assert fewest_states() == 9714410
    many = np.arange(40_000, dtype=np.int32).reshape(-1, 2)  # N is 20,000
    assert not list(times_of_many(Propensities(lowered), many, np.full(len(many), 5e-5), 1e-9))


@pytest.mark.parametrize("given", [{}, {"max_states": 10**9}])
def test_what_memory_does_not_hold_is_refused_before_it_is_taken(monkeypatch, given):
    """Each layer of these states is three times that before, so one too many would be seen."""
    monkeypatch.setattr(projection_module, "available_memory", lambda: 40 << 20)
    net = network({f"S{i}": 100 for i in range(10)},
                  *((f"S{i} -> S{(i + 1) % 10}", {"rate": 1.0}) for i in range(10)),
                  *((f"-> S{i}", {"rate": 10.0}) for i in range(10)))  # fmt: skip
    ts.cme(immigration(), 1.0)  # imports SciPy
    tracemalloc.start()
    try:
        with pytest.raises(
            ts.ConfigError,
            match=r"takes \d+ states or more \(.* MiB\) at t = .*, and 20 MiB of memory may",
        ):
            ts.cme(net, 1.0, **given)
        assert tracemalloc.get_traced_memory()[1] < 20 << 20
    finally:
        tracemalloc.stop()


def test_growth_counts_as_time():
    net = network({f"S{i}": 100 for i in range(10)},
                  *((f"S{i} -> S{(i + 1) % 10}", {"rate": 1.0}) for i in range(10)))  # fmt: skip
    with pytest.raises(ts.ConfigError, match=r"with the earlier ones, and max_seconds=0\.05"):
        ts.cme(net, 1e-4, max_seconds=0.05, tolerance=1e-12)


def test_a_horizon_that_roundings_fill_is_soon_there_and_says_so():
    began = time.process_time()
    with pytest.warns(UserWarning, match=r"1e\+09, and tolerance=1e-08 .* one of \d+ states"):
        law = ts.cme(immigration(), 1e9)
    assert time.process_time() - began < 10  # 0.6 s; 30 s where the series is tried first
    own = law.marginal("X")
    assert np.abs(own - poisson(10, len(own))).sum() < 1e-6 < law.bound[0]


def test_explosion_is_refused():
    with pytest.raises(ts.ConfigError, match=r"simulate it with ts\.run"):
        ts.cme(network({"X": 10}, ("2 X -> 3 X", {"rate": 1.0})), 0.5, max_states=500)


def test_propensities_that_are_undefined():
    outside = network({"X": 2}, ("X ->", {"law": "X * X / X"}), ("-> X", {"law": "sqrt(3 - X)"}))
    law = ts.cme(outside, 50.0)
    assert len(law.marginal("X")) == 4
    assert law.bound[0] < 1e-10
    inside = network({"X": 5}, ("X ->", {"law": "X - 2.5"}))
    with pytest.raises(ts.ModelError, match=r"R1 has the propensity -0\.5 where X = 2"):
        ts.cme(inside, 1.0)
    with pytest.raises(ts.ModelError, match="R1 has the propensity nan where X = 1"):
        ts.cme(network({"X": 1}, ("X ->", {"law": "sqrt(-X)"})), 1.0)


def test_states_that_share_a_key_are_told_apart(monkeypatch):
    monkeypatch.setattr(
        states_module.StateSet, "_draw_multipliers", weak_first(states_module.StateSet)
    )
    net = network({"A": 2, "B": 2}, ("A ->", {"rate": 1.0}), ("B ->", {"rate": 1.0}))
    law = ts.cme(net, 1.0)
    stays = math.exp(-1.0)
    assert law.joint(["A", "B"])[2, 1] == pytest.approx(stays**2 * 2 * stays * (1 - stays))


def weak_first(cls):
    """Multipliers that are all 1 at first, so that A = 1, B = 2 has the key of A = 2, B = 1."""
    proper = cls._draw_multipliers

    def draw(self):
        first = self._trial == 0
        proper(self)
        if first:
            self._multipliers[:] = 1
            self._jumps = self._key(self.change)
            self._keys = self._key(self.states)
            self._sort()

    return draw


@pytest.mark.parametrize("mean", [1e-3, 0.7, 3.0, 100.0, 1e6])
def test_poisson_weights(mean):
    first, weights = poisson_weights(mean)
    counts = np.arange(first, first + len(weights))
    logs = [k * math.log(mean) - mean - math.lgamma(k + 1) for k in counts.tolist()]
    np.testing.assert_allclose(weights, np.exp(logs), rtol=1e-7)
    assert 1 - 1e-14 < weights.sum() <= 1 + 1e-15


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"times": [1, 0]}, "must increase"),
        ({"times": [-1.0]}, "not allowed"),
        ({"times": []}, "one or more"),
        ({"times": 1, "tolerance": 0}, "tolerance=0"),
        ({"times": 1, "max_states": 0}, "max_states=0"),
        ({"times": 1, "max_seconds": 0}, "max_seconds=0"),
        ({"times": 1, "set": {"Q": 1}}, "Q"),
        ({"times": 1, "set": {"X": [1, 2]}}, "one number"),
        ({"times": 1, "initial": {"Q": "poisson(1)"}}, "not a species"),
        ({"times": 1, "initial": {"X": "gauss(1)"}}, "poisson"),
        ({"times": 1, "initial": {"X": [0.5, 0.6]}}, "sum to 1.1"),
    ],
)
def test_bad_arguments(given, message):
    with pytest.raises(ts.ConfigError, match=message):
        ts.cme(immigration(), **given)


def test_bad_questions():
    law = ts.cme(immigration(), [0, 1])
    for ask in (
        lambda: law.marginal("Y"), lambda: law.marginal("X", 0.5), lambda: law.mean("Y"),
        lambda: law.probability("Y > 1"), lambda: law.log_likelihood({}),
    ):  # fmt: skip
        with pytest.raises(ts.ConfigError):
            ask()
    with pytest.raises(ts.ConfigError, match=r"ts\.cme takes"):
        ts.cme(3, [1])
    with pytest.raises(ts.ModelError, match="no species"):
        ts.cme(ts.Network("empty"), [1])


def test_models_with_more_than_counts_are_refused():
    moved, timed, late = (network({"X": 5}) for _ in range(3))
    moved.add_rate("X", "-X")
    timed.add_event("dose", 1.0, {"X": 9})
    late.add_reaction("X ->", law="X * time")
    late.add_feature(Feature("time", "reaction R1", "it uses the time"))
    for net, element in ((moved, "rate rule for X"), (timed, "event dose"), (late, "reaction R1")):
        with pytest.raises(ts.ModelError, match=f"{element}: a master equation does not support"):
            ts.cme(net, [1])


@pytest.mark.validate
def test_the_example_finds_the_rate(monkeypatch):
    """The maximum is within four standard errors of the rate that made the cells."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    from snapshots import fit

    rates, logs = fit()
    weights = np.exp(logs - logs.max())
    mean = (weights * rates).sum() / weights.sum()
    sd = math.sqrt((weights * (rates - mean) ** 2).sum() / weights.sum())
    assert sd < 0.02
    assert abs(mean - 0.08) < 4 * sd


def test_a_fixed_species_keeps_an_amount_that_is_not_whole():
    net = network({"X": 0}, ("-> X", {"law": "25 * E"}), ("X ->", {"rate": 1.0}))
    net.add_species("E", 0.4, fixed=True)
    law = ts.cme(net, [0, 2])
    assert law.mean("X")[1] == pytest.approx(10 * (1 - math.exp(-2)), rel=1e-6)
    assert law.mean("E").tolist() == pytest.approx([0.4, 0.4])
    with pytest.raises(ts.ConfigError, match="no counts"):
        law.marginal("E")


def test_a_loss_that_is_rounding_is_no_state_without_a_law():
    """A closed set keeps all probability: 6.7e-16 of it is what doubles cannot hold."""
    net = ts.Network("bounded")
    net.add_species("X", 10)
    net.add_reaction("-> X", law="if(X < 40, 5, 0)")
    net.add_reaction("X ->", law="if(X < 40, 0.5 * X, 0)")
    with pytest.warns(UserWarning, match="tolerance=1e-15 was asked for"):
        law = ts.cme(net, [10], tolerance=1e-15)
    mean = 10.0  # of the law without the bound, which holds 1e-12 beyond it
    assert law.mean("X")[0] == pytest.approx(mean, rel=1e-9)


def test_long_calculations_show_progress(capsys, monkeypatch):
    """After two seconds, with `quiet=False` at once; also in the midst of one long time step."""
    net, message = immigration(), []
    monkeypatch.setattr(progress.Progress, "update", lambda _, done, events: message.append(done))
    ts.cme(net, 50.0, quiet=True)
    assert len(message) > 5
    assert message[-1] == 100
    monkeypatch.undo()
    ts.cme(net, 1.0, quiet=True)
    ts.cme(net, 1.0)  # ends sooner
    assert not capsys.readouterr().err
    ts.cme(net, 1.0, quiet=False)
    data = {"time": [1.0], "X": [9.0]}
    ts.exact_filter(net, data, observe={"X": "normal(2)"}, quiet=False)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert all(line.startswith("m: 100/100 % of the time") for line in lines)
