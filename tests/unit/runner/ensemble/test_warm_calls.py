"""Calls of `ts.run` one after another: what they share, and that nothing stale is shared."""

from __future__ import annotations

import gc
import os
import threading
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sampling import ordinary

import tauslab as ts
from tauslab.kernels.backends import cache
from tauslab.kernels.backends.cpu import idle_threads
from tauslab.runner.ensemble import kept
from tauslab.runner.ensemble import run as ensemble_run

pytestmark = pytest.mark.compiler

OPTIONS = {"n": 20, "t_end": 2.0, "points": 5, "seed": 7, "device": ts.CPU(threads=2)}
LAWS = ["k * X", "vmax * X / (km + X)", "k * X + vmax * exp(-X / km)", "if(X > km, k * X, vmax)"]


def network(law: str = "k * X", exponent: float = 2.0, **values: float) -> ts.Network:
    net = ts.Network("warm")
    net.add_species("X", 40)
    for name, value in ({"k": 1.0, "vmax": 30.0, "km": 15.0, "p": exponent} | values).items():
        net.add_parameter(name, value)
    net.add_parameter("twice", "2 * k")
    net.add_reaction("-> X", rate="3 * twice")
    net.add_reaction("2 X -> X", rate="k / 50")
    net.add_reaction("X ->", law=law)
    return net


def counts(model: ts.Network, **options: object) -> np.ndarray:
    return ts.run(model, **(OPTIONS | options)).counts("X")


@pytest.fixture
def compilations():
    """Counts compilers that were started."""
    started: list[bool] = []
    listen = lambda begins: started.append(True) if begins else None  # noqa: E731
    cache.listeners.append(listen)
    yield started
    cache.listeners.remove(listen)


@pytest.mark.parametrize(
    ("law", "n"),
    ordinary(
        [(law, n) for law in LAWS for n in (3, 20, 200)],
        (LAWS[0], 20),
        (LAWS[2], 20),
        (LAWS[2], 3),
    ),
)
def test_values_that_are_set_give_the_bits_of_a_model_that_has_them(law, n):
    values = {"k": 1.3, "vmax": 21.7, "km": 9.1}
    written = counts(network(law, **values), n=n)
    assert (counts(network(law), set=values, n=n) == written).all()


@pytest.mark.validate
def test_an_exponent_that_is_set_stays_a_number_of_the_kernel():
    """Whole exponents are multiplied out, which has other bits than a power."""
    law = "0.02 * X ^ p"
    for exponent in (1.0, 2.0, 1.5):
        written = counts(network(law, exponent))
        assert (counts(network(law), set={"p": exponent}) == written).all()


def test_weights_of_observables_stay_numbers_of_the_kernel():
    def weighted(value: float) -> ts.Network:
        net = network(k=value)
        net.add_rule("weighted", "k * X + 1")
        return net

    with_k = ts.run(weighted(2.0), **OPTIONS)
    with_set = ts.run(weighted(1.0), set={"k": 2.0}, **OPTIONS)
    assert with_k.to_xarray().equals(with_set.to_xarray())
    assert with_k.attributes["model_sha256"] == with_set.attributes["model_sha256"]


def test_other_values_compile_nothing(compilations):
    model = network(LAWS[1])
    counts(model, set={"k": 0.9, "vmax": 10.0})
    compilations.clear()
    actual = [counts(model, set={"k": 1 + i / 7, "vmax": 10.0 + i}) for i in range(3)]
    assert not compilations
    assert len({array.tobytes() for array in actual}) == 3


def test_other_values_are_stored_as_where_they_are_prepared_alone(monkeypatch):
    whole = []
    prepare = ensemble_run.prepare
    monkeypatch.setattr(
        ensemble_run, "prepare", lambda *given, **how: whole.append(1) or prepare(*given, **how)
    )
    model = network(LAWS[1])
    counts(model, set={"k": 0.9, "vmax": 10.0})
    for value in (1.0, 0.25):
        values = {"k": value, "vmax": 10.0 / value}
        whole.clear()
        warm = ts.run(model, **(OPTIONS | {"set": values}))
        assert not whole
        alone = ts.run(network(LAWS[1]), **(OPTIONS | {"set": values}))
        assert whole
        assert warm.digest() == alone.digest()
        for name in ("model_sha256", "method", "selector"):
            assert warm.attributes[name] == alone.attributes[name]
        assert warm.data["model/canonical"][()] == alone.data["model/canonical"][()]
    with pytest.raises(ts.ModelError, match="rate constant is -6;"):
        counts(model, set={"k": -1.0, "vmax": 10.0})


