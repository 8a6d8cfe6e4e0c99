"""Parts that step together: laws of splitting, carry, drives, bills; bits; what is refused."""

from __future__ import annotations

import json
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from sampling import ordinary
from scipy import stats

import tauslab as ts
from tauslab.analysis.hybrids.clock import Interval, groups_of
from tauslab.analysis.hybrids.driver import HybridRun, seed_of
from tauslab.analysis.hybrids.ledger import Account, Ledger
from tauslab.analysis.hybrids.run import _described
from tauslab.analysis.particles.store import StateCheckpoint

RARELY = 1e-4  # a test of chance fails as seldom, were its seed another


def network(name, species, reactions=(), rates=(), **parameters):
    net = ts.Network(name)
    for one, initial in species.items():
        net.add_species(one, initial)
    for one, value in parameters.items():
        net.add_parameter(one, value)
    for number, (equation, rate) in enumerate(reactions):
        net.add_reaction(equation, rate=rate, name=f"r{number}")
    for one, rate in dict(rates).items():
        net.add_rate(one, rate)
    return net


def run(hybrid, t_end, **given):
    return ts.run(hybrid, **{"t_end": t_end, "seed": 1, "device": "cpu", "pilot": 0, **given})


def chain(every, method="ssa", molecules=10_000, sample=None):
    """A -> B in one part, B -> C in the other."""
    cell = ts.Hybrid("chain")
    first = network("first", {"A": molecules, "B": 0}, [("A -> B", 1.0)])
    second = network("second", {"B": 0, "C": 0}, [("B -> C", 0.3)])
    cell.add_part("first", first, method=method, every=every, sample=sample)
    cell.add_part("second", second, method=method, every=every, sample=sample)
    cell.share("first.B", "second.B")
    return cell


def probabilities(every, splitting, end=2.0):
    """Of A, B and C at the end, where a molecule is split between the parts."""

    def one(s):
        a = np.exp(-s)
        return np.array([[a, 0, 0], [1 - a, 1, 0], [0, 0, 1]])

    def two(s):
        b = np.exp(-0.3 * s)
        return np.array([[1, 0, 0], [0, b, 0], [0, 1 - b, 1]])

    step = two(every) @ one(every)
    if splitting == "strang":
        step = one(every / 2) @ two(every) @ one(every / 2)
    return np.linalg.matrix_power(step, round(end / every)) @ [1, 0, 0]


@pytest.mark.parametrize("splitting", ["lie", "strang"])
@pytest.mark.parametrize("every", [1.0, 0.25])
def test_split_reactions_have_the_law_of_their_interval(device, every, splitting):
    result = run(chain(every), 2.0, n=20, splitting=splitting, device=device)
    ends = [result.values(name)[:, -1] for name in ("first.A", "first.B", "second.C")]
    seen = np.array([values.sum() for values in ends])
    assert seen.sum() == 200_000
    wanted = 200_000 * probabilities(every, splitting)
    assert stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), 2) > RARELY
    assert (result.values("second.B")[:, -1] == ends[1]).all()


def test_order_of_splitting():
    exact = 0.27398421
    for splitting, order in (("lie", 1), ("strang", 2)):
        errors = []
        for every in (0.5, 0.25):
            actual = run(chain(every, "ode", 1), 2.0, splitting=splitting)
            end = actual.values("second.C")[0, -1]
            assert end == pytest.approx(probabilities(every, splitting)[2], abs=2e-6)
            errors.append(abs(end - exact))
        assert np.log2(errors[0] / errors[1]) == pytest.approx(order, abs=0.1)


def gene_and_rna(every, over="mean"):
    cell = ts.Hybrid("gene")
    gene = network("gene", {"off": 1, "on": 0}, [("off -> on", 0.02), ("on -> off", 0.03)])
    rna = network("rna", {"M": 200.0}, (), {"M": "k - 0.01 * M"}, k=0.0)
    cell.add_part("gene", gene, every=every, sample=1000.0)
    cell.add_part("rna", rna, method="ode", every=every, sample=1000.0)
    cell.drive("rna.k", "5 * gene.on", over=over)
    return cell


def variance_of_rna(every, over):
    """Stationary variance of M where the gene is held over each interval, or its ends averaged."""
    a, r = np.exp(-0.01 * every), np.exp(-0.05 * every)
    scale = 500**2 * 0.24 * (1 - a) / (1 + a)
    if over != "mean":
        return scale * (1 + a * r) / (1 - a * r)
    return scale * ((1 + r) / 2 + 2 * a * ((1 + r) / 2) ** 2 / (1 - a * r))


@pytest.mark.parametrize("over", ["start", "mean"])
def test_variance_that_a_held_gene_gives(over):
    assert variance_of_rna(50, "start") == pytest.approx(16235.0, abs=0.1)
    n = 4000
    result = run(gene_and_rna(50.0, over), 1000.0, n=n)
    values = result.values("rna.M")[:, -1]
    centred = values - values.mean()
    error = np.sqrt(((centred**4).mean() - centred.var() ** 2) / n)
    z = (values.var(ddof=1) - variance_of_rna(50.0, over)) / error
    assert abs(z) < stats.norm.isf(RARELY / 2)


@pytest.mark.validate
@pytest.mark.parametrize("every", [100.0, 50.0, 20.0, 10.0, 5.0, 1.0])
@pytest.mark.parametrize("over", ["start", "mean"])
def test_variance_at_all_intervals(every, over):
    n = 20_000
    result = run(gene_and_rna(every, over), 1000.0, n=n)
    values = result.values("rna.M")[:, -1]
    error = np.sqrt((((values - values.mean()) ** 4).mean() - values.var() ** 2) / n)
    assert abs(values.var(ddof=1) - variance_of_rna(every, over)) < 4 * error


def metabolite_and_product(every, over="mean", method="ssa"):
    cell = ts.Hybrid("product")
    pool = network("pool", {"x": 1000.0}, (), {"x": "-x"})
    product = network("product", {"P": 0}, [("-> P", "k")], k=0.0)
    cell.add_part("pool", pool, method="ode", every=every)
    cell.add_part("product", product, method=method, every=every)
    cell.drive("product.k", "0.05 * pool.x", over=over)
    return cell


@pytest.mark.parametrize("every", ordinary([1.0, 0.1], 0.1))
def test_mean_of_the_interval_is_exact(every):
    exact = 50 * (1 - np.exp(-2))
    actual = run(metabolite_and_product(every, method="ode"), 2.0)
    assert actual.values("product.P")[0, -1] == pytest.approx(exact, rel=1e-5)
    held = run(metabolite_and_product(every, "start", method="ode"), 2.0)
    wanted = 50 * every * (1 - np.exp(-2)) / (1 - np.exp(-every))
    assert held.values("product.P")[0, -1] == pytest.approx(wanted, rel=1e-5)


def test_product_of_a_metabolite_is_poisson():
    values = run(metabolite_and_product(1.0), 2.0, n=4000).values("product.P")[:, -1]
    exact = 50 * (1 - np.exp(-2))
    z = (values.mean() - exact) / np.sqrt(exact / 4000)
    assert abs(z) < stats.norm.isf(RARELY / 2)
    assert stats.chi2.sf(3999 * values.var(ddof=1) / exact, 3999) > RARELY


def slow_flux():
    cell = ts.Hybrid("flux")
    cell.add_part("source", network("source", {"x": 0.0}, (), {"x": "0.3"}), method="ode", every=1)
    cell.add_part("cell", network("cell", {"X": 0, "Y": 0}, [("Y -> X", 1.0)]), every=1)
    cell.share("source.x", "cell.X")
    return cell


@pytest.mark.validate
def test_a_slow_flux_loses_nothing():
    result = run(slow_flux(), 1000, splitting="lie")
    assert result.values("cell.X")[0, -1] == 300
    assert result.values("source.x")[0, -1] == pytest.approx(300, abs=1e-9)
    assert (result.values("cell.X")[0] == np.floor(0.3 * np.arange(1001) + 0.5 + 1e-9)).all()


def test_volume_turns_concentrations_into_counts():
    cell = ts.Hybrid("volume")
    cell.add_part("many", network("many", {"X": 600}, [("X ->", 1.0)]), every=0.1)
    medium = network("medium", {"c": 0.0}, [("c ->", 1.0)], size=2.0)
    cell.add_part("medium", medium, method="ode", every=0.1)
    cell.share("many.X", "medium.c", volume="100 * medium.size")
    result = run(cell, 0.5, n=400)
    both = np.exp(-2 * 0.5)  # both remove it
    mean = result.values("many.X")[:, -1].mean()
    assert mean == pytest.approx(600 * both, rel=0.01)
    difference = 200 * result.values("medium.c") - result.values("many.X")
    assert (difference >= -0.5 - 1e-9).all()
    assert (difference < 0.5 + 1e-9).all()


