"""Cells that grow and divide, against laws that are known."""

from __future__ import annotations

import hashlib
import math
import sys

import numpy as np
import pytest
from places import ROOT
from reference_ensembles import case
from sampling import ordinary

import tauslab as ts
from tauslab.kernels.events.divide import SHARES


def constant_rate(k=12.0, rate=0.7):
    """X is made at the rate k; a cell divides at a constant rate, whatever it holds."""
    net = ts.Network("constant_rate")
    net.add_species("X", 0)
    net.add_species("D", 0)
    net.add_parameter("k", k)
    net.add_reaction("-> X", rate="k")
    net.add_reaction("-> D", rate=rate)
    net.add_event("divide", trigger="D >= 1", assignments={"D": 0})
    return net


def sizer(production=20.0):
    """A volume that grows exponentially, and a division at the volume 2."""
    net = ts.Network("sizer")
    net.add_species("X", 0)
    net.add_species("V", 1.0)
    net.add_species("born", 0.0, fixed=True)
    net.add_reaction("-> X", law=f"{production} * V")
    net.add_rate("V", "0.5 * V")
    net.add_event("divide", trigger="V >= 2", assignments={"born": "time"})
    net.add_rule("concentration", "X / V")
    return net


PERIOD = 2 * math.log(2)  # of the sizer


def grown(model, times, **given):
    given = {"division": "divide", "seed": 1, "device": "cpu", **given}
    return ts.population(model, times, **given)


def near(values, mean, variance, size, allowed=4.0):
    """Mean and variance within standard errors of `size` cells that are as good as independent."""
    fourth = ((values - values.mean()) ** 4).mean()
    assert abs(values.mean() - mean) < allowed * math.sqrt(variance / size)
    assert abs(values.var() - variance) < allowed * math.sqrt((fourth - variance**2) / size)


@pytest.mark.parametrize("follow", ordinary(["population", "lineage"], "lineage"))
def test_division_at_a_constant_rate(follow):
    """Mean and variance of the steady law; four standard errors, false alarms 0.02 %.

    Of a population half of the cells are taken as independent, for sisters are alike.
    """
    exact = case("population_constant_rate")["exact"]
    times = [4, 12] if follow == "population" else [10, 24]
    actual = grown(constant_rate(), times, cells=3000, follow=follow, seed=3)
    last = actual.snapshots[-1]
    size = 3000 if follow == "lineage" else 1500
    near(last["X"], exact[f"{follow}_mean"], exact[f"{follow}_var"], size)
    if follow == "lineage":
        assert len(last) == 3000
        rate = len(actual.divisions) / (3000 * 24)
        assert abs(rate - 0.7) < 4 * math.sqrt(0.7 / (3000 * 24))
        with pytest.warns(UserWarning, match="not known where one daughter is followed"):
            assert math.isnan(actual.growth_rate)
    else:
        assert 3000 <= len(last) <= 6000
        assert abs(actual.growth_rate - exact["growth_rate"]) < 4 * math.sqrt(0.7 * 8 / 1500) / 8


@pytest.mark.validate
def test_division_at_a_constant_rate_of_many():
    """20,000 cells, both ways of following them, as above."""
    exact = case("population_constant_rate")["exact"]
    for follow in ("population", "lineage"):
        last = grown(constant_rate(), [24], cells=20_000, follow=follow, seed=4).snapshots[-1]
        size = 20_000 if follow == "lineage" else 10_000
        near(last["X"], exact[f"{follow}_mean"], exact[f"{follow}_var"], size)


