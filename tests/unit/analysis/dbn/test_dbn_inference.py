"""Inference against sums over all trajectories, and the factored frontier where it is exact."""

from __future__ import annotations

import numpy as np
import pytest
from dbn_factory import brute_force, known_network

from tauslab import dbn
from tauslab.analysis.dbn.results.network import Structure, from_trajectories
from tauslab.base.errors import ConfigError


@pytest.fixture(scope="module")
def network():
    return known_network()


def soft(seed):
    rng = np.random.default_rng(seed)
    return {"A": rng.uniform(0.1, 1, (3, 2)), "B": rng.uniform(0.1, 1, (3, 3))}


@pytest.mark.parametrize("evidence", [{}, {"B": soft(1)["B"]}, soft(2)])
@pytest.mark.parametrize("given", [None, 1])
def test_exact_inference_sums_over_all_trajectories(network, evidence, given):
    expected, likelihood = brute_force(evidence, given)
    actual = dbn.exact(network, evidence, None if given is None else {"q": given})
    for name in ("A", "B", "q"):
        np.testing.assert_allclose(actual.probabilities[name], expected[name], rtol=1e-12)
    assert actual.log_likelihood == pytest.approx(likelihood, rel=1e-12)


def test_the_frontier_without_evidence_is_near_the_samples(network):
    actual = dbn.factored_frontier(network)
    for name in ("A", "B"):
        np.testing.assert_allclose(actual.probabilities[name][:2], network.marginal(name)[:2])
        assert abs(actual.probabilities[name][2] - network.marginal(name)[2]).max() < 0.02
    assert actual.log_likelihood == pytest.approx(0, abs=1e-12)


def test_the_frontier_is_exact_with_the_parameter_known_and_one_variable():
    rng = np.random.default_rng(5)
    values = rng.uniform(0, 1, (500, 6, 1)) ** 2
    edges = {"X": np.linspace(0, 1, 5)}
    structure = Structure(("X",), (), {"X": ("X",)})
    chain = from_trajectories(structure, np.arange(6.0), values, np.zeros((500, 0)), edges)
    evidence = {"X": rng.uniform(0.05, 1, (6, 4))}
    expected = dbn.exact(chain, evidence)
    actual = dbn.factored_frontier(chain, evidence)
    np.testing.assert_allclose(actual.probabilities["X"], expected.probabilities["X"], rtol=1e-12)
    assert actual.log_likelihood == pytest.approx(expected.log_likelihood, rel=1e-12)
    forward = dbn.factored_frontier(chain, evidence, smooth=False)
    np.testing.assert_allclose(
        forward.probabilities["X"][-1], expected.probabilities["X"][-1], rtol=1e-12
    )
    assert abs(forward.probabilities["X"][0] - expected.probabilities["X"][0]).max() > 0.01


def test_evidence_moves_the_frontier_as_it_moves_the_truth(network):
    evidence = {"B": np.ones((3, 3))}
    evidence["B"][2] = [0.9, 0.09, 0.01]
    actual, before = dbn.factored_frontier(network, evidence), dbn.factored_frontier(network)
    expected, _ = brute_force(evidence)
    for time in (0, 1):
        move = expected["A"][time] - network.marginal("A")[time]
        moved = actual.probabilities["A"][time] - before.probabilities["A"][time]
        assert abs(move).max() > 0.02
        np.testing.assert_allclose(moved, move, atol=0.03)


def test_known_parameters_are_conditioned_on(network):
    for q in (0, 1):
        expected, _ = brute_force({}, q)
        actual = dbn.factored_frontier(network, given={"q": q})
        np.testing.assert_allclose(actual.probabilities["A"][1], expected["A"][1], rtol=1e-12)


def test_what_cannot_be_is_refused(network):
    with pytest.raises(ConfigError, match="C is not a variable"):
        dbn.factored_frontier(network, {"C": np.ones((3, 2))})
    with pytest.raises(ConfigError, match=r"\[time, bin\] = \(3, 2\)"):
        dbn.exact(network, {"A": np.ones((3, 3))})
    with pytest.raises(ConfigError, match="A is not an unknown parameter; these are q"):
        dbn.factored_frontier(network, given={"A": 0})
    with pytest.raises(ConfigError, match="q has intervals 0 to 1, not 2"):
        dbn.exact(network, given={"q": 2})
    for infer in (dbn.exact, dbn.factored_frontier):
        with pytest.raises(ConfigError, match="probability 0"):
            infer(network, {"A": np.zeros((3, 2))})


def test_a_joint_distribution_that_is_too_large_is_refused(network, monkeypatch):
    monkeypatch.setattr("tauslab.analysis.dbn.results.inference._MOST_STATES", 71)
    with pytest.raises(ConfigError, match="exact inference takes 72 pairs of states, at most 71"):
        dbn.exact(network)


def test_large_tables_are_taken_in_pieces(network, monkeypatch):
    expected = dbn.factored_frontier(network, soft(3))
    monkeypatch.setattr("tauslab.analysis.dbn.results.inference._PIECE", 2)
    actual = dbn.factored_frontier(network, soft(3))
    for name in ("A", "B"):
        np.testing.assert_allclose(actual.probabilities[name], expected.probabilities[name])


def test_what_is_shown_is_one_line(network):
    beliefs = dbn.factored_frontier(network)
    assert repr(network).startswith(f"DynamicNetwork({len(network.variables)} variables, ")
    assert repr(beliefs) == f"Beliefs({network!r}, log-likelihood {beliefs.log_likelihood:.6g})"


@pytest.mark.parametrize("infer", [dbn.factored_frontier, dbn.exact])
def test_intervals_that_are_not_there_are_refused(network, infer):
    name = network.parameters[0]
    with pytest.raises(ConfigError, match=f"{name} has intervals 0 to .*, not 99"):
        infer(network, given={name: 99})


@pytest.mark.parametrize("value", [0.5, -1, 9, "b0"])
def test_what_is_given_is_the_number_of_an_interval(network, value):
    message = "q has intervals 0 to 1, not "
    with pytest.raises(ConfigError, match=message):
        dbn.factored_frontier(network, given={"q": value})
    with pytest.raises(ConfigError, match=message):
        dbn.log_likelihood(network, [dbn.Measurement("A", 1.0, 0.2, 1.0)], given={"q": value})