@pytest.mark.parametrize(
    ("unit", "molecules"),
    [("M", 6.02214076e23), ("uM", 6.02214076e17), ("nm^-2", 1e18), ("um^-2", 1e12)],
)
def test_units_of_what_is_shared(unit, molecules):
    """A volume that grows, in litres or square metres: amounts stay, the rest is diluted."""
    cell = ts.Hybrid("units")
    cell.add_part("many", network("many", {"X": 600}), every=0.5)
    cell.add_part("space", network("space", {"V": 1.0}, (), {"V": "V"}), method="ode", every=0.5)
    medium = network("medium", {"c": 0.0}, [("c ->", 0.0)])
    cell.add_part("medium", medium, method="ode", every=0.5)
    cell.share("many.X", "medium.c", volume=f"{600 / molecules} * space.V", unit=unit)
    result = run(cell, 1.0)
    assert (result.values("many.X") == 600).all()
    assert result.values("medium.c")[0] == pytest.approx(np.exp([0, -0.5, -1.0]), rel=1e-4)
    assert f"molecules at 1 {unit} in" in result.links[0]
    cell.credit("medium.fired(*)", {"many.X": 1})
    cell.bill("medium.fired(*)", {"medium.c": 1, "space.V": 1})
    message = [line[line.index("[") + 1 : line.index("]")] for line in cell.check()]
    assert message == [
        f"many: molecules, medium: {unit}", "many: molecules", f"medium: {unit}, space: amounts"
    ]  # fmt: skip
    with pytest.raises(ts.ConfigError, match="unit"):
        cell.share("many.X", "medium.c", volume=1.0, unit="miles")


def test_a_volume_that_grows_is_that_of_the_whole_interval():
    """Production of 5 a litre in a volume exp(0.3 t): its integral, at any interval."""
    cell = ts.Hybrid("grows", tick=0.5)
    cell.add_part("many", network("many", {"X": 0, "Z": 0}, [("Z -> X", 1.0)]))
    cell.add_part("space", network("space", {"V": 1.0}, (), {"V": "0.3 * V"}), method="ode")
    cell.add_part("medium", network("medium", {"c": 0.0}, (), {"c": "5"}), method="ode")
    cell.share("many.X", "medium.c", volume="10000 * space.V")
    result = run(cell, 3.0)
    exact = 50_000 * (np.exp(0.9) - 1) / 0.3
    assert result.values("many.X")[0, -1] == pytest.approx(exact, abs=2)
    inside = result.values("medium.c") * 10_000 * result.values("space.V")
    assert inside == pytest.approx(result.values("many.X"), abs=1)


@pytest.mark.parametrize("splitting", ["lie", "strang"])
def test_a_volume_of_the_same_part_is_that_of_the_whole_interval(splitting):
    """The same production where volume and concentration are equations of one part."""
    cell = ts.Hybrid("grows", tick=0.5)
    cell.add_part("many", network("many", {"X": 0, "Z": 0}, [("Z -> X", 1.0)]))
    both = network("medium", {"c": 0.0, "V": 1.0}, (), {"c": "5", "V": "0.3 * V"})
    cell.add_part("medium", both, method="ode")
    cell.share("many.X", "medium.c", volume="10000 * medium.V")
    actual = run(cell, 3.0, splitting=splitting).values("many.X")[0, -1]
    assert actual == pytest.approx(50_000 * (np.exp(0.9) - 1) / 0.3, abs=2)


def test_concentrations_that_others_read():
    cell = ts.Hybrid("read", tick=1)
    cell.add_part("many", network("many", {"X": 602}))
    cell.add_part("own", lambda t, dt, v: {"y": v["c"]}, values={"y": 0.0, "c": 0.0})
    cell.drive("own.c", "1e6 * many.X / (avogadro * 1e-15)")  # uM of a femtolitre
    assert run(cell, 1).values("own.y")[0, -1] == pytest.approx(602 / 602.214076)


def test_few_firings_cost_the_units_of_many():
    rng = np.random.default_rng(1)
    entries = [(r, p, rng.lognormal()) for r in range(40) for p in rng.choice(9, 4, replace=False)]
    account, fired = Account(entries), rng.poisson(0.05, (50, 40)).astype(float)
    assert account._any_order
    wanted = np.zeros((50, 9))
    for reaction, pool, amount in entries:
        wanted[:, pool] += fired[:, reaction] * amount
    assert (account.units(fired) == wanted[:, account.pools]).all()
    both = account._of_few(fired + 1)
    assert (account.units(fired + 1) == both).all()
    assert not Account(entries[::-1])._any_order
    whole = Account([(r, p, round(9 * amount)) for r, p, amount in reversed(entries)])
    assert whole._any_order
    assert (whole.units(fired + 1) == whole._of_few(fired + 1)).all()


def test_a_part_on_a_device_of_its_own():
    net = network("birth", {"X": 5}, [("-> X", 3.0), ("X ->", 0.2)])
    actual = []
    for device in (None, ts.CPU(threads=1)):
        cell = ts.Hybrid("alone")
        cell.add_part("only", net, every=1.0, device=device)
        actual.append(run(cell, 2.0, n=10).values("only.X"))
    assert (actual[0] == actual[1]).all()
    with pytest.raises(ts.ConfigError, match="device="):
        cell.add_part("own", lambda t, dt, v: {}, values={"y": 0.0}, device="cpu")


BIRTH = network("birth", {"X": 5}, [("-> X", 3.0), ("X ->", 0.2)])


def alone(method, every):
    cell = ts.Hybrid("alone")
    cell.add_part("only", BIRTH, method=method, every=every, sample=4.0)
    return cell


@pytest.mark.parametrize("method", ordinary(["ssa", "tau", "ode"], "ssa", "ode"))
def test_a_part_without_links_has_the_bits_of_itself(method):
    actual = [run(alone(method, every), 8.0, n=10).values("only.X") for every in (0.5, 2.0)]
    assert (actual[0] == actual[1]).all()
    with ts.Ensemble(BIRTH, 10, seed=seed_of(1, "only"), method=method, device="cpu") as cells:
        for column, t in enumerate((4.0, 8.0), 1):
            cells.advance(t)
            assert (cells.values("X") == actual[0][:, column]).all()


def binding(every):
    cell = ts.Hybrid("binding")
    k, back = 1.78e-4, 0.351
    bind = network("bind", {"A": 730, "B": 730, "C": 270}, [("A + B -> C", k)])
    loose = network("loose", {"A": 0, "B": 0, "C": 0}, [("C -> A + B", back)])
    cell.add_part("bind", bind, every=every, sample=8.0)
    cell.add_part("loose", loose, every=every, sample=8.0)
    cell.share("bind.{s}", "loose.{s}", for_each={"s": ["A", "B", "C"]})
    return cell


def test_binding_split_over_parts():
    n = 1000
    values = run(binding(0.1), 8.0, n=n).values("bind.C")[:, -1]
    z = (values.mean() - 270.186) / np.sqrt(155.272 / n)
    assert abs(z) < stats.norm.isf(RARELY / 2)
    ratio = (n - 1) * values.var(ddof=1) / 155.272
    assert min(stats.chi2.sf(ratio, n - 1), stats.chi2.cdf(ratio, n - 1)) > RARELY


@pytest.mark.validate
def test_binding_on_a_large_lattice():
    """A + B -> C on a lattice of 1,000 A and B in all, C -> A + B in a network."""
    cube = ts.Lattice("cube", shape=(8, 8, 8), spacing=1e-6, boundary="periodic", step=0.004)
    for name, count in {"A": 730, "B": 730, "C": 270}.items():
        cube.add_species(name)
        cube.add_diffusion(name, 4e-11)
        cube.place(name, count=count)
    cube.add_reaction("A + B -> C", rate=1.78e-4, volume="lattice")
    loose = network("loose", {"A": 0, "B": 0, "C": 0}, [("C -> A + B", 0.351)])
    cell = ts.Hybrid("cube", tick=0.1)
    cell.add_part("space", cube, sample=8.0)
    cell.add_part("loose", loose, sample=8.0)
    cell.share("space.{s}", "loose.{s}", for_each={"s": ["A", "B", "C"]})
    n = 256
    result = run(cell, 16.0, n=n)
    values = result.values("space.C")[:, 1:]
    print(values.mean(axis=0), values.var(axis=0, ddof=1))
    assert (result.values("space.A") + result.values("space.C") == 1000).all()
    z = (values.mean(axis=0) - 270.186) / np.sqrt(155.272 / n)
    assert (np.abs(z) < stats.norm.isf(RARELY / 2)).all()
    ratio = (n - 1) * values.var(axis=0, ddof=1) / 155.272
    assert min(stats.chi2.sf(ratio, n - 1).min(), stats.chi2.cdf(ratio, n - 1).min()) > RARELY