@pytest.mark.validate
def test_ages_and_volumes_of_exponential_growth():
    """Ages a of the period have the density 2^(1 - a) ln 2, volumes 2 / V^2 (Powell 1956).

    Cells begin with that law; Kolmogorov and Smirnov, a false alarm 0.1 %. The time from birth to
    division is the period, to the error of the integrator.
    """
    stats = pytest.importorskip("scipy.stats")
    volumes = 1 / (1 - (np.arange(800) + 0.5) / 1600)
    actual = grown(
        sizer(production=0.5), [PERIOD, 2 * PERIOD], cells=800, seed=2, set={"V": volumes}
    )
    last = actual.snapshots[-1]
    assert len(last) == 1600
    ages = stats.kstest(last.age / PERIOD, lambda a: 2 - 2 ** (1 - a))
    sizes = stats.kstest(last["V"], lambda v: 2 * (1 - 1 / v))
    assert min(ages.pvalue, sizes.pvalue) > 0.001
    np.testing.assert_allclose(last["V"], np.exp(0.5 * last.age), rtol=1e-6)
    np.testing.assert_allclose(last.age, 2 * PERIOD - last["born"], rtol=1e-9)
    later = actual.generations()[1]
    assert later.time_mean == pytest.approx(PERIOD, rel=1e-6)
    assert later.time_sd < 1e-5
    assert later.birth_mean["V"] == pytest.approx(1.0, rel=1e-6)
    assert later.division_mean["V"] == pytest.approx(2.0, rel=1e-6)
    assert actual.growth_rate == pytest.approx(0.5, rel=1e-9)  # a period doubles exactly
    with pytest.warns(UserWarning, match="equally many descendants"):
        assert math.isnan(actual.growth_error)


@pytest.mark.validate
def test_generations_say_which_of_their_cells_have_not_divided():
    """Times of complete generations have mean 1 and sd 1; of others they are too short."""
    actual = grown(constant_rate(rate=1.0), [4.0], cells=400, follow="tree", max_cells=200_000)
    generations = actual.generations()
    last = actual.snapshots[-1].generation
    assert [one.undivided for one in generations] == [
        int((last <= one.generation).sum()) for one in generations
    ]
    late = generations[8]
    assert late.undivided > 0
    assert late.time_mean < 0.6
    single = grown(constant_rate(rate=1.0), [9.0], cells=1, follow="lineage").generations()[0]
    assert (single.divisions, single.undivided) == (1, 0)
    assert math.isnan(single.time_sd)


def test_an_adder_and_a_timer():
    """What is added is 1 whatever the size at birth; what passes is 0.9 whatever it holds.

    Sizes at birth come to 1 by halves, from 2.6 to 1 + 1.6 / 2^g in generation g.
    """
    net = ts.Network("both")
    for name, value in (("V", 2.6), ("V0", 2.6), ("born", 0.0)):
        net.add_species(name, value, fixed=name != "V")
    net.add_species("X", 5)
    net.add_reaction("X ->", rate=0.1)
    net.add_rate("V", "0.4 * V")
    net.add_event("add", trigger="V - V0 >= 1", assignments={"V0": "V"})
    adder = ts.population(
        net, [6], division="add", cells=2, follow="tree", partition={"V0": "share"}, seed=1,
        device="cpu",
    )  # fmt: skip
    for one in adder.generations()[1:]:
        assert one.birth_mean["V"] == pytest.approx(1 + 1.6 / 2**one.generation, rel=1e-5)
        assert one.division_mean["V"] - one.birth_mean["V"] == pytest.approx(1, rel=1e-5)
    net.add_event("tick", trigger="time - born >= 0.9", assignments={"born": "time"})
    timer = ts.population(net, [4], division="tick", cells=2, follow="tree", device="cpu")
    assert len(timer.snapshots[0]) == 2 * 2**4
    np.testing.assert_allclose(timer.divisions.divided - timer.divisions.born, 0.9, rtol=1e-9)


