"""Networks made by rule: consistent, complete, the same everywhere, made fast."""

from __future__ import annotations

import time

import numpy as np
import pytest
from generated_networks import colloidal_aggregation, cyclic_chain, random_network
from random_words import RandomWords
from scipy.optimize import linprog

import tauslab as ts
from tauslab.model.network.canonical import canonical_text, model_sha256
from tauslab.model.network.equations import mass_action_law
from tauslab.model.portable import portable_exp


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
    ("species", "reactions", "bimolecular"),
    [(2, 2, 0.5), (3, 7, 1.0), (5, 5, 0.0), (33, 35, 0.5), (80, 80, 0.5), (60, 400, 0.9)],
)
@pytest.mark.parametrize("seed", [0, 1, 2**64 - 1])
def test_random_networks_are_consistent_and_complete(species, reactions, bimolecular, seed):
    network = random_network(
        species=species, reactions=reactions, bimolecular=bimolecular, seed=seed
    )
    assert (len(network.species), len(network.reactions)) == (species, reactions)
    for reaction in network.reactions:
        for side in (reaction.reactants, reaction.products):
            assert 1 <= sum(side.values()) <= 2
        assert reaction.law == mass_action_law(reaction_rate(reaction), reaction.reactants)
    changes = stoichiometry(network)
    assert (changes < 0).any(axis=1).all(), "every reaction consumes"
    assert (changes < 0).any(axis=0).all(), "every species is consumed"
    assert (changes > 0).any(axis=0).all(), "every species is made"
    found = linprog(np.ones(species), A_eq=changes, b_eq=np.zeros(reactions), bounds=(1, 100))
    assert found.success, "a positive mass vector is conserved"


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


def test_rates_do_not_change_the_reactions():
    made = [random_network(species=20, reactions=30, rates=r, seed=4)
            for r in ("uniform", (1e-9, 1e4))]  # fmt: skip
    sides = [[(r.reactants, r.products) for r in network.reactions] for network in made]
    assert sides[0] == sides[1]


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


@pytest.mark.validate
def test_large_networks_are_made_fast():
    """58,276 reactions take 0.8 s on an idle core."""
    began = time.process_time()
    network = random_network(species=3744, reactions=58_276)
    assert time.process_time() - began < 10
    assert len(network.reactions) == 58_276


@pytest.mark.validate
def test_a_generated_network_runs_and_keeps_its_mass():
    network = random_network(species=80, reactions=80, rates=(1e-6, 1e-2), seed=5)
    result = ts.run(network, n=3, times=[0.0, 0.05], seed=1, device="cpu", method="ssa")
    counts = result.counts()
    assert (counts[:, 0] == 1000).all()
    assert (counts[:, 1] != counts[:, 0]).any()
    masses = linprog(np.ones(80), A_eq=stoichiometry(network), b_eq=np.zeros(80), bounds=(1, 100)).x
    np.testing.assert_allclose(counts[:, 1] @ masses, 1000 * masses.sum())


def test_a_cyclic_chain():
    network = cyclic_chain(5, rate=2.0, initial=7)
    changes = stoichiometry(network)
    assert np.array_equal(changes, np.roll(np.eye(5), 1, axis=1) - np.eye(5))
    assert network.initial_amounts() == dict.fromkeys(network.species, 7.0)
    assert dependents(network) == 2


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


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"species": 5}, "not both or neither"),
        ({"species": 5, "dependents": 8.0}, "not both or neither"),
        ({"species": 11}, "species 11 is not allowed: a whole number from 2 to 10"),
        ({"species": 1}, "species 1 is not allowed"),
        ({"species": 5, "rates": (0.0, 1.0)}, "0 < low <= high"),
        ({"species": 5, "rates": "normal"}, "'uniform', or"),
        ({"species": 5, "bimolecular": 1.5}, "a probability"),
        ({"species": 5, "initial": -1}, "initial amounts must be 0"),
        ({"species": 5, "seed": -1}, "seed -1 is not allowed"),
        ({"dependents": 500.0}, "dependents 500.0 cannot be met"),
        ({"dependents": -1.0}, "dependents -1.0 cannot be met"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(options, message):
    if options == {"species": 5}:
        options = {}
    with pytest.raises(ts.ConfigError, match=message):
        random_network(**{"reactions": 10, **options})


def test_exponential_to_two_units_in_the_last_place():
    x = np.linspace(-700, 700, 10_001)
    np.testing.assert_allclose(portable_exp(x), np.exp(x), rtol=5e-16)


def test_random_words_below_a_limit():
    """Six equal cells of 60,000: chi-square with 5 degrees above 20.5 once in 1000 seeds."""
    seen = np.bincount(RandomWords(3).below(np.full(60_000, 6)), minlength=6)
    assert ((seen - 10_000) ** 2 / 10_000).sum() < 20.5
    assert sorted(RandomWords(3).permutation(50)) == list(range(50))


def test_a_network_is_written_and_read_back(tmp_path):
    made = random_network(species=33, reactions=35, rates=(1e-6, 10.0), seed=1)
    assert canonical_text(ts.read(made.write(tmp_path / "m.toml"))) == canonical_text(made)
    path = colloidal_aggregation(6).write(tmp_path / "c.toml")
    assert len(ts.read(path).reactions) == 18