def cube_and_loose(k=0.02):
    """A + B -> C on a small lattice, C -> A + B in a network; 30 of each in all."""
    cube = ts.Lattice("cube", shape=(4, 4, 4), spacing=1e-6, boundary="periodic", step=0.005)
    for name, count in {"A": 18, "B": 18, "C": 12}.items():
        cube.add_species(name)
        cube.add_diffusion(name, 3e-11)
        cube.place(name, count=count)
    cube.add_reaction("A + B -> C", rate=k, volume="lattice", name="bind")
    loose = network("loose", {"A": 0, "B": 0, "C": 0}, [("C -> A + B", 0.5)])
    cell = ts.Hybrid("cube", tick=0.1)
    cell.add_part("space", cube, sample=2.0)
    cell.add_part("loose", loose, sample=2.0)
    cell.share("space.{s}", "loose.{s}", for_each={"s": ["A", "B", "C"]})
    return cell


@pytest.mark.validate
def test_binding_on_a_lattice():
    c = np.arange(31)
    weights = np.append(1.0, np.cumprod(0.02 * (31.0 - c[1:]) ** 2 / (0.5 * c[1:])))
    law = weights / weights.sum()
    mean = (c * law).sum()
    variance = (c**2 * law).sum() - mean**2
    n = 80
    cell = cube_and_loose()
    spent = network("spent", {"E": 1e6}, (), {"E": "0"})
    cell.add_part("spent", spent, method="ode", sample=2.0)
    cell.bill("space.fired(bind)", {"spent.E": 2})
    result = run(cell, 4.0, n=n)
    values = result.values("space.C")
    assert (values + result.values("space.A") == 30).all()
    assert abs(values[:, -1].mean() - mean) < stats.norm.isf(RARELY / 2) * np.sqrt(variance / n)
    ratio = (n - 1) * values[:, -1].var(ddof=1) / variance
    assert min(stats.chi2.sf(ratio, n - 1), stats.chi2.cdf(ratio, n - 1)) > RARELY
    assert (result.paid("spent.E")[:, -1] >= 2 * np.abs(values[:, -1] - 12)).all()


def test_rates_of_a_lattice_follow():
    cell = ts.Hybrid("rates", tick=0.1)
    cube = ts.Lattice("cube", shape=(2, 2, 2), spacing=1e-6, step=0.01)
    cube.add_species("A")
    cube.add_diffusion("A", 1e-13)
    cube.place("A", count=100)
    cube.add_reaction("A ->", rate=1.0, name="decay")
    cell.add_part("space", cube)
    cell.add_part("clock", lambda t, dt, v: {"x": dt}, values={"x": 0.0})
    cell.set_rate("space.decay", "k * clock.x")
    left = run(cell, 1.0, n=20).values("space.A")[:, -1].sum()
    kept = np.exp(-0.5)  # the integral of the mean of x
    assert abs(left - 2000 * kept) < 4 * np.sqrt(2000 * kept * (1 - kept)) + 0.01 * 2000 * kept
    assert cell.parts["space"].require_volume("*") == [0]


def bills():
    cell = ts.Hybrid("bills")
    births = network("births", {"M": 0}, [("-> M", 2.0)])
    fuel = network("fuel", {"GTP": 1e6}, (), {"GTP": "1500"})
    cell.add_part("rna", births, every=10.0)
    cell.add_part("fuel", fuel, method="ode", every=10.0)
    cell.bill("rna.fired(r*)", {"fuel.GTP": 1000})
    return cell


def test_bills_are_exact_and_never_invent_a_unit():
    result = run(bills(), 3000.0, n=4)
    made, paid = result.values("rna.M"), result.paid("fuel.GTP")
    debt, pool = result.debt("fuel.GTP"), result.values("fuel.GTP")
    assert (paid + debt == 1000 * made).all()
    assert (pool >= 0).all()
    assert (debt >= 0).all()
    assert np.allclose(pool + paid, 1e6 + 1500 * result.time("fuel"), rtol=1e-12)
    assert 1500 < result.time("fuel")[(debt[0] > 0).argmax()] < 2500
    late = result.time("fuel") >= 2800
    assert np.allclose(np.diff(paid[:, late], axis=1), 15000, atol=1)


def test_a_result_names_pools_that_owe_most_of_their_bills():
    cell = ts.Hybrid("short", tick=1)
    cell.add_part("rna", network("births", {"M": 0}, [("-> M", 9.0)]))
    cell.add_part("fuel", network("fuel", {"GTP": 10, "CTP": 9999}))
    cell.bill("rna.fired(r*)", {"fuel.GTP": 2, "fuel.CTP": 1})
    result = run(cell, 20)
    made = result.values("rna.M")[0, -1]
    assert result.owing() == {"fuel.GTP": (2 * made - 10) / (2 * made)}
    assert "parts rna, fuel, fuel.GTP owes 97% of its bills, seed" in repr(result)


def test_credits_and_amounts_by_reaction():
    cell = ts.Hybrid("credit")
    net = network("net", {"X": 0, "Y": 0}, [("-> X", 5.0), ("-> Y", 3.0)])
    cell.add_part("net", net, every=1.0)
    cell.add_part("store", lambda t, dt, values: {}, values={"E": 0.0, "spent": 100}, every=1.0)
    cell.credit("net.fired(r0, r1)", {"store.E": {"r0": 0.25, "r1": 2}})
    cell.bill("net.fired(r1)", {"store.spent": "3 * 2"})
    result = run(cell, 10.0, n=3)
    x, y = result.values("net.X"), result.values("net.Y")
    assert np.allclose(result.values("store.E"), 0.25 * x + 2 * y)
    assert (result.paid("store.spent") + result.debt("store.spent") == 6 * y).all()
    assert (result.values("store.spent") + result.paid("store.spent") == 100).all()


def test_rates_follow_quantities():
    cell = ts.Hybrid("rates")
    pair = network("pair", {"A": 40}, [("2 A ->", 0.05)])
    space = network("space", {"V": 1.0}, (), {"V": "V"})
    cell.add_part("pair", pair, method="ode", every=0.01)
    cell.add_part("space", space, method="ode", every=0.01)
    cell.set_rate("pair.r*", "k / space.V")
    actual = run(cell, 1.0).values("pair.A")[0, -1]
    assert actual == pytest.approx(1 / (1 / 40 + 0.05 * (1 - np.exp(-1))), rel=1e-4)


def test_a_function_is_a_part():
    def shrink(t, dt, values):
        assert t >= 0
        return {"y": -values["rate"] * values["y"] * dt}

    cell = ts.Hybrid("function")
    cell.add_part("source", network("source", {"x": 1.0}, (), {"x": "1"}), method="ode", every=1)
    cell.add_part("own", shrink, values={"y": [8.0, 16.0], "rate": 0.0}, every=1)
    cell.drive("own.rate", "0.5 + 0 * source.x")
    result = run(cell, 3, n=2)
    assert result.values("own.y").tolist() == [[8, 4, 2, 1], [16, 8, 4, 2]]


def test_slow_and_fast_parts():
    """A follower of another interval sees means over its own."""
    for slow, fast in (("pool", "product"), ("product", "pool")):
        cell = ts.Hybrid("rates", tick=0.25)
        every = {slow: 1.0, fast: 0.25}
        pool = network("pool", {"x": 1000.0}, (), {"x": "-x"})
        product = network("product", {"P": 0}, [("-> P", "k")], k=0.0)
        cell.add_part("product", product, method="ode", every=every["product"])
        cell.add_part("pool", pool, method="ode", every=every["pool"])
        cell.drive("product.k", "0.05 * pool.x")
        actual = run(cell, 2.0)
        exact = 50 * (1 - np.exp(-2))
        assert actual.values("product.P")[0, -1] == pytest.approx(exact, rel=1e-5)
        assert len(actual.time("product")) == 1 + 2 / every["product"]


@pytest.mark.parametrize(("slow", "fast"), [(0.4, 0.3), (0.3, 0.4)])
def test_means_over_intervals_that_do_not_divide_add_up(slow, fast):
    cell = ts.Hybrid("rates", tick=0.1)
    pool = network("pool", {"x": 1000.0}, (), {"x": "-x"})
    product = network("product", {"P": 0}, [("-> P", "k")], k=0.0)
    cell.add_part("pool", pool, method="ode", every=slow)
    cell.add_part("product", product, method="ode", every=fast)
    cell.drive("product.k", "0.05 * pool.x")
    actual = run(cell, 1.2).values("product.P")
    assert actual[0, -1] == pytest.approx(50 * (1 - np.exp(-1.2)), rel=1e-5)