def test_numbers_of_a_growing_cell():
    """From birth to division 20 (2 - 1) / 0.5 = 40 are made: 40 at birth, 80 at division.

    At birth the law of X is the sum over generations of Poisson numbers that are halved: Poisson.
    """
    actual = grown(sizer(), [9 * PERIOD + 0.1], cells=1500, follow="lineage", seed=5)
    last = actual.generations()[-1]
    assert last.divisions == 1500
    made = 40 * (1 - 0.5**9)
    assert abs(last.birth_mean["X"] / made - 1) < 0.02  # 0.5^9 is still missing of 40
    births = actual.divisions.at_birth[actual.divisions.generation == last.generation][:, 0]
    near(births, 40 * (1 - 0.5**8), 40 * (1 - 0.5**8), 1500)
    xs = actual.snapshots[-1]
    assert xs.names == ("X", "V", "born", "concentration")
    np.testing.assert_allclose(xs["concentration"], xs["X"] / xs["V"], rtol=1e-6)


def test_partition():
    """Each way, by the daughters of one division; molecules are neither made nor lost."""
    net = ts.Network("partition")
    for name, count in (("A", 1001), ("B", 1001), ("C", 7), ("E", 9)):
        net.add_species(name, count)
    net.add_species("V", 2.0)
    net.add_species("t0", 0.5, fixed=True)
    net.add_rate("V", "V")
    net.add_reaction("E ->", rate=0.0)
    net.add_event("divide", trigger="V >= 4", assignments={"t0": "time"})
    actual = grown(
        net, [0.8], cells=400, follow="tree", fraction="uniform(0.2,0.3)",
        partition={"B": "even", "C": "copy", "E": "first"},
    ).snapshots[0]  # fmt: skip
    assert len(actual) == 800
    first, second = (slice(i, None, 2) for i in (0, 1))
    parts = actual["V"][first] / (actual["V"][first] + actual["V"][second])
    assert 0.2 <= parts.min() < 0.21
    assert 0.29 < parts.max() <= 0.3
    z = (actual["A"][first] - 1001 * parts) / np.sqrt(1001 * parts * (1 - parts))
    assert abs(z.mean()) < 4 / math.sqrt(400)
    assert abs(z.std() - 1) < 4 / math.sqrt(800)
    assert (actual["A"][first] + actual["A"][second] == 1001).all()
    assert sorted(np.unique(actual["B"])) == [500, 501]
    assert (actual["B"][first] + actual["B"][second] == 1001).all()
    assert (actual["C"] == 7).all()
    assert (actual["E"][first] == 9).all()
    assert (actual["E"][second] == 0).all()
    np.testing.assert_allclose(actual["t0"], math.log(2), rtol=1e-6)
    assert set(SHARES) == {"binomial", "even", "copy", "first", "share"}


def test_a_tree_knows_its_lines():
    actual = grown(constant_rate(), [0, 3], cells=3, follow="tree", seed=8)
    last, all_ = actual.snapshots[1], actual.divisions
    assert len(last) == 3 + len(all_)
    assert len(set(last.cell) | set(all_.cell)) == 3 + 2 * len(all_)
    generation = dict(zip(all_.cell, all_.generation, strict=True))
    divided = dict(zip(all_.cell, all_.divided, strict=True))
    founder = dict(zip(all_.cell, all_.founder, strict=True))
    for at, mother in enumerate(last.mother.tolist()):
        if mother < 0:
            assert last.generation[at] == 0
            continue
        assert last.generation[at] == generation[mother] + 1
        assert last.founder[at] == founder[mother]
        assert last.age[at] == 3 - divided[mother]
    assert (np.diff(all_.divided) >= 0).all()
    assert actual.log_size[1] == pytest.approx(math.log(len(last)))
    frame = all_.to_pandas()
    assert list(frame.columns[-2:]) == ["X at division", "D at division"]
    dataset = actual.to_xarray()
    assert dataset["mean"].sel(name="X").shape == (2,)
    with pytest.raises(ts.ConfigError, match="more than max_cells=5"):
        grown(constant_rate(), [30], cells=3, follow="tree", max_cells=5)


