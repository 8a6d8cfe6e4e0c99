"""Networks made by rule: consistent, complete, the same everywhere, made fast."""

from __future__ import annotations

import numpy as np
import pytest
from generated_networks import colloidal_aggregation, random_network
from scipy.optimize import linprog

import tauslab as ts
from tauslab.model.network.canonical import canonical_text, model_sha256
from tauslab.model.network.equations import mass_action_law


def stoichiometry(network):
    number = {name: i for i, name in enumerate(network.species)}
    matrix = np.zeros((len(network.reactions), len(number)))
    for j, reaction in enumerate(network.reactions):
        for name, by in reaction.net_change().items():
            matrix[j, number[name]] = by
    return matrix


def dependents(network):
    readers = {}
    for j, reaction in enumerate(network.reactions):
        for name in reaction.reactants:
            readers.setdefault(name, []).append(j)
    return np.mean([
        len({j for name in r.net_change() for j in readers[name]}) for r in network.reactions
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("species", "reactions"), [(2, 2), (3, 7), (5, 5), (33, 35), (80, 80), (60, 400)]
)
@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_random_networks_are_consistent_and_complete(species, reactions, seed):
    network = random_network(species=species, reactions=reactions, seed=seed)
    assert (len(network.species), len(network.reactions)) == (species, reactions)
    for reaction in network.reactions:
        for side in (reaction.reactants, reaction.products):
            assert 1 <= sum(side.values()) <= 2
        assert reaction.law == mass_action_law(reaction_rate(reaction), reaction.reactants)
    changes = stoichiometry(network)
    assert (changes < 0).any(axis=1).all(), "every reaction consumes"
    assert (changes < 0).any(axis=0).all(), "every species is consumed"
    assert (changes > 0).any(axis=0).all(), "every species is made"
    actual = linprog(np.ones(species), A_eq=changes, b_eq=np.zeros(reactions), bounds=(1, 100))
    assert actual.success, "a positive mass vector is conserved"


def reaction_rate(reaction):
    """The number at the bottom left of a mass-action law."""
    tree = reaction.law
    while hasattr(tree, "arguments"):
        tree = tree.arguments[0]
    return tree


def test_a_network_is_a_pure_function_of_its_seed():
    """Pinned: another platform, or another NumPy, must give the same."""
    options = {"species": 33, "reactions": 35, "rates": (1e-6, 10.0)}
    digests = [model_sha256(random_network(**options, seed=seed)) for seed in (1, 1, 2)]
    assert digests[0] == digests[1] != digests[2]
    assert digests[0].startswith("2c76997470413f84")


def test_rates_have_the_law_asked_for():
    """20,000 rates in ten equal bins: chi-square with 9 degrees above 27.9 once in 1000 seeds."""
    for rates in ("uniform", (1e-6, 10.0)):
        network = random_network(species=1000, reactions=20_000, rates=rates, seed=3)
        values = np.array([reaction_rate(r).value for r in network.reactions])
        if rates == "uniform":
            share = values
        else:
            assert values.min() >= rates[0]
            assert values.max() <= rates[1]
            share = np.log(values / rates[0]) / np.log(rates[1] / rates[0])
        seen = np.histogram(share, 10, (0, 1))[0]
        assert seen.sum() == 20_000
        assert ((seen - 2000) ** 2 / 2000).sum() < 27.9


@pytest.mark.parametrize("wanted", [8, 12, 16])
def test_dependents_as_asked_for(wanted):
    network = random_network(reactions=1500, dependents=wanted, seed=2)
    assert dependents(network) == pytest.approx(wanted, rel=0.1)


@pytest.mark.parametrize("n", [2, 7, 16])
def test_colloidal_aggregation(n):
    """Every way to join and to break, once, with the mass of the particles conserved."""
    network = colloidal_aggregation(n)
    assert len(network.reactions) == n * n // 2
    assert not (stoichiometry(network) @ np.arange(1, n + 1)).any()
    kinds = {(tuple(r.reactants.items()), tuple(r.products.items())) for r in network.reactions}
    assert len(kinds) == n * n // 2
    built = ts.Network("colloidal_aggregation")
    for i in range(1, n + 1):
        built.add_species(f"S{i}", 1)
    for reaction in network.reactions:
        left, right = (" + ".join(f"{k} {s}" for s, k in side.items())
                       for side in (reaction.reactants, reaction.products))  # fmt: skip
        built.add_reaction(f"{left} -> {right}", rate=1.0)
    assert canonical_text(built) == canonical_text(network)