def busy(every=0.5):
    """All links at once."""
    cell = ts.Hybrid("busy", tick=0.25)
    net = network(
        "net", {"X": 30, "Y": 0}, [("X -> Y", "k"), ("Y -> X", 0.4), ("-> X", 4.0)], k=0.1
    )
    pool = network("pool", {"Y": 0.0, "E": 50.0}, (), {"Y": "-0.2 * Y", "E": "9 - 0.1 * E"})
    cell.add_part("net", net, every=every)
    cell.add_part("pool", pool, method="ode", every=0.25)
    cell.add_part("own", lambda t, dt, values: {"z": dt * values["Y"]}, values={"z": 0, "Y": 0})
    cell.share("net.Y", "pool.Y")
    cell.drive("net.k", "0.1 + 0.01 * pool.E")
    cell.drive("own.Y", "pool.Y + net.sum(X, Y)")
    cell.bill("net.fired(r1, r2)", {"pool.E": [2, 1.5]})
    return cell


@pytest.mark.parametrize(
    ("how", "first"),
    [({}, 10), ({"hooks": [(0.5, id)]}, 12), ({"splitting": "lie"}, 8)],
)
def test_half_steps_are_joined_where_nobody_looks_between_them(monkeypatch, how, first):
    """Steps of the first part: eight of 0.25, of which halves join but at 1 s, or at hooks."""
    usual, moved = HybridRun._move, []

    def move(self, name, start, end):
        moved.append(name)
        usual(self, name, start, end)

    monkeypatch.setattr(HybridRun, "_move", move)
    end = run(chain(0.25, "ode", 1, sample=1.0), 2.0, **how).values("second.C")[0, -1]
    wanted = probabilities(0.25, how.get("splitting", "strang"))[2]
    assert end == pytest.approx(wanted, abs=2e-6)
    assert (moved.count("first"), moved.count("second")) == (first, 8)


def test_joined_half_steps_have_the_law_of_their_interval(device):
    result = run(chain(0.25, sample=2.0), 2.0, n=20, device=device)
    ends = [result.values(name)[:, -1] for name in ("first.A", "first.B", "second.C")]
    seen = np.array([values.sum() for values in ends])
    assert seen.sum() == 200_000
    wanted = 200_000 * probabilities(0.25, "strang")
    assert stats.chi2.sf(((seen - wanted) ** 2 / wanted).sum(), 2) > RARELY


def runs_on_with_the_same_bits(tmp_path, monkeypatch, ats, device="cpu", busy=busy):
    whole = run(busy(), 5.0, n=5, device=device, output=tmp_path / "whole.h5").digest()
    usual, calls = StateCheckpoint.save, []

    def save(self, kept, *, last=False):
        usual(self, kept, last=last)
        calls.append(1)
        if len(calls) == at:
            raise KeyboardInterrupt

    monkeypatch.setattr(StateCheckpoint, "save", save)
    for at in ats:
        calls.clear()
        path = tmp_path / f"cut{at}.h5"
        with pytest.raises(KeyboardInterrupt):
            run(busy(), 5.0, n=5, device=device, output=path, checkpoint_every=0)
        assert not path.exists()
        again = run(busy(), 5.0, n=5, device=device, output=path, resume=True, seed=None)
        assert again.digest() == whole
        assert ts.open(path).digest() == whole
        assert [one.name for one in tmp_path.glob(f"cut{at}*")] == [path.name]


def test_a_run_that_is_ended_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    runs_on_with_the_same_bits(tmp_path, monkeypatch, ats=(1, 3, 12))


def test_a_run_that_is_ended_between_joined_half_steps_goes_on_with_the_same_bits(
    tmp_path, monkeypatch
):
    joined = partial(chain, 0.25, molecules=50, sample=1.0)
    runs_on_with_the_same_bits(tmp_path, monkeypatch, ats=(1, 4, 6, 20), busy=joined)


def test_sigterm_ends_a_run_with_a_checkpoint(tmp_path):
    """A job's limit, in the middle of joined half steps."""
    usual = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    requested = []

    def hook(view):
        if view.time == 1.0 and not requested:
            requested.append(True)
            signal.raise_signal(signal.SIGTERM)

    made, path = partial(chain, 0.25, molecules=50, sample=2.0), tmp_path / "a.h5"
    try:
        with pytest.raises(ts.StoppedEarly, match="resume=True continues"):
            run(made(), 2.0, output=path, hooks=[(1.0, hook)])
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        ended = run(made(), 2.0, output=path, hooks=[(1.0, hook)], resume=True)
        assert ended.digest() == run(made(), 2.0, hooks=[(1.0, hook)]).digest()
        with pytest.raises(ts.ConfigError, match=r"is complete, to t = 2, .* overwrite=True"):
            run(made(), 4.0, output=path, resume=True)
    finally:
        signal.signal(signal.SIGTERM, usual)


def test_a_run_that_is_ended_after_its_result_is_complete(tmp_path, monkeypatch):
    """Between the result and the end of the checkpoint: nothing is computed again."""
    path, other = tmp_path / "cut.h5", tmp_path / "other.h5"
    beside = tmp_path / "cut.h5.checkpoint"
    unlink = Path.unlink

    def ended(self, missing_ok=False):
        if self == beside and path.exists():
            raise KeyboardInterrupt
        unlink(self, missing_ok=missing_ok)

    def left():
        path.unlink(missing_ok=True)
        with monkeypatch.context() as patch:
            patch.setattr(Path, "unlink", ended)
            with pytest.raises(KeyboardInterrupt):
                run(busy(), 5.0, n=5, output=path)
        assert path.exists()
        assert beside.exists()

    def never(*_):
        raise AssertionError

    left()
    before = path.read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr("tauslab.analysis.hybrids.driver.HybridRun._step", never)
        again = run(busy(), 5.0, n=5, output=path, resume=True, seed=None)
    assert again.digest() == ts.open(path).digest()
    assert path.read_bytes() == before
    assert not beside.exists()
    left()
    run(busy(), 5.0, n=5, output=other, seed=2)
    path.write_bytes(other.read_bytes())
    with pytest.raises(ts.ConfigError, match="is not of the run that"):
        run(busy(), 5.0, n=5, output=path, resume=True, seed=None)
    assert path.read_bytes() == other.read_bytes()
    assert beside.exists()


def _grows(t, dt, values, *, by):
    del t
    return {"Y": by * dt + 0 * values["Y"]}


class _Grows:
    def __init__(self, by):
        self.by = by

    def __call__(self, t, dt, values):
        return _grows(t, dt, values, by=self.by)


def grown(function):
    cell = ts.Hybrid("grown", tick=1)
    cell.add_part("own", function, values={"Y": 0.0})
    cell.add_part("net", network("net", {"X": 0}, [("-> X", "k")], k=0.0))
    cell.drive("net.k", "own.Y")
    return cell


class _InSlots:
    __slots__ = ("by",)

    def __init__(self, by):
        self.by = by

    def grows(self, t, dt, values):
        return _grows(t, dt, values, by=self.by)


def test_functions_of_a_checkpoint_may_use_anything(tmp_path):
    """Objects without a dict, values that hold themselves, names that have no value yet."""
    itself = {"by": 2.0}
    itself["own"] = itself

    def later(t, dt, values):
        return unknown(t, dt, values) if t < 0 else _grows(t, dt, values, by=itself["by"])

    for number, function in enumerate([_InSlots(1.0).grows, _InSlots(2.0).grows, later]):
        result = run(grown(function), 2.0, output=tmp_path / f"{number}.h5", checkpoint_every=0)
        assert result.values("own.Y")[0, -1] == (2.0 if number == 0 else 4.0)
    first, second = (_digest_of_part(_InSlots(by).grows) for by in (1.0, 2.0))
    assert first != second

    def unknown(t, dt, values):
        return _grows(t, dt, values, by=0.0)


def _digest_of_part(function):
    return _described(grown(function).parts["own"])


