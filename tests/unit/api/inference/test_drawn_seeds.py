"""Functions of inference without a seed: one is drawn, shown and stored, and repeats the result."""

import pytest

import tauslab as ts

DATA = {"time": [0.5, 1.0], "X": [60, 38]}
PRIOR = {"k": "loguniform(0.3,3)"}
NOISE = {"observe": {"X": "normal(sd=9)"}, "device": "cpu", "quiet": True}
FUNCTIONS = {
    "fit": lambda net, **seed: ts.fit(net, DATA, n=10, swarm=20, iterations=2, **NOISE, **seed),
    "pmmh": lambda net, **more: ts.pmmh(
        net, DATA, PRIOR, n=10, steps=8, warm_up=8, chains=2, **NOISE, **more
    ),
    "smc2": lambda net, **more: ts.smc2(net, DATA, PRIOR, n=20, draws=60, **NOISE, **more),
    "abc_smc": lambda net, **more: ts.abc_smc(
        net, DATA, PRIOR, n=20, generations=2, device="cpu", quiet=True, **more
    ),
}
CALLED = {
    "simulator": lambda net, **seed: ts.simulator(net, ["k"], times=[1.0], device="cpu", **seed),
    "expectation": lambda net, **seed: ts.expectation(
        net, ["k"], ["X"], times=1.0, n=5, device="cpu", **seed
    ),
}


def decay():
    net = ts.Network("decay")
    net.add_species("X", 1_000_000)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    return net


def small():
    net = ts.Network("decay")
    net.add_species("X", 100)
    net.add_parameter("k", 1.0)
    net.add_reaction("X ->", rate="k")
    return net


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_results_store_a_drawn_seed(name, tmp_path):
    """Equal results of two drawn seeds have a probability of 2^-64."""
    call = FUNCTIONS[name]
    one, other = call(small()), call(small())
    assert one.seed != other.seed
    assert one.digest() != other.digest()
    assert call(small(), seed=one.seed).digest() == one.digest()
    assert f"seed {one.seed}" in repr(one)
    assert any(f"seed {one.seed}" in line for line in one.lines())
    assert one.facts()["seed"] == one.seed
    one.save(tmp_path / "a.h5")
    assert ts.open(tmp_path / "a.h5").seed == one.seed


@pytest.mark.parametrize("name", CALLED)
def test_functions_of_theta_draw_a_seed(name):
    """Two of 10^6 molecules agree with a probability of 3e-4 for the same chance."""
    call = CALLED[name]
    one, other = call(decay()), call(decay())
    assert one.seed != other.seed
    assert f"seed {one.seed}" in repr(one)
    again = call(decay(), seed=one.seed)
    assert one([1.0]).tolist() == again([1.0]).tolist() != other([1.0]).tolist()


@pytest.mark.parametrize("name", ["pmmh", "smc2", "abc_smc"])
def test_a_checkpoint_needs_a_seed(name, tmp_path):
    with pytest.raises(ts.ConfigError, match="checkpoint= needs seed="):
        FUNCTIONS[name](small(), checkpoint=tmp_path / "c.h5")