def test_parameters_are_inherited():
    rates = np.repeat([0.0, 30.0], 20)
    actual = grown(constant_rate(), [3], cells=40, set={"k": rates}).snapshots[0]
    made = rates[actual.founder] > 0
    assert (actual["X"][~made] == 0).all()
    assert (actual["X"][made] > 0).mean() > 0.9


def test_one_cell_and_none_that_divides():
    actual = grown(constant_rate(rate=0.0), [1, 2], cells=1, initial={"X": "poisson(5)"})
    assert [len(one) for one in actual.snapshots] == [1, 1]
    assert len(actual.divisions) == 0
    assert actual.generations() == []
    assert math.isnan(actual.snapshots[0].var("X"))
    assert actual.snapshots[1].age.tolist() == [2.0]


def bursting():
    net = constant_rate()
    net.add_reaction("-> 2147483647 X", rate=5.0)
    return net


def endless():
    net = ts.Network("endless")
    net.add_species("X", 0)
    net.add_species("n", 0.0, fixed=True)
    net.add_reaction("-> X", rate=1.0)
    net.add_event("divide", trigger="time >= 1 && n < 1e9 && floor(n / 2) * 2 == n",
                  assignments={"n": "n + 1"})  # fmt: skip
    net.add_event("again", trigger="time >= 1 && floor(n / 2) * 2 < n", assignments={"n": "n + 1"})
    return net


@pytest.mark.parametrize(
    ("model", "given", "message"),
    [
        (constant_rate, {"division": "split"}, "no such event; its events: divide"),
        (constant_rate, {"partition": {"Y": "copy"}}, "not a species"),
        (constant_rate, {"partition": {"X": "share"}}, "a count, binomial"),
        (sizer, {"partition": {"V": "binomial"}}, "a quantity, copy"),
        (constant_rate, {"fraction": 1.0}, "between 0 and 1"),
        (constant_rate, {"fraction": "uniform(0.6,0.4)"}, "between 0 and 1"),
        (constant_rate, {"fraction": "normal(0.5,1)"}, "uniform"),
        (constant_rate, {"follow": "all"}, "lineage"),
        (constant_rate, {"cells": 0}, "cells"),
        (constant_rate, {"set": {"k": [1.0, 2.0]}}, "one per cell"),
        (sizer, {"initial": {"V": "uniform(1,2)"}}, "initial V: it is a quantity, not a count"),
        (bursting, {"cells": 2}, "all cells have ended"),
    ],
)
def test_what_cannot_be(model, given, message):
    with pytest.raises(ts.ConfigError, match=message):
        grown(model(), [60], **{"cells": 5, **given})


@pytest.mark.compiler
def test_cells_that_end_are_not_left_out_in_silence():
    with pytest.warns(UserWarning, match="[0-9]+ cells have ended early .* count as dead"):
        actual = grown(bursting(), [0.05], cells=50)
    assert 0 < actual.ended < 50


@pytest.mark.parametrize("times", [[-1], [2, 1], [], ["a"], [math.nan]])
def test_times_that_cannot_be(times):
    with pytest.raises(ts.ConfigError):
        grown(constant_rate(), times, cells=2)


def test_memory_is_asked_for_first():
    with pytest.raises(ts.DeviceError, match="TiB on the device"):
        grown(sizer(), [1], cells=10**11)
    with pytest.raises(ts.DeviceError, match="TiB on the device"):
        ts.Ensemble(sizer(), 10**11, device="cpu")


def test_cells_that_divide_without_end():
    """Their events fire each other for ever: a cascade ends them, and no cell is left."""
    with pytest.raises(ts.ConfigError, match="cascade"):
        grown(endless(), [2], cells=1, follow="lineage")