def test_another_hybrid_does_not_resume(tmp_path, monkeypatch):
    usual = StateCheckpoint.save

    def save(self, kept, *, last=False):
        usual(self, kept, last=last)
        raise KeyboardInterrupt

    monkeypatch.setattr(StateCheckpoint, "save", save)
    path = tmp_path / "cut.h5"
    with pytest.raises(KeyboardInterrupt):
        run(busy(), 5.0, n=5, output=path, checkpoint_every=0)
    with pytest.raises(ts.ConfigError, match="begun with another model"):
        run(busy(1.0), 5.0, n=5, output=path, resume=True)
    kinds = (partial(_grows, by=1.0), partial(_grows, by=2.0)), (_Grows(1.0), _Grows(2.0))
    closed = [lambda t, dt, values, by=by: _grows(t, dt, values, by=by) for by in (1.0, 2.0)]
    for number, (first, second) in enumerate([*kinds, closed]):
        path = tmp_path / f"function{number}.h5"
        with pytest.raises(KeyboardInterrupt):
            run(grown(first), 5.0, output=path, checkpoint_every=0)
        with pytest.raises(ts.ConfigError, match="begun with another model"):
            run(grown(second), 5.0, output=path, resume=True)


def test_a_function_with_a_memo_resumes_in_its_process(tmp_path, monkeypatch):
    """What the run put there is not a change of the hybrid; what the user changes is one."""
    memo, by, usual, stops = {}, {"by": 1.0}, StateCheckpoint.save, [1]

    def kept(t, dt, values):
        memo.setdefault(float(t), by["by"])
        return _grows(t, dt, values, by=memo[float(t)])

    def save(self, own, *, last=False):
        usual(self, own, last=last)
        if stops and not last:
            raise KeyboardInterrupt

    path, whole = tmp_path / "cut.h5", run(grown(kept), 3.0).digest()
    memo.clear()
    monkeypatch.setattr(StateCheckpoint, "save", save)
    with pytest.raises(KeyboardInterrupt):
        run(grown(kept), 3.0, output=path, checkpoint_every=0)
    assert 0 < len(memo) < 3
    by["by"] = 2.0
    with pytest.raises(ts.ConfigError, match="begun with another model"):
        run(grown(kept), 3.0, output=path, resume=True)
    by["by"] = 1.0
    stops.clear()
    again = run(grown(kept), 3.0, output=path, resume=True)
    assert again.digest() == whole
    assert (again["own.Y"] == again.values("own.Y")).all()
    assert len(again.plot("own.Y").axes) == 1
    with pytest.raises(ts.ConfigError, match="is complete, to t = "):
        run(grown(kept), 3.0, output=path, resume=True)


_RANKS = """
import sys
sys.path.insert(0, {folder!r})
from test_hybrid import busy, run
from tauslab.api.api import ranks
found = run(busy(), 3.0, n=7)
if ranks().rank == 0:
    print(found.digest())
"""


@pytest.mark.validate
def test_ranks_have_the_same_bits(mpirun, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(_RANKS.format(folder=str(Path(__file__).parent)))
    wanted = run(busy(), 3.0, n=7).digest()
    assert mpirun(3, [program]).stdout.split()[-1] == wanted


def test_results_open_and_draw(tmp_path):
    result = run(busy(), 2.0, n=6, output=tmp_path / "busy.h5", pilot=2)
    again = ts.open(tmp_path / "busy.h5")
    assert again.digest() == result.digest()
    assert again.parts.keys() == {"net", "pool", "own"}
    assert again.mean("net.X").shape == (5,)
    assert again.variance("pool.Y").shape == (9,)
    assert "net.X" in again.pilot.names
    assert len(again.links) == 4
    assert any("interval x fastest rate" in line for line in again.lines())
    assert json.dumps(again.facts())
    assert list(again.to_pandas("pool").columns)[:2] == ["time", "Y_mean"]
    assert again.to_xarray()["parts/net/values"].shape == (6, 5, 2)
    assert again._repr_html_()
    again.plot(["pool.Y", "pool.E"], tmp_path / "busy.png")
    with pytest.raises(ts.ConfigError, match="other times"):
        again.plot(["pool.Y", "net.X"])
    with pytest.raises(ts.ConfigError, match="no part"):
        again.mean("x.y")
    with pytest.raises(ts.ConfigError, match="has no"):
        again.mean("net.y")


def test_a_pilot_warns_of_a_long_interval():
    with pytest.warns(UserWarning, match="half the interval changes hybrid chain"):
        result = run(chain(1.0, "ode", 1), 2.0, splitting="lie", pilot=2)
    place = result.pilot.names.index("second.C")
    assert result.pilot.change[place] == pytest.approx(0.3124 / 0.34548 - 1, abs=0.02)
    assert (result.pilot.error == 0).all()


def chain_with_a_third():
    cell = chain(0.25)
    cell.add_part("third", network("third", {"D": 0}, [("-> D", "k")], k=0.0), every=0.5)
    cell.drive("third.k", "0.1 * second.C")
    cell.bill("second.fired(r*)", {"third.D": 0.01})
    return cell


# The models of the tests against exact laws: each with its end.
LAWS = {
    "splitting": (lambda: chain(0.25), 2.0),
    "all links but pools of equations": (chain_with_a_third, 2.0),
    "a held gene": (lambda: gene_and_rna(50.0), 1000.0),
    "the mean of an interval": (lambda: metabolite_and_product(1.0), 2.0),
    "a slow flux": (slow_flux, 50.0),
    "one part": (lambda: alone("tau", 2.0), 8.0),
    "binding": (lambda: binding(0.1), 8.0),
    "binding on a lattice": (cube_and_loose, 2.0),
    "bills": (bills, 1000.0),
    "all links": (busy, 5.0),
}


@pytest.mark.gpu
@pytest.mark.parametrize("law", LAWS)
def test_devices_have_the_same_bits(law):
    """Amounts of these equations too, which ordinarily agree within their tolerance."""
    made, end = LAWS[law]
    actual = {run(made(), end, n=20, device=device).digest() for device in ("cpu", "cuda")}
    assert len(actual) == 1


@pytest.mark.gpu
def test_a_run_that_is_ended_on_a_gpu_goes_on_with_the_same_bits(tmp_path, monkeypatch):
    runs_on_with_the_same_bits(tmp_path, monkeypatch, ats=(3,), device="cuda")


@pytest.mark.parametrize("solver", ordinary(["auto", "rosenbrock"], "auto"))
def test_a_cell_has_the_same_bits_among_any_number(solver):
    """Equations too, whose steps begin anew where amounts were changed, and go on elsewhere."""
    cell = ts.Hybrid("few", tick=1.0)
    genes = network(
        "genes", {"M": 0, "A": 5}, [("-> M", 0.3), ("M ->", 0.05), ("M + A -> M", 0.02)]
    )
    rates = {"A": "0.02 * B - 0.1 * A + 0.01 * e", "B": "1 - 0.1 * B * A / (1 + A)"}
    cell.add_part("genes", genes)
    cell.add_part(
        "pool", network("pool", {"A": 5.0, "B": 50.0}, (), rates, e=0.0),
        method=ts.ODE(solver=solver),
    )  # fmt: skip
    cell.share("genes.A", "pool.A")
    cell.drive("pool.e", "genes.M")
    alone, few, many = (run(cell, 20.0, n=n) for n in (1, 3, 64))
    for name in alone.quantities:
        first = alone.values(name)[0].tobytes()
        assert few.values(name)[0].tobytes() == first
        assert many.values(name)[0].tobytes() == first
        assert many.values(name)[:3].tobytes() == few.values(name).tobytes()


def test_a_run_is_quiet_or_shows_its_exchanges(capsys):
    run(chain(0.1), 1.0, quiet=True)
    assert not capsys.readouterr().err
    run(chain(0.1), 1.0, quiet=False)
    assert "10/10 exchanges" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keyword", "said"),
    [("method", r"use add_part\(method=\)"), ("times", r"use add_part\(sample=\)"),
     ("append", "append= is no option of run for a hybrid")],
)  # fmt: skip
def test_keywords_of_parts_are_refused_with_their_place(keyword, said):
    with pytest.raises(ts.ConfigError, match=said):
        run(chain(0.1), 1.0, **{keyword: 1})


def test_cells_with_values_of_their_own():
    cell = ts.Hybrid("own", tick=0.5)
    rates = np.linspace(0, 1, 40)
    grows = network("grows", {"X": 50}, [("X -> 2 X", "k")], k=0.0)
    cell.add_part("grows", grows, set={"k": np.append(rates, 20.0)}, max_steps=20_000)
    cell.add_part("sees", lambda t, dt, v: {"sum": v["X"] * dt}, values={"sum": 0, "X": 0})
    cell.drive("sees.X", "grows.X")
    with pytest.warns(UserWarning, match="1 of 41 cells of hybrid own ended early"):
        result = run(cell, 3.0, n=41, pilot=1)
    values = result.values("grows.X")
    assert np.isnan(values[-1, -1])  # it takes too many steps
    assert np.isnan(result.values("sees.sum")[-1, -1])
    assert np.isfinite(values[:-1]).all()
    assert np.isfinite(result.mean("sees.sum")).all()
    assert values[0, -1] == 50
    assert len(result.pilot.names) == 3
    with pytest.raises(
        ts.ConfigError, match=r"one value or one per trajectory \(3\)|per cell \(3\)"
    ):
        run(cell, 3.0, n=3)