@pytest.mark.parametrize("initial", [40.5, "40 * vmax"])
def test_other_values_are_prepared_anew_where_they_warn_or_begin_elsewhere(initial):
    def model():
        net = network(LAWS[1], vmax=0.5)
        net.add_species("Y", initial)
        net.add_reaction("Y ->", rate="vmax")
        return net

    def told(net, value):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            return counts(net, set={"vmax": value}).tobytes(), [str(one.message) for one in caught]

    warm = model()
    for value in (0.5, 0.25, 1.0):
        assert told(warm, value) == told(model(), value)


def with_rule() -> ts.Network:
    """What the rule gives is an initial amount; it is no observable."""
    net = ts.Network("warm")
    net.add_parameter("k", 1.0)
    net.add_rule("R", "40 * k")
    net.rules["R"] = replace(net.rules["R"], recorded=False)
    net.add_species("X", "R")
    net.add_reaction("X ->", rate="k / 10")
    return net


@pytest.mark.parametrize(
    ("model", "first", "then"),
    [
        (network, {"k": 1.0, "X": 40}, {"k": 0.5, "X": 90}),
        (with_rule, {"k": 1.0}, {"k": 0.5}),
    ],
    ids=["amounts are set too", "a rule is between"],
)
def test_other_amounts_are_prepared_anew(model, first, then):
    warm = model()
    counts(warm, set=first)
    assert (counts(warm, set=then) == counts(model(), set=then)).all()


@pytest.mark.validate
def test_a_model_that_was_changed_gives_its_own_results():
    model = network()
    before = counts(model)
    model.parameters["k"] = network(k=2.0).parameters["k"]
    assert (counts(model) == counts(network(k=2.0))).all()
    model.add_reaction("X -> 2 X", rate=0.1)
    changed = network(k=2.0)
    changed.add_reaction("X -> 2 X", rate=0.1)
    assert (counts(model) == counts(changed)).all()
    assert (counts(network()) == before).all()


def test_threads_are_kept_for_the_next_call():
    def own() -> set[int | None]:
        return {t.ident for t in threading.enumerate() if t.name.startswith("tauslab")}

    gc.collect()  # ensembles of earlier tests that nothing refers to
    idle_threads.end()
    others = own()
    counts(network())
    kept = own()
    for _ in range(3):
        counts(network())
    assert kept
    assert own() == kept
    counts(network(), device=ts.CPU(threads=1))
    mine = [t for t in threading.enumerate() if t.ident not in others]
    assert sum(t.name.startswith("tauslab-cpu") for t in mine) == 1
    idle_threads.end()
    assert own() <= others


def test_a_forked_process_starts_threads_of_its_own():
    expected = counts(network())
    child = os.fork()
    if child == 0:
        os._exit(int((counts(network()) != expected).any()))
    assert os.waitpid(child, 0)[1] == 0


def test_other_values_need_no_trial_where_the_last_run_took_a_moment(monkeypatch):
    """The run itself is limited to the steps of a trial; one that takes more is prepared for it."""
    message, tell = [], ensemble_run.announce_long_run
    monkeypatch.setattr(kept, "_MOMENT", 60.0)  # on a busy machine too
    monkeypatch.setattr(
        ensemble_run, "announce_long_run", lambda *given: message.append(given) or tell(*given)
    )

    def births():
        net = ts.Network("births")
        net.add_parameter("k", 1.0)
        net.add_species("X", 0)
        net.add_reaction("-> X", rate="k")
        net.add_reaction("X ->", rate=1.0)
        return net

    def run(net, k):
        return ts.run(net, n=5, t_end=10, points=6, seed=3, device="cpu", set={"k": k})

    net = births()
    for k in (1.0, 2.0):
        run(net, k)
    few = len(message)
    actual = run(net, 3.0)
    assert len(message) == few
    long = run(net, 2000.0)
    assert len(message) == few + 1
    for result, k in ((actual, 3.0), (long, 2000.0)):
        assert (result.counts("X") == run(births(), k).counts("X")).all()