def digest(device):
    actual = hashlib.sha256()
    for model, given in (
        (constant_rate(), {"fraction": "uniform(0.3,0.7)", "initial": {"X": "poisson(30)"}}),
        (sizer(200.0), {"partition": {"X": "even"}}),
    ):
        for follow in ("population", "lineage"):
            result = grown(model, [2.5, 5], cells=60, follow=follow, device=device, **given)
            for one in result.snapshots:
                actual.update(one.values.tobytes() + one.age.tobytes() + one.cell.tobytes())
            actual.update(result.divisions.at_division.tobytes() + result.log_size.tobytes())
    return actual.hexdigest()


@pytest.mark.gpu
def test_the_same_bits_on_a_gpu():
    assert digest("cuda") == digest("cpu")


@pytest.mark.validate
def test_the_example_finds_concentrations_by_age(monkeypatch):
    """At a constant rate of 100: (100 + 100 a) / 2^a, with a around 0.07 and 0.42 of the period."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "examples"), *sys.path])
    from dividing_cells import young_and_middle

    for scales, expected in ((True, (100, 100)), (False, (102, 106))):
        actual = young_and_middle(scales, cells=500)[:2]
        assert np.abs(np.subtract(actual, expected)).max() < 3


@pytest.mark.filterwarnings("ignore:growth rate")
def test_the_error_of_the_growth_rate_holds_what_it_says():
    """Divisions at the rate 0.7, of 100 cells: 20 seeds, of which 16 hold it but in 1 of 400.

    The mean of rates is within four of its standard errors of 0.7, where the slope of the logarithm
    alone is below.
    """
    rates, errors = [], []
    for seed in range(20):
        actual = grown(constant_rate(), [0, 3], cells=100, seed=seed)
        rates.append(actual.growth_rate)
        errors.append(actual.growth_error)
        assert actual.growth.families > 16
    rates = np.array(rates)
    assert (np.abs(rates - 0.7) < 1.96 * np.array(errors)).sum() >= 16
    assert abs(rates.mean() - 0.7) < 4 * rates.std() / math.sqrt(20)
    assert 0.6 < np.mean(errors) / rates.std() < 2.2  # of 20, and widened


def test_what_is_not_known_of_growth_is_said():
    few = grown(constant_rate(), [0, 3], cells=10, seed=1)
    with pytest.warns(UserWarning, match="families, take more cells"):
        assert few.growth_error > 0
    one = grown(constant_rate(), [3], cells=10, seed=1)
    with pytest.warns(UserWarning, match="of one time: give two or more"):
        assert math.isnan(one.growth_rate)
    assert "not known of one time" in repr(one)
    assert any("not known of one time" in line for line in one.lines())
    still = grown(constant_rate(), [0, 1e-9], cells=10, seed=1)
    with pytest.warns(UserWarning, match="equally many descendants"):
        assert math.isnan(still.growth_error)  # not 0 +- 0
    single = grown(constant_rate(), [0, 3], cells=1, seed=1, follow="tree")
    with pytest.warns(UserWarning, match="it began with one cell"):
        assert math.isnan(single.growth_error)


def test_a_timer_begins_with_cells_of_any_age():
    """As docs/populations.md writes a timer; `born` may be before 0."""
    net = ts.Network("timer")
    net.add_species("X", 0)
    net.add_species("born", 0.0, fixed=True)
    net.add_reaction("-> X", rate=1.0)
    net.add_event("divide", trigger="time - born >= 2", assignments={"born": "time"})
    ages = np.linspace(0.1, 1.9, 19)
    actual = grown(net, [0, 2], cells=19, set={"born": -ages})
    np.testing.assert_allclose(np.sort(actual.divisions.divided), np.sort(2 - ages), rtol=1e-12)
    np.testing.assert_allclose(actual.divisions.divided - actual.divisions.born, 2, rtol=1e-12)
    for one in actual.snapshots:
        np.testing.assert_allclose(one.age, one.time - one["born"], rtol=1e-12)
    with pytest.raises(ts.ConfigError, match="initial amount of X cannot be -1"):
        grown(net, [2], cells=19, set={"X": -1})