TOML = """
[hybrid]
name = "cell"
tick = 0.5

[[parts]]
name = "net"
model = "net.toml"

[[parts]]
name = "pool"
model = "pool.toml"
method = "ode"
settings = { solver = "dopri5" }

[[links]]
kind = "share"
first = "net.{s}"
second = "pool.{s}"
for_each = { s = ["X"] }

[[links]]
kind = "bill"
events = "net.fired(r1)"
pools = { "pool.E" = 2 }
"""


def test_a_file_is_a_hybrid(tmp_path):
    network("net", {"X": 10, "Y": 0}, [("X -> Y", 1.0), ("Y -> X", 1.0)]).write(
        tmp_path / "net.toml"
    )
    network("pool", {"X": 0.0, "E": 9.0}, [("X ->", 0.1)]).write(tmp_path / "pool.toml")
    path = tmp_path / "cell.toml"
    path.write_text(TOML)
    result = run(path, 2.0, n=3)
    assert result.quantities[:2] == ("net.X", "net.Y")
    assert "pool.E.debt" in result.quantities
    with pytest.raises(ts.ModelError, match=r"cell.toml is a hybrid: run it by its path"):
        ts.read(path)
    path.write_text(TOML.replace('"share"', '"shared"'))
    with pytest.raises(ts.ModelError, match="link 1: kind = 'shared' is none of"):
        run(path, 2.0)
    path.write_text(TOML.replace("net.toml", "none.toml"))
    with pytest.raises(ts.ModelError, match=r"part net: .*there is no such file"):
        run(path, 2.0)


def test_the_command_line_runs_a_file(tmp_path, capsys, monkeypatch):
    from tauslab.cli.main import main

    network("net", {"X": 10, "Y": 0}, [("X -> Y", 1.0), ("Y -> X", 1.0)]).write(
        tmp_path / "net.toml"
    )
    network("pool", {"X": 0.0, "E": 9.0}, [("X ->", 0.1)]).write(tmp_path / "pool.toml")
    (tmp_path / "cell.toml").write_text(TOML)
    monkeypatch.chdir(tmp_path)
    given = ["--t-end", "2", "-n", "3", "--seed", "1", "--device", "cpu"]
    assert main(["run", "cell.toml", *given]) == 0
    assert "share net.X = pool.X" in capsys.readouterr().out
    assert ts.open("cell.h5").digest() == run("cell.toml", 2.0, n=3, pilot=20).digest()
    assert main(["info", "cell.h5"]) == 0
    assert main(["plot", "cell.h5", "-o", "cell.png"]) == 0
    assert main(["run", "cell.toml", *given]) == 2  # it exists
    assert main(["check", "cell.toml"]) == 0
    assert main(["check", "cell.toml", "--method", "ode"]) == 2  # parts have their own
    assert "interval x fastest rate" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda c: c.add_part("net", network("a", {"X": 1})), "defined twice"),
        (lambda c: c.add_part("own", 3), "takes a network, a lattice, a polymer, or a function"),
        (lambda c: c.add_part("own", lambda t, dt, v: {}, method="ssa"), "takes a network, a"),
        (lambda c: c.drive("net.X", "pool.x"), "net.X is no parameter"),
        (lambda c: c.drive("net.k", "x"), "write part.x"),
        (lambda c: c.drive("net.k", "pool.y"), "part pool has no 'y'"),
        (lambda c: c.drive("net.k", "other.y"), "there is no part 'other'"),
        (lambda c: c.drive("net.k", "net.X"), "follows itself"),
        (lambda c: c.drive("net.k", "pool.fired(r)"), "functions of a part are sum, volume"),
        (lambda c: c.drive("net.k", "pool.volume(a)"), "pool is no lattice"),
        (lambda c: c.drive("net.k", "pool.x +"), "a value is missing"),
        (lambda c: c.share("net.X", "pool.z"), "part pool has no 'z'"),
        (lambda c: c.share("net.k", "pool.x"), "no species that reactions change"),
        (lambda c: c.bill("net.r0", {"pool.x": 1}), "are written part.fired"),
        (lambda c: c.bill("net.fired(q*)", {"pool.x": 1}), "no reaction of part net fits 'q"),
        (lambda c: c.bill("net.fired(*)", {"pool.x": [1, 2, 3]}), "one for each of 1 reactions"),
        (lambda c: c.bill("net.fired(*)", {"pool.x": -1}), "finite and 0 or more"),
        (lambda c: c.set_rate("pool.*", "1"), "no reaction of part pool fits"),
        (lambda c: c.add_part("a b", network("a", {"X": 1})), "letters, digits and underscores"),
        (lambda c: c.add_part("z", network("a", {"X": 1}), record="Y"), "has no quantity 'Y'"),
        (lambda c: c.bill("net.fired(*)", 3), "units by part.species, and not 3"),
        (lambda c: c.drive("net.k", "pool.x", for_each=5), "takes columns by name, and not 5"),
        (lambda c: c.share("net.X", "pool.x", volume="2 * pool.sum(x*)"), "follows from it"),
        (
            lambda c: [c.share("net.X", "pool.x"), c.share("pool.x", "net.X")],
            "already share a pool",
        ),
        (lambda c: c.share("net.{a}", "pool.x", for_each={"b": ["X"]}), "no column of for_each"),
    ],
)
def test_refusals(wrong, said):
    cell = ts.Hybrid("cell")
    cell.add_part("net", network("net", {"X": 1}, [("X ->", "k")], k=1.0), every=1)
    cell.add_part("pool", network("pool", {"x": 1.0}, (), {"x": "-x"}), method="ode", every=1)
    with pytest.raises(ts.ConfigError, match=said):
        wrong(cell)


def read_by_a_function(part, quantity):
    """A hybrid in which a function adds up a quantity of a network."""
    cell = ts.Hybrid("read")
    cell.add_part("net", part, every=1)
    cell.add_part("own", lambda t, dt, v: {"y": v["r"] * dt}, values={"y": 0.0, "r": 0.0}, every=1)
    cell.drive("own.r", quantity)
    return cell


def test_parameters_that_follow_others_are_read_as_they_are():
    net = network("net", {"X": 0}, [("-> X", "k2")], k=1.0)
    net.add_parameter("k2", "2 * k")
    cell = read_by_a_function(net, "net.k2")
    cell.add_part("z", lambda t, dt, v: {"z": dt}, values={"z": 0.0})
    cell.drive("net.k", "5 + 0 * z.z")
    assert run(cell, 3).values("own.y")[0].tolist() == [0, 10, 20, 30]
    given = ts.Hybrid("given")
    given.add_part("net", net, every=1, set={"k": [5.0, 7.0]})
    given.add_part("own", lambda t, dt, v: {"y": v["r"]}, values={"y": 0.0, "r": 0.0}, every=1)
    given.drive("own.r", "net.k2")
    assert run(given, 2, n=2).values("own.y").tolist() == [[0, 10, 20], [0, 14, 28]]


def test_a_rate_is_that_of_the_values_of_the_part():
    cell = ts.Hybrid("cell")
    net = network("net", {"X": 0.0}, [("-> X", "k")], k=1.0)
    cell.add_part("net", net, every=1, method="ode", set={"k": [500.0, 300.0, 0.0]})
    cell.add_part("own", lambda t, dt, v: {"y": dt}, values={"y": 0.0}, every=1)
    cell.set_rate("net.r0", "2 * k + 0 * own.y")
    result = run(cell, 2, n=3, pilot=1)
    assert result.values("net.X")[:, -1] == pytest.approx([2000, 1200, 0])
    with pytest.raises(ts.ConfigError, match=r"rate of net.r0 follows two formulas: .*net.k"):
        cell.drive("net.k", "own.y")


def test_a_pilot_of_any_intervals():
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("slow", network("slow", {"x": 9.0}, (), {"x": "-0.1 * x"}), method="ode", every=7)
    follows = network("fast", {"y": 0.0}, [("-> y", "k")], k=0.1)
    cell.add_part("fast", follows, method="ode", every=3, sample=210)
    cell.drive("fast.k", "slow.x")
    cell.add_part("alone", network("alone", {"q": 1}), sample=5)
    result = run(cell, 210, pilot=4)
    assert result.pilot.names == ("slow.x", "fast.y")
    assert result.pilot.mean[0] == pytest.approx(9 * np.exp(-4.2), rel=1e-3)  # at t = 42


