"""A model as a process of process-bigraph, in its composites."""

from __future__ import annotations

import pytest

import tauslab as ts

bigraph = pytest.importorskip("process_bigraph")


def decay():
    net = ts.Network("decay")
    net.add_species("A", 100)
    net.add_species("B", 0)
    net.add_parameter("k", 1.0)
    net.add_reaction("A -> B", rate="k")
    return net


def opened(**config):
    from tauslab.process import TauslabProcess

    core = bigraph.allocate_core()
    core.register_link("TauslabProcess", TauslabProcess)
    return TauslabProcess({"model": decay(), "device": "cpu", **config}, core), core


def test_updates_are_those_of_an_ensemble():
    process, _ = opened(seed=3)
    state = process.initial_state()
    assert state == {"A": 100, "B": 0, "k": 1.0}
    assert process.inputs() == {"k": "float", "A": "integer", "B": "integer"}
    with ts.Ensemble(decay(), 1, seed=3, device="cpu") as particle:
        for t in (0.5, 1.0, 1.5):
            change = process.update(state, 0.5)
            particle.advance(t)
            state = {**state, **{name: state[name] + x for name, x in change.items()}}
            assert [state["A"], state["B"]] == particle.counts[0].tolist()


def test_what_others_change_is_taken_over():
    process, _ = opened()
    process.update({"A": 100, "B": 0, "k": 0.0}, 1.0)
    assert process.update({"A": 40, "B": 7, "k": 0.0}, 1.0) == {"A": 0, "B": 0}
    assert process.update({"A": 40, "B": 7, "k": 1e3}, 1.0) == {"A": -40, "B": 40}


def test_a_composite_runs_it(tmp_path):
    path = tmp_path / "decay.toml"
    decay().write(path)
    _, core = opened()
    ports = {name: [name] for name in ("A", "B", "k")}
    config = {"model": str(path), "method": "ode", "device": "cpu"}
    step = {
        "_type": "process", "address": "local:TauslabProcess", "config": config,
        "inputs": ports, "outputs": {name: ports[name] for name in "AB"}, "interval": 0.5,
    }  # fmt: skip
    whole = bigraph.Composite({"state": {"decay": step, "A": 100.0, "B": 0.0, "k": 1.0}}, core=core)
    whole.run(2.0)
    assert whole.state["A"] == pytest.approx(100 * 2.718281828459045**-2, rel=1e-5)
    assert whole.state["A"] + whole.state["B"] == pytest.approx(100)


@pytest.mark.parametrize("method", ["ssa", "ode"])
def test_species_with_a_rate_rule_are_amounts(method):
    net = ts.Network("cell")
    net.add_species("X", 10)
    net.add_species("V", 1.0)
    net.add_rate("V", "0.1 * V")
    net.add_reaction("X ->", rate=0.1)
    process, _ = opened(model=net, method=method)
    assert process.outputs()["V"] == "float"
    assert process.outputs()["X"] == ("float" if method == "ode" else "integer")
    state = process.initial_state()
    for _ in range(3):
        change = process.update(state, 1.0)
        state = {name: x + change.get(name, 0) for name, x in state.items()}
    assert state["V"] == pytest.approx(2.718281828459045**0.3, rel=1e-5)
    assert process._given == state  # so that nothing is given to the model again


def test_settings_of_a_method_are_taken():
    process, _ = opened(method=ts.ODE())
    assert process.outputs() == {"A": "float", "B": "float"}
    assert process.update({}, 1.0)["A"] == pytest.approx(-63.212, rel=1e-4)


@pytest.mark.parametrize("model", [3, None, {}])
def test_what_is_no_model_is_refused(model):
    with pytest.raises(ts.ConfigError, match="a file, a network or a lattice is needed"):
        opened(model=model)
