"""Data of many cells: likelihoods add, and fits find the rates of all."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tauslab as ts
from tauslab.analysis.particles.weights import FILTER_SEEDS, words

CPU = ts.CPU(threads=1)
OBSERVE = {"X": "normal(sd=1.5)"}
CELLS = [
    {"time": [0.5, 1.0, 2.0], "X": [6.1, 7.9, math.nan]},
    {"time": [0.5, 1.0], "X": [4.2, 6.0]},
    {"time": [1.5], "X": [9.0]},
    {"time": [0.5, 1.0, 2.0], "X": [math.nan, 8.0, 12.4]},
]
TIDY = {
    "cell": np.repeat(["b", "a", "late", "d"], [3, 2, 1, 3]),
    "time": np.concatenate([cell["time"] for cell in CELLS]),
    "X": np.concatenate([cell["X"] for cell in CELLS]),
}
FILTERS = {"n": 20, "set": {"k": [3.0, 5.0]}, "seed": 7, "device": CPU}


def births(**values):
    net = ts.Network("births")
    net.add_species("X", 5)
    net.add_parameter("k", values.get("k", 4.0))
    net.add_parameter("g", values.get("g", 0.3))
    net.add_parameter("sd", 1.5)
    net.add_parameter("wide", "2 * sd")
    net.add_reaction("-> X", rate="k")
    net.add_reaction("X ->", rate="g")
    return net


def density(values, row, t):
    z = (values("X") - row["X"]) / 1.5 if row["X"] == row["X"] else 0.0
    return -0.5 * z * z


@pytest.mark.parametrize("given", [
    {"observe": OBSERVE}, {"observe": density}, {"observe": {"X": "student_t(3, wide)"}},
    {"observe": OBSERVE, "initial": {"X": "poisson(5)"}, "resample": "multinomial"},
])  # fmt: skip
def test_filters_of_cells_are_those_of_each_by_its_number(given):
    given = FILTERS | given | {"states": True, "quantiles": 0.5}
    if given["observe"] != OBSERVE and not callable(given["observe"]):
        given["set"] = {"k": [3.0, 5.0], "sd": [1.0, 0.7]}
    each = [
        ts.particle_filters(births(), cell, number=2 * number, **given)
        for number, cell in enumerate(CELLS)
    ]
    for data in (CELLS, TIDY):
        actual = ts.particle_filters(births(), data, **given)
        assert (actual.log_likelihood == sum(one.log_likelihood for one in each)).all()
        assert (actual.terms == np.hstack([one.terms for one in each])).all()
        for name in ("mean", "quantiles"):
            both = np.concatenate([getattr(one, name) for one in each], axis=1)
            assert np.array_equal(getattr(actual, name), both, equal_nan=True)
    assert len(actual[0].time) == 9


def test_a_table_with_one_cell_is_a_time_course():
    alone = ts.particle_filters(births(), CELLS[0], observe=OBSERVE, **FILTERS)
    named = {"id": [4.0, 4.0, 4.0], **CELLS[0]}
    actual = ts.particle_filters(births(), named, cell="id", observe=OBSERVE, **FILTERS)
    assert actual.digest() == alone.digest()


def test_what_comes_after_the_end_of_a_cell_does_not_count():
    """An event beyond all counts ends all particles, after the end of the first cell."""
    net = births()
    net.add_event("burst", 1.5, {"X": 3e9})
    cells = [{"time": [1.0], "X": [8.0]}, {"time": [1.0, 2.0], "X": [7.0, 9.0]}]
    with pytest.warns(UserWarning, match=": 20 with status overflow"):
        actual = ts.particle_filter(net, cells, observe=OBSERVE, n=20, seed=1, device=CPU)
    first = ts.particle_filter(net, cells[0], observe=OBSERVE, n=20, seed=1, device=CPU)
    assert actual.terms[0] == first.log_likelihood
    assert actual.terms[1] > actual.terms[2] == -math.inf


def test_exact_filters_add():
    actual = ts.exact_filter(births(), CELLS, observe=OBSERVE)
    each = [ts.exact_filter(births(), cell, observe=OBSERVE) for cell in CELLS]
    assert actual.log_likelihood == sum(one.log_likelihood for one in each)
    assert actual.bound == sum(one.bound for one in each)


def test_a_chain_has_the_likelihoods_of_the_filters_of_its_cells():
    given = {"observe": OBSERVE, "n": 60, "device": CPU}
    chain = ts.pmmh(
        births(), CELLS, {"k": "loguniform(1,10)"}, steps=3, warm_up=0, chains=2, seed=3, **given
    )
    assert chain.accepted.sum() > 1
    for c, step in zip(*np.nonzero(chain.accepted), strict=True):
        seed = int(words(3, FILTER_SEEDS, int(step) + 1, 1)[0])
        each = [
            ts.particle_filter(
                births(), cell, number=2 * number + int(c), seed=seed,
                set={"k": float(chain["k"][c, step])}, **given,
            ).log_likelihood
            for number, cell in enumerate(CELLS)
        ]  # fmt: skip
        assert chain.log_likelihood[c, step] == pytest.approx(sum(each), rel=1e-12)


def test_chains_go_on_from_a_file(tmp_path):
    given = {"observe": OBSERVE, "n": 20, "warm_up": 2, "chains": 2, "seed": 0, "device": CPU}
    priors = {"k": "loguniform(1,10)"}
    whole = ts.pmmh(births(), CELLS, priors, steps=6, **given)
    ts.pmmh(births(), CELLS, priors, steps=3, checkpoint=tmp_path / "c.h5", **given)
    later = ts.pmmh(births(), CELLS, priors, steps=6, checkpoint=tmp_path / "c.h5", **given)
    assert later.digest() == whole.digest()
    seen = whole.to_arviz(TIDY)["observed_data"]
    assert seen["cell"].values.tolist() == TIDY["cell"].tolist()
    assert seen["time"].values.tolist() == TIDY["time"].tolist()


def test_files_name_cells_by_texts(tmp_path):
    lines = ["cell,time,X"]
    lines += [f"{c},{t},{x}" for c, t, x in zip(TIDY["cell"], TIDY["time"], TIDY["X"], strict=True)]
    path = tmp_path / "cells.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    actual = ts.particle_filters(births(), path, observe=OBSERVE, **FILTERS)
    assert (
        actual.digest() == ts.particle_filters(births(), CELLS, observe=OBSERVE, **FILTERS).digest()
    )


@pytest.mark.parametrize(("data", "given", "message"), [
    ([], {}, "empty list"),
    (CELLS, {"cell": "id"}, "a table a cell"),
    ([CELLS[0], {"time": [1.0], "Y": [2]}], {}, "cell 1: data= has no column 'X'"),
    ({**TIDY, "time": TIDY["time"][::-1]}, {}, "cell b: data: times.*increasing$"),
    ({"cell": ["a", ""], "time": [1, 2], "X": [1, 2]}, {}, "cell of row 1 is missing"),
    ({"time": [1, 2, 1], "X": [1, 2, 3]}, {}, 'many cells need a column "cell"'),
    (CELLS[0], {"cell": "id"}, "no column 'id'"),
    (CELLS, {"number": 2}, "of a single cell"),
])  # fmt: skip
def test_data_that_are_none(data, given, message):
    with pytest.raises(ts.ConfigError, match=message):
        ts.particle_filters(births(), data, observe=OBSERVE, **FILTERS, **given)


def test_a_row_by_row_posterior_needs_equal_times():
    given = {"observe": OBSERVE, "draws": 20, "n": 10, "seed": 0, "device": CPU}
    actual = ts.smc2(births(), CELLS[:2], {"k": "loguniform(1,10)"}, **given)
    assert np.isfinite(actual.log_evidence).all()
    with pytest.raises(ts.ConfigError, match="equal times"):
        ts.smc2(births(), CELLS, {"k": "loguniform(1,10)"}, **given)


def cells_of(n, times, seed, *, sd=1.5):
    """Time courses of n cells, with k = 4 and g = 0.3."""
    made = ts.run(
        births(), n=n, times=times, record="trajectories", seed=seed, device=CPU, quiet=True
    )
    noise = np.random.default_rng(seed).standard_normal((n, len(times)))
    return [
        {"time": times[: len(times) - i % 3], "X": row[: len(times) - i % 3]}
        for i, row in enumerate(np.asarray(made["X"], np.float64) + sd * noise)
    ]


def test_a_fit_finds_the_rate_of_all_cells():
    """Rate and height within 4 standard errors: a false alarm in 1 of 8,000."""
    cells = cells_of(8, [1.0, 2.0, 4.0], 3)
    actual = ts.fit(
        births(k=2.0), cells, observe=OBSERVE, start=["k"], n=40, swarm=100, iterations=4,
        seed=1, device=CPU, quiet=True,
    )  # fmt: skip
    assert actual.converged
    assert actual.error("k") / actual["k"] < 0.25
    assert abs(math.log(actual["k"] / 4)) < 4 * actual.error("k") / actual["k"]
    exact = ts.exact_filter(births(k=actual["k"]), cells, observe=OBSERVE).log_likelihood
    assert abs(actual.log_likelihood - exact) < 4 * actual.log_likelihood_error + 0.1


@pytest.mark.validate
@pytest.mark.parametrize("observed", [True, False])
def test_a_fit_of_cells_has_the_maximum_of_the_exact_filter(observed):
    """20 cells, two rates: within 4 errors of the truth, 1 in 8,000; the exact height."""
    cells = cells_of(20, [1.0, 2.0, 3.0, 5.0, 8.0], 5, sd=1.5 if observed else 0.0)
    observe = OBSERVE if observed else None
    actual = ts.fit(births(k=2.0), cells, observe=observe, start=["k", "g"], seed=2, device=CPU)
    assert actual.converged
    for name, true in (("k", 4.0), ("g", 0.3)):
        assert abs(math.log(actual[name] / true)) < 4 * actual.error(name) / actual[name]
    if observed:
        exact = [
            ts.exact_filter(births(k=k, g=g), cells, observe=OBSERVE).log_likelihood
            for k, g in ((actual["k"], actual["g"]), (4.0, 0.3))
        ]
        assert abs(actual.log_likelihood - exact[0]) < 5 * actual.log_likelihood_error + 0.2
        assert exact[0] > exact[1] - 0.2