def test_what_is_not_finite_is_said():
    net = network("net", {"X": 1}, [("-> X", "k")], k=0.0)
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("net", net)
    cell.add_part("own", lambda t, dt, v: {"y": 0.0}, values={"y": 0.0})
    cell.drive("net.k", "1 / own.y")
    with pytest.warns(UserWarning, match=r"not finite at times, .*net.k = 1 / own.y"):
        run(cell, 2)


def test_a_function_without_a_text_is_a_part():
    names = {}
    exec("def f(t, dt, values): return {'x': dt}", names)  # noqa: S102 - as of a prompt
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("own", names["f"], values={"x": 1.0})
    assert run(cell, 2).values("own.x").tolist() == [[1, 2, 3]]


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda t, dt, v: None, "must return changes by name, and returns None"),
        (lambda t, dt, v: {"x": "a"}, "one number a cell, of 2 cells, and gives 'x': 'a'"),
        (lambda t, dt, v: {"x": [1, 2, 3]}, r"of 2 cells, and gives 'x': \[1, 2, 3\]"),
        (lambda t, dt, v: {"x": [[1], 2]}, "one number a cell"),
    ],
)
def test_functions_return_changes(function, said):
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("own", function, values={"x": 1.0})
    with pytest.raises(ts.ConfigError, match=said):
        run(cell, 2, n=2)


def test_pools_have_one_unit():
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("net", network("net", {"X": 9}, [("X ->", 1.0)]))
    cell.add_part("pool", network("pool", {"x": 1.0}, (), {"x": "0"}), method="ode")
    with pytest.raises(ts.ConfigError, match=r"net.X is a count, which comes first"):
        cell.share("pool.x", "net.X", volume=0.5)
    cell.share("net.X", "pool.x", volume="net.X - 9")
    with pytest.raises(ts.ConfigError, match=r"volume= net.X - 9 is 0; it must be above 0"):
        run(cell, 1)
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("net", network("net", {"X": 9}, [("X ->", 1.0)]))
    cell.add_part("pool", network("pool", {"x": 1.0}, (), {"x": "0"}), method="ode")
    cell.share("net.X", "pool.x", volume=10)
    cell.bill("net.fired(*)", {"pool.x": 1})
    with pytest.raises(ts.ConfigError, match=r"bill the species whose units the pool has, net.X"):
        run(cell, 1)


def test_intervals_are_whole_multiples():
    cell = chain(1.0)
    cell.add_part("third", network("third", {"X": 1}, [("X ->", 1.0)]), every=1.5)
    with pytest.raises(ts.ConfigError, match=r"part third: every= 1.5 is not a whole multiple"):
        run(cell, 3.0)
    slow = ts.Hybrid("slow", tick=0.5)
    slow.add_part("first", network("a", {"X": 1}, [("X ->", "k")], k=1.0), every=1.0)
    slow.add_part("second", network("b", {"X": 1}, [("X ->", 1.0)]))
    slow.drive("first.k", "second.X")
    with pytest.raises(ts.ConfigError, match="is within a step of part first"):
        run(slow, 2.5)
    none = ts.Hybrid("none")
    none.add_part("first", network("a", {"X": 1}))
    with pytest.raises(ts.ConfigError, match="has no clock"):
        run(none, 2.5)
    with pytest.raises(ts.ConfigError, match="has no parts"):
        run(ts.Hybrid("none"), 1)
    with pytest.raises(ts.ConfigError, match="has no end: give t_end="):
        ts.run(chain(1.0))
    with pytest.raises(ts.UnknownKeyword):
        ts.run(chain(1.0), t_end=1, sweep={})


def test_groups():
    intervals = {"a": Interval(2, 2), "b": Interval(8, 8), "c": Interval(4, 4), "d": Interval(6, 6)}
    edges = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}}
    first, second, third = groups_of(intervals, edges)
    assert first.parts == ("a",)
    assert (second.parts, second.step, second.after) == (("b", "c"), 8, (0,))
    assert (third.parts, third.after) == (("d",), (0, 1))
    with pytest.raises(ts.ConfigError, match="act on each other"):
        groups_of(intervals, {"c": {"d"}, "d": {"c"}})


def test_a_pool_never_shows_less_than_nothing():
    pool = np.array([0])
    ledger = Ledger(np.array([[2.5], [0.0]]), np.array([True]), pool)
    whole, all_of_it = np.array([True]), np.array([False])
    ledger.add(np.array([[-3.0], [0.7]]), pool)
    assert ledger.seen(pool, whole).tolist() == [[0], [1]]
    assert ledger.seen(pool, all_of_it).tolist() == [[0], [0.7]]
    ledger.add(np.array([[1.0], [0.3]]), pool)
    assert ledger.seen(pool, whole).tolist() == [[1], [1]]
    assert np.allclose(ledger.whole + ledger.rest, [[0.5], [1.0]])
    assert np.allclose(ledger.least, -0.5)  # before rounding
    ledger.billed += np.array([[2.0], [0.25]])
    ledger.settle()
    assert ledger.paid.tolist() == [[0], [0.25]]
    assert ledger.debt.tolist() == [[2], [0]]


if __name__ == "__main__":
    sys.exit(pytest.main([__file__]))


def pooled(first, second, **how):
    """A pool of two parts of which the second alone changes it."""
    cell = ts.Hybrid("pooled", tick=1)
    cell.add_part("a", network("a", {"X": first}, (), {"X": "0"}), method="ode")
    cell.add_part("b", network("b", {"X": 0}, **second), **how)
    cell.share("a.X", "b.X")
    return cell


def test_a_pool_that_cannot_hold_its_units_is_refused():
    with pytest.raises(ts.ConfigError, match=r"pool of a.X begins with 1e\+20 units"):
        run(pooled(1e20, {"rates": {"X": "0"}}, method="ode"), 2.0)


@pytest.mark.parametrize(
    ("growth", "method", "name"),
    ordinary([("1e19 * k", "ode", "a.X"), ("1e10 * k", "ssa", "b.X")], ("1e10 * k", "ssa", "b.X")),
)
def test_cells_end_where_units_overflow_and_others_go_on(growth, method, name):
    cell = ts.Hybrid("pooled", tick=1)
    grown = network("a", {"X": 5}, (), {"X": growth}, k=0.0)
    cell.add_part("a", grown, method="ode", set={"k": np.array([0.0, 1.0])})
    cell.add_part("b", network("b", {"X": 0, "Y": 1}, [("Y -> Y", 1.0)]), method=method)
    cell.share("a.X", "b.X")
    with pytest.warns(UserWarning, match=rf"1 of 2 cells .*: more than can be held of {name}"):
        actual = run(cell, 3.0, n=2)
    assert (actual.values("a.X")[0] == 5).all()
    assert np.isnan(actual.values("a.X")[1, -1])


@pytest.mark.parametrize(
    ("part", "said"),
    [
        (network("a", {"X": 1000}, [("X -> 2 X", "50 * k")], k=1.0), "overflow in a at t = 0.3"),
        (lambda t, dt, values: {"X": np.nan if t > 0.15 else 1.0}, "nan in a at t = 0.3"),
    ],
)
def test_how_all_cells_ended_is_named(part, said):
    cell = ts.Hybrid("ends", tick=0.1)
    how = {"values": {"X": 1.0}} if callable(part) else {"method": "tau"}
    cell.add_part("a", part, **how)
    cell.add_part("b", network("b", {"Y": 0.0}, (), {"Y": "k"}, k=0.0), method="ode")
    cell.drive("b.k", "a.X")
    with pytest.warns(UserWarning, match=f"2 of 2 cells .*: {said}"):
        actual = run(cell, 0.5, n=2).values("a.X")
    assert np.isfinite(actual[:, :3]).all()
    assert np.isnan(actual[:, 3:]).all()


def test_a_cell_with_a_negative_rate_ends_and_others_go_on():
    cell = ts.Hybrid("cell", tick=1)
    falls = network("falls", {"E": 4}, (), {"E": "-k"}, k=0.0)
    cell.add_part("falls", falls, method="ode", set={"k": np.array([0.0, 2.0, 0.5])})
    cell.add_part("net", network("net", {"X": 0}, [("-> X", "k")], k=0.0))
    cell.drive("net.k", "falls.E", over="start")
    message = r"1 of 3 cells .*: negative rate constants by net.k = falls.E"
    with pytest.warns(UserWarning, match=message):
        actual = run(cell, 4.0, n=3)
    counts = actual.values("net.X")
    assert np.isfinite(counts[[0, 2]]).all()
    assert np.isnan(counts[1]).tolist() == [False, False, False, False, True]


@pytest.mark.parametrize("n", [1, 3])
def test_a_run_whose_last_cells_have_a_negative_rate_keeps_what_was(n):
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("falls", network("falls", {"E": 4}, (), {"E": "-2"}), method="ode")
    cell.add_part("net", network("net", {"X": 7}, [("-> X", "k")], k=0.0))
    cell.drive("net.k", "falls.E", over="start")
    hooked = []
    with pytest.warns(UserWarning, match=rf"{n} of {n} cells .*: negative rate constants by net.k"):
        actual = run(cell, 6.0, n=n, hooks=[(1.0, lambda view: hooked.append(view.time))])
    counts = actual.values("net.X")
    assert (counts[:, 0] == 7).all()
    assert np.isnan(counts).tolist() == [[False] * 4 + [True] * 3] * n
    assert np.isnan(actual.values("falls.E")[:, -1]).all()
    assert hooked == [0, 1, 2, 3, 4, 5, 6]


def test_a_cell_may_end_when_values_are_first_given():
    """Until then the kernel has one number for all."""
    net = network("net", {"X": 0}, [("-> X", "k")], k=1.0)
    nothing, values = np.zeros((3, 0)), np.array([[2.0], [-1.0], [0.0]])
    with ts.Ensemble(net, 3, seed=1, device="cpu") as cells:
        cells.put((), nothing, ("k",), values)
        assert cells.alive.tolist() == [True, False, True]
        cells.advance(50.0)
        assert cells.counts[0, 0] > 0
        assert cells.counts[1:, 0].tolist() == [-1, 0]
    with ts.Ensemble(net, 3, seed=1, device="cpu") as cells, pytest.raises(ts.ModelError):
        cells.put((), nothing, ("k",), np.full((3, 1), -1.0))


def test_a_last_sample_before_the_end_is_reported():
    with pytest.warns(UserWarning, match="before t_end=2.5, of first at t = 2, of second at t = 2"):
        early = run(chain(0.5, sample=1.0), 2.5, n=2)
    assert early.time("first.A").tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("equations", "counts", "mean"),
    [
        ([("-> X", 5.0)], [("X ->", 0.5)], 10.0),
        ([("X ->", 0.5)], [("-> X", 5.0)], 10.0),
        ([("-> X", 0.5), ("X ->", 0.25)], [("X ->", 0.25)], 1.0),
        ([("X ->", 0.25)], [("-> X", 0.5), ("X ->", 0.25)], 1.0),
    ],
)
def test_counts_of_small_pools_have_the_exact_mean(equations, counts, mean):
    hybrid = ts.Hybrid("turnover")
    equations, counts = (
        network(name, {"X": mean}, reactions)
        for name, reactions in (("equations", equations), ("counts", counts))
    )
    hybrid.add_part("equations", equations, method="ode", every=0.05, sample=1.0)
    hybrid.add_part("counts", counts, every=0.05, sample=1.0)
    hybrid.share("equations.X", "counts.X")
    result = run(hybrid, 20.0, n=400, seed=5)
    # Cells are independent. Of each the mean over time is taken, from t = 10, when four relaxation
    # times have passed. Rounded down, the pool has 10.5, 9.5, 1.25 or 0.73.
    for name in ("equations.X", "counts.X"):
        values = result.values(name)[:, 10:].mean(axis=1)
        z = (values.mean() - mean) / values.std() * 20
        assert abs(z) < stats.norm.isf(RARELY / 2), name


def test_pools_that_equations_empty_are_named():
    cell = pooled(5.0, {"rates": {"X": "-2"}}, method="ode")
    with pytest.warns(UserWarning, match=r"took more from pools than they held: a.X by up to 3;"):
        actual = run(cell, 4.0)
    assert actual.values("b.X")[0] == pytest.approx([5, 3, 1, 0, 0])


def test_members_of_a_pool_that_begin_otherwise_are_named():
    cell = ts.Hybrid("cell", tick=1)
    for name, count in {"a": 7, "b": 9, "c": 0}.items():
        cell.add_part(name, network(name, {"X": count}, [("X ->", 0.5)]))
    cell.share("a.X", "b.X")
    cell.share("a.X", "c.X")
    with pytest.warns(UserWarning, match="b.X begins with the 7 of its pool, .* the 9 of its"):
        actual = run(cell, 1.0)
    assert actual.values("c.X")[0, 0] == 7


def test_lattices_that_lag_behind_are_named():
    """Steps of 16.7 s, chosen by diffusion, and exchanges every second."""
    space = ts.Lattice("space", shape=(4, 4, 4), spacing=1e-6, boundary="periodic")
    space.add_species("A")
    space.add_diffusion("A", 1e-14)
    space.add_reaction("A ->", rate=0.05)
    space.place("A", count=200)
    cell = ts.Hybrid("cell")
    cell.add_part("space", space, every=1.0)
    cell.add_part("net", network("net", {"X": 9}, [("X ->", "k")], k=0.0), every=1.0)
    assert run(cell, 2.0).values("space.A").shape == (1, 3)  # without links nothing is seen late
    cell.drive("net.k", "0.01 * space.A")
    with pytest.warns(UserWarning, match=r"part space has steps of 16.7 s, .* it lags by up to"):
        run(cell, 2.0)


@pytest.mark.validate
def test_chance_does_not_alarm_a_pilot_of_many_quantities():
    """Of 200 means of 32 cells, some differ by more than three standard errors."""
    genes = ts.Network("genes")
    genes.add_parameter("k", 2.0)
    for number in range(200):
        genes.add_species(f"P{number}", 10)
        genes.add_reaction(f"-> P{number}", rate="k")
        genes.add_reaction(f"P{number} ->", rate=0.2)
    cell = ts.Hybrid("cell")
    cell.add_part("genes", genes, every=1.0)
    cell.add_part("food", network("food", {"A": 10.0}, (), {"A": "1 - 0.1 * A"}), method="ode")
    cell.drive("genes.k", "0.2 * food.A")
    beyond = 0
    for seed in range(4):
        pilot = run(cell, 20.0, seed=seed, pilot=20).pilot
        beyond += (np.abs(pilot.halved - pilot.mean) > 3 * pilot.error + 1e-9).any()
        assert pilot.large() == []
    assert beyond > 0


def test_brackets_of_reactions_stand_for_themselves():
    net = network("net", {"A": 9})
    for name in ("R[1]", "R1", "R(1)"):
        net.add_reaction("A ->", rate=1.0, name=name)
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("net", net)
    cell.add_part("pool", network("pool", {"E": 9.0}, (), {"E": "0"}), method="ode")
    for pattern in ("R[1]", "R(1)", "R1, R[1]", "R?1?"):
        cell.bill(f"net.fired({pattern})", {"pool.E": 1})
    actual = [one.reactions for one in cell.bills]
    assert actual == [("R[1]",), ("R(1)",), ("R[1]", "R1"), ("R[1]", "R(1)")]


def test_refusals_of_values_name_the_part_and_the_time():
    cell = ts.Hybrid("cell", tick=1)
    cell.add_part("net", network("net", {"X": 9}, [("X ->", "k")], k=0.0))
    cell.add_part("own", lambda t, dt, v: {"y": -dt}, values={"y": 0.5})
    cell.drive("net.k", "own.y", over="end")
    with pytest.raises(ts.ModelError, match=r"part net at t = 0: .* rate constant is -0.5"):
        run(cell, 3.0)


def test_a_sample_at_the_time_of_an_event_is_after_it():
    """Three ticks of 0.3 are 0.8999999999999999 as a product."""
    assert 3 * 0.3 < 0.9
    dosed = ts.Network("dosed")
    dosed.add_species("X", 0)
    dosed.add_parameter("k", 0.0)
    dosed.add_reaction("-> X", rate="1e-9 * k")
    dosed.add_event("dose", time=0.9, assignments={"X": 100})
    driving = ts.Network("driving")
    driving.add_species("A", 1.0)
    driving.add_rate("A", "-A")
    both = ts.Hybrid("both")
    both.add_part("dosed", dosed, every=0.3)
    both.add_part("driving", driving, method="ode", every=0.3)
    both.drive("dosed.k", "driving.A")
    result = ts.run(both, t_end=1.2, n=1, seed=1, device="cpu", pilot=0)
    assert result.time("dosed").tolist() == [0, 0.3, 0.6, 0.9, 1.2]
    assert result.values("dosed.X")[0].tolist() == [0, 0, 0, 100, 100]
